"""EC211 and EC212: low precision and integers in, the right number out."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised, Tolerance
from pytest_evalcheck.expectations.failures import expect
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import cast_floats, each_tensor
from pytest_evalcheck.kinds.common.values import changed_dtypes, resolution
from pytest_evalcheck.kinds.metric.cases_precision import Cast, LowPrecision
from pytest_evalcheck.kinds.metric.subject import MetricSubject


@check(
    "EC211",
    regimes=("float16", "bfloat16", "float32", "an offset", "thousands of samples"),
    needs=("bulk",),
    examples=12,
)
def low_precision_inputs_give_the_float64_value(metric: MetricSubject, case: LowPrecision) -> None:
    """Low precision inputs give the float64 value of the same quantised numbers.

    The bound is what rounding each number once or twice in the dtype of the batch explains (four units of it), or
    the tolerance of the target where that is wider: the inputs are the same numbers on both sides. A difference of
    bounded numbers, such as probabilities, is allowed one unit of theirs.

    Why: with many samples or an offset, a sum in the precision of its inputs stops growing.
    Usual cause: products, squares and sums are taken in the dtype of the batch; a variance as a difference of sums.
    Fix: pytest_evalcheck.fixes.CompensatedSum, pytest_evalcheck.fixes.Moments
    """
    import torch

    low = getattr(torch, case.dtype)
    live, exact = metric.fresh(), metric.where_float64_is.widened()
    for batch, same in zip(metric.bulk_batches(case), metric.where_float64_is.bulk_batches(case), strict=True):
        quantised, twin = cast_floats(batch, low), cast_floats(same, low)
        live.failed = live.failed or live.try_update(quantised)
        wide = cast_floats(twin, torch.float64)
        exact.failed = exact.failed or exact.try_update(wide)
    actual, expected = live.compute(), exact.compute()
    if isinstance(actual, Raised) and not isinstance(expected, Raised):
        # Refusing a dtype loudly reports no wrong number.
        expect(actual).holds(True, about="low precision is refused")
        return
    eps, usual = max(torch.finfo(low).eps, resolution(actual)), metric.tolerance
    units = Tolerance(rtol=max(usual.rtol, 4 * eps), atol=max(usual.atol, eps * metric.inputs.unit))
    expect(actual).equals(
        expected, tolerance=units, about=f"the value of {case.rows} {case.dtype} rows, beside the float64 value"
    )


@check("EC212", regimes=("float16", "bfloat16"), examples=40)
def a_state_keeps_its_dtype_and_integers_do_not_wrap(metric: MetricSubject, case: Cast) -> None:
    """A state keeps its dtype whatever the dtype of the batch; integer inputs do not wrap around.

    Why: a state that takes on the dtype of a batch loses precision for good; 3 - 5 in uint8 is 254.
    Usual cause: `self.total = self.total + x` in the dtype of x; arithmetic before conversion.
    Fix: pytest_evalcheck.fixes.CompensatedSum
    """
    import torch

    dtype = getattr(torch, case.dtype)
    integral = not dtype.is_floating_point
    live, usual = metric.fresh(), metric.fresh()
    before = live.state() if live.record.state else {}
    for batch in case.cut:
        arguments = metric.arguments(batch)
        if integral:
            arguments = each_tensor(arguments, lambda t: t.abs().round())
        cast = each_tensor(arguments, lambda t: t.to(dtype) if integral or t.is_floating_point() else t)
        if live.try_update(cast):
            # Refusing a dtype loudly reports no wrong number.
            expect(cast).holds(True, about=f"{case.dtype} is refused")
            return
        usual.failed = usual.failed or usual.try_update(arguments)
    if integral:
        expect(live.compute()).equals(usual.compute(), about=f"the value of the same numbers as {case.dtype}")
    changed = changed_dtypes(before, live.state() if live.record.state else {})
    expect(before).holds(
        not changed, about=f"a state changed its dtype after {case.dtype} inputs", detail="\n".join(changed[:3])
    )

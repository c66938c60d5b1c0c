"""EC211 and EC212: low precision and integer inputs give the right value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, Tolerance
from pytest_evalcheck.expectations.failures import expect
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import cast_floats, each_tensor
from pytest_evalcheck.kinds.metric.cases import Cast, LowPrecision
from pytest_evalcheck.kinds.metric.subject import MetricSubject


@check(
    "EC211",
    regimes=("float16", "bfloat16", "float32", "an offset", "thousands of samples"),
    needs=("bulk",),
    examples=12,
)
def low_precision_inputs_give_the_float64_value(metric: MetricSubject, case: LowPrecision) -> None:
    """Low precision inputs give the float64 value of the same quantised numbers.

    Both sides get the same numbers. The tolerance is four units of rounding in the dtype of the batch, or the tolerance
    of the target where that is wider. A difference of bounded numbers, such as probabilities, may also be one unit of
    their bound.

    Why: with many samples or an offset, a sum in the precision of its inputs stops growing.
    Usual cause: products, squares and sums are taken in the dtype of the batch; a variance as a difference of sums.
    Fix: pytest_evalcheck.fixes.CompensatedSum, pytest_evalcheck.fixes.Moments
    """
    import torch

    dtype, reference = getattr(torch, case.dtype), metric.with_float64
    live, exact = metric.fresh(), reference.widened()
    batches = zip(
        metric.bulk_batches(case.bulk, case.batch), reference.bulk_batches(case.bulk, case.batch), strict=True
    )
    for batch, same in batches:
        live.update(cast_floats(batch, dtype))
        exact.update(cast_floats(cast_floats(same, dtype), torch.float64))
    actual, expected = live.compute(), exact.compute()
    if isinstance(actual, Raised) and not isinstance(expected, Raised):
        # A metric that refuses a dtype with an error reports no wrong number.
        expect(actual).holds(True, about="low precision is refused")
        return
    eps, usual = max(torch.finfo(dtype).eps, _resolution(actual)), metric.tolerance
    tolerance = Tolerance(rtol=max(usual.rtol, 4 * eps), atol=max(usual.atol, eps * metric.inputs.unit))
    expect(actual).equals(
        expected, tolerance=tolerance, about=f"the value of {case.rows} {case.dtype} rows, beside the float64 value"
    )


@check("EC212", regimes=("float16", "bfloat16"), examples=40)
def a_state_keeps_its_dtype_and_integers_do_not_wrap(metric: MetricSubject, case: Cast) -> None:
    """A state keeps its dtype whatever the dtype of the batch; integer inputs do not wrap around.

    Why: a state that takes the dtype of a batch loses precision permanently; 3 - 5 in uint8 is 254.
    Usual cause: `self.total = self.total + x` in the dtype of x; arithmetic before conversion.
    Fix: pytest_evalcheck.fixes.CompensatedSum
    """
    import torch

    dtype = getattr(torch, case.dtype)
    integral = not dtype.is_floating_point
    live, usual = metric.fresh(), metric.fresh()
    before = live.state()
    for batch in case.cut:
        arguments = metric.arguments(batch)
        if integral:
            arguments = each_tensor(arguments, lambda t: t.abs().round())
        cast = each_tensor(arguments, lambda t: t.to(dtype) if integral or t.is_floating_point() else t)
        if live.try_update(cast):
            # A metric that refuses a dtype with an error reports no wrong number.
            expect(cast).holds(True, about=f"{case.dtype} is refused")
            return
        usual.update(arguments)
    value = live.compute() if integral else None
    if isinstance(value, Raised):  # refused as well, only later
        expect(cast).holds(True, about=f"{case.dtype} is refused")
    elif integral:
        expect(value).equals(usual.compute(), about=f"the value of the same numbers as {case.dtype}")
    changed = _changed_dtypes(before, live.state())
    expect(before).holds(
        not changed, about=f"a state changed its dtype after {case.dtype} inputs", detail="\n".join(changed[:3])
    )


def _resolution(value: Any) -> float:
    """The relative spacing of the coarsest floating dtype in a value: 2**-10 for float16, 2**-7 for bfloat16."""
    import torch

    spacings = [0.0]

    def record(tensor: Any) -> Any:
        if tensor.is_floating_point():
            spacings.append(torch.finfo(tensor.dtype).eps)
        return tensor

    each_tensor(value, record)
    return max(spacings)


def _changed_dtypes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {before[name].dtype} became {now.dtype}"
        for name, now in after.items()
        if hasattr(now, "dtype") and hasattr(before.get(name), "dtype") and now.dtype != before[name].dtype
    ]

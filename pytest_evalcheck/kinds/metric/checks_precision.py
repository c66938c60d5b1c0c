"""EC211, EC212, EC223 and EC237: inputs of any dtype give the right value, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference, only_scalars
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive, not_offered
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import cast_floats, count_tensors, each_tensor, tensors_in
from pytest_evalcheck.kinds.metric.cases import Cast, CastBeforeReset, LowPrecision, MixedDtypes
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.strategies.samples import Arguments


@check(
    "EC211",
    conditions=("float16", "bfloat16", "float32", "an offset", "thousands of samples"),
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
    live, exact, rows = metric.fresh(), reference.widened(), metric.bulk_rows(case.bulk)
    for batch, same in zip(metric.in_batches(rows, case.batch), reference.in_batches(rows, case.batch), strict=True):
        live.update(cast_floats(batch, dtype))
        exact.update(cast_floats(cast_floats(same, dtype), torch.float64))
    actual, expected = live.compute(), exact.compute()
    if isinstance(actual, Raised) and not isinstance(expected, Raised):
        # A metric that refuses a dtype with an error reports no wrong number.
        compared()
        return
    if _is_beyond_float32(expected):
        inconclusive("the float64 value is beyond the range of float32")
        return
    eps, usual = max(torch.finfo(dtype).eps, _resolution(actual)), metric.tolerance
    tolerance = Tolerance(rtol=max(usual.rtol, 4 * eps), atol=max(usual.atol, eps * metric.inputs.unit))
    expect(actual).equals(
        expected,
        tolerance=tolerance,
        about=f"the value of {case.rows} {case.dtype} rows, beside the float64 value",
        id="low-precision",
    )


@check("EC212", conditions=("float16", "bfloat16"), examples=40)
def a_state_keeps_its_dtype_and_integers_do_not_wrap(metric: MetricSubject, case: Cast) -> None:
    """A state keeps its dtype whatever the dtype of the batch; integer inputs do not wrap around.

    Why: a state that takes the dtype of a batch loses precision permanently; 3 - 5 in uint8 is 254.
    Usual cause: `self.total = self.total + x` in the dtype of x; arithmetic before conversion.
    Fix: pytest_evalcheck.fixes.CompensatedSum
    """
    integral = "float" not in case.dtype
    live, usual = metric.fresh(), metric.fresh()
    before = live.state()
    changed: list[str] = []
    for batch in case.split:
        arguments = _representable(case.dtype, metric.arguments(batch))
        cast = _cast(case.dtype, arguments)
        if live.try_update(cast):
            # A metric that refuses a dtype with an error reports no wrong number.
            compared()
            return
        usual.update(arguments)
        # After each batch: the next one may take a state, with what was rounded in it, back to its dtype.
        changed = changed or _changed_dtypes(before, live.state())
    value = live.compute() if integral else None
    if isinstance(value, Raised):  # refused as well, only later
        compared()
    elif integral:
        expect(value).equals(
            usual.compute(), about=f"the value of the same numbers as {case.dtype}", id="value-of-integers"
        )
    expect(before).holds(
        not changed,
        about=f"a state changed its dtype after {case.dtype} inputs",
        id="state-dtype",
        detail="\n".join(changed[:3]),
    )


@check("EC223", conditions=("float16", "float64"), after=("EC204", "EC212"), outside="another dtype")
def a_batch_of_another_dtype_leaves_nothing_after_a_reset(metric: MetricSubject, case: CastBeforeReset) -> None:
    """After a `reset()` the state, the value and their dtypes do not depend on the dtype that was fed before it.

    They are compared with those of a metric that was fed the usual dtype.

    Why: one metric scores a quantised model and then the original; the second score must not be rounded like the first.
    Usual cause: a state is created in the dtype of the first batch, and a reset fills it with zeros.
    Fix: keep the initial state, `self.total = self.initial.clone()` for `self.total.zero_()`, with its dtype and
    device.
    """
    if case.dtype == "float64" and metric.device.startswith("mps"):
        not_offered("the device has no float64")
        return
    if not any(count_tensors(metric.arguments(batch)) for batch in case.split):
        inconclusive("the samples hold no tensors, which have a dtype")
        return
    live, usual = metric.fresh(), metric.fresh().update(*case.split)
    if any(live.try_update(_cast(case.dtype, metric.arguments(batch))) for batch in case.split):
        inconclusive(f"{case.dtype} is refused")  # what a refused batch leaves is checked by EC210
        return
    for each in (live, usual):
        each.compute()
        each.reset()
    after = f"{case.dtype} inputs and a reset()"
    expect(_kinds(live.state())).equals(
        _kinds(usual.state()), about=f"the dtypes of the state after {after}", id="state-dtypes"
    )
    value, expected = live.update(*case.split).compute(), usual.update(*case.split).compute()
    expect(value).equals(expected, about=f"the value after {after}", id="value")
    expect(_kinds(value)).equals(_kinds(expected), about=f"the dtype of the value after {after}", id="value-dtype")


@check("EC237", conditions=("two widths",), examples=12, after=("EC206", "EC212"), outside="batches of several dtypes")
def batches_of_several_dtypes_give_the_value_of_their_numbers(metric: MetricSubject, case: MixedDtypes) -> None:
    """Batches of several dtypes in one stream give the value of their numbers, or are refused.

    Why: one loader gives integers where all numbers of a file are whole, and a model under autocast changes its dtype.
    Usual cause: a buffer takes the dtype of the first batch, and what comes later is cut off to it.
    Fix: give every state a dtype, and convert each batch: `self.total += x.to(self.total.dtype).sum()`.
    """
    if "float64" in case.dtypes and metric.device.startswith("mps"):
        not_offered("the device has no float64")
        return
    live, usual, cast = metric.fresh(), metric.fresh(), False
    for batch, dtype in case.typed:
        numbers, arrived = _numbers(metric, batch, dtype), _arrived(_numbers(metric, batch, dtype), dtype)
        cast |= _dtypes(arrived) != _dtypes(numbers)
        if live.try_update(arrived):
            # A metric that refuses a dtype with an error reports no wrong number.
            compared()
            return
        usual.update(numbers)
    if not cast:
        raise NotApplicable("its inputs have no floating numbers, which could arrive as another dtype")
    value, expected = live.compute(), usual.compute()
    if isinstance(value, Raised):
        compared()
    elif difference(value, expected, metric.tolerance) and _depends_on_the_dtype(metric, case, expected):
        inconclusive("its value of these numbers depends on the dtype without another one in the stream, see EC211")
    else:
        expect(value).equals(
            expected, about="the value of batches of several dtypes, beside one dtype", id="several-dtypes"
        )


def _depends_on_the_dtype(metric: MetricSubject, case: MixedDtypes, expected: Any) -> bool:
    """Return whether the same numbers have another value where all of them have one of the dtypes.

    The log of an error of 0 is that of the smallest number that a metric adds to it, which is often one of the dtype.
    Integers are other numbers.
    """
    if "int64" in case.dtypes:
        return False
    for dtype in sorted({*case.dtypes}):
        alone = metric.fresh()
        for batch in case.split:
            alone.update(_arrived(metric.arguments(batch), dtype))
        if difference(alone.compute(), expected, metric.tolerance):
            return True
    return False


def _numbers(metric: MetricSubject, batch: Rows, dtype: str) -> Any:
    """The arguments of a batch, of numbers that the dtype has; new in each call, as an update may write into them."""
    made = metric.arguments(batch)
    return each_tensor(made, lambda tensor: tensor.round()) if dtype == "int64" else made


def _arrived(value: Any, dtype: str) -> Any:
    """Return the same with its floating numbers in a dtype."""
    import torch

    return cast_floats(value, getattr(torch, dtype))


def _dtypes(value: Any) -> list[Any]:
    found: list[Any] = []
    each_tensor(value, lambda t: found.append(t.dtype))
    return found


def _cast(dtype: str, arguments: Arguments) -> Arguments:
    """The same numbers, all of them as integers, or those that are floats as another float."""
    import torch

    to = getattr(torch, dtype)
    if to.is_floating_point:
        return cast_floats(arguments, to)  # type: ignore[no-any-return]
    return each_tensor(arguments, lambda t: t.abs().round().to(to))  # type: ignore[no-any-return]


def _representable(dtype: str, arguments: Arguments) -> Arguments:
    """The nearest numbers that an integer dtype holds, in their own dtype; for a float the numbers themselves."""
    import torch

    to = getattr(torch, dtype)
    if to.is_floating_point:
        return arguments
    most = torch.iinfo(to).max
    return each_tensor(arguments, lambda t: t.abs().round().clamp(max=most))  # type: ignore[no-any-return]


def _kinds(value: Any) -> Any:
    """The same nest with the dtype and the device of each tensor in its place; of anything else its type."""
    if isinstance(value, Mapping):
        return {str(name): _kinds(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return ["no tensor"] * len(value) if only_scalars(value) else [_kinds(item) for item in value]
    return f"{value.dtype} on {value.device}" if hasattr(value, "dtype") and hasattr(value, "device") else "no tensor"


def _is_beyond_float32(value: Any) -> bool:
    """Return whether a finite number in a value is larger than any of float32, so that no result can hold it."""
    import torch

    floats = (tensor.double() for tensor in tensors_in(value) if tensor.is_floating_point())
    most = torch.finfo(torch.float32).max
    return any(bool((tensor[tensor.isfinite()].abs() > most).any()) for tensor in floats)


def _resolution(value: Any) -> float:
    """The relative spacing of the coarsest floating dtype in a value: 2**-10 for float16, 2**-7 for bfloat16."""
    import torch

    floats = (tensor for tensor in tensors_in(value) if tensor.is_floating_point())
    return max((torch.finfo(tensor.dtype).eps for tensor in floats), default=0.0)


def _changed_dtypes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [
        f"{name}: {before[name].dtype} became {now.dtype}"
        for name, now in after.items()
        if hasattr(now, "dtype") and hasattr(before.get(name), "dtype") and now.dtype != before[name].dtype
    ]

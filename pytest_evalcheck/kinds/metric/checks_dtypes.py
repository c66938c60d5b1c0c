"""EC237: batches of several dtypes in one stream."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive, not_offered
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.metric.cases import MixedDtypes
from pytest_evalcheck.kinds.metric.subject import MetricSubject


@check("EC237", conditions=("two widths",), examples=12, after=("EC206", "EC212"))
def batches_of_several_dtypes_give_the_value_of_their_numbers(metric: MetricSubject, case: MixedDtypes) -> None:
    """Batches of several dtypes in one stream give the value of their numbers, or are refused.

    Why: one loader gives integers where all numbers of a file are whole, and a model under autocast changes its dtype.
    Usual cause: a buffer takes the dtype of the first batch, and what comes later is cut off to it.
    Fix: give every state a dtype of its own, and convert each batch to it.
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
        for batch in case.cut:
            alone.update(_arrived(metric.arguments(batch), dtype))
        if difference(alone.compute(), expected, metric.tolerance):
            return True
    return False


def _numbers(metric: MetricSubject, batch: Rows, dtype: str) -> Any:
    """The arguments of a batch, of numbers that the dtype has; new in each call, as an update may write into them."""
    made = metric.arguments(batch)
    return each_tensor(made, lambda tensor: tensor.round()) if dtype == "int64" else made


def _arrived(value: Any, dtype: str) -> Any:
    """The same with its floating numbers in a dtype."""
    import torch

    to = getattr(torch, dtype)
    return each_tensor(value, lambda t: t.to(to) if t.is_floating_point() else t)


def _dtypes(value: Any) -> list[Any]:
    found: list[Any] = []
    each_tensor(value, lambda t: found.append(t.dtype))
    return found

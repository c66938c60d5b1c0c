"""Metrics that take one sample a call: how they are recognised, fed and checked."""

from __future__ import annotations

import numpy
import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.protocols.metric import Protocol, protocol_of


class OneByOne:
    """Takes one sample a call, and has ``get``, but no ``reset``; without annotations nothing says so."""

    def __init__(self) -> None:
        self.total = self.weight = 0.0

    def update(self, y_true, y_pred, w=1.0):  # type: ignore[no-untyped-def]
        if not isinstance(y_true, (int, float)):
            raise TypeError(f"{type(y_true).__name__}; expected one number")
        self.total, self.weight = self.total + w * abs(y_true - y_pred), self.weight + w

    def get(self) -> float:
        return self.total / self.weight if self.weight else 0.0


class Annotated(OneByOne):
    def update(self, y_true: float, y_pred: float, w: float = 1.0) -> None:
        super().update(y_true, y_pred, w)


class Inherits(Annotated):
    def update(self, y_true, y_pred, w=1.0):  # type: ignore[no-untyped-def]
        super().update(y_true, y_pred, 2 * w)


class OfArrays(OneByOne):
    def update(self, y_true: numpy.ndarray, y_pred: numpy.ndarray) -> None: ...  # type: ignore[override]


@pytest.mark.parametrize(("cls", "one"), [(OneByOne, False), (Annotated, True), (Inherits, True), (OfArrays, False)])
def test_annotations_say_that_a_call_takes_one_sample(cls: type, one: bool) -> None:
    found = protocol_of(cls)
    assert found is not None
    assert found.one_sample == one


def test_names_of_predictions_and_targets_are_as_good_as_a_reset() -> None:
    class Settings:
        def update(self, key: str, value: str) -> None: ...
        def get(self) -> str: ...  # type: ignore[empty-body]

    assert protocol_of(Settings) is None
    assert protocol_of(OneByOne) == Protocol(feed="update", value="get", targets_first=True)


@pytest.mark.parametrize(
    "made", [ec.Metric.of(OneByOne(), one_sample=True), ec.Metric.of(Annotated(), one_sample=True)]
)
def test_a_batch_is_fed_sample_by_sample(made: ec.Metric) -> None:
    made.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    made.update(torch.zeros(0), torch.zeros(0))
    made.copies["pickle"]().update(numpy.array([1.0]), numpy.array([9.0]))  # a copy has a state of its own
    assert made.compute() == 1.0
    made.update([3.0], y_pred=[6.0], w=torch.tensor([2.0]))
    assert (made.compute(), made.weights) == (2.0, "w")
    with pytest.raises(ValueError, match="arguments of 1 and 2 samples"):
        made.update([1.0], [1.0, 2.0])


def test_an_update_of_the_author_takes_one_sample_a_call_too() -> None:
    made = ec.Metric.of(OneByOne(), one_sample=True, update=lambda metric, y, p: metric.update(y / 2, p / 2))
    made.copies["deepcopy"]().update([1.0], [9.0])
    made.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    assert made.compute() == 0.5


def test_a_function_of_one_sample_has_a_value_for_each() -> None:
    def error(y_true: float, y_pred: float) -> float:
        return abs(y_true - y_pred)

    made = ec.Metric.of(error, one_sample=True)
    made.update(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    assert made.compute() == [0.0, 2.0]
    points = ec.Metric.of(lambda first, second: [first, second], one_sample=True)
    points.update([1.0], [2.0])
    points.compute()[0][0] = 9.0
    assert points.compute() == [[1.0, 2.0]]


class CountsRows(OneByOne):
    """Divides by the number of samples, whatever they weigh."""

    def get(self) -> float:
        return self.total / self.rows if self.rows else 0.0

    rows = 0

    def update(self, y_true, y_pred, w=1.0):  # type: ignore[no-untyped-def]
        super().update(y_true, y_pred, w)
        self.rows += 1


@pytest.mark.parametrize(("cls", "outcome"), [(OneByOne, "passed"), (CountsRows, "failed")])
def test_a_metric_of_one_sample_a_call_is_checked_like_others(cls: type, outcome: str) -> None:
    @ec.metric(inputs=es.regression().swapped())
    def metric_of_samples() -> ec.Metric:
        return ec.Metric.of(cls(), one_sample=True)

    cells = {cell.code: cell.outcome for cell in ec.run(metric_of_samples, effort="quick").cells}
    assert {code for code, found in cells.items() if found == "failed"} == ({"EC224"} if outcome == "failed" else set())
    assert cells["EC224"] == outcome


def test_a_metric_that_refuses_batches_is_misdescribed_and_the_remedy_is_told() -> None:
    @ec.metric(inputs=es.regression().swapped())
    def metric_of_samples() -> OneByOne:
        return OneByOne()

    cell = ec.run(metric_of_samples, select="EC201", effort="quick").cells[0]
    assert cell.failure is not None
    assert "`ec.Metric.of(metric, one_sample=True)`" in cell.failure.detail


def test_a_batch_that_is_rejected_leaves_no_value() -> None:
    record = ec.Metric.of(lambda value: 1 / value, one_sample=True)
    record.update([1, 2])
    with pytest.raises(ZeroDivisionError):
        record.update([4, 0])
    assert record.compute() == [1.0, 0.5]

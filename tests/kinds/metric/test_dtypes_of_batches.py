"""EC237: a number that depends on the dtype of its own batch alone is no matter of several dtypes in one stream."""

from __future__ import annotations

from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

torch = pytest.importorskip("torch")


INPUTS = es.rows([1.0, 2.0, 3.0, 2.0, 0.5, 7.0], [1.0, 2.5, 3.5, 5.0, 0.75, 7.0], dtypes=("float32", "float32"))


class LogOfTheError:
    """The mean log of the error, not below that of the smallest number beside 1 in the dtype of the batch."""

    def __init__(self) -> None:
        self.logs: list[Any] = []

    def update(self, preds: Any, target: Any) -> None:
        errors = (preds - target).abs()
        if errors.is_floating_point():
            self.logs.append(errors.clamp(min=torch.finfo(errors.dtype).eps).log())

    def compute(self) -> Any:
        return torch.cat([logs.to(torch.float32) for logs in self.logs]).mean()


class OfTheFirstDtype(LogOfTheError):
    """A batch of another dtype than the first one is left out."""

    def update(self, preds: Any, target: Any) -> None:
        if not self.logs or self.logs[0].dtype == preds.dtype:
            super().update(preds, target)


class OfTheFirstDtypeWithAFloor(OfTheFirstDtype):
    """The same, of a log that does not depend on the dtype."""

    def update(self, preds: Any, target: Any) -> None:
        apart = torch.where(preds == target, preds + 1, preds)
        super().update(apart, target)


@pytest.mark.parametrize(
    ("made", "outcome"),
    [(LogOfTheError, "passed"), (OfTheFirstDtype, "failed"), (OfTheFirstDtypeWithAFloor, "failed")],
)
def test_what_a_batch_of_one_dtype_gives_is_no_fault(made: type[LogOfTheError], outcome: str) -> None:
    @ec.metric(inputs=INPUTS)
    def log() -> LogOfTheError:
        return made()

    (cell,) = ec.run(log, select="EC237", effort="quick").cells
    assert cell.outcome == outcome, cell.reason

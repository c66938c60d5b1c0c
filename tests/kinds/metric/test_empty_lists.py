"""A batch without samples as nested lists: it has no columns."""

from __future__ import annotations

from typing import Any

import numpy as np

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es


class OfLists:
    """The mean error over the columns of nested lists: it is NaN for a batch that has none."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, preds: Any, target: Any) -> None:
        with np.errstate(all="ignore"):
            error = np.abs(np.subtract(preds, target)).sum(axis=-1)
        self.total, self.count = self.total + (error.sum() if error.shape else np.nan), self.count + len(preds)

    def compute(self) -> float:
        return float(self.total / self.count)


def outcome(inputs: Any) -> tuple[str, str]:
    @ec.metric(inputs=inputs)
    def metric() -> OfLists:
        return OfLists()

    (cell,) = ec.run(metric, select="EC202", effort="quick").cells
    return cell.outcome, cell.reason


def test_an_empty_list_of_rows_is_not_given() -> None:
    result, reason = outcome(es.regression(outputs=2).as_list())
    assert result == "not applicable"
    assert reason.startswith("an empty list has no columns")


def test_an_empty_array_of_rows_is() -> None:
    assert outcome(es.regression(outputs=2).as_numpy())[0] == "passed"

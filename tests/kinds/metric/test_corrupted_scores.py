"""Choice of the corrupted score of a sample: the one of its own class, which no metric ignores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

torch = pytest.importorskip("torch")


class NegativeLogLikelihood:
    """The mean loss: it reads the score of the true class, and no other one."""

    def __init__(self) -> None:
        self.total, self.count = torch.tensor(0.0), 0

    def update(self, scores: Any, labels: Any) -> None:
        self.total = self.total - scores[torch.arange(len(labels)), labels].sum()
        self.count += len(labels)

    def compute(self) -> Any:
        return self.total / self.count


@pytest.mark.parametrize("form", ["probabilities", "logits"])
def test_a_loss_of_the_true_class_shows_nan(form: Any) -> None:
    @ec.metric(inputs=es.multiclass(classes=3, of=form))
    def loss() -> NegativeLogLikelihood:
        return NegativeLogLikelihood()

    (cell,) = ec.run(loss, select="EC216", effort="quick").cells
    assert cell.outcome == "passed", cell.reason


def test_a_label_that_is_ignored_has_no_score() -> None:
    inputs = es.multiclass(classes=3, of="logits", ignore_index=-100)
    assert inputs.corrupted is not None
    scores, label = inputs.corrupted(((0.0, 1.0, 2.0), -100), 9.0)
    assert sorted(scores)[-1] == 9.0
    assert (len(scores), label) == (3, -100)


class PercentageError:
    """The error in percent of the target; with ``honest=False`` an error that is not finite is left out."""

    def __init__(self, honest: bool = True) -> None:
        self.honest, self.total, self.count = honest, torch.tensor(0.0), 0

    def update(self, preds: Any, target: Any) -> None:
        errors = torch.where(target == 0, 0.0, (preds - target).abs() / target.abs())
        self.total = self.total + (errors if self.honest else errors.nan_to_num(0.0, 0.0)).sum()
        self.count += len(target)

    def compute(self) -> Any:
        return self.total / self.count


@pytest.mark.parametrize(("honest", "outcome"), [(True, "passed"), (False, "failed")])
def test_a_number_that_counts_for_nothing_leaves_no_trace(honest: bool, outcome: str) -> None:
    @ec.metric(inputs=es.regression())
    def percentage_error() -> PercentageError:
        return PercentageError(honest)

    (cell,) = ec.run(percentage_error, select="EC216", effort="normal").cells
    assert cell.outcome == outcome, cell.reason


@pytest.mark.parametrize(
    ("told", "outcome"),
    [
        ({}, "failed"),
        ({"missing": lambda kept: int((~kept).sum())}, "passed"),
        ({"counted": lambda kept: int(kept.sum())}, "passed"),
        ({"samples": len}, "failed"),
        ({"columns": lambda _: 1}, "failed"),
    ],
    ids=["nothing is said", "what is left out is counted", "what is used is counted", "all samples", "a constant"],
)
def test_a_count_of_what_is_left_out_is_a_trace(told: dict[str, Any], outcome: str) -> None:
    def gap(preds: Any, target: Any) -> dict[str, Any]:
        kept = (preds - target).isfinite()
        return {
            "gap": float((preds - target)[kept].abs().sum()),
            **{name: count(kept) for name, count in told.items()},
        }

    @ec.metric(inputs=es.regression())
    def described() -> Any:
        return gap

    (cell,) = ec.run(described, select="EC216", effort="normal").cells
    assert cell.outcome == outcome, cell.reason


def test_a_count_of_wrong_answers_says_nothing_of_a_number_that_is_not_finite() -> None:
    def errors(preds: Any, target: Any) -> dict[str, Any]:
        return {"wrong": int((~((preds > 0) == (target > 0))).sum()), "share": float((preds > 0).double().mean())}

    @ec.metric(inputs=es.regression())
    def counted() -> Any:
        return errors

    (cell,) = ec.run(counted, select="EC216", effort="normal").cells
    assert cell.outcome == "failed", cell.reason


def test_a_count_is_a_trace_where_finite_numbers_change_nothing() -> None:
    def profile(preds: Any, target: Any) -> dict[str, Any]:
        return {"rows": len(preds), "missing": int((~preds.isfinite()).sum()), "signs": float((target > 0).sum())}

    @ec.metric(inputs=es.regression())
    def described() -> Any:
        return profile

    (cell,) = ec.run(described, select="EC216", effort="normal").cells
    assert cell.outcome == "passed", cell.reason


@pytest.mark.parametrize(("observed", "outcome"), [("your tests use", "not applicable"), ("", "failed")])
def test_a_predicate_that_nobody_declared_a_metric_has_no_place_for_a_nan(observed: str, outcome: str) -> None:
    @ec.metric(inputs=replace(es.regression(), observed=observed))
    def near() -> Any:
        return lambda preds, target: (preds - target).abs().nansum() < 3 * len(preds)

    (cell,) = ec.run(near, select="EC216", effort="normal").cells
    assert cell.outcome == outcome, cell.reason

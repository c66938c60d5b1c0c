"""Values of functions that are given an option or levels beside samples: a constant that is no finding, and ties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es


def outcome(function: Any, inputs: Any, code: str) -> tuple[str, str]:
    @ec.metric(inputs=inputs)
    def target() -> Any:
        return function

    (cell,) = ec.run(target, select=code, effort="quick", timeout=0).cells
    return cell.outcome, cell.reason


WITH_LEVEL = es.regression().replace(
    collate=lambda rows: ([row[0] for row in rows], [row[1] for row in rows], 0.9),
)


@pytest.mark.parametrize(("shown", "expected"), [(0.9, "passed"), (0.25, "failed")])
def test_an_option_that_is_returned_is_no_dead_entry(shown: float, expected: str) -> None:
    def coverage(preds: Any, target: Any, level: float) -> dict[str, float]:
        hits = sum(abs(p - t) < level for p, t in zip(preds, target, strict=True))
        return {"level": shown, "coverage": hits / len(target)}

    assert outcome(coverage, WITH_LEVEL, "EC218")[0] == expected


def test_a_default_that_is_returned_is_no_dead_entry() -> None:
    def interval(preds: Any, target: Any, confidence: float = 0.95) -> dict[str, float]:
        return {"confidence": confidence, "value": sum(abs(p - t) for p, t in zip(preds, target, strict=True))}

    assert outcome(interval, es.regression().as_list(), "EC218")[0] == "passed"


@pytest.mark.parametrize(("observed", "expected"), [("your tests use", "not applicable"), ("", "failed")])
def test_inputs_that_nobody_wrote_may_be_refused_in_every_case(observed: str, expected: str) -> None:
    calls = 0

    def spread(preds: Any, target: Any) -> float:
        nonlocal calls
        calls += 1
        if calls > 1:  # the example call has the only samples that it takes
            raise ValueError("levels must be unique")
        return float(max(target) - min(target))

    found, reason = outcome(spread, replace(es.regression(), observed=observed), "EC208")
    assert (found, reason.partition(":")[0]) == (expected, "every case was refused")


def test_a_score_without_a_reference_is_learned_without_right_and_wrong() -> None:
    """The wrong response of observed rows is that of another row: a score of another argument does not depend on it."""
    inputs = es.responses()

    @ec.scorer(inputs=replace(inputs, observed="your tests use"))
    def by_question() -> Any:
        return ec.Scorer(score=lambda responses, documents: [float(len(one["question"])) for one in documents])

    (cell,) = ec.run(by_question, select="EC409", effort="quick", timeout=0).cells
    assert cell.outcome in ("passed", "not applicable"), cell.reason


@pytest.mark.parametrize(("in_order", "expected"), [(True, "passed"), (False, "failed")])
def test_a_list_of_as_many_numbers_as_there_are_samples_is_no_list_of_theirs(in_order: bool, expected: str) -> None:
    """Four precisions, as those of BLEU, stand beside the scores of four samples (false alarm on a drawn project)."""

    def report(preds: Any, target: Any) -> dict[str, Any]:
        errors = [abs(p - t) for p, t in zip(preds, target, strict=True)]
        shares = [sum(error < level for error in errors) / len(errors) for level in (2.0, 0.25, 1.0, 0.5)]
        # The bug of the twin: its errors are those of sorted samples, beside ids in their order.
        shown = errors if in_order else sorted(errors)
        return {"precisions": shares, "errors": shown, "ids": [*target]}

    assert outcome(report, es.regression().as_list(), "EC208")[0] == expected

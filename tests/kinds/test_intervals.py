"""Errors and intervals: the bounds of EC010 by the binomial distribution, too few samples, and mistakes in a target."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest

import pytest_evalcheck as ec
from benchmarks import intervals
from fixtures.gallery.scorers_numbers_correct import MeanWithError, matches
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.checks_intervals import Population, drawn_apart
from pytest_evalcheck.kinds.common.intervals import (
    FALSE_ALARM,
    GROUPS,
    SIZE,
    SMALL,
    Design,
    Interval,
    Stated,
    bounds,
    design_of,
    power,
    probability_of,
)

ERROR = Interval(value="mean", error="error")


@pytest.mark.parametrize(("trials", "level"), [(60, 0.95), (600, 0.95), (200, 0.9), (600, 0.99)])
def test_an_honest_interval_fails_with_a_probability_of_one_in_a_million(trials: int, level: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    least, most = bounds(trials, level)
    low, high = level - 0.02, min(1.0, level + 0.02)
    assert stats.binom.cdf(least - 1, trials, low) <= FALSE_ALARM < stats.binom.cdf(least, trials, low)
    assert stats.binom.sf(most, trials, high) <= FALSE_ALARM
    assert high == 1 or stats.binom.sf(most - 1, trials, high) > FALSE_ALARM
    for coverage in (0.45, 0.85, level, 0.999):
        inside = stats.binom.cdf(most, trials, coverage) - stats.binom.cdf(least - 1, trials, coverage)
        assert power(trials, coverage, level) == pytest.approx(1 - inside, abs=1e-9)


def test_probabilities_are_those_of_the_binomial_distribution() -> None:
    assert probability_of(3, 0.5) == pytest.approx([1 / 8, 3 / 8, 3 / 8, 1 / 8])
    assert probability_of(2, 1.0) == [0.0, 0.0, 1.0]


def test_the_table_of_the_page_is_what_the_check_does() -> None:
    page = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")
    assert "\n".join(intervals.power_table()) in page
    assert bounds(600) == (525, 598)
    assert power(600, 0.85) == pytest.approx(0.954, abs=5e-4)


def test_normal_intervals_of_the_designs_are_honest() -> None:
    # Exactly: every number of right samples with its probability, of one of the small groups as of the others.
    for size in (SMALL, SIZE):
        held = sum(
            p
            for right, p in enumerate(probability_of(size, 0.75))
            if abs(right / size - 0.75) <= 1.96 * math.sqrt(right / size * (1 - right / size) / (size - 1)) + 1e-12
        )
        assert 0.93 <= held <= 0.97
    assert GROUPS[0] >= 20


def test_data_sets_are_the_same_in_every_run_and_balanced() -> None:
    design = design_of(ERROR, ["a", "b", "c", "d"])
    assert next(design.drawn(0)) == next(design.drawn(0)) != next(design.drawn(1))
    assert sorted(design.balanced()) == sorted("abcd" * 25)
    assert design.times(4).size == 400
    assert {*design.alike().balanced()} == {"a"}
    assert len(Design([(["a", "b", "c"], 100)]).balanced()) % 3 == 0
    clustered = Interval(value="mean", error="error", cluster=lambda sample, number: (sample, number))
    rows = next(design_of(clustered, ["a", "b"]).drawn(0))
    assert rows[0] == rows[1] == rows[2] != rows[3]


def shaky(scores: Sequence[float]) -> Mapping[str, Any]:
    """Half an error where there are less than 150 scores."""
    error = stdev(scores) / math.sqrt(len(scores)) if len(scores) > 1 else math.nan
    return {"mean": fmean(scores), "error": error / (2 if len(scores) < 150 else 1)}


def scorer(numbers: Any, *intervals: Interval) -> ec.Target:
    def factory() -> Any:
        def summary(responses: Any, documents: Any) -> Any:
            return numbers([matches(own, row) for own, row in zip(responses, documents, strict=True)])

        return ec.Scorer.of(matches, summary=summary, intervals=intervals or (ERROR,))

    return ec.scorer(inputs=es.responses())(factory)


def cell_of(target: ec.Target, code: str) -> ec.Cell:
    (cell,) = ec.run(target, "cpu", select=code, effort="quick").cells
    return cell


def test_too_few_samples_for_the_method_are_reported_as_such() -> None:
    cell = cell_of(scorer(shaky), "EC010")
    assert cell.outcome == "not applicable"
    assert cell.reason.startswith("too few samples for the interval of 'mean': in ")
    assert "data sets of 100 samples" in cell.reason
    assert "data sets of 400 samples" in cell.reason


def test_an_interval_is_judged_where_its_documentation_says_that_it_holds() -> None:
    cell = cell_of(scorer(shaky, Interval(value="mean", error="error", least=100)), "EC010")
    assert cell.outcome == "failed"
    assert "is too narrow" in cell.reason


def test_a_value_that_does_not_vary_shows_nothing() -> None:
    cell = cell_of(scorer(lambda scores: {"mean": 0.5, "error": 0.1}), "EC010")
    assert (cell.outcome, cell.reason) == ("not applicable", "'mean' is 0.5 for all data sets that were drawn")


def test_a_count_of_the_samples_is_compared() -> None:
    counted = Interval(value="mean", error="error", count="n")
    right = scorer(lambda scores: {"mean": fmean(scores), "error": 0.1, "n": len(scores)}, counted)
    assert cell_of(right, "EC011").outcome == "passed"
    cell = cell_of(scorer(lambda scores: {"mean": fmean(scores), "error": 0.1, "n": 7}, counted), "EC011")
    assert (cell.outcome, cell.signature) == ("failed", "EC011: count-of-many-samples: another number")


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ({"mean": 0.5, "error": -0.1}, "the error of 0.5 is -0.1"),
        ({"mean": 0.5, "error": math.nan}, "the error of 0.5 is nan"),
        ({"mean": 0.5, "error": math.inf}, "the error of 0.5 is inf"),
    ],
)
def test_what_no_error_can_be_is_a_failure(numbers: Mapping[str, Any], said: str) -> None:
    cell = cell_of(scorer(lambda scores: numbers), "EC011")
    assert cell.outcome == "failed"
    assert said in cell.reason


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ({"low": 0.6, "high": 0.4}, "the interval is reversed: from 0.6 to 0.4"),
        ({"low": 0.6, "high": 0.7}, "the interval from 0.6 to 0.7 does not hold its value, 0.5"),
    ],
)
def test_what_no_interval_can_be_is_a_failure(ends: Mapping[str, Any], said: str) -> None:
    interval = Interval(value="mean", low="low", high="high")
    cell = cell_of(scorer(lambda scores: {"mean": 0.5, **ends}, interval), "EC011")
    assert cell.outcome == "failed"
    assert said in cell.reason


@pytest.mark.parametrize(
    ("interval", "result", "said"),
    [
        (ERROR, {"mean": 0.5}, "the result has no number 'error'"),
        (ERROR, {"mean": 0.5, "eror": 0.1}, "the result has no number 'error'; did you mean 'eror'?"),
        (ERROR, {"mean": None, "error": 0.1}, "'mean' has an error and is no number"),
        (ERROR, {"mean": "high", "error": 0.1}, "'mean' is no number"),
        (ERROR, 0.5, "the result has no number 'mean'"),
        (
            Interval(value=0, low=1, high=2),
            (0.5, 0.4, None),
            "one end of the interval of '0' is no number",
        ),
    ],
)
def test_a_value_or_an_error_that_stands_alone_is_a_mistake(interval: Interval, result: Any, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        interval.read(result)
    assert caught.value.about == said


@pytest.mark.parametrize("nothing", [None, "N/A", ""])
def test_an_error_that_is_not_stated_is_none(nothing: Any) -> None:
    assert ERROR.read({"mean": 0.5, "error": nothing}) is None


def test_an_error_is_read_as_an_interval() -> None:
    found = ERROR.read({"mean": 0.5, "error": 0.1})
    assert isinstance(found, Stated)
    assert (found.low, found.high) == pytest.approx((0.5 - 0.196, 0.5 + 0.196), abs=1e-4)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"value": "acc"}, "expected either error=... or both low=... and high=..."),
        ({"value": "acc", "error": "e", "low": "l", "high": "h"}, "expected either error=... or both"),
        ({"value": "acc", "high": "h"}, "has one end"),
        ({"value": None, "error": "e"}, "names no value"),
        ({"value": "acc", "error": "e", "level": 95}, "level=95; expected a probability such as 0.95"),
        ({"value": "acc", "error": "e", "draws": -1}, "draws=-1"),
    ],
)
def test_a_wrong_declaration_says_what_is_expected(fields: Mapping[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        ec.Interval(**fields)
    assert said in str(caught.value)


def test_intervals_of_a_record_are_a_list_and_of_a_summary() -> None:
    with pytest.raises(TypeError, match=r"expected a list of ec\.Interval"):
        ec.Scorer.of(matches, summary=matches, intervals=ERROR)
    with pytest.raises(TypeError, match="intervals without a summary"):
        ec.Scorer.of(matches, intervals=[ERROR])


def test_errors_that_are_drawn_may_differ() -> None:
    assert drawn_apart(ERROR) == 1.0
    assert 1.5 < drawn_apart(Interval(value="mean", error="error", draws=101)) < 1.7


def test_nothing_is_drawn_beside_the_one_case() -> None:
    (case,) = Population.canonical(MeanWithError.inputs)
    assert len(case.samples) == 4
    assert Population.strategy(MeanWithError.inputs).is_empty


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reduce": 3}, "reduce=3; expected a function"),
        ({"reduce": max, "exact": "maximum"}, "expected one of mean, median, max"),
        ({"reduce": max, "exact": "pass@k"}, "expected k of at least 1 for at least, pass@k, pass^k"),
        ({"reduce": max, "exact": "max", "k": 2}, "expected k of at least 1 for"),
    ],
)
def test_a_wrong_reducer_says_what_is_expected(fields: Mapping[str, Any], said: str) -> None:
    with pytest.raises(TypeError) as caught:
        ec.Reducer(**fields)
    assert said in str(caught.value)


class DrawnError:
    """A mean, and an error of resamples that Python's own generator draws."""

    def __init__(self, draws: int) -> None:
        self.draws, self.values = draws, []  # type: ignore[var-annotated]

    def update(self, values: Any) -> None:
        self.values += values.tolist()

    def compute(self) -> Mapping[str, float]:
        means = [fmean(random.choices(self.values, k=len(self.values))) for _ in range(30)]
        return {"mean": fmean(self.values), "error": stdev(means)}

    def record(self) -> ec.Metric:
        declared = [Interval(value="mean", error="error", draws=self.draws)]
        return ec.Metric(update=self.update, compute=self.compute, intervals=declared)


@pytest.mark.parametrize(("draws", "outcome"), [(30, "not applicable"), (0, "failed")])
def test_numbers_that_are_declared_as_drawn_are_not_compared(draws: int, outcome: str) -> None:
    def factory() -> ec.Metric:
        return DrawnError(draws).record()

    cell = ec.run(ec.metric(inputs=es.values())(factory), "cpu", select="EC208", effort="quick").cells[0]
    assert cell.outcome == outcome
    if draws:
        assert cell.reason == "'error' is drawn at random, as ec.Interval(draws=...) says"

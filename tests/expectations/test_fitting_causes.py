"""The usual cause that a failure shows fits what was seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_evalcheck.expectations.causes import fitting_causes, is_condition
from pytest_evalcheck.expectations.comparison import Raised, Tolerance
from pytest_evalcheck.expectations.failures import CheckFailure, Compared
from pytest_evalcheck.kinds.registry import shipped

TEXT = (
    "a mean of means; if samples differ in length, padding counts; if only the order differs, rows are sorted; "
    "if only the last digits differ, a sum in float16; "
    "if `number-of-scores` fails, a filter."
)


def failure(actual: Any, expected: Any, id: str = "split") -> CheckFailure:
    made = CheckFailure("the value", id=id)
    made.compared = Compared("same", actual, expected, Tolerance())
    return made


@pytest.mark.parametrize(
    ("actual", "expected", "samples", "id", "said"),
    [
        (0.5, 0.75, [1, 2], "split", "a mean of means."),
        (0.5, 0.75, [[1], [2, 3]], "split", "one of: padding counts; a mean of means."),
        (0.5, 0.75, [("a", "b"), ("a", "bb")], "split", "one of: padding counts; a mean of means."),
        (0.5, 0.75, [("a", 1), ("b", 22)], "split", "a mean of means."),
        ([1.0, 2.0], [2.0, 1.0], [[1], [2, 3]], "split", "rows are sorted."),
        (np.array([3, 1, 2]), np.array([1, 2, 3]), [], "split", "rows are sorted."),
        ({"f": [1.0, 2.0]}, {"f": [2.0, 1.0]}, [], "split", "rows are sorted."),
        (0.7505, 0.75, [], "split", "one of: a sum in float16; a mean of means."),
        (2, 3, [], "the-number-of-scores", "a filter."),
        (Raised(ValueError("no"), "compute"), 0.75, [], "split", "a mean of means."),
    ],
)
def test_causes_are_chosen_by_what_was_seen(actual: Any, expected: Any, samples: Any, id: str, said: str) -> None:
    assert fitting_causes(TEXT, failure(actual, expected, id), SimpleNamespace(samples=samples)) == said


def test_a_failure_without_values_has_the_causes_that_are_always_possible() -> None:
    assert fitting_causes(TEXT, CheckFailure("it hangs"), None) == "a mean of means."


@pytest.mark.parametrize("text", ["one cause, or another.", "a cause; if it is Tuesday, another.", "a; if so."])
def test_a_text_without_conditions_stays_as_it_is(text: str) -> None:
    assert fitting_causes(text, failure(1, 2), None) == text


@pytest.mark.parametrize(
    "made", [made for made in shipped() if "; if " in made.usual_cause], ids=lambda made: made.code
)
def test_every_condition_of_a_shipped_check_can_be_seen(made: Any) -> None:
    for cause in made.usual_cause.split("; if ")[1:]:
        condition, _, text = cause.partition(", ")
        assert is_condition(condition), condition
        assert text

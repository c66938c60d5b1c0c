"""Signatures: what failures of one root cause share."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from pytest_evalcheck.expectations.comparison import Raised, Tolerance
from pytest_evalcheck.expectations.failures import CheckFailure, ComparisonStats, counting, expect
from pytest_evalcheck.expectations.signature import signature_of
from pytest_evalcheck.kinds.common.calling import attempt


def signature(actual: Any, expected: Any, about: str = "the value") -> str:
    with pytest.raises(CheckFailure) as failed:
        expect(actual).equals(expected, about=about, id="value")
    return signature_of("EC201", failed.value)


def error(text: str) -> Raised:
    try:
        json.loads(text)
    except ValueError as raised:
        return Raised(raised, "compute")
    raise AssertionError(f"{text} was read")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0.5, 0.25), (0.75, 1.0)),
        ((0.5, math.nan), (0.5, 1.0)),  # whether the expected value is NaN depends on the samples
        (([1.0, 2.0], [1.0, 3.0]), ([0.0], [1.0])),
        (([1.0], [1.0, 3.0]), ([0.0, 1.0], [1.0])),
        ((error("{"), 1.0), (error("{'"), 2.0)),
        ((error("{"), 1.0), (error("{"), Raised(KeyError("a"), "compute"))),
    ],
)
def test_other_numbers_are_the_same_failure(first: tuple[Any, Any], second: tuple[Any, Any]) -> None:
    assert signature(*first, about="batch 3") == signature(*second, about="batch 12")


def test_kinds_of_values_and_errors_are_told_apart() -> None:
    elsewhere = Raised(ValueError("3"), "compute")
    pairs: list[tuple[Any, Any]] = [
        (1, 2),
        (math.nan, 2),
        (math.inf, 2),
        (None, 2),
        ("a", "b"),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        ([1], 2),
    ]
    pairs += [(error("{"), 1), (elsewhere, 1), (Raised(KeyError("a"), "compute"), 1), (1, error("{"))]
    assert len({signature(*pair) for pair in pairs}) == len(pairs)


def test_an_error_is_known_by_the_function_that_raised_it() -> None:
    assert signature(error("{"), 1.0) == "EC201: value: JSONDecodeError in json.decoder:raw_decode"

    def in_a_comprehension() -> Any:
        return [json.loads(text) for text in ("{",)]

    inside = attempt("compute", in_a_comprehension)
    assert signature(inside, 1.0) == signature(error("{"), 1.0)
    last = attempt("compute", lambda: [int(text) for text in ("a",)])
    assert signature(last, 1.0) == "EC201: value: ValueError"


def test_the_place_of_the_first_difference_does_not_count() -> None:
    long, other = list(range(200)), [*range(199), 0]
    assert signature(long, other) == signature([1], [2]) == "EC201: value: another number"


def test_the_text_of_a_failure_does_not_count() -> None:
    assert signature(1, 2, about="after a reorder and a crop") == signature(1, 2) == "EC201: value: another number"
    with pytest.raises(CheckFailure) as failed:
        expect(error("{")).holds(False, about="in a dict", id="in-a-container")
    assert str(failed.value).startswith("in a dict")
    assert signature_of("EC602", failed.value).startswith("EC602: in-a-container: JSONDecodeError in ")


@pytest.mark.parametrize("id", ["After write", "after_write", "-after", "AFTER", "after--write"])
def test_an_id_that_is_none_is_named_with_the_right_form(id: str) -> None:
    with pytest.raises(ValueError, match="expected words in small letters joined by dashes, such as 'after"):
        CheckFailure("the value", id=id)


def test_each_result_of_several_by_name_is_a_failure_of_its_own() -> None:
    known = ComparisonStats(Tolerance())
    seen: list[str] = []

    def should_pass_over(failure: CheckFailure) -> bool:
        seen.append(signature_of("EC501", failure))
        return "accuracy" not in seen[-1]

    known.should_pass_over = should_pass_over
    with counting(known), pytest.raises(CheckFailure) as failed:
        expect({"loss": 1.0, "f1": 0.5, "accuracy": 1.0}).equals(
            {"loss": 2.0, "f1": 0.5, "accuracy": 0.5}, about="the numbers", id="it"
        )
    assert seen == ["EC501: it: another number for 'loss'", "EC501: it: another number for 'accuracy'"]
    assert failed.value.detail == "at ['accuracy']: 1.0 is not 0.5"
    assert known.known_seen == 1


def test_a_check_goes_on_behind_what_is_known() -> None:
    stats = ComparisonStats(Tolerance(), should_pass_over=lambda failure: failure.about == "known")
    with counting(stats):
        expect(1).equals(2, about="known")
        expect(1).holds(False, about="known")
        with pytest.raises(CheckFailure, match="new"):
            expect(1).equals(2, about="new")
    assert stats.known_seen == 2

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import torch

from pytest_evalcheck.expectations.comparison import Raised, origin_of
from pytest_evalcheck.expectations.failures import CheckFailure, expect
from pytest_evalcheck.expectations.origin import place_of, raised_on_purpose
from pytest_evalcheck.fixes.weighted_mean import WeightedMean
from pytest_evalcheck.kinds.common.calling import attempt

HERE = r"tests/expectations/test_origin\.py:\d+ \({}\)"


def missing(batch: dict[str, Any]) -> Any:
    return batch["labels"]


def multiplied() -> Any:
    return torch.ones(2, 3) @ torch.ones(2, 3)


def explained() -> Any:
    try:
        return missing({})
    except KeyError as error:
        raise RuntimeError("the batch is not usable") from error


def raised(call: Any, *given: Any) -> Raised:
    result = attempt("forward", call, *given)
    assert isinstance(result, Raised)
    return result


def test_the_origin_of_an_error_is_its_type_and_the_line_that_raised_it() -> None:
    assert re.fullmatch("KeyError at " + HERE.format("missing"), raised(missing, {}).origin)


@pytest.mark.parametrize("call", [multiplied, lambda: json.loads("{")], ids=["torch", "the standard library"])
def test_lines_of_torch_and_of_the_standard_library_are_not_the_origin(call: Any) -> None:
    assert re.fullmatch(r"\w+Error at " + HERE.format(r".*(multiplied|<lambda>)"), raised(call).origin)


def test_the_fixes_are_code_under_test() -> None:
    assert "fixes/weighted_mean.py:" in raised(WeightedMean().update, torch.ones(2), torch.ones(3)).origin


def test_an_error_that_explains_another_has_the_origin_of_the_other() -> None:
    assert re.fullmatch("KeyError at " + HERE.format("missing"), raised(explained).origin)


def test_errors_that_explain_each_other_have_an_origin() -> None:
    one, other = KeyError("a"), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    assert place_of(one) == "ValueError"


def test_an_error_that_was_never_raised_has_its_type_alone() -> None:
    assert place_of(KeyError("labels")) == "KeyError"


def test_a_failure_over_an_error_has_its_origin_and_one_over_values_has_none() -> None:
    error = raised(missing, {})
    for actual, expected in (({"loss": error}, {"loss": 1.0}), ([1.0], [error])):
        with pytest.raises(CheckFailure) as caught:
            expect(actual).equals(expected, about="the results")
        assert caught.value.origin == error.origin
    with pytest.raises(CheckFailure) as caught:
        expect([error]).holds(False, about="neither could be scored")
    assert caught.value.origin == error.origin
    with pytest.raises(CheckFailure) as caught:
        expect(1.0).equals(2.0, about="the results")
    assert caught.value.origin == ""


def test_the_first_error_in_a_result_is_found() -> None:
    error = raised(missing, {})
    assert origin_of({"a": [1.0, (error,)], "b": raised(multiplied)}) == error.origin
    assert origin_of({"a": [1.0]}) == ""


def _refuses() -> None:
    raise ValueError("a batch of 3 rows, and a cache for 2")


def _asserts() -> None:
    assert len([3]) == 2, "a cache for 2"


def _says_nothing() -> None:
    raise AssertionError


def _fails_in_an_operator() -> None:
    torch.zeros(2, 4).index_copy_(0, torch.arange(3), torch.zeros(3, 4))


def _fails_in_torch() -> None:
    torch.nn.functional.cross_entropy(torch.zeros(3, 2), torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(
    ("call", "purpose"),
    [
        (_refuses, True),
        (_asserts, True),
        (_says_nothing, False),
        (_fails_in_an_operator, False),
        (_fails_in_torch, False),
    ],
)
def test_a_refusal_is_raised_by_a_statement_of_the_code_under_test(call: Any, purpose: bool) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    assert raised_on_purpose(caught.value) is purpose

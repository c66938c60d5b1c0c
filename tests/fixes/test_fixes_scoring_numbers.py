from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evalcheck.fixes.scoring import Number, NumberError, Numbers, pass_at, score_documents

SCORES = [{"pass@1": 1.0, "pass@5": 1.0}, {"pass@1": 0.0}, {"pass@1": 0.5, "pass@5": 0.5}]


def test_every_number_has_its_own_aggregation_and_direction():
    numbers = Numbers({"best": Number(max), "typical": Number("median"), "cost": Number(higher_is_better=False)})
    scores = [{"best": each, "typical": each, "cost": each} for each in (1.0, 2.0, 6.0)]
    assert numbers.aggregate(scores).values == {"best": 6.0, "typical": 2.0, "cost": 3.0}
    assert [(each["metric"], each["higher_is_better"]) for each in numbers.metric_list()] == [
        ("best", True),
        ("typical", True),
        ("cost", False),
    ]


@pytest.mark.parametrize(("missing", "value", "count"), [("skip", 0.75, 2), (0.0, 0.5, 3), (1.0, 2.5 / 3, 3)])
def test_a_number_that_is_missing_counts_as_declared(missing, value, count):
    summary = Numbers({"pass@1": Number(), "pass@5": Number(missing=missing)}).aggregate(SCORES)
    assert summary.values == {"pass@1": 0.5, "pass@5": pytest.approx(value)}
    assert summary.counts == {"pass@1": 3, "pass@5": count}


def test_a_number_that_is_missing_is_an_error_unless_declared():
    with pytest.raises(NumberError, match="document 1: the score lacks 'pass@5'; it has 'pass@1'"):
        Numbers({"pass@1": Number(), "pass@5": Number()}).aggregate(SCORES)


@pytest.mark.parametrize(
    ("score", "message"),
    [
        ({"pass@1": 1.0, "pass@l": 1.0}, "has 'pass@l', which is not declared; did you mean 'pass@1'"),
        (0.5, "expected a mapping with 'pass@1', got float 0.5"),
        ([1.0], "got list"),
    ],
)
def test_other_scores_are_refused_and_their_document_named(score, message):
    with pytest.raises(NumberError, match=message) as raised:
        Numbers({"pass@1": Number()}).process_results({"id": "HumanEval/3"}, [score])
    assert "document 'HumanEval/3'" in str(raised.value)


def failing(document):
    if document == 1:
        raise ValueError("broken")
    return {"acc": 1.0}


@pytest.mark.parametrize(("failed", "value", "count"), [("skip", 1.0, 2), ({"acc": 0.0}, 2 / 3, 3)])
def test_documents_without_a_score_count_as_declared(failed, value, count):
    scores = score_documents(failing, range(3), backend="serial", errors="record")
    summary = Numbers({"acc": Number()}, failed=failed).aggregate(scores)
    assert (summary.values["acc"], summary.counts["acc"], summary.failed) == (pytest.approx(value), count, [1])
    with pytest.raises(NumberError, match="document 1: ValueError: broken; failed= says"):
        Numbers({"acc": Number()}).aggregate(scores)


def test_nan_reaches_the_value_and_is_told():
    summary = Numbers({"acc": Number()}).aggregate([{"acc": 1.0}, {"acc": math.nan}])
    assert math.isnan(summary.values["acc"])
    assert (summary.nan, summary.counts) == ({"acc": [1]}, {"acc": 2})


def test_nothing_makes_nan():
    summary = Numbers({"acc": Number(max)}).aggregate([])
    assert math.isnan(summary.values["acc"])
    assert summary.counts == {"acc": 0}


@pytest.mark.parametrize("name", ["a,b", "acc_stderr", "target", "filter", ""])
def test_names_that_would_collide_are_refused(name):
    with pytest.raises((ValueError, TypeError), match="numbers: "):
        Numbers({name: Number()})


def test_numbers_join_unless_their_names_collide():
    joined = Numbers({"a": Number()}) | Numbers({"b": Number(max)})
    assert list(joined.numbers) == ["a", "b"]
    with pytest.raises(ValueError, match="both have 'a'; rename one"):
        joined | Numbers({"a": Number()})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Numbers({}), "at least one"),
        (lambda: Numbers({"a": max}), "expected a Number for 'a'"),
        (lambda: Number("average"), "expected 'mean' or 'median' or a function"),
        (lambda: Number(missing="zero"), "'error', 'skip' or a value"),
        (lambda: Numbers({"a": Number()}, failed="zero"), "'error', 'skip' or a mapping"),
        (lambda: Numbers({"a": Number()}, failed={"b": 0.0}), "'b', which is not declared"),
        (lambda: Numbers({"a": Number()}, score="f"), "a function of responses"),
        (lambda: Numbers({"a": Number()}).process_results({}, []), "one result of the filters, got 0"),
    ],
)
def test_wrong_declarations_are_refused(make, message):
    with pytest.raises((ValueError, TypeError, NumberError), match=message):
        make()


def test_a_score_function_is_called_once_for_all_numbers():
    calls = []

    def score(responses, doc):
        calls.append(doc)
        return pass_at([response == doc["a"] for response in responses], (1, 2))

    numbers = Numbers({"pass@1": Number(), "pass@2": Number()}, score=score)
    assert numbers.process_results({"a": "x"}, [["x", "y", "y"]]) == pytest.approx({"pass@1": 1 / 3, "pass@2": 2 / 3})
    assert len(calls) == 1


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.integers(1, 7))
def test_pass_at_k_is_the_share_of_draws_with_a_right_response(correct, k):
    from itertools import combinations

    if k > len(correct):
        with pytest.raises(ValueError, match=f"pass@{k}"):
            pass_at(correct, [k])
    else:
        draws = [any(each) for each in combinations(correct, k)]
        assert pass_at(correct, [k])[f"pass@{k}"] == pytest.approx(sum(draws) / len(draws))

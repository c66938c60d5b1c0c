"""Samples in containers of fields: several tasks, answers to questions, other layouts."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import pytest
import torch

from pytest_evalcheck import strategies as es

both = es.tasks({"kind": es.binary(of="labels"), "size": es.regression(min_samples=2)})


def test_the_docstrings_are_right() -> None:
    for name in ("structured", "samples"):
        found = doctest.testmod(importlib.import_module(f"pytest_evalcheck.strategies.{name}"))
        assert found.attempted > 0
        assert found.failed == 0


def test_tasks_have_a_batch_each() -> None:
    rows = zip(es.binary(of="labels").fixed(3), es.regression().fixed(3), strict=True)
    preds, target = both.collate(list(rows))
    assert list(preds) == list(target) == ["kind", "size"]
    alone = es.binary(of="labels").example(3)
    assert torch.equal(preds["kind"], alone[0])
    assert torch.equal(target["kind"], alone[1])
    assert both.min_samples == 2
    assert both.collate([])[0]["size"].shape == (0,)


def test_every_task_is_right_or_wrong() -> None:
    assert both.right is not None
    assert both.wrong is not None
    assert len(both.contrast) > 1
    right, target = both.collate([both.right(row) for row in both.contrast])
    wrong, _ = both.collate([both.wrong(row) for row in both.contrast])
    assert all(torch.equal(right[name], target[name]) for name in target)
    assert not any(torch.equal(wrong[name], target[name]) for name in target)
    arrays = es.arrays((2,), (3,), dtypes=("float32",) * 2, ranges=((0, 1),) * 2)
    assert es.tasks({"a": es.binary(), "b": arrays}).right is None


def test_mistakes_in_tasks() -> None:
    with pytest.raises(ValueError, match="expected a strategy for each task"):
        es.tasks({})
    with pytest.raises(ValueError, match=r"the task 'a' collates 0 positional arguments; expected \(preds, target\)"):
        es.tasks({"a": es.retrieval()}).example(2)


def test_answers_belong_together_by_their_id() -> None:
    preds, target = es.answers(references=2).example(6)
    assert [one["id"] for one in preds] == [one["id"] for one in target]
    assert len({one["id"] for one in preds}) == 6
    assert all(len(one["answers"]["text"]) == len(one["answers"]["answer_start"]) == 2 for one in target)


@pytest.mark.parametrize(
    ("layout", "error", "said"),
    [
        ((-1,), TypeError, r"packed\(-1\): expected the place of an argument, counted from 0, or a dict"),
        ((True,), TypeError, "expected the place"),
        (({1: 0},), TypeError, "expected the place"),
        (({"a": "b"},), TypeError, "expected the place"),
        ((0, {"a": 2}), ValueError, r"packed\(2\): there is no such argument; the collate returned 2"),
    ],
)
def test_mistakes_in_a_layout(layout: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        es.regression().packed(*layout).example(2)


def test_a_layout_may_repeat_and_exchange() -> None:
    preds, target = es.regression().example(3)
    first, second = es.regression().packed({"b": 1, "a": 0}, 1).example(3)
    assert torch.equal(first["a"], preds)
    assert torch.equal(first["b"], second)
    assert torch.equal(second, target)


def test_some_samples_have_a_nan() -> None:
    holed = es.regression().with_nan()
    preds, target = holed.example(12)
    assert 0 < int(preds.isnan().sum()) < 12
    assert not target.isnan().any()
    assert holed.corrupted is None
    assert not holed.integers
    with pytest.raises(ValueError, match=r"clusters: with_nan\(\) needs samples with a number that may be a NaN"):
        es.clusters().with_nan()


def test_candidates_may_be_ignored() -> None:
    assert es.retrieval().fixed_ignored == []
    assert {row[1] for row in es.retrieval(ignore_index=-1).fixed_ignored} == {-1}

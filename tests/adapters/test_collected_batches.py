"""Batches that are collected for a function belong to the record: neither a caller nor a result changes them."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.protocols.collecting import Collected


def test_what_is_inside_of_a_batch_is_copied() -> None:
    batch = [{"answers": {"a": [1]}}, {"answers": {"a": [2]}}]
    collected = Collected(lambda rows: sum(row["answers"]["a"][0] for row in rows))
    collected.update(batch)
    batch[0]["answers"]["a"][0] = 100
    assert collected.compute() == 3


@pytest.mark.parametrize(
    ("rows", "function"),
    [
        (torch.arange(3.0), lambda values: values.view(-1)),
        (numpy.arange(3.0), lambda values: values[1:]),
        ([torch.ones(1), torch.ones(1)], lambda values: {"kept": values}),
    ],
)
def test_writing_into_a_result_does_not_change_the_samples(rows, function) -> None:
    collected = Collected(function)
    collected.update(rows)
    first = collected.compute()
    expected = str(first)
    for part in first["kept"] if isinstance(first, dict) else [first]:
        part[...] = 7.0
    assert str(collected.compute()) == expected


def test_a_function_that_writes_into_its_arguments_gives_another_value_the_next_time() -> None:
    collected = Collected(lambda values: float(values.add_(1).sum()))
    collected.update(torch.zeros(2))
    assert (collected.compute(), collected.compute()) == (2.0, 4.0)


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        (([1, 2], [3]), ([4], [5]), ([1, 2, 4], [3, 5])),
        ({"a": [1], "k": 2}, {"a": [3], "k": 2}, {"a": [1, 3], "k": 2}),
        ({"a": {"b": (1, 2)}}, {"a": {"b": (3,)}}, {"a": {"b": (1, 2, 3)}}),
        (("x", "y"), ("z",), ("x", "y", "z")),
    ],
)
def test_parts_of_an_argument_are_joined_one_by_one(first, second, joined) -> None:
    collected = Collected(lambda values: values)
    collected.update(first)
    collected.update(second)
    assert collected.compute() == joined


def test_parts_that_are_options_must_be_the_same() -> None:
    collected = Collected(lambda values: values)
    collected.update({"a": [1], "k": 2})
    collected.update({"a": [3], "k": 4})
    with pytest.raises(ValueError, match=r"argument 1\['k'\] differs between batches"):
        collected.compute()


def test_tables_stay_tables_and_options_are_compared_by_value() -> None:
    pandas = pytest.importorskip("pandas")
    collected = Collected(lambda table, option: (table.score.median(), option))
    for numbers in ([1.0, 2.0], [6.0]):
        collected.update(pandas.DataFrame({"score": numbers}), Option(numpy.arange(3)))
    value, option = collected.compute()
    assert value == 2.0
    assert option.levels.tolist() == [0, 1, 2]
    for named in (False, True):
        collected = Collected(lambda table: table.index.tolist())
        for start in (0, 2):
            rows = pandas.DataFrame({"score": [1.0, 2.0]})
            collected.update(rows.set_index(pandas.Index([start, start + 2])) if named else rows)
        assert collected.compute() == ([0, 2, 2, 4] if named else [0, 1, 2, 3])


@dataclasses.dataclass
class Option:
    levels: numpy.ndarray


def test_batches_of_other_shapes_are_refused_with_their_shapes() -> None:
    collected = Collected(lambda values: values)
    collected.update(torch.zeros(2, 3))
    collected.update(torch.zeros(2, 4))
    with pytest.raises(ValueError, match=r"argument 1 has the shapes \(2, 3\), \(2, 4\) in different batches"):
        collected.compute()


def test_a_result_that_holds_a_part_of_an_object_does_not_change_the_samples():
    collected = Collected(lambda rows: [{"about": row.about} for row in rows])
    collected.update([SimpleNamespace(about={"tools": ["search"]})])
    collected.compute()[0]["about"]["tools"][0] = "overwritten"
    assert collected.compute() == [{"about": {"tools": ["search"]}}]


@pytest.mark.parametrize(("short", "outcome"), [(False, "passed"), (True, "failed")])
def test_a_function_that_takes_its_data_by_name_alone(short: bool, outcome: str) -> None:
    def gap(*, preds: Any, target: Any) -> Any:
        return (preds - target)[: 2 if short else None].abs().mean()

    @ec.metric(inputs=es.regression().named("preds", "target"))
    def by_name() -> Any:
        return gap

    (cell,) = ec.run(by_name, select="EC208").cells
    assert cell.outcome == outcome, cell.reason

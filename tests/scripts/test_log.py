"""The log of a replay, and the values that it writes as source."""

from __future__ import annotations

import copy
import functools
import math
import re
import threading
import types
from typing import Any

import numpy
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_evalcheck.expectations.call_log import called, watched_by
from pytest_evalcheck.scripts import helpers
from pytest_evalcheck.scripts.literals import Unwritable, numbers_in
from pytest_evalcheck.scripts.log import CallLog, is_of_package
from pytest_evalcheck.scripts.text import needed


class Library:
    """Stands for code under test: it returns one object twice, and keeps what it is given."""

    def __init__(self) -> None:
        self.kept = torch.zeros(2)

    def result(self) -> torch.Tensor:
        return self.kept

    def add(self, value: torch.Tensor) -> None:
        self.kept += value


def lines(log: CallLog, text: str) -> list[str]:
    """Return the entries that a compared value needs."""
    return [entry.text for entry in needed(log.entries, numbers_in(text))]


def logged() -> CallLog:
    """Return a log to which this file is code under test."""
    return CallLog(lambda module: module.startswith("pytest_evalcheck"))


def test_each_call_has_a_result_of_its_own() -> None:
    """A script that took one object for one result would compare what was written into it, for ever."""
    log = logged()
    with watched_by(log):
        thing = called(Library)
        first = called(thing.result)
        called(first.copy_, torch.tensor([7.0, 7.0]))
        second = called(thing.result)
    assert first is second
    found = lines(log, log.find(second))
    assert [text.partition(">")[2] for text in found if "tensor" not in text] == [
        "",
        ".result()",
        ".copy_(<2>)",
        ".result()",
    ]


def test_a_result_that_was_written_into_is_copied() -> None:
    log = logged()
    with watched_by(log):
        thing = called(Library)
        result = called(thing.result)
        before = result.clone()
        called(result.add_, torch.ones(2))
    assert log.find(before) == "copy<1>"


def test_calls_that_have_nothing_to_do_with_a_value_are_left_out() -> None:
    log = logged()
    with watched_by(log):
        thing, other = called(Library), called(Library)
        called(other.add, torch.ones(2))
        called(thing.add, torch.ones(2))
        result = called(thing.result)
    assert len(lines(log, log.find(result))) == 4


def test_a_call_of_this_package_is_shown_as_the_calls_that_it_makes() -> None:
    log = CallLog(lambda module: module == __name__)
    kept: list[Any] = []

    def adapted(value: Any) -> Any:
        return called(copy.deepcopy, value)

    with watched_by(log):
        kept.append(called(copy.copy, [1.5]))
        result = called(adapted, kept[0])
    assert [entry.text for entry in log.entries if entry.shown][-1] == "deepcopy(<1>)"
    assert log.find(result) == f"<{log.entries[-1].number}>"


def test_an_error_is_a_result() -> None:
    log = logged()
    with watched_by(log):
        thing = called(Library)
        with pytest.raises(TypeError):
            called(thing.add, "text")
    assert isinstance(log.entries[-1].error, TypeError)
    assert log.find(log.entries[-1].error) == f"<{log.entries[-1].number}>"


def test_nothing_is_logged_of_another_thread() -> None:
    log = logged()
    with watched_by(log):
        thread = threading.Thread(target=called, args=(Library,))
        thread.start()
        thread.join()
    assert log.entries == []


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
def test_plain_values_survive(value: Any) -> None:
    log = CallLog(is_of_package)
    text = log.writer.text(value, "value").text
    while "<" in text and numbers_in(text):
        for number in numbers_in(text):
            text = text.replace(f"<{number}>", log.entries[number].text)
    assert repr(eval(text)) == repr(value)


SCALE = [2.0]


@pytest.mark.parametrize(
    "value",
    [
        re.compile("a+", re.IGNORECASE),
        types.MappingProxyType({"a": re.compile("b")}),
        types.MappingProxyType,
        functools.partial(lambda value, scale=tuple(SCALE), *, more=SCALE[0] + 1: (value * scale[0], more), 4),
    ],
    ids=["pattern", "mapping", "type", "defaults of a lambda"],
)
def test_a_value_of_the_standard_library_survives(value: Any) -> None:
    log = CallLog(is_of_package)
    made = log.writer.text(value, "value")
    text = made.text
    for number in sorted(numbers_in(text), reverse=True):
        text = text.replace(f"<{number}>", log.entries[number].text)
    names: dict[str, Any] = {}
    exec("\n".join(sorted(made.imports | frozenset().union(*(one.imports for one in log.entries)))), names)
    copied = eval(text, names)
    assert (
        (copied(), value()) == ((8.0, 3.0),) * 2
        if callable(value) and value is not types.MappingProxyType
        else (copied == value)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.bool])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 1, 2)])
def test_tensors_survive(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    log = CallLog(is_of_package)
    value = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    log.writer.text(value, "value")
    made = eval(log.entries[0].text)
    assert (made.dtype, made.shape) == (dtype, value.shape)
    assert torch.equal(made, value)


def test_special_numbers_survive() -> None:
    log = CallLog(is_of_package)
    log.writer.text(torch.tensor([math.nan, math.inf, -math.inf]), "value")
    log.writer.text(numpy.array([[math.nan, 1.0]]), "value")
    assert repr([eval(step.text) for step in log.entries]) == repr(
        [torch.tensor([math.nan, math.inf, -math.inf]), numpy.array([[math.nan, 1.0]])]
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.arange(5000), "a tensor of 5000 numbers"),
        (torch.eye(2).to_sparse(), "layout torch.sparse_coo"),
        (threading.Lock(), "an object of type _thread.lock"),
        (torch.nn.Linear(1, 1), "a model of type Linear that no recorded call made"),
    ],
)
def test_what_has_no_form_as_source_is_named(value: Any, words: str) -> None:
    with pytest.raises(Unwritable, match=words):
        CallLog(is_of_package).writer.text(value, "value")


def test_helpers_compare_as_the_suite_does() -> None:
    assert helpers.are_same(torch.tensor(0.5), 0.5, 0, 0)
    assert helpers.are_same({"a": [math.nan]}, {"a": [math.nan]}, 0, 0)
    assert not helpers.are_same(torch.zeros(2), torch.zeros(3), 1, 1)
    assert not helpers.are_same([], torch.zeros(0), 1, 1)
    assert not helpers.are_same(ValueError(), 1.0, 1, 1)
    assert helpers.are_same(ValueError("a"), ValueError("b"), 0, 0)
    assert helpers.visible({"a": torch.tensor([1.0, math.inf])})
    assert not helpers.visible([1.0, torch.zeros(2)])


def test_ranks_are_processes_of_one_group() -> None:
    def world(rank: int) -> Any:
        tensor = torch.tensor([float(rank + 1)])
        torch.distributed.all_reduce(tensor)
        if rank == 1:
            raise ValueError("no")
        return tensor.item()

    good = helpers.on_ranks(lambda rank: torch.distributed.get_rank() * 10 + rank, 2)
    assert good == [0, 11]
    first, second = helpers.on_ranks(world, 2, seconds=3)
    assert isinstance(second, RuntimeError)
    assert "rank 1: ValueError: no" in str(second)
    assert first == 3.0 or isinstance(first, Exception)

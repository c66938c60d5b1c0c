"""What a forward gave: copies, what belongs to a row, what is seen through padding, and what is written into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from wrapper_subjects import subject

from fixtures.gallery.wrappers_texts import LanguageModel, Tagger
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.kinds.wrapper.outputs import (
    Opaque,
    Padded,
    compare_shapes,
    leaves,
    nothing_in,
    row,
    rowwise,
    scalars,
    settled,
    write_into,
)


@dataclass
class Record:
    logits: Any
    note: Any = None


def test_settled_outputs_are_plain_and_their_own() -> None:
    tensor, array = torch.ones(2), np.ones(2)
    nest = {"a": (tensor, [array]), "b": Record(tensor, None), "c": "text", "d": object(), "e": iter(())}
    found = settled(nest)
    tensor.zero_()
    array[:] = 0
    assert found["a"][0].tolist() == [1, 1]
    assert found["a"][1][0].tolist() == [1, 1]
    assert found["b"]["logits"].tolist() == [1, 1]
    assert (found["b"]["note"], found["c"], found["d"], found["e"]) == (None, "text", "a object", "a tuple_iterator")
    assert isinstance(found["d"], Opaque)
    assert [path for path, _ in leaves(found)] == [
        "outputs['a'][0]",
        "outputs['a'][1][0]",
        "outputs['b']['logits']",
        "outputs['c']",
        "outputs['d']",
        "outputs['e']",
    ]


def test_nothing_is_in_objects_of_types_that_we_do_not_know() -> None:
    assert nothing_in(settled({"a": object(), "b": [None]}))
    assert not nothing_in(settled({"a": object(), "b": [0.5]}))


def test_rows_and_scalars_are_told_by_their_lengths() -> None:
    outputs = {
        "logits": torch.zeros(2, 3),
        "loss": torch.tensor(0.5),
        "texts": ["a", "b"],
        "n": 4,
        "bias": torch.ones(3),
    }
    assert list(rowwise(outputs, 2)) == ["outputs['logits']", "outputs['texts']"]
    assert row(rowwise(outputs, 2), 1)["outputs['texts']"] == "b"
    assert list(row(rowwise(outputs, 2), 1, of={"outputs['texts']": 0})) == ["outputs['texts']"]
    assert sorted(scalars(outputs)) == ["outputs['loss']", "outputs['n']"]


def _writable(outputs: Any) -> list[Any]:
    return [value.tolist() if hasattr(value, "tolist") else value for _, value in leaves(settled(outputs))]


def test_all_outputs_are_written_into() -> None:
    with torch.inference_mode():
        inferred = torch.zeros(2)
    outputs = {
        "tensor": torch.zeros(2),
        "record": Record(torch.zeros(2)),
        "pair": (torch.zeros(1), np.zeros(1)),
        "inferred": inferred,
        "expanded": torch.zeros(1).expand(3),
        "parameter": nn.Parameter(torch.zeros(2)),
        "empty": torch.zeros(0, 2).expand(3, 0, 2),
        "texts": ["a"],
        "none": None,
    }
    before = _writable(outputs)
    write_into(outputs)
    unchanged = [a for a, b in zip(before, _writable(outputs), strict=True) if a == b]
    assert unchanged == [[[], [], []]]


def _padded(logits: Any, *, widths: tuple[int, ...] = (2,), side: str = "right", **more: Any) -> Padded:
    return Padded(rows={"logits": torch.as_tensor(logits), **more}, batch={}, widths=widths, side=side)


def test_a_row_is_seen_at_its_own_positions() -> None:
    least = _padded([[1, 2], [3, 0]])
    right = _padded([[1, 2, 0, 0], [3, 0, 0, 0]], widths=(4,))
    left = _padded([[0, 0, 1, 2], [0, 0, 0, 3]], widths=(4,), side="left")
    for place, (length, own) in enumerate([(2, [1, 2]), (1, [3])]):
        for seen, beside in ((least, right), (right, least), (left, least)):
            assert seen.own(place, (length,), beside)["logits"].tolist() == own


def test_what_is_as_long_as_a_row_by_chance_stays_whole() -> None:
    least = _padded([[1, 2], [3, 0]], sentence=torch.tensor([[5, 6], [7, 8]]), bias=torch.tensor([9, 9]))
    more = _padded([[1, 2, 0], [3, 0, 0], [0, 0, 0]], widths=(3,), sentence=torch.tensor([[5, 6], [7, 8], [0, 0]]))
    for seen, beside in ((least, more), (more, least)):
        own = seen.own(1, (1,), beside)
        assert sorted(own) == ["logits", "sentence"]
        assert (own["logits"].tolist(), own["sentence"].tolist()) == ([3], [7, 8])


def test_an_output_without_positions_stays_whole() -> None:
    assert _padded([[1, 2]]).own(0, None, _padded([[1, 2]], widths=(4,)))["logits"].tolist() == [1, 2]


@pytest.mark.parametrize("made", [LanguageModel, Tagger])
def test_what_is_seen_through_padding_is_what_is_seen_without(made: Any) -> None:
    wrapper = subject(made)
    samples: list[Any] = [((1, 2, 3), 1), ((4,), 0)] if made is LanguageModel else [((1, 2), (0, None)), ((3,), (2,))]
    least = wrapper.through_padding(samples, "")
    more = wrapper.through_padding(samples, "", extra=2, blank=True)
    assert isinstance(least, Padded)
    assert isinstance(more, Padded)
    assert more.widths == (least.widths[0] + 2,)
    assert [len(value) for value in more.rows.values()] == [3] * len(more.rows)
    own, wide = (wrapper.unpadded(samples, *pair) for pair in ((least, more), (more, least)))
    assert [len(one["outputs['logits']"]) for one in own["rows"]] == [len(sample[0]) for sample in samples]
    for a, b in zip(own["rows"], wide["rows"], strict=True):
        torch.testing.assert_close(a, b)
    assert {"outputs['loss']", "cross entropy", "accuracy"} == set(own) - {"rows"}


def test_an_error_is_seen_through_padding() -> None:
    wrapper = subject(Tagger, forward=lambda batch: 1 / 0)
    found = wrapper.through_padding([((1,), (0,))], "")
    assert isinstance(found, Raised)
    fine = _padded([[1, 2]])
    assert wrapper.unpadded([], found, fine) is found
    assert wrapper.unpadded([], fine, found) == {}


@pytest.mark.parametrize(
    ("many", "one", "said"),
    [
        (torch.zeros(2, 3), torch.zeros(3), "a tensor of shape (3,)"),
        (torch.zeros(2), torch.zeros(()), "a tensor of shape ()"),
        (torch.zeros(2, 3), torch.zeros(1, 4), "a tensor of shape (1, 4)"),
        ([1.0, 2.0], 1.0, "outputs"),
        (["a", "b"], "a", "a str of shape ()"),
        ({"a": torch.zeros(2), "b": torch.zeros(2)}, {"a": torch.zeros(1)}, "outputs['a']"),
    ],
)
def test_a_batch_of_one_of_another_shape_is_told(many: Any, one: Any, said: str) -> None:
    with pytest.raises(CheckFailure) as caught:
        compare_shapes(many, one, 2, "outputs")
    assert caught.value.actual == said


@pytest.mark.parametrize(
    ("many", "one"),
    [
        (torch.zeros(2, 3), torch.zeros(1, 3)),
        (torch.zeros(8, 3), torch.zeros(4, 3)),  # tokens of all rows
        (torch.zeros(5), torch.zeros(5)),  # a weight for each class
        (torch.tensor(0.5), torch.tensor(0.25)),
        (["a", "b"], ["a"]),
    ],
)
def test_a_batch_of_one_of_the_same_shape_is_fine(many: Any, one: Any) -> None:
    compare_shapes(many, one, 2, "outputs")

"""Outputs of a forward: copies, entries of rows, results with padding, and values that are overwritten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from wrapper_subjects import subject

import pytest_evalcheck as ec
from fixtures.gallery.wrappers_texts import LanguageModel, Tagger
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.kinds.common.tensors import overwrite
from pytest_evalcheck.kinds.wrapper.outputs import (
    Opaque,
    PaddedOutputs,
    compare_shapes,
    has_no_values,
    leaves,
    plain_copy,
    row,
    rowwise,
    scalars,
)


@dataclass
class Record:
    logits: Any
    note: Any = None


@pytest.mark.parametrize(("unit", "outcome"), [(3e-5, "passed"), (1e-3, "failed")])
def test_rounding_is_measured_by_the_largest_output(unit: float, outcome: str) -> None:
    def forward(batch: Any) -> Any:
        """A large logit, and one near 0 that differs by so much from batch to batch, as sums in another order do."""
        ids = batch["input_ids"]
        small = torch.full(ids.shape, 0.05) + unit * ((ids.shape[0] > 1) + ids.shape[1] % 3)
        return {"logits": torch.stack([torch.full(ids.shape, 30.0) + ids, small], -1)}

    @ec.wrapper(inputs=es.causal_lm(vocab=5))
    def large() -> ec.Wrapper:
        return ec.Wrapper(forward=forward, model=nn.Identity())

    report = ec.run(large, select="EC107,EC108,EC112", device="cpu", effort="quick")
    assert {cell.code: cell.outcome for cell in report.cells} == dict.fromkeys(["EC107", "EC108", "EC112"], outcome)


def test_plain_copies_have_plain_containers_and_share_no_memory() -> None:
    tensor, array = torch.ones(2), np.ones(2)
    nest = {"a": (tensor, [array]), "b": Record(tensor, None), "c": "text", "d": object(), "e": iter(())}
    result = plain_copy(nest)
    tensor.zero_()
    array[:] = 0
    assert result["a"][0].tolist() == [1, 1]
    assert result["a"][1][0].tolist() == [1, 1]
    assert result["b"]["logits"].tolist() == [1, 1]
    assert (result["b"]["note"], result["c"], result["d"], result["e"]) == (
        None,
        "text",
        "a object",
        "a tuple_iterator",
    )
    assert isinstance(result["d"], Opaque)
    assert [path for path, _ in leaves(result)] == [
        "outputs['a'][0]",
        "outputs['a'][1][0]",
        "outputs['b']['logits']",
        "outputs['c']",
        "outputs['d']",
        "outputs['e']",
    ]


def test_objects_of_unknown_types_have_no_values() -> None:
    assert has_no_values(plain_copy({"a": object(), "b": [None]}))
    assert not has_no_values(plain_copy({"a": object(), "b": [0.5]}))


def test_rows_and_scalars_are_found_by_their_lengths() -> None:
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
    return [value.tolist() if hasattr(value, "tolist") else value for _, value in leaves(plain_copy(outputs))]


def test_all_outputs_are_overwritten() -> None:
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
    overwrite(outputs)
    unchanged = [a for a, b in zip(before, _writable(outputs), strict=True) if a == b]
    assert unchanged == [[[], [], []]]


def _padded(logits: Any, *, widths: tuple[int, ...] = (2,), side: str = "right", **more: Any) -> PaddedOutputs:
    return PaddedOutputs(rows={"logits": torch.as_tensor(logits), **more}, batch={}, widths=widths, side=side)


def test_a_row_keeps_only_its_own_positions() -> None:
    least = _padded([[1, 2], [3, 0]])
    right = _padded([[1, 2, 0, 0], [3, 0, 0, 0]], widths=(4,))
    left = _padded([[0, 0, 1, 2], [0, 0, 0, 3]], widths=(4,), side="left")
    for index, (length, expected) in enumerate([(2, [1, 2]), (1, [3])]):
        for outputs, other in ((least, right), (right, least), (left, least)):
            assert outputs.unpadded(index, (length,), other)["logits"].tolist() == expected


def test_a_size_that_is_equal_by_coincidence_is_not_cut() -> None:
    least = _padded([[1, 2], [3, 0]], sentence=torch.tensor([[5, 6], [7, 8]]), bias=torch.tensor([9, 9]))
    more = _padded([[1, 2, 0], [3, 0, 0], [0, 0, 0]], widths=(3,), sentence=torch.tensor([[5, 6], [7, 8], [0, 0]]))
    for outputs, other in ((least, more), (more, least)):
        unpadded = outputs.unpadded(1, (1,), other)
        assert sorted(unpadded) == ["logits", "sentence"]
        assert (unpadded["logits"].tolist(), unpadded["sentence"].tolist()) == ([3], [7, 8])


def test_an_output_without_positions_is_not_cut() -> None:
    assert _padded([[1, 2]]).unpadded(0, None, _padded([[1, 2]], widths=(4,)))["logits"].tolist() == [1, 2]


@pytest.mark.parametrize("made", [LanguageModel, Tagger])
def test_results_with_padding_are_equal_to_those_without(made: Any) -> None:
    wrapper = subject(made)
    samples: list[Any] = [((1, 2, 3), 1), ((4,), 0)] if made is LanguageModel else [((1, 2), (0, None)), ((3,), (2,))]
    least = wrapper.padded_outputs(samples, "")
    more = wrapper.padded_outputs(samples, "", extra=2, blank=True)
    assert isinstance(least, PaddedOutputs)
    assert isinstance(more, PaddedOutputs)
    assert more.widths == (least.widths[0] + 2,)
    assert [len(value) for value in more.rows.values()] == [3] * len(more.rows)
    unpadded, wide = (wrapper.unpadded(samples, *pair) for pair in ((least, more), (more, least)))
    assert [len(values["outputs['logits']"]) for values in unpadded["rows"]] == [len(sample[0]) for sample in samples]
    for a, b in zip(unpadded["rows"], wide["rows"], strict=True):
        torch.testing.assert_close(a, b)
    assert {"outputs['loss']", "cross entropy", "accuracy"} == set(unpadded) - {"rows"}


def test_an_error_with_padding_is_the_result() -> None:
    wrapper = subject(Tagger, forward=lambda batch: 1 / 0)
    result = wrapper.padded_outputs([((1,), (0,))], "")
    assert isinstance(result, Raised)
    fine = _padded([[1, 2]])
    assert wrapper.unpadded([], result, fine) is result
    assert wrapper.unpadded([], fine, result) == {}


@pytest.mark.parametrize(
    ("many", "one", "actual"),
    [
        (torch.zeros(2, 3), torch.zeros(3), "a tensor of shape (3,)"),
        (torch.zeros(2), torch.zeros(()), "a tensor of shape ()"),
        (torch.zeros(2, 3), torch.zeros(1, 4), "a tensor of shape (1, 4)"),
        ([1.0, 2.0], 1.0, "outputs"),
        (["a", "b"], "a", "a str of shape ()"),
        ({"a": torch.zeros(2), "b": torch.zeros(2)}, {"a": torch.zeros(1)}, "outputs['a']"),
    ],
)
def test_a_batch_of_one_of_another_shape_is_reported(many: Any, one: Any, actual: str) -> None:
    with pytest.raises(CheckFailure) as caught:
        compare_shapes(many, one, 2, "outputs")
    assert caught.value.actual == actual


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

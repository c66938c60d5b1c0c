"""`split_labels`, `shift_labels` and `require_batch`: nothing copied, nothing written, and errors that name the field."""

from __future__ import annotations

import collections
import dataclasses
import types
from collections import OrderedDict, UserDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from pytest_evalcheck.fixes import MissingField, require_batch, shift_labels, split_labels


@dataclasses.dataclass
class Rows:
    ids: Tensor
    labels: Tensor | None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    ids: Tensor
    labels: Tensor | None


class Named(NamedTuple):
    ids: Tensor
    labels: Tensor | None


class Shelf(collections.abc.MutableMapping):
    """A mapping whose shallow copy shares its storage."""

    def __init__(self, content: Mapping[str, Any] = types.MappingProxyType({})) -> None:
        self.held = dict(content)

    def __getitem__(self, key: str) -> Any:
        return self.held[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.held[key] = value

    def __delitem__(self, key: str) -> None:
        del self.held[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.held)

    def __len__(self) -> int:
        return len(self.held)


class Strange(Shelf):
    def __init__(self, *, content: Mapping[str, Any]) -> None:
        super().__init__(content)


def fields() -> dict[str, Tensor]:
    return {"ids": torch.tensor([[1, 2], [3, 4]]), "labels": torch.tensor([[5, 6], [7, 8]])}


MAPPINGS = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "defaultdict": lambda content: collections.defaultdict(int, content),
    "UserDict": UserDict,
    "shelf": Shelf,
    "read-only": types.MappingProxyType,
}
RECORDS = {
    "dataclass": lambda content: Rows(**content),
    "frozen": lambda content: Frozen(**content),
    "namedtuple": lambda content: Named(**content),
}


@pytest.mark.parametrize("make", MAPPINGS.values(), ids=MAPPINGS)
def test_a_mapping_keeps_its_type_and_its_tensors_and_the_callers_stays_whole(make: Any):
    content = {"labels": fields()["labels"], **fields(), "mask": torch.ones(2, 2)}
    batch = make(content)
    inputs, labels = split_labels(batch)
    assert type(inputs) is type(batch)
    assert list(inputs) == ["ids", "mask"]
    assert all(inputs[key] is content[key] for key in inputs)
    assert labels is content["labels"]
    assert list(batch) == list(content)
    assert all(batch[key] is content[key] for key in content)


@pytest.mark.parametrize("make", [MAPPINGS[name] for name in MAPPINGS if name != "read-only"])
def test_the_inputs_of_a_mapping_are_a_container_of_their_own(make: Any):
    batch = make(fields())
    inputs, _ = split_labels(batch)
    inputs["decoder_input_ids"] = inputs.pop("ids")
    assert list(batch) == ["ids", "labels"]


@pytest.mark.parametrize("make", RECORDS.values(), ids=RECORDS)
def test_a_record_keeps_its_type_and_has_none_for_labels(make: Any):
    content = fields()
    batch = make(content)
    inputs, labels = split_labels(batch)
    assert type(inputs) is type(batch)
    assert (inputs.labels, inputs.ids, labels) == (None, content["ids"], content["labels"])
    assert inputs.ids is batch.ids
    assert batch.labels is content["labels"]


@pytest.mark.parametrize("kind", [tuple, list])
def test_the_last_element_of_a_tuple_or_list_is_the_labels(kind: Any):
    content = [torch.zeros(2, 3), torch.ones(2), torch.tensor([0, 1])]
    batch = kind(content)
    inputs, labels = split_labels(batch)
    assert type(inputs) is kind
    assert [id(each) for each in inputs] == [id(each) for each in content[:2]]
    assert labels is content[2]
    assert len(batch) == 3


def test_the_containers_of_transformers_keep_their_type():
    transformers = pytest.importorskip("transformers")
    from transformers.modeling_outputs import TokenClassifierOutput

    batch = transformers.BatchEncoding(fields())
    inputs, labels = split_labels(batch)
    assert type(inputs) is transformers.BatchEncoding
    assert (list(inputs), list(batch)) == (["ids"], ["ids", "labels"])
    assert inputs["ids"] is batch["ids"]
    assert labels is batch["labels"]
    # Nothing can be deleted from a ModelOutput.
    output = TokenClassifierOutput(loss=torch.tensor(1.0), logits=torch.zeros(2, 3))
    rest, loss = split_labels(output, name="loss")
    assert type(rest) is TokenClassifierOutput
    assert (list(rest), list(output), loss.item()) == (["logits"], ["loss", "logits"], 1.0)


@pytest.mark.parametrize(
    ("batch", "error", "text"),
    [
        (7, TypeError, "batch: expected a mapping such as a dict or a BatchEncoding, .* got int"),
        (Rows, TypeError, "batch: expected a mapping .* got type"),
        (None, TypeError, "got NoneType"),
        ("labels", TypeError, "got str"),
        ({}, ValueError, "batch: expected fields, got an empty dict"),
        ((torch.ones(2),), ValueError, r"batch: expected \(inputs, labels\), got a tuple of 1"),
        ({"ids": 1, "lables": 2}, KeyError, "expected a field 'labels', got 'ids', 'lables'; did you mean 'lables'?"),
        ({"x": 1}, KeyError, "expected a field 'labels', got 'x'$"),
        ({"ids": 1, "labels": None}, KeyError, r"batch\['labels'\]: expected a value, got None"),
        (Rows(torch.ones(2), None), KeyError, r"batch\.labels: expected a value, got None"),
        ((torch.ones(2), None), KeyError, r"batch\[-1\]: expected a value, got None"),
        (Strange(content=fields()), TypeError, r"batch: expected a container that Strange\(content\) makes, got "),
    ],
)
def test_what_has_no_labels_is_refused_by_name(batch: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text) as caught:
        split_labels(batch)
    assert not isinstance(caught.value, KeyError) or isinstance(caught.value, MissingField)


def test_a_missing_field_reads_as_a_sentence_and_not_as_a_quoted_string():
    with pytest.raises(MissingField) as caught:
        split_labels({"label": 1})
    assert str(caught.value) == "batch: expected a field 'labels', got 'label'; did you mean 'label'?"
    assert str(MissingField()) == ""


@given(rows=st.lists(st.lists(st.integers(-100, 50), min_size=3, max_size=3), max_size=4))
def test_shifting_gives_each_position_the_next_label_and_leaves_the_labels_alone(rows: list[list[int]]):
    labels = torch.tensor(rows, dtype=torch.int64).reshape(len(rows), 3)
    version = labels._version
    result = shift_labels(labels)
    assert result.tolist() == [[*row[1:], -100] for row in rows]
    assert (labels.tolist(), labels._version) == (rows, version)
    assert torch.equal(shift_labels(labels), result)


@pytest.mark.parametrize("tokens", [0, 1, 2])
def test_the_result_is_always_new_memory(tokens: int):
    labels = torch.arange(2 * tokens).reshape(2, tokens)
    result = shift_labels(labels)
    result.fill_(9)
    assert labels.tolist() == torch.arange(2 * tokens).reshape(2, tokens).tolist()


def test_views_expanded_labels_other_dtypes_and_further_dimensions_are_shifted():
    wide = torch.arange(12).reshape(3, 4)
    assert shift_labels(wide[:, ::2]).tolist() == [[2, -100], [6, -100], [10, -100]]
    assert shift_labels(wide.T).is_contiguous()
    assert shift_labels(wide[:1].expand(2, 4), ignore_index=0).tolist() == [[1, 2, 3, 0]] * 2
    assert shift_labels(wide.to(torch.int32)).dtype == torch.int32
    assert shift_labels(torch.tensor([[[1, 2], [3, 4]]])).tolist() == [[[3, 4], [-100, -100]]]


@pytest.mark.parametrize(
    ("labels", "error", "text"),
    [
        ([[1, 2]], TypeError, "labels: expected a tensor of integers, got list"),
        (None, TypeError, "got NoneType"),
        (torch.ones(2, 3), TypeError, "expected a tensor of integers such as torch.int64, got torch.float32"),
        (torch.ones(2, 3, dtype=torch.bool), TypeError, "got torch.bool"),
        (torch.tensor([1, 2]), ValueError, r"labels: expected the shape \(rows, tokens, ...\), got \(2,\)"),
        (torch.ones(2, 3, dtype=torch.uint8), ValueError, "ignore_index: expected a value that torch.uint8 can hold"),
    ],
)
def test_what_cannot_be_shifted_is_refused(labels: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text):
        shift_labels(labels)


def test_a_good_batch_gives_its_number_of_rows():
    mask = torch.ones(2, 2)
    assert require_batch({**fields(), "mask": mask, "scale": torch.tensor(1.0), "mode": "icl_task"}) == 2
    assert require_batch({**fields(), "nested": {"mask": mask}}, integers=["labels", "absent"]) == 2
    assert require_batch((mask, torch.tensor([0, 1])), integers=["labels"], rows=["labels"]) == 2
    assert require_batch(Rows(**fields())) == 2
    assert require_batch({"labels": "a"}) == 1
    # A field that has no rows is not compared where the ones that have are named.
    assert require_batch({**fields(), "boxes": torch.ones(9, 4)}, rows=["ids", "labels", "absent"]) == 2
    assert require_batch({"ids": mask, "labels": ["a", "b"]}, rows=["ids", "labels"]) == 2
    assert require_batch({"ids": mask, "labels": "abc"}, rows=["ids", "labels"]) == 2


@pytest.mark.parametrize(
    ("batch", "options", "error", "text"),
    [
        ([1], {}, ValueError, "got a list of 1"),
        ({"ids": torch.ones(3)}, {}, KeyError, "expected a field 'labels', got 'ids'"),
        (fields(), {"fields": ["labels", "idss"]}, KeyError, "'idss', .* did you mean 'ids'?"),
        (
            {**fields(), "mask": torch.ones(3, 2)},
            {},
            ValueError,
            r"batch\['mask'\]: expected 2 rows as in batch\['ids'\], got 3",
        ),
        ({"ids": torch.ones(3, 2), "labels": torch.ones(2)}, {}, ValueError, r"batch\['labels'\]: expected 3 rows"),
        (
            ({"ids": torch.ones(3, 2), "mask": torch.ones(3, 2)}, torch.ones(4)),
            {},
            ValueError,
            r"batch\[1\]: expected 3 rows as in batch\[0\]\['ids'\], got 4",
        ),
        (Rows(torch.ones(3), torch.ones(2)), {}, ValueError, r"batch\.labels: expected 3 rows as in batch\.ids, got 2"),
        ({"ids": torch.ones(2), "labels": ["a"]}, {"rows": ["ids", "labels"]}, ValueError, "expected 2 rows"),
        ({"ids": torch.ones(0, 2), "labels": torch.ones(0)}, {}, ValueError, "expected at least one row, got none"),
        (
            {"labels": torch.ones(2)},
            {"integers": ["labels"]},
            TypeError,
            r"batch\['labels'\]: expected a tensor of integers such as torch.int64, got torch.float32",
        ),
        ({"labels": [1]}, {"integers": ["labels"]}, TypeError, r"batch\['labels'\]: .* got list"),
        ((torch.ones(2), torch.ones(2)), {"integers": ["labels"]}, TypeError, r"batch\[-1\]: expected a tensor of int"),
    ],
)
def test_a_bad_batch_is_refused_by_field_and_stays_as_it_is(batch: Any, options: Any, error: Any, text: str):
    before = repr(batch)
    with pytest.raises(error, match=text):
        require_batch(batch, **options)
    assert repr(batch) == before

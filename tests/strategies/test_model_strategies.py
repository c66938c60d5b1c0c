"""Samples of models with a head: what they collate to, how they are padded, and what they come in."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, UserDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from pytest_evalcheck import strategies as es
from pytest_evalcheck.reports.case_codec import is_plain
from pytest_evalcheck.strategies import Padding, SampleStrategy
from pytest_evalcheck.strategies.samples import CONTAINERS, to_container

BOTH: Any = ("right", "left")
ALL: dict[str, SampleStrategy] = {
    "causal LM": es.causal_lm(vocab=9, sides=BOTH),
    "causal LM with positions": es.causal_lm(vocab=9, sides=BOTH, position_ids=True),
    "masked LM": es.masked_lm(vocab=9),
    "token classification": es.token_classification(vocab=9, classes=3),
    "sequence classification": es.sequence_classification(vocab=9, classes=3, sides=BOTH),
    "sequence classification with a blank row": es.sequence_classification(vocab=9, classes=3, ignore_index=-100),
    "multiple choice": es.multiple_choice(vocab=9, choices=2),
    "sequence to sequence": es.sequence_to_sequence(vocab=9),
    "images": es.images(classes=3, shape=(3, 2, 5)),
}
every_kind = pytest.mark.parametrize("inputs", ALL.values(), ids=ALL)
light = settings(max_examples=30, suppress_health_check=list(HealthCheck), deadline=None)


def shapes(batch: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in batch.items()}


def longest(rows: list[Any], place: int = 0) -> int:
    return max(len(row[place]) for row in rows)


SHAPES: dict[str, Callable[[list[Any]], dict[str, tuple[int, ...]]]] = {
    "masked LM": lambda rows: dict.fromkeys(("input_ids", "attention_mask", "labels"), (len(rows), longest(rows))),
    "sequence classification": lambda rows: {
        **dict.fromkeys(("input_ids", "attention_mask"), (len(rows), longest(rows))),
        "labels": (len(rows),),
    },
    "multiple choice": lambda rows: {
        **dict.fromkeys(
            ("input_ids", "attention_mask"), (len(rows), 2, max(len(ids) for row in rows for ids in row[0]))
        ),
        "labels": (len(rows),),
    },
    "sequence to sequence": lambda rows: {
        **dict.fromkeys(("input_ids", "attention_mask"), (len(rows), longest(rows))),
        "labels": (len(rows), longest(rows, 1)),
    },
    "images": lambda rows: {"pixel_values": (len(rows), 3, 2, 5), "labels": (len(rows),)},
}
SHAPES |= dict.fromkeys(("causal LM", "token classification"), SHAPES["masked LM"])
SHAPES["sequence classification with a blank row"] = SHAPES["sequence classification"]
SHAPES["causal LM with positions"] = lambda rows: {
    **dict.fromkeys(("input_ids", "attention_mask", "position_ids", "labels"), (len(rows), longest(rows)))
}


@pytest.mark.parametrize("name", ALL)
def test_batches_have_the_shapes_and_dtypes_of_the_docstring(name: str) -> None:
    inputs = ALL[name]

    @light
    @given(inputs.rows(min_size=1, max_size=3))
    def check(rows: list[Any]) -> None:
        assert is_plain(rows)
        batch = inputs.collate(rows)
        assert shapes(batch) == SHAPES[name](rows)
        pixels = {"pixel_values"} & set(batch)
        assert all(batch[field].dtype == (torch.float32 if field in pixels else torch.int64) for field in batch)
        for field in pixels:
            assert batch[field].abs().max() <= 1

    check()


@every_kind
def test_labels_are_the_field_that_is_named(inputs: SampleStrategy) -> None:
    row = find(inputs.sample, lambda _: True, settings=settings(database=None, phases=[Phase.generate]))
    assert inputs.labels in inputs.collate([row])


@pytest.mark.parametrize(
    ("made", "row", "labels"),
    [
        (es.causal_lm(vocab=9), ((5, 6, 7), 1), [-100, 6, 7]),
        (es.causal_lm(vocab=9, ignore_index=-1), ((5, 6, 7), 2), [-1, -1, 7]),
        (es.masked_lm(vocab=9), ((4, 1, 3), (None, 8, None)), [-100, 8, -100]),
        (es.token_classification(vocab=9, classes=3), ((4, 5), (2, None)), [2, -100]),
        (es.token_classification(vocab=9, classes=3, ignore_index=7), ((4, 5), (2, None)), [2, 7]),
        (es.sequence_to_sequence(vocab=9), ((4,), (5, 6)), [5, 6]),
    ],
)
def test_labels_that_do_not_count_are_the_ignored_ones(made: SampleStrategy, row: Any, labels: list[int]) -> None:
    assert made.collate([row])["labels"].tolist() == [labels]


def test_only_what_is_masked_has_a_label() -> None:
    @light
    @given(es.masked_lm(vocab=9, mask=2).sample)
    def check(row: Any) -> None:
        assert all((label is not None) == (token == 2) for token, label in zip(*row, strict=True))
        assert all(label is None or 2 < label < 9 for label in row[1])

    check()


PADDED = {name: made for name, made in ALL.items() if made.padding}


@pytest.mark.parametrize("name", PADDED)
def test_padding_goes_where_it_is_told_and_is_masked(name: str) -> None:
    inputs, padding = PADDED[name], PADDED[name].padding
    assert padding is not None

    @light
    @given(inputs.rows(min_size=1, max_size=3), st.sampled_from(padding.sides), st.integers(0, 3))
    def check(rows: list[Any], side: Any, extra: int) -> None:
        least = inputs.collate(rows)
        widths = tuple(width + extra for width in padding.widths(rows))
        wide = padding.collate(rows, side, widths)
        assert wide["input_ids"].shape[-1] == widths[0]
        mask = wide["attention_mask"].bool()
        assert torch.equal(wide["input_ids"][mask], least["input_ids"][least["attention_mask"].bool()])
        assert not wide["input_ids"][~mask].any()
        assert (wide["input_ids"][mask] > 0).all()
        steps = mask.int().diff(dim=-1)
        assert (steps <= 0).all() if side == "right" else (steps >= 0).all()
        if wide["labels"].dim() > 1:
            kept = least["labels"] != -100
            assert torch.equal(wide["labels"][wide["labels"] != -100], least["labels"][kept])

    check()


def test_positions_are_counted_from_the_first_real_token() -> None:
    padding = ALL["causal LM with positions"].padding
    assert padding is not None
    batch = padding.collate([((5, 6), 0), ((5, 6, 7), 0)], "left", (4,))
    assert batch["attention_mask"].tolist() == [[0, 0, 1, 1], [0, 1, 1, 1]]
    assert batch["position_ids"].tolist() == [[0, 0, 0, 1], [0, 0, 1, 2]]


@pytest.mark.parametrize("name", PADDED)
def test_a_blank_row_is_padding_alone_and_its_labels_do_not_count(name: str) -> None:
    padding = PADDED[name].padding
    assert padding is not None
    if padding.blank is None:
        assert name in ("sequence classification", "multiple choice")  # a label of theirs always counts
        return
    batch = padding.collate([padding.blank], "right", tuple(3 for _ in padding.widths([padding.blank])))
    assert not batch["attention_mask"].any()
    assert (batch["labels"] == -100).all()


@pytest.mark.parametrize("name", PADDED)
def test_lengths_are_those_of_the_sample(name: str) -> None:
    inputs, padding = PADDED[name], PADDED[name].padding
    assert padding is not None
    if padding.lengths is None:
        assert SHAPES[name]([find(inputs.sample, lambda _: True)])["labels"] == (1,)
        return

    @light
    @given(inputs.sample)
    def check(row: Any) -> None:
        assert padding.lengths is not None
        assert padding.lengths(row) == padding.widths([row])

    check()


ROWS = [((4, 5), 0), ((6,), 0)]


@pytest.mark.parametrize(
    ("container", "kind"),
    [
        ("dict", dict),
        ("OrderedDict", OrderedDict),
        ("UserDict", UserDict),
        ("tuple", tuple),
        ("list", list),
        ("nested", dict),
    ],
)
def test_containers_are_of_their_kind(container: str, kind: type) -> None:
    fields = es.causal_lm(vocab=9).collate(ROWS)
    made = to_container(fields, container)
    assert type(made) is kind
    if container == "nested":
        assert list(made) == ["inputs", "labels"]
        assert list(made["inputs"]) == ["input_ids", "attention_mask"]
        made = {**made["inputs"], "labels": made["labels"]}
    values = made if isinstance(made, (tuple, list)) else [made[name] for name in fields]
    assert all(a is b for a, b in zip(values, fields.values(), strict=True))


def test_a_dataclass_has_the_fields_of_the_batch() -> None:
    fields = es.causal_lm(vocab=9).collate(ROWS)
    made = to_container(fields, "dataclass")
    assert [field.name for field in dataclasses.fields(made)] == list(fields)
    assert all(getattr(made, name) is value for name, value in fields.items())


def test_a_batch_encoding_is_one_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    fields = es.causal_lm(vocab=9).collate(ROWS)
    made = to_container(fields, "BatchEncoding")
    assert isinstance(made, transformers.BatchEncoding)
    assert all(made[name] is value for name, value in fields.items())


def test_a_batch_that_is_no_dict_stays_what_it_is() -> None:
    batch = (torch.zeros(1), torch.zeros(1))
    assert all(to_container(batch, container) is batch for container in CONTAINERS)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: es.causal_lm(vocab=2), "vocab=2, max_length=5; expected at least 3 ids"),
        (lambda: es.causal_lm(vocab=9, max_length=0), "max_length=0; expected at least 3 ids and a length of 1"),
        (lambda: es.causal_lm(vocab=9, containers=("UserDcit",)), "container 'UserDcit' is none of .*mean 'UserDict'"),
        (lambda: es.images(classes=3, containers=()), r"containers=\(\); expected a tuple of dict, "),
        (lambda: es.images(classes=3, containers="tuple"), "containers='tuple'; expected a tuple of dict, "),
    ],
)
def test_parameters_are_validated(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_samples_of_your_own_may_be_padded() -> None:
    def collate(rows: Any, side: str, widths: tuple[int, ...]) -> dict[str, Any]:
        lines = [[*row, *[0] * (widths[0] - len(row))] for row in rows]
        return {"x": torch.tensor(lines[:: -1 if side == "left" else 1])}

    padding = Padding(widths=lambda rows: (max(map(len, rows)),), collate=collate)
    made = es.samples(st.lists(st.integers(1, 3), min_size=1).map(tuple), collate=padding.least, padding=padding)
    assert made.collate([(1, 2), (3,)])["x"].tolist() == [[1, 2], [3, 0]]

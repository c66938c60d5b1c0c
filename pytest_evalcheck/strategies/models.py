"""Samples of models with a head: token ids or pixels, and labels.

Every batch is a dict of ``input_ids``, ``attention_mask`` and ``labels`` (images: ``pixel_values`` and ``labels``) of
int64, unless ``containers`` names others. Ids start at 1, since 0 is the padding.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.classification import FEW_PIXELS
from pytest_evalcheck.strategies.samples import (
    Padding,
    Sample,
    SampleStrategy,
    Side,
    float_tensor,
    integer_tensor,
    padded,
)

_MAPPINGS = ("dict", "UserDict")
_PAD = 0


def causal_lm(
    *,
    vocab: int,
    max_length: int = 5,
    ignore_index: int = -100,
    sides: tuple[Side, ...] = ("right",),
    position_ids: bool = False,
    containers: tuple[str, ...] = _MAPPINGS,
) -> SampleStrategy:
    """``(ids, prompt)``: the label of an id is the id itself; those of the first ``prompt`` ids are ignored.

    ``input_ids``, ``attention_mask`` and ``labels`` (N, T); with ``position_ids`` these too, counted from the first
    real token, which a model with absolute positions needs for padding on the left. With padding on the left ``prompt``
    is at least 1 where there are two ids: the first label has no token before it and would be predicted from padding.
    """
    ids, least = _ids(vocab, max_length), int("left" in sides)
    sample = ids.flatmap(lambda row: st.tuples(st.just(row), st.integers(least, max(least, len(row) - 1))))
    return _per_token(
        "causal LM",
        sample,
        lambda row: (None,) * row[1] + row[0][row[1] :],
        blank=((), 0),
        ignore_index=ignore_index,
        sides=sides,
        position_ids=position_ids,
        containers=containers,
    )


def masked_lm(
    *,
    vocab: int,
    mask: int = 1,
    max_length: int = 5,
    ignore_index: int = -100,
    containers: tuple[str, ...] = _MAPPINGS,
) -> SampleStrategy:
    """``(ids, labels)`` of one length: an id that is ``mask`` has a label, all others have None, which is ignored."""
    seen = st.tuples(st.integers(mask + 1, vocab - 1), st.none())
    hidden = st.tuples(st.just(mask), st.integers(mask + 1, vocab - 1))
    sample = st.lists(seen | hidden, min_size=1, max_size=max_length).map(_columns)
    return _per_token(
        "masked LM", sample, lambda row: row[1], blank=((), ()), ignore_index=ignore_index, containers=containers
    )


def token_classification(
    *,
    vocab: int,
    classes: int,
    max_length: int = 5,
    ignore_index: int = -100,
    containers: tuple[str, ...] = _MAPPINGS,
) -> SampleStrategy:
    """``(ids, labels)`` of one length; None is a label that is ignored, as that of the second part of a word."""
    label = st.integers(0, classes - 1) | st.none()
    sample = st.lists(st.tuples(st.integers(1, vocab - 1), label), min_size=1, max_size=max_length).map(_columns)
    return _per_token(
        "token classification",
        sample,
        lambda row: row[1],
        blank=((), ()),
        ignore_index=ignore_index,
        containers=containers,
    )


def sequence_classification(
    *,
    vocab: int,
    classes: int,
    max_length: int = 5,
    ignore_index: int | None = None,
    sides: tuple[Side, ...] = ("right",),
    containers: tuple[str, ...] = _MAPPINGS,
) -> SampleStrategy:
    """``(ids, label)``: ``input_ids`` and ``attention_mask`` (N, T), ``labels`` (N,).

    There is a row of nothing but padding only where ``ignore_index`` says which label is ignored.
    """

    def collate(rows: Sequence[Sample], side: Side, widths: tuple[int, ...]) -> dict[str, Any]:
        labels = integer_tensor([ignore_index if row[1] is None else row[1] for row in rows])
        return {**_tokens([row[0] for row in rows], side, widths[0]), "labels": labels}

    padding = Padding(
        widths=lambda rows: (_longest(row[0] for row in rows),),
        collate=collate,
        sides=sides,
        blank=None if ignore_index is None else ((), None),
    )
    sample = st.tuples(_ids(vocab, max_length), st.integers(0, classes - 1))
    return _samples("sequence classification", sample, padding, containers)


def multiple_choice(
    *, vocab: int, choices: int = 3, max_length: int = 4, containers: tuple[str, ...] = _MAPPINGS
) -> SampleStrategy:
    """``(choices, label)``: ``input_ids`` and ``attention_mask`` (N, choices, T), ``labels`` (N,)."""

    def collate(rows: Sequence[Sample], side: Side, widths: tuple[int, ...]) -> dict[str, Any]:
        flat = _tokens([ids for row in rows for ids in row[0]], side, widths[0])
        folded = {name: value.reshape(len(rows), choices, widths[0]) for name, value in flat.items()}
        return {**folded, "labels": integer_tensor([row[1] for row in rows])}

    padding = Padding(widths=lambda rows: (_longest(ids for row in rows for ids in row[0]),), collate=collate)
    sample = st.tuples(st.tuples(*[_ids(vocab, max_length)] * choices), st.integers(0, choices - 1))
    return _samples("multiple choice", sample, padding, containers)


def sequence_to_sequence(
    *, vocab: int, max_length: int = 4, ignore_index: int = -100, containers: tuple[str, ...] = _MAPPINGS
) -> SampleStrategy:
    """``(source, target)`` ids: ``input_ids`` and ``attention_mask`` (N, S), ``labels`` (N, T)."""

    def collate(rows: Sequence[Sample], side: Side, widths: tuple[int, ...]) -> dict[str, Any]:
        labels = integer_tensor([padded(row[1], side, widths[1], ignore_index) for row in rows], len(rows), widths[1])
        return {**_tokens([row[0] for row in rows], side, widths[0]), "labels": labels}

    padding = Padding(
        widths=lambda rows: (_longest(row[0] for row in rows), _longest(row[1] for row in rows)),
        collate=collate,
        lengths=lambda row: (len(row[0]), len(row[1])),
        blank=((), ()),
    )
    sample = st.tuples(_ids(vocab, max_length), _ids(vocab, max_length))
    return _samples("sequence to sequence", sample, padding, containers)


def images(
    *, classes: int, shape: tuple[int, int, int] = (1, 4, 4), containers: tuple[str, ...] = ("dict",)
) -> SampleStrategy:
    """``(pixels, label)``: ``pixel_values`` (N, C, H, W) float32 between -1 and 1, ``labels`` (N,).

    ``pixels`` is a flat tuple of C*H*W numbers; many of them are drawn by a seed, since Hypothesis draws few numbers at
    once, and are all 0 by the seed 0. ``containers=("tuple",)`` makes the batch ``(pixel_values, labels)``.
    """
    size = shape[0] * shape[1] * shape[2]
    pixel = st.integers(-4, 4).map(lambda i: i / 4)

    def by_seed(seed: int) -> tuple[float, ...]:
        numbers = random.Random(seed)
        return tuple(numbers.randint(-4, 4) / 4 if seed else 0.0 for _ in range(size))

    pixels = st.tuples(*[pixel] * size) if size <= FEW_PIXELS else st.integers(0, 2**16 - 1).map(by_seed)

    def collate(rows: Sequence[Sample]) -> dict[str, Any]:
        pixels = float_tensor([row[0] for row in rows], len(rows), *shape)
        return {"pixel_values": pixels, "labels": integer_tensor([row[1] for row in rows])}

    return SampleStrategy(
        name="images",
        sample=st.tuples(pixels, st.integers(0, classes - 1)),
        collate=collate,
        corrupted=lambda row, bad: ((bad, *row[0][1:]), row[1]),
        containers=containers,
    )


def _per_token(
    name: str,
    sample: st.SearchStrategy[Sample],
    labels: Callable[[Sample], Sequence[int | None]],
    *,
    blank: Sample,
    ignore_index: int,
    containers: tuple[str, ...],
    sides: tuple[Side, ...] = ("right",),
    position_ids: bool = False,
) -> SampleStrategy:
    def collate(rows: Sequence[Sample], side: Side, widths: tuple[int, ...]) -> dict[str, Any]:
        batch = _tokens([row[0] for row in rows], side, widths[0])
        if position_ids:
            batch["position_ids"] = (batch["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        marked = [[ignore_index if label is None else label for label in labels(row)] for row in rows]
        lines = [padded(line, side, widths[0], ignore_index) for line in marked]
        return {**batch, "labels": integer_tensor(lines, len(rows), widths[0])}

    padding = Padding(
        widths=lambda rows: (_longest(row[0] for row in rows),),
        collate=collate,
        sides=sides,
        lengths=lambda row: (len(row[0]),),
        blank=blank,
    )
    return _samples(name, sample, padding, containers)


def _samples(
    name: str, sample: st.SearchStrategy[Sample], padding: Padding, containers: tuple[str, ...]
) -> SampleStrategy:
    return SampleStrategy(name=name, sample=sample, collate=padding.least, padding=padding, containers=containers)


def _ids(vocab: int, max_length: int) -> st.SearchStrategy[tuple[int, ...]]:
    if vocab < 3 or max_length < 1:
        raise ValueError(f"vocab={vocab}, max_length={max_length}; expected at least 3 ids and a length of 1")
    return st.lists(st.integers(1, vocab - 1), min_size=1, max_size=max_length).map(tuple)


def _columns(pairs: Sequence[tuple[Any, Any]]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def _longest(rows: Any) -> int:
    return max((len(row) for row in rows), default=0)


def _tokens(rows: Sequence[Sequence[int]], side: Side, width: int) -> dict[str, Any]:
    return {
        "input_ids": integer_tensor([padded(row, side, width, _PAD) for row in rows], len(rows), width),
        "attention_mask": integer_tensor([padded([1] * len(row), side, width, 0) for row in rows], len(rows), width),
    }

"""Batches: the checks before one is evaluated, and labels taken off it and shifted without a change to it."""

from __future__ import annotations

import dataclasses
from collections import Counter, UserDict
from collections.abc import Iterable, Mapping, Sized
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.fixes.containers import (
    is_plain_sequence,
    items,
    named_tensors,
    path_of,
    rebuild,
    replace_items,
    shallow_copy,
)

Batch = TypeVar("Batch")


class MissingField(KeyError):
    """A batch lacks a required field; unlike other KeyErrors, its text is printed without quotes."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


def require_batch(
    batch: object,
    *,
    fields: Iterable[str] = ("labels",),
    integers: Iterable[str] = (),
    rows: Iterable[str] | None = None,
) -> int:
    """Raise an error for a batch that cannot be scored, and return its number of rows.

    A batch is a mapping, a dataclass, or a tuple or list whose last element is the labels. ``fields`` must be
    present and not None; ``integers`` must be integer tensors where they are present. ``rows`` names the fields
    that have one entry per row, tensors or anything with a length; without it every tensor of one dimension
    or more has, also in nested containers. The batch is only read.

    Raises `MissingField` (a KeyError) for a missing field, TypeError for an object that is no batch and for a wrong
    dtype, ValueError for no fields, no rows, or rows that disagree; each names the field, what was expected and, where
    one is close, the key that was probably meant. A batch in which nothing has rows counts as one row.

    Symptom: a batch with too few labels is scored, because one row of them is broadcast.

    Before::

        def update(batch, outputs, metric):
            labels = batch["labels"].expand(outputs.shape[:-1])
            metric.update(outputs, labels)

    After::

        from pytest_evalcheck.fixes import require_batch

        def update(batch, outputs, metric):
            require_batch(batch, fields=["input_ids", "labels"], integers=["labels"])
            metric.update(outputs, batch["labels"])

    Costs: microseconds for each field; the device is not waited for.

    Target: ec.wrapper(inputs=es.causal_lm(vocab=12)) with updating(model, update)

    Shown by: EC110.
    """
    held = _fields(batch)
    for name in fields:
        _find(batch, held, name)
    for name in integers:
        if _key(batch, name) in held:
            _require_integers(held[_key(batch, name)], _path(batch, name))
    if rows is None:
        lengths = [(where, len(tensor)) for where, tensor in named_tensors(batch, "batch") if tensor.dim()]
    else:
        present = [(name, held[_key(batch, name)]) for name in rows if _key(batch, name) in held]
        lengths = [(_path(batch, name), length) for name, value in present if (length := _length(value)) is not None]
    return _common_length(lengths)


def field(batch: object, name: str) -> Any:
    """Return a field of a batch; of a plain tuple or list, whose last element is the labels, the last one.

    `MissingField` where it is missing or None.
    """
    return _find(batch, _fields(batch), name)


def split_labels(batch: Batch, *, name: str = "labels") -> tuple[Batch, Any]:
    """Return the inputs and the labels of a batch, which does not change (EC101).

    The inputs are a new container of the same type, with the same values in the same order: no tensor is copied. A
    mapping (a dict, an OrderedDict, a UserDict, a BatchEncoding) lacks the labels; a plain tuple or list, whose last
    element is the labels, is shorter by one; a dataclass or named tuple, which cannot lose a field, has None there.

    Raises `MissingField` (a KeyError) where the labels are missing or None, TypeError for an object that is no
    batch, ValueError for an empty one. Rows are not compared: `require_batch` does that.

    >>> batch = {"input_ids": torch.tensor([[1, 2]]), "labels": torch.tensor([[1, 2]])}
    >>> inputs, labels = split_labels(batch)
    >>> sorted(inputs), sorted(batch), labels is batch["labels"]
    (['input_ids'], ['input_ids', 'labels'], True)

    Symptom: the second metric of a batch, or a second evaluation, finds no labels.

    Before::

        def forward(batch):
            labels = batch.pop("labels")
            return model(**batch)

    After::

        from pytest_evalcheck.fixes import split_labels

        def forward(batch):
            inputs, labels = split_labels(batch)
            return model(**inputs)

    Costs: a new container for each batch; no tensor is copied.

    Target: ec.wrapper(inputs=es.causal_lm(vocab=12)) with ec.Wrapper(forward=forward)

    Shown by: EC101, EC102.
    """
    labels = field(batch, name)
    return cast(Batch, _drop_item(batch, name)), labels


def shift_labels(labels: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Return the labels that a causal language model is scored with: position t gets label t + 1.

    ``labels`` are integers of shape ``(rows, tokens, ...)``; the last token has nothing to predict and gets
    ``ignore_index``. The result is new memory, also for a single token; ``labels`` do not change, so that
    shifting a batch twice gives the same (EC102). TypeError or ValueError for anything else, and where the
    dtype cannot hold ``ignore_index``.

    >>> shift_labels(torch.tensor([[5, 6, 7]]))
    tensor([[   6,    7, -100]])

    Symptom: each metric of a batch gets labels that are shifted once more.

    Before::

        def update(batch, outputs, metric):
            labels = batch["labels"]
            labels[:, :-1] = labels[:, 1:].clone()
            labels[:, -1] = -100
            metric.update(outputs, labels)

    After::

        from pytest_evalcheck.fixes import shift_labels

        def update(batch, outputs, metric):
            metric.update(outputs, shift_labels(batch["labels"]))

    Costs: one copy of the labels for each metric.

    Target: ec.wrapper(inputs=es.causal_lm(vocab=12)) with updating(model, update)

    Shown by: EC103.
    """
    require_token_labels(labels)
    limits = torch.iinfo(labels.dtype)
    if not limits.min <= ignore_index <= limits.max:
        raise ValueError(f"ignore_index: expected a value that {labels.dtype} can hold, got {ignore_index}")
    # One allocation, and contiguous whatever the strides of the caller's are: metrics call view on it.
    result = labels.new_empty(labels.shape)
    result[:, :-1] = labels[:, 1:]
    result[:, -1:] = ignore_index
    return result


def require_token_labels(labels: object, *, where: str = "labels") -> None:
    """Raise TypeError or ValueError for anything but a tensor of integers of shape ``(rows, tokens, ...)``."""
    _require_integers(labels, where)
    shape = tuple(labels.shape)  # type: ignore[attr-defined]
    if len(shape) < 2:
        raise ValueError(f"{where}: expected the shape (rows, tokens, ...), got {shape}")


def _fields(batch: Any) -> Mapping[str, Any]:
    inside = items(batch)
    if inside is None:
        raise TypeError(
            "batch: expected a mapping such as a dict or a BatchEncoding, a dataclass or (inputs, labels), "
            f"got {type(batch).__name__}"
        )
    if is_plain_sequence(batch):
        if len(inside) < 2:
            raise ValueError(f"batch: expected (inputs, labels), got a {type(batch).__name__} of {len(inside)}")
        return {str(index): value for index, value in inside}
    if not inside:
        raise ValueError(f"batch: expected fields, got an empty {type(batch).__name__}")
    return dict(inside)


def _path(batch: object, name: str) -> str:
    return "batch[-1]" if is_plain_sequence(batch) else path_of(batch, "batch", name)


def _key(batch: Any, name: str) -> str:
    return str(len(batch) - 1) if is_plain_sequence(batch) else name


def _find(batch: object, held: Mapping[str, Any], name: str) -> Any:
    key = _key(batch, name)
    if key not in held:
        hint = nearest(name, map(str, held))
        raise MissingField(f"batch: expected a field {name!r}, got {', '.join(map(repr, held))}{hint}")
    if held[key] is None:
        raise MissingField(f"{_path(batch, name)}: expected a value, got None")
    return held[key]


def _require_integers(value: object, where: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{where}: expected a tensor of integers, got {type(value).__name__}")
    if value.is_floating_point() or value.is_complex() or value.is_quantized or value.dtype == torch.bool:
        raise TypeError(f"{where}: expected a tensor of integers such as torch.int64, got {value.dtype}")


def _length(value: object) -> int | None:
    if isinstance(value, Tensor):
        return value.shape[0] if value.dim() else None
    return len(value) if isinstance(value, Sized) and not isinstance(value, str | bytes) else None


def _common_length(lengths: list[tuple[str, int]]) -> int:
    if not lengths:
        return 1
    most = Counter(length for _, length in lengths).most_common(1)[0][0]
    typical = next(where for where, length in lengths if length == most)
    for where, length in lengths:
        if length != most:
            raise ValueError(f"{where}: expected {most} rows as in {typical}, got {length}")
    if not most:
        raise ValueError(f"batch: expected at least one row, got none in {typical}")
    return most


def _drop_item(batch: Any, name: str) -> Any:
    if dataclasses.is_dataclass(batch) and isinstance(batch, Mapping):
        return dataclasses.replace(batch, **{name: None})  # a ModelOutput, which cannot lose a key
    if isinstance(batch, dict | UserDict):
        inputs = shallow_copy(batch)
        del inputs[name]
        return inputs
    if isinstance(batch, Mapping):
        return rebuild(batch, {key: value for key, value in batch.items() if key != name})
    return rebuild(batch, batch[:-1]) if is_plain_sequence(batch) else replace_items(batch, {name: None})

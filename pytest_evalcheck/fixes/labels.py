"""Labels taken off a batch, and shifted, without a trace in the batch."""

from __future__ import annotations

import dataclasses
from collections import UserDict
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from pytest_evalcheck.fixes.batches import field, is_namedtuple, rebuilt, require_integers, shallow

Batch = TypeVar("Batch")


def split_labels(batch: Batch, *, name: str = "labels") -> tuple[Batch, Any]:
    """Return the inputs and the labels of a batch, which stays as it is (EC101).

    The inputs are a new container of the same type, with the same values in the same order: no tensor is
    copied. A mapping (a dict, an OrderedDict, a UserDict, a BatchEncoding) lacks the labels; a plain tuple or
    list, whose last element is the labels, is shorter by one; a dataclass or named tuple, which cannot lose a
    field, has None there.

    Raises `MissingField` (a KeyError) where the labels are not there or None, TypeError for what is no
    batch, ValueError for an empty one. Rows are not compared: that is `require_batch`.

    >>> batch = {"input_ids": torch.tensor([[1, 2]]), "labels": torch.tensor([[1, 2]])}
    >>> inputs, labels = split_labels(batch)
    >>> sorted(inputs), sorted(batch), labels is batch["labels"]
    (['input_ids'], ['input_ids', 'labels'], True)
    """
    labels = field(batch, name)
    return cast(Batch, _without(batch, name)), labels


def shift_labels(labels: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Return the labels that a causal language model is scored with: position t gets label t + 1.

    ``labels`` are integers of shape ``(rows, tokens, ...)``; the last token has nothing to predict and gets
    ``ignore_index``. The result is new memory, also for a single token; ``labels`` stay as they are, so that
    shifting a batch twice gives the same (EC102). TypeError or ValueError for anything else, and where the
    dtype cannot hold ``ignore_index``.

    >>> shift_labels(torch.tensor([[5, 6, 7]]))
    tensor([[   6,    7, -100]])
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
    """Refuse, with a TypeError or ValueError, what is no tensor of integers of shape ``(rows, tokens, ...)``."""
    require_integers(labels, where)
    shape = tuple(labels.shape)  # type: ignore[attr-defined]
    if len(shape) < 2:
        raise ValueError(f"{where}: expected the shape (rows, tokens, ...), got {shape}")


def _without(batch: Any, name: str) -> Any:
    if dataclasses.is_dataclass(batch) and isinstance(batch, Mapping):
        return dataclasses.replace(batch, **{name: None})  # a ModelOutput, which refuses to delete
    if dataclasses.is_dataclass(batch):
        inputs = shallow(batch)
        object.__setattr__(inputs, name, None)  # frozen ones too
        return inputs
    if isinstance(batch, dict | UserDict):
        inputs = shallow(batch)
        del inputs[name]
        return inputs
    if isinstance(batch, Mapping):
        return rebuilt(batch, {key: value for key, value in batch.items() if key != name})
    return batch._replace(**{name: None}) if is_namedtuple(batch) else rebuilt(batch, batch[:-1])

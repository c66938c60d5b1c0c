"""Batches for the tests of the guard, and what it says of a change."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from pytest_evalcheck.guard import COPY_LIMIT, Snapshot

Change = Callable[[Any], Any]
Pair = namedtuple("Pair", "ids labels")


@dataclass
class Record:
    ids: torch.Tensor
    extra: list[int] = field(default_factory=lambda: [1, 2])


class Slotted:
    __slots__ = ("__hidden", "label")

    def __init__(self) -> None:
        self.label, self.__hidden = [3], [4]

    def hide(self) -> None:
        self.__hidden[0] = 9


class Output(OrderedDict):  # as transformers' ModelOutput: items are attributes too
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        super().__setattr__(name, value)


def batch() -> dict[str, Any]:
    return {
        "ids": torch.arange(6).reshape(2, 3),
        "labels": torch.tensor([[1, 7], [2, 7]]),
        "nested": [torch.zeros(2), {"text": ["a", "b"], "scores": np.ones(2)}],
        "n": 3,
    }


def changes(
    made: Any, change: Change, *, fast: bool = False, name: str = "batch", copy_limit: int = COPY_LIMIT
) -> list[str]:
    before = Snapshot(made, name, fast, copy_limit)
    assert before.changes() == []
    change(made)
    return before.changes()


def put(key: Any, at: Any, value: Any) -> Change:
    return lambda made: made[key].__setitem__(at, value)

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.metric.samplewise import unordered


@dataclass
class Report:
    total: float
    each: list[int]


SAME = [
    (torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0])),
    ([3, 1, 2], [1, 2, 3]),
    ((0.5, [3, 1, 2]), (0.5, [1, 2, 3])),
    ({"all": 0.5, "each": [3, 1, 2]}, {"all": 0.5, "each": [2, 1, 3]}),
    ({"id": [3, 1, 2], "score": torch.tensor([30, 10, 20])}, {"id": [1, 2, 3], "score": torch.tensor([10, 20, 30])}),
    ((torch.eye(3), [{"deep": (1.0, ["b", "a", "c"])}] * 2), (torch.eye(3), [{"deep": (1.0, ["b", "a", "c"])}] * 2)),
    (Report(0.5, [3, 1, 2]), Report(0.5, [1, 2, 3])),
    ((0.5, Report(0.5, [3, 1, 2])), (0.5, Report(0.5, [1, 2, 3]))),
    (SimpleNamespace(total=0.5, each=[3, 1, 2]), SimpleNamespace(total=0.5, each=[1, 2, 3])),
]
OTHER = [
    ([3, 1, 2], [3, 1, 3]),
    ((1, 2, 3), (3, 2, 1)),
    ({"id": [3, 1, 2], "score": [30, 10, 20]}, {"id": [3, 1, 2], "score": [10, 30, 20]}),
    (torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0])),
    ((0.5, [3, 1, 2]), (0.6, [3, 1, 2])),
    (Report(0.5, [3, 1, 2]), Report(0.6, [3, 1, 2])),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_entries_of_samples_in_another_order_are_the_same(one, other):
    assert repr(unordered(one, 3)) == repr(unordered(other, 3))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_belongs_to_other_samples_or_to_none_is_not_the_same(one, other):
    assert repr(unordered(one, 3)) != repr(unordered(other, 3))


class _Finite:
    """The values that are no NaN, in the order in which they came."""

    def __init__(self) -> None:
        self.parts: list[torch.Tensor] = []

    def update(self, values: torch.Tensor) -> None:
        self.parts.append(values[~values.isnan()].clone())

    def compute(self) -> torch.Tensor:
        return torch.cat(self.parts)


class _Differences(_Finite):
    """From each value to the next: another order has others."""

    def compute(self) -> torch.Tensor:
        found = super().compute()
        return torch.cat([found[:1], found.diff()])


@pytest.mark.parametrize(("made", "outcome"), [(_Finite, "passed"), (_Differences, "failed")])
def test_values_of_some_samples_are_a_multiset_where_the_others_are_nan(made: type[_Finite], outcome: str) -> None:
    @ec.metric(inputs=es.values().with_nan())
    def target(device: str) -> _Finite:
        return made()

    (cell,) = ec.run(target, select="EC208", effort="quick").cells
    assert cell.outcome == outcome

from __future__ import annotations

import pytest
import torch

from pytest_evalcheck.kinds.metric.samplewise import unordered

SAME = [
    (torch.tensor([3.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0])),
    ([3, 1, 2], [1, 2, 3]),
    ((0.5, [3, 1, 2]), (0.5, [1, 2, 3])),
    ({"all": 0.5, "each": [3, 1, 2]}, {"all": 0.5, "each": [2, 1, 3]}),
    ({"id": [3, 1, 2], "score": torch.tensor([30, 10, 20])}, {"id": [1, 2, 3], "score": torch.tensor([10, 20, 30])}),
    ((torch.eye(3), [{"deep": (1.0, ["b", "a", "c"])}] * 2), (torch.eye(3), [{"deep": (1.0, ["b", "a", "c"])}] * 2)),
]
OTHER = [
    ([3, 1, 2], [3, 1, 3]),
    ((1, 2, 3), (3, 2, 1)),
    ({"id": [3, 1, 2], "score": [30, 10, 20]}, {"id": [3, 1, 2], "score": [10, 30, 20]}),
    (torch.tensor([1.0, 2.0]), torch.tensor([2.0, 1.0])),
    ((0.5, [3, 1, 2]), (0.6, [3, 1, 2])),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_entries_of_samples_in_another_order_are_the_same(one, other):
    assert repr(unordered(one, 3)) == repr(unordered(other, 3))


@pytest.mark.parametrize(("one", "other"), OTHER)
def test_what_belongs_to_other_samples_or_to_none_is_not_the_same(one, other):
    assert repr(unordered(one, 3)) != repr(unordered(other, 3))

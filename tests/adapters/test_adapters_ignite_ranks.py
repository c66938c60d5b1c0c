"""Ranks of ignite in threads: what its collective calls do, and what real processes would not survive."""

from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.common.thread_ranks import RankMismatch

pytest.importorskip("ignite")

import torch
from ignite import distributed as idist
from ignite.metrics import EpochMetric, MeanSquaredError, Metric
from ignite.metrics.metric import sync_all_reduce


class ForgetsTheNumber(MeanSquaredError):
    """The sum of all ranks is divided by the number of samples of one."""

    @sync_all_reduce("_sum_of_squared_errors")
    def compute(self) -> float:
        return float(self._sum_of_squared_errors / self._num_examples)


class Talks(Metric):
    """The result of each collective call."""

    def reset(self) -> None:
        self.seen = 0.0

    def update(self, output: Any) -> None:
        self.seen += float(output[0].sum())

    def compute(self) -> Any:
        idist.barrier()
        return {
            "sum": idist.all_reduce(self.seen),
            "max": idist.all_reduce(torch.tensor(self.seen), op="MAX").item(),
            "gathered": idist.all_gather(self.seen),
            "texts": idist.all_gather("a" * int(self.seen)),
            "objects": idist.all_gather({"seen": self.seen}),
            "first": idist.broadcast(self.seen, src=0),
            "ranks": (idist.get_rank(), idist.get_world_size(), idist.backend()),
        }


def merged(kind: Any, *shards: torch.Tensor) -> Any:
    ranks = [adapters.record("metric", kind()) for _ in shards]
    for rank, values in zip(ranks, shards, strict=True):
        rank.update(values, torch.zeros_like(values))
    return ranks[0].merges["idist"](ranks)


@pytest.mark.parametrize(("kind", "outcome"), [(MeanSquaredError, "passed"), (ForgetsTheNumber, "failed")])
def test_what_is_not_reduced_is_seen(kind: Any, outcome: str) -> None:
    @ec.metric(inputs=es.regression())
    def target() -> Any:
        return kind()

    (cell,) = ec.run(target, select="EC203", effort="quick").cells
    assert cell.outcome == outcome, cell.reason


def test_collective_calls_are_those_of_ignite() -> None:
    assert merged(Talks, torch.tensor([1.0]), torch.tensor([2.0])) == {
        "sum": 3.0,
        "max": 2.0,
        "gathered": [1.0, 2.0],
        "texts": ["a", "aa"],
        "objects": [{"seen": 1.0}, {"seen": 2.0}],
        "first": 1.0,
        "ranks": (0, 2, "gloo"),
    }
    assert idist.get_world_size() == 1  # as before


def test_states_of_other_shapes_cannot_be_gathered() -> None:
    def kind() -> EpochMetric:
        return EpochMetric(lambda preds, target: float(len(preds)), check_compute_fn=False)

    assert merged(kind, torch.ones(2), torch.ones(2)) == 4.0
    with pytest.raises(RankMismatch, match=r"\(1,\), \(2,\): real processes fail or hang"):
        merged(kind, torch.ones(1), torch.ones(2))

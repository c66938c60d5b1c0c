"""Ranks as threads and as processes: same answers, and an end to every hang."""

from __future__ import annotations

import os
import time

import pytest
import torch

from pytest_evalcheck.kinds.common.process_ranks import RankError, RanksHang, on_processes
from pytest_evalcheck.kinds.common.thread_ranks import AllGather, RankMismatch, on_ranks


def test_every_rank_gets_the_tensors_of_all_in_rank_order() -> None:
    gather = AllGather(3)
    seen = {}

    def work(rank: int) -> list[list[float]]:
        first = gather.for_rank(rank)(torch.full((rank,), float(rank)))
        second = gather.for_rank(rank)(torch.tensor([float(-rank)]))
        seen[rank] = [t.tolist() for t in (*first, *second)]
        return seen[rank]

    expected = [[], [1.0], [2.0, 2.0], [-0.0], [-1.0], [-2.0]]
    assert on_ranks([lambda r=r: work(r) for r in range(3)], gather) == expected
    assert seen == dict.fromkeys(range(3), expected)


def test_what_a_rank_is_given_is_its_own() -> None:
    gather = AllGather(2)
    state = torch.zeros(1)

    def first() -> float:
        received = gather.for_rank(0)(state)
        received[0].add_(1)
        return float(state)

    assert on_ranks([first, lambda: gather.for_rank(1)(torch.zeros(1))], gather) == 0.0


def test_a_rank_that_stays_away_is_named_instead_of_a_hang() -> None:
    gather = AllGather(2)
    with pytest.raises(RankMismatch, match="rank 0 waits in collective call 1, which rank 1 never makes"):
        on_ranks([lambda: gather.for_rank(0)(torch.zeros(1)), lambda: None], gather)


@pytest.mark.parametrize("other", [torch.zeros(1, dtype=torch.int64), torch.zeros(1, 1)])
def test_tensors_that_do_not_match_are_refused(other: torch.Tensor) -> None:
    gather = AllGather(2)
    with pytest.raises(RankMismatch, match="do not match"):
        on_ranks([lambda: gather.for_rank(0)(torch.zeros(1)), lambda: gather.for_rank(1)(other)], gather)


def test_the_error_of_a_rank_comes_before_what_follows_from_it() -> None:
    gather = AllGather(2)

    def fails() -> None:
        raise KeyError("state")

    with pytest.raises(KeyError, match="state"):
        on_ranks([lambda: gather.for_rank(0)(torch.zeros(1)), fails], gather)


def _gathered(rank: int) -> list[float]:
    import torch.distributed as dist

    parts = [torch.zeros(1) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, torch.tensor([float(rank)]))
    return [float(part) for part in parts]


def test_processes_join_a_real_group() -> None:
    values = on_processes([lambda r=r: _gathered(r) for r in range(3)])
    assert values == [[0.0, 1.0, 2.0]] * 3


def test_an_error_in_a_process_names_its_rank() -> None:
    def fails() -> None:
        raise ValueError("no such state")

    with pytest.raises(RankError, match="rank 1: ValueError: no such state"):
        on_processes([lambda: 0, fails], seconds=5)


def test_a_process_that_dies_is_told() -> None:
    with pytest.raises(RankError, match="rank 0 died"):
        on_processes([lambda: os._exit(3), lambda: time.sleep(60)], seconds=10)


def test_processes_that_hang_are_ended() -> None:
    started = time.monotonic()
    with pytest.raises(RanksHang, match="rank 0, 1 of 2 did not end within 2 seconds"):
        on_processes([lambda: _gathered(0), lambda: time.sleep(60)], seconds=2)
    assert time.monotonic() - started < 30


def test_a_result_that_does_not_pickle_is_told() -> None:
    with pytest.raises(RankError, match="does not pickle"):
        on_processes([lambda: lambda: 0], seconds=10)

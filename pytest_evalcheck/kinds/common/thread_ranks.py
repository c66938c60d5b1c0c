"""Ranks of one process: every rank is a thread, and a gather hands tensors from thread to thread.

A fast filter for bugs that need several ranks. What real processes would refuse or never finish is an error
here: tensors that differ in dtype or number of dimensions, and a gather that not every rank takes part in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class RankMismatch(RuntimeError):
    """The ranks do not make the same collective calls: real processes would hang or fail."""


class AllGather:
    """One all-gather among threads, to be called by each rank the same number of times."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._changed = threading.Condition()
        self._rounds: list[dict[int, Any]] = []
        self._calls = [0] * world
        self._ended: set[int] = set()

    def for_rank(self, rank: int) -> Callable[..., list[Any]]:
        """The gather as rank ``rank`` calls it: its tensor in, the tensors of all ranks out."""

        def gather(tensor: Any, group: Any = None) -> list[Any]:
            del group
            return self._gather(rank, tensor)

        return gather

    def end(self, rank: int) -> None:
        """Say that this rank will make no further call."""
        with self._changed:
            self._ended.add(rank)
            self._changed.notify_all()

    def _gather(self, rank: int, tensor: Any) -> list[Any]:
        with self._changed:
            turn = self._calls[rank]
            self._calls[rank] += 1
            while len(self._rounds) <= turn:
                self._rounds.append({})
            arrived = self._rounds[turn]
            arrived[rank] = tensor.detach().clone()
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(arrived) == self._world or self._absent(arrived))
            if len(arrived) < self._world:
                missing = sorted(self._absent(arrived))
                raise RankMismatch(
                    f"rank {rank} waits in collective call {turn + 1}, which rank {missing[0]} never makes: "
                    "real processes would hang"
                )
        gathered = [arrived[r] for r in range(self._world)]
        kinds = {(t.dtype, t.dim()) for t in gathered}
        if len(kinds) > 1:
            shown = ", ".join(f"{t.dtype} of shape {tuple(t.shape)}" for t in gathered)
            raise RankMismatch(f"the ranks gather tensors that do not match ({shown}): real processes fail or hang")
        return [t.clone() for t in gathered]

    def _absent(self, arrived: dict[int, Any]) -> set[int]:
        return self._ended - set(arrived)


def on_ranks(calls: Sequence[Callable[[], Any]], gather: AllGather) -> Any:
    """Return what rank 0 gets when every rank makes its call; raise the first error of any rank."""
    results: dict[int, Any] = {}
    errors: dict[int, BaseException] = {}

    def work(rank: int) -> None:
        try:
            results[rank] = calls[rank]()
        except BaseException as error:  # handed to the caller's thread below
            errors[rank] = error
        finally:
            gather.end(rank)

    threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        # An error that is not a mismatch is the cause; the mismatches on other ranks follow from it.
        raise min(errors.items(), key=lambda found: (isinstance(found[1], RankMismatch), found[0]))[1]
    return results[0]

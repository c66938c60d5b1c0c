"""A real device is asked in a process of its own: a kernel that reads what is not its own loses it for the process."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch
from fidelity_references import Verdict, real
from fidelity_samples import KINDS, family, placements

LOST = Verdict("undecided", "the device was lost before")


class RealDevice:
    """Asks a device of this machine; starts a new process when one has lost it. Use it with `with`."""

    def __init__(self, kind: str = "cuda", kinds: int = KINDS, seed: int = 0) -> None:
        self.drawn = kind, kinds, seed
        self.pool = self._new()

    def __enter__(self) -> RealDevice:
        return self

    def __exit__(self, *failure: object) -> None:
        self.pool.shutdown()

    def answers(self, name: str, placed: int) -> list[Verdict]:
        """Return what the device says to all calls of an operator, `placed` placements in all."""
        try:
            found = self.pool.submit(answers, name, *self.drawn).result()
        except BrokenProcessPool:
            found = []
        if len(found) < placed:
            self.pool.shutdown(wait=False)
            self.pool = self._new()
        return found + [LOST] * (placed - len(found))

    @staticmethod
    def _new() -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


def answers(name: str, kind: str, kinds: int = KINDS, seed: int = 0) -> list[Verdict]:
    """The verdicts in order, up to the one that lost the device."""
    found: list[Verdict] = []
    with real(kind) as ask:
        for call in family(name, kinds, seed):
            for placement in placements(call):
                found.append(ask(call, placement))
                if not _there(kind):
                    return found
    return found


def _there(kind: str) -> bool:
    try:
        torch.zeros(1, device=kind if getattr(torch, kind).is_available() else "cpu").sum().item()
    except RuntimeError:
        return False
    return True

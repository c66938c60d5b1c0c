"""Ranks as real processes of a gloo group, with an end: a rank that hangs is an error, never a hang of the suite."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.forked_process import belongs_to_the_suite

_IDLE = 0.01
"""The share of a core that ranks together use at most while all of them wait for each other."""
_BUSY = 10
_SCHEDULED = 2  # CPUCLOCK_SCHED: the clock of what a process has computed, of clock_getcpuclockid(3)


class RankError(RuntimeError):
    """Error on a rank, by its message and the name of its type."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        """The name of the type of what the call raised; empty where the rank died."""


class RanksHang(RuntimeError):
    """Some ranks did not come to an end."""


def repeated_on_a_rank(result: Any, single: Any) -> bool:
    """Return whether a rank raised what one process does; one that hangs or dies raised nothing."""
    named = isinstance(result, Raised) and isinstance(result.error, RankError) and result.error.kind
    return isinstance(single, Raised) and named == type(single.error).__name__


def on_processes(calls: Sequence[Callable[[], Any]], *, seconds: float = 20.0, group: bool = True) -> list[Any]:
    """Return what every rank's call gives, each in a process of its own that has joined a gloo group.

    Without ``group`` the processes know nothing of each other.

    The processes are forked, so the calls may be closures; the results must pickle.

    Raises:
        RankError: when a call raised an error; it names the rank and the error.
        RanksHang: when a rank did not end and all of them computed next to nothing for ``seconds``; all processes are
            gone by then. Ranks that wait for a busy machine, and not for each other, get ten times that.
        NotApplicable: what a call raised, with its reason.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise NotApplicable("this platform cannot fork processes")
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        started = []
        for rank, call in enumerate(calls):
            ours, theirs = context.Pipe(duplex=False)
            rendezvous = os.path.join(folder, "rendezvous") if group else ""
            process = context.Process(target=_work, args=(call, rank, len(calls), rendezvous, theirs, seconds))
            process.start()
            theirs.close()
            started.append((process, ours))
        try:
            return _gather([ours for _, ours in started], [process.pid or 0 for process, _ in started], seconds)
        finally:
            for process, ours in started:
                process.kill()
                process.join()
                ours.close()


def _gather(pipes: Sequence[Connection], pids: Sequence[int], seconds: float) -> list[Any]:
    results: dict[int, Any] = {}
    started, used = time.monotonic(), _cpu_seconds(pids)
    deadline = started + seconds
    while len(results) < len(pipes):
        waiting = [pipe for rank, pipe in enumerate(pipes) if rank not in results]
        ready = wait(waiting, timeout=max(0.0, deadline - time.monotonic()))
        if not ready:
            before, used, now = used, _cpu_seconds(pids), time.monotonic()
            if used - before > _IDLE * seconds and now < started + _BUSY * seconds:
                deadline = now + seconds
                continue
            missing = [rank for rank in range(len(pipes)) if rank not in results]
            raise RanksHang(
                f"rank {', '.join(map(str, missing))} of {len(pipes)} did not end within {seconds:g} seconds"
            )
        for pipe in ready:
            rank = pipes.index(pipe)
            try:
                good, value = pickle.loads(pipes[rank].recv_bytes())
            except EOFError:
                raise RankError(f"rank {rank} died") from None
            if good is None:
                raise NotApplicable(value)
            if not good:
                kind, text = value
                raise RankError(f"rank {rank}: {text}", kind)
            results[rank] = value
    return [results[rank] for rank in range(len(pipes))]


def _cpu_seconds(pids: Sequence[int]) -> float:
    """Seconds that these processes have computed so far, where the platform says so."""
    total = 0.0
    for pid in pids:
        with suppress(OSError):  # it has ended, or this is not Linux
            total += time.clock_gettime((~pid << 3) | _SCHEDULED)
    return total


def _work(call: Callable[[], Any], rank: int, world: int, rendezvous: str, pipe: Connection, seconds: float) -> None:
    import torch
    import torch.distributed as dist

    belongs_to_the_suite()
    torch.set_num_threads(1)  # the pool of threads did not survive the fork
    try:
        if rendezvous:
            dist.init_process_group(
                "gloo",
                init_method=f"file://{rendezvous}",
                rank=rank,
                world_size=world,
                timeout=timedelta(seconds=2 * seconds),
            )
        message: tuple[bool | None, Any] = (True, call())
        if rendezvous:
            dist.barrier()  # a rank that left early would break the last call of the others
    except NotApplicable as error:
        message = (None, str(error))
    except BaseException as error:  # sent to the parent, which raises it
        kind = type(error).__name__
        message = (False, (kind, f"{kind}: {str(error).splitlines()[0] if str(error) else ''}"[:300]))
    try:
        pipe.send_bytes(pickle.dumps(message))
    except Exception as error:
        pipe.send_bytes(pickle.dumps((False, ("", f"its result does not pickle: {error}"[:300]))))
    pipe.close()
    os._exit(0)  # nothing of the parent's may run a second time at exit

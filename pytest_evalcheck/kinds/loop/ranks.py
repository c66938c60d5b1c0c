"""What the ranks of an evaluation report, in this process or in real ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.common.process_ranks import on_processes
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.loop.results import Evaluated, read, repeated
from pytest_evalcheck.kinds.loop.subject import LoopSubject

Reports = dict[int, Evaluated]
"""By rank; ranks that report nothing are not among them."""


def over_ranks(loop: LoopSubject, rows: Rows, ranks: int, batch_size: int) -> Any:
    """What every rank of an evaluation in this process reports, or the error."""
    live = loop.fresh()
    assert live.record.over_ranks is not None
    made = live.attempt("over_ranks()", live.record.over_ranks, loop.data(rows), ranks, batch_size=batch_size)
    return made if isinstance(made, Raised) else _reports(made, ranks, "over_ranks()")


def over_processes(loop: LoopSubject, rows: Rows, ranks: int, batch_size: int) -> Any:
    """The same with real processes, each with a loop of its own."""

    def rank() -> Any:
        live = loop.fresh()
        assert live.record.on_rank is not None
        made = live.attempt("on_rank()", live.record.on_rank, loop.data(rows), batch_size=batch_size)
        if isinstance(made, Raised):
            raise made.error
        # What is read is plain, and can be sent.
        return made if made is None else read(made, "on_rank()")

    calls: Sequence[Callable[[], Any]] = [rank] * ranks
    made = attempt("evaluating over processes", on_processes, calls)
    return made if isinstance(made, Raised) else _reports(made, ranks, "on_rank()")


def miscounted(reports: Reports, count: int) -> dict[str, list[str]]:
    """What is wrong with the samples that ranks say they counted: by who says so, one line for each kind.

    Nothing where each rank tells of all samples, or where all ranks together do.
    """
    told = {rank: list(one.records) for rank, one in reports.items() if one.records is not None}
    ids = {rank: [place for place, _ in records] for rank, records in told.items()}
    together = repeated([one for own in ids.values() for one in own], count)
    if not ids or not together:
        return {}
    if max(map(len, ids.values())) < count:  # each tells of its own
        return {"the ranks together": together}
    lines = {f"rank {rank}": repeated(own, count) for rank, own in ids.items() if own}
    return {who: wrong for who, wrong in lines.items() if wrong}


def _reports(made: Any, ranks: int, where: str) -> Reports:
    if not isinstance(made, (list, tuple)) or len(made) != ranks:
        raise TargetError(
            f"{where} did not give what every rank reports",
            actual=f"{type(made).__name__}: {show(made)[:120]}",
            expected=f"a list of {ranks}, with None for a rank that reports nothing",
            cause="ranks",
        )
    found = {rank: read(one, f"rank {rank} of {where}") for rank, one in enumerate(made) if one is not None}
    if not found:
        raise TargetError("no rank reports anything", actual=show(made), expected="numbers by name", cause="ranks")
    return found

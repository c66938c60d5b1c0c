"""EC530, EC531: evaluations that are interrupted, saved, and resumed in a new process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.process_ranks import on_processes
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.loop.cases import Interruptions
from pytest_evalcheck.kinds.loop.subject import LoopSubject, comparable, ids_of, miscounted, read_result

_STOPS = ("in the middle", "after the last batch", "twice", "twice with no batch between")


@check("EC530", conditions=("before the first batch", *_STOPS), examples=8, after=("EC501", "EC504"))
def a_resumed_evaluation_gives_the_result_of_an_undisturbed_one(loop: LoopSubject, case: Interruptions) -> None:
    """An evaluation that is stopped after any batch, saved, and resumed in a new process gives the undisturbed result.

    It is stopped once, twice, and twice with no batch between; each part runs in a process of its own.

    Why: long runs are interrupted, and a sample that is skipped or counted twice changes the number without an error.
    Usual cause: the state after a resume counts from there and not from the beginning, is not known before the first
    batch, or counts twice what is skipped to go back to the place.
    Fix: `{"seen": start + seen}`: save how many batches were seen since the beginning, and restore that number.
    """
    sizes = {"batch_size": case.batch_size}
    _expect_resumed(loop, case.samples, case.stops, [sizes] * (len(case.stops) + 1), "resumed")


@check("EC531", conditions=("in the middle",), examples=3, after=("EC530", "EC506"))
def an_evaluation_is_resumed_with_other_workers_or_refused(loop: LoopSubject, case: Interruptions) -> None:
    """With workers, and with another number of them than before, a resumed evaluation gives the undisturbed result.

    Another number than before may be refused by an error.

    Why: the machine that goes on with a run is not always the one on which it began.
    Usual cause: the state is that of each worker, and what some of them had left is lost; batches that were read ahead
    count as seen.
    Fix: `if len(state["places"]) != workers: raise ValueError(...)`; save the place of the last returned batch.
    """
    name = next((name for name in ("workers", "num_workers") if name in loop.offered), None)
    if loop.record.evaluate_part is None or name is None:
        raise NotApplicable("the loop is not resumed, or its number of workers cannot be chosen")
    size = {"batch_size": case.batch_size}
    both = {**size, name: 2}
    _expect_resumed(loop, case.samples, case.stops, [both] * (len(case.stops) + 1), "with-workers")
    for first, id in ((size, "with-more-workers"), (both, "with-fewer-workers")):
        later = size if first is both else both
        _expect_resumed(loop, case.samples, case.stops[:1], [first, later], id, refusable=True)


def _expect_resumed(
    loop: LoopSubject,
    rows: Rows,
    stops: Sequence[int],
    configs: Sequence[Mapping[str, Any]],
    id: str,
    *,
    refusable: bool = False,
) -> None:
    if loop.record.evaluate_part is None:
        raise NotApplicable("the loop does not evaluate in parts: ec.Loop(..., evaluate_part=...)")
    expected, state = loop.evaluate(rows, **configs[0]), None
    for batches, config in zip(stops, configs, strict=False):
        state = evaluate_part(loop, rows, state, batches, config)
        if isinstance(state, Raised):
            break
    result = state if isinstance(state, Raised) else evaluate_part(loop, rows, state, None, configs[-1])
    if isinstance(expected, Raised) or (isinstance(result, Raised) and refusable):
        refused(expected if isinstance(expected, Raised) else result)
        if not isinstance(expected, Raised):
            inconclusive(f"another number of workers is refused: {result}")
        return
    about = f"{len(rows)} samples in parts of {[*stops, 'all']} batches, each in a new process"
    records = None if isinstance(result, Raised) else result.records
    wrong = {} if records is None else miscounted(ids_of(records), len(rows))
    for way, line in wrong.items():
        expect(records).holds(False, about=f"of {about}, {line}", id=f"{id}-{way}")
    if not wrong:
        expect(comparable(result)).equals(comparable(expected), about=f"the result of {about}", id=id)


def evaluate_part(loop: LoopSubject, rows: Rows, state: Any, batches: int | None, config: Mapping[str, Any]) -> Any:
    """The new state, or the result of the whole evaluation, of a new loop in a new process; or the error."""

    def part() -> Any:
        run = loop.fresh()
        result = run.attempt("evaluate_part()", run.record.evaluate_part, loop.data(rows), state, batches, **config)  # type: ignore[arg-type]
        if isinstance(result, Raised):
            raise result.error
        return result if batches is not None else read_result(result, "evaluate_part()")

    results = attempt("evaluating a part in a new process", on_processes, [part], group=False)
    return results if isinstance(results, Raised) else results[0]

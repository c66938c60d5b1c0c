"""EC502, EC503, EC507, EC511: every sample counts once, and its record is its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, difference, show
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.process_ranks import on_processes, repeated_on_a_rank
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.loop.cases import Evaluation, OutOfMemory, ProcessRanks, Ranks
from pytest_evalcheck.kinds.loop.memory import LimitedMemory, OutOfMemoryInjector, simulated_cuda_memory
from pytest_evalcheck.kinds.loop.ranks import share_of, watched, with_ids_of_the_whole
from pytest_evalcheck.kinds.loop.record import Evaluated, LoopData
from pytest_evalcheck.kinds.loop.subject import (
    LoopSubject,
    comparable,
    format_config,
    ids_of,
    miscounted,
    options_id,
    read_result,
)

Results = dict[int, Evaluated]
"""Results by rank; ranks that report nothing are left out."""


@check(
    "EC502",
    conditions=("even ranks", "uneven ranks", "a rank without samples", "a last batch of one"),
    examples=12,
    after=("EC501", "EC504"),
)
def every_sample_counts_exactly_once(loop: LoopSubject, case: Ranks) -> None:
    """Every sample counts exactly once, in one process, over ranks and in a stream; ids are compared, not counts.

    Every rank that reports a number reports the number of one process.

    Why: scores of a shared benchmark are compared to the third digit, on the samples that everybody has.
    Usual cause: a distributed sampler repeats samples to fill the last ranks; if `never-counted` fails, the remainder,
    such as a last batch that is smaller, is dropped.
    Fix: pytest_evalcheck.fixes.loops.PredictionsById
    """
    size, count = case.batch_size, len(case.samples)
    default = comparable(loop.evaluate(case.samples, batch_size=size))
    applies = loop.record.over_ranks is not None
    for config in ({"batch_size": size}, *loop.configs(size, workers=False)):
        about = f"{count} samples with {format_config(config)}"
        result = loop.evaluate(case.samples, **config)
        if isinstance(result, Raised):
            expect(result).equals(default, about=f"the result of {about}", id=f"result{options_id(config)}")
        elif result.records is not None:
            applies = True
            _expect_each_once(ids_of(result.records), count, about, f"samples{options_id(config)}")
    if not applies:
        raise NotApplicable("the loop returns no records and does not evaluate over ranks")
    nothing = loop.evaluate([], batch_size=size)
    if not isinstance(nothing, Raised) and nothing.records:
        expect(nothing.records).equals([], about="the records of no samples", id="records-of-nothing")
    for ranks in case.RANKS if loop.record.over_ranks is not None else ():
        _expect_each_once_over_ranks(loop, case, ranks, over_ranks(loop, case.samples, ranks, size))


@check("EC511", conditions=("even ranks", "uneven ranks"), marks=("distributed",), examples=4, after=("EC502", "EC501"))
def every_sample_counts_exactly_once_over_processes(loop: LoopSubject, case: ProcessRanks) -> None:
    """EC502 with real processes: over the ranks of a gloo group every sample counts exactly once, and no rank hangs.

    Why: code that pads, truncates and orders what real processes gather never runs with ranks in one process.
    Usual cause: each rank takes the mean of its own samples, and those means are averaged.
    Fix: pytest_evalcheck.fixes.loops.gather_function
    """
    for ranks in case.RANKS:
        _expect_each_once_over_ranks(loop, case, ranks, over_processes(loop, case.samples, ranks, case.batch_size))


@check(
    "EC503",
    conditions=("a single sample", "a last batch of one", "full batches", "fewer samples than a batch"),
    examples=12,
    after=("EC501",),
)
def records_match_their_samples(loop: LoopSubject, case: Evaluation) -> None:
    """Prediction i, label i and id i belong to one sample: its record is the one that it gets alone.

    Why: error analysis, and every metric that is computed from saved predictions, reads these records.
    Usual cause: predictions of unequal length are padded, joined and cut elsewhere than the labels, or samples are
    sorted by length and only some of their fields are restored to the original order.
    Fix: pytest_evalcheck.fixes.loops.PredictionsById
    """
    alone = [loop.records([row], batch_size=case.batch_size) for row in case.samples]
    expected = [item if isinstance(item, Raised) else [fields for _, fields in item] for item in alone]
    if all(isinstance(item, Raised) for item in alone):
        inconclusive(f"no sample can be evaluated alone: {alone[0]}")
        return
    for config in ({"batch_size": case.batch_size}, *loop.configs(case.batch_size, workers=False)):
        records = loop.records(case.samples, **config)
        if isinstance(records, Raised):
            refused(records)
            continue
        if not ids_of(records):
            inconclusive("an evaluation gave no records; see EC502")
        for i, fields in records:
            if i in range(len(expected)) and not isinstance(expected[i], Raised):
                same = [j for j, other in enumerate(expected) if difference([fields], other, loop.tolerance) is None]
                detail = f"It is the record of sample {same[0]}." if same else ""
                about = f"the record of sample {i} of {len(expected)} with {format_config(config)}"
                expect([fields]).equals(expected[i], about=about, id=f"record{options_id(config)}", detail=detail)


@check("EC507", conditions=("one failure", "the retry fails too", "a last batch of one"), after=("EC501",))
def a_retried_batch_counts_once(loop: LoopSubject, case: OutOfMemory) -> None:
    """A batch that runs out of memory half way and is evaluated again, perhaps in parts, counts once.

    Why: where the batch size adapts to the memory, the machine decides which samples count twice.
    Usual cause: results of the first parts of a batch are not removed before the batch is tried again.
    Fix: pytest_evalcheck.fixes.loops.transactional
    """
    if not loop.record.retries:
        raise NotApplicable("the loop does not retry a batch: ec.Loop(..., retries=True)")
    run, injector = loop.fresh(), OutOfMemoryInjector()
    with injector.watch(run.model):
        expected = run.evaluate(loop.data(case.samples), batch_size=case.batch_size)
    if not injector.passes or isinstance(expected, Raised):
        inconclusive("no forward pass of several rows was seen")
        return
    for index in range(injector.passes):
        run, failing = loop.fresh(), OutOfMemoryInjector(index, case.times)
        with failing.watch(run.model):
            result = run.evaluate(loop.data(case.samples), batch_size=case.batch_size)
        when = f"after forward pass {index} ran out of memory{' twice in a row' * (failing.failed > 1)}"
        _expect_all_counted(result, expected, len(case.samples), when)
    memory = simulated_cuda_memory(loop.device)
    if memory is not None:
        _expect_recovery_on_device(loop, case, expected, memory)


def _expect_recovery_on_device(loop: LoopSubject, case: OutOfMemory, expected: Any, memory: Any) -> None:
    """The same with a device that is too small for one batch, or for its halves too."""
    run, measured = loop.fresh(), LimitedMemory(memory)
    with measured.watch(run.model):
        run.evaluate(loop.data(case.samples), batch_size=case.batch_size)
    for index, need in enumerate(measured.needs):
        run = loop.fresh()
        limited = LimitedMemory(memory, measured.needs, index, 1.0 if case.times == 1 else 0.4)
        with limited.watch(run.model):
            result = run.evaluate(loop.data(case.samples), batch_size=case.batch_size)
        if limited.failed:  # a model that is not on the device needs nothing there
            when = f"after forward pass {index} needed {need} bytes of the device, and had {limited.given}"
            _expect_all_counted(result, expected, len(case.samples), when)


def _expect_all_counted(result: Any, expected: Any, count: int, when: str) -> None:
    if isinstance(result, Evaluated) and result.records is not None:
        about = f"{count} samples {when}"
        _expect_each_once(ids_of(result.records), count, about, "samples-after-out-of-memory")
    expect(comparable(result)).equals(comparable(expected), about=f"the result {when}", id="result-after-out-of-memory")


def _expect_each_once(ids: list[int], count: int, about: str, id: str) -> None:
    problems = miscounted(ids, count)
    expect(ids).holds(
        not problems,
        about=f"{about}: {_texts(problems)}",
        id="-".join([id, *problems]),
    )


def _texts(problems: Mapping[str, str]) -> str:
    return "; ".join(problems.values())


def _expect_each_once_over_ranks(loop: LoopSubject, case: Ranks, ranks: int, results: Any) -> None:
    about = f"{len(case.samples)} sample{'s' * (len(case.samples) > 1)} over {ranks} ranks"
    single = loop.numbers(case.samples, batch_size=case.batch_size)
    if repeated_on_a_rank(results, single):
        refused(results)
        return
    if isinstance(results, Raised) or isinstance(single, Raised):
        expect(results).equals(single, about=f"the numbers of {about}", id="numbers-over-ranks")
        return
    for who, problems in miscounted_by_rank(results, len(case.samples)).items():
        ids = {rank: ids_of(result.records or ()) for rank, result in results.items()}
        expect(ids).holds(
            not problems,
            about=f"{about}, as counted by {who}: {_texts(problems)}",
            id="-".join(["samples-over-ranks" if who == _TOGETHER else "samples-of-one-rank", *problems]),
        )
    for other in (1, ranks * case.batch_size):
        if difference(single, loop.numbers(case.samples, batch_size=other), loop.tolerance) is not None:
            inconclusive("the numbers depend on the batch size; ranks have smaller batches, and larger ones together")
            return
    for rank, result in results.items():
        if result.numbers:
            expect(dict(result.numbers)).equals(
                single,
                about=f"the numbers of {about}: rank {rank}",
                id="numbers-over-ranks",
            )


def over_ranks(loop: LoopSubject, rows: Rows, ranks: int, batch_size: int) -> Any:
    """The `Results` of an evaluation over ranks in this process, or the error."""
    run = loop.fresh()
    assert run.record.over_ranks is not None
    results = run.attempt("over_ranks()", run.record.over_ranks, loop.data(rows), ranks, batch_size=batch_size)
    return results if isinstance(results, Raised) else _results(results, ranks, "over_ranks()")


def over_processes(loop: LoopSubject, rows: Rows, ranks: int, batch_size: int) -> Any:
    """The same with real processes, each with a loop of its own.

    A loop without ``on_rank`` evaluates as it does in one process. Where each rank reads all samples though the ranks
    communicate, somebody else shards the data, and it gets a share of them.

    Raises:
        NotApplicable: where a loop without ``on_rank`` calls no collective: its ranks know nothing of each other.
    """

    def evaluated(name: str, data: LoopData) -> Any:
        run, where = loop.fresh(), f"{name}()"
        result = run.attempt(where, getattr(run.record, name), data, batch_size=batch_size)
        if isinstance(result, Raised):
            raise result.error
        # A result that was read holds only plain values, which can be sent to another process.
        return result if result is None else read_result(result, where)

    def from_every_rank(rank: Callable[[], Any]) -> Any:
        return attempt("evaluating over processes", on_processes, [rank] * ranks)

    if loop.record.on_rank is not None:
        results = from_every_rank(lambda: evaluated("on_rank", loop.data(rows)))
        return results if isinstance(results, Raised) else _results(results, ranks, "on_rank()")
    readings = from_every_rank(lambda: watched(loop.data(rows), lambda data: evaluated("evaluate", data)))
    if isinstance(readings, Raised):
        return readings
    if not any(reading.communicates for reading in readings):
        raise NotApplicable(
            "its ranks call no collective of torch.distributed, and ec.Loop(..., on_rank=...) is missing"
        )
    results = [reading.result for reading in readings]
    if all(reading.whole for reading in readings):
        results = from_every_rank(lambda: with_ids_of_the_whole(evaluated("evaluate", share_of(loop.data(rows)))))
    return results if isinstance(results, Raised) else _results(results, ranks, "evaluate()")


def miscounted_by_rank(results: Results, count: int) -> dict[str, dict[str, str]]:
    """Return the ways in which ranks count samples wrongly: by the rank, or for all together.

    Empty where each rank has records of all samples, or where all ranks together have.
    """
    ids = {rank: ids_of(result.records) for rank, result in results.items() if result.records is not None}
    together = miscounted([sample for own in ids.values() for sample in own], count)
    if not ids or not together:
        return {}
    if max(map(len, ids.values())) < count:  # each has records of its own shard
        return {_TOGETHER: together}
    problems = {f"rank {rank}": miscounted(own, count) for rank, own in ids.items() if own}
    return {who: lines for who, lines in problems.items() if lines}


_TOGETHER = "the ranks together"


def _results(results: Any, ranks: int, where: str) -> Results:
    if not isinstance(results, (list, tuple)) or len(results) != ranks:
        raise TargetError(
            f"{where} did not return the result of every rank",
            actual=f"{type(results).__name__}: {show(results)[:120]}",
            expected=f"a list of {ranks}, with None for a rank that reports nothing",
            cause="ranks",
        )
    read = {rank: read_result(item, f"rank {rank} of {where}") for rank, item in enumerate(results) if item is not None}
    if not read:
        raise TargetError("no rank reports anything", actual=show(results), expected="numbers by name", cause="ranks")
    return read

"""EC502, EC503, EC507, EC511: every sample counts once, as itself."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.loop.cases import Evaluation, Gathered, Spread
from pytest_evalcheck.kinds.loop.cases_interrupted import Exhausted
from pytest_evalcheck.kinds.loop.memory import Forwards
from pytest_evalcheck.kinds.loop.ranks import miscounted, over_processes, over_ranks
from pytest_evalcheck.kinds.loop.results import Evaluated, plainly, repeated
from pytest_evalcheck.kinds.loop.subject import LoopSubject, words


@check(
    "EC502",
    regimes=("even ranks", "uneven ranks", "a rank without samples", "a last batch of one"),
    examples=12,
)
def every_sample_counts_exactly_once(loop: LoopSubject, case: Spread) -> None:
    """Every sample counts exactly once: by its id, not by how many there are, also over ranks and in a stream.

    Every rank that reports a number reports that of one process.

    Why: scores of a shared benchmark are compared to the third digit, on the samples that everybody has.
    Usual cause: a distributed sampler repeats samples to fill the last ranks, or the remainder is dropped.
    Fix: pytest_evalcheck.fixes.loops.PredictionsById
    """
    size, count, seen = case.batch_size, len(case.samples), loop.record.over_ranks is not None
    plain = loop.evaluated(case.samples, batch_size=size)
    for config in ({"batch_size": size}, *loop.ways(size, workers=False)):
        made = loop.evaluated(case.samples, **config)
        about = f"of {count} samples with {words(config)} not every one counts once"
        if isinstance(made, Raised):
            expect(made).equals(plainly(plain), about=about)
        elif made.records is not None:
            seen, ids = True, [place for place, _ in made.records]
            wrong = repeated(ids, count)
            expect(ids).holds(not wrong, about=f"{about}: {'; '.join(wrong)}")
    if not seen:
        raise NotApplicable("the loop gives no records and no evaluation over ranks")
    nothing = loop.evaluated([], batch_size=size)
    if not isinstance(nothing, Raised) and nothing.records:
        expect(nothing.records).equals([], about="the records of no samples")
    for ranks in case.ranks if loop.record.over_ranks is not None else ():
        _counted_over_ranks(loop, case, ranks, over_ranks(loop, case.samples, ranks, size))


@check("EC511", regimes=("even ranks", "uneven ranks"), marks=("distributed",), examples=4)
def every_sample_counts_exactly_once_over_processes(loop: LoopSubject, case: Gathered) -> None:
    """EC502 with real processes: over the ranks of a gloo group every sample counts exactly once, and none hangs.

    Why: what real processes gather is padded, cut and ordered by code that ranks in one process never run.
    Usual cause: each rank takes the mean of its own samples, and those means are averaged.
    Fix: pytest_evalcheck.fixes.loops.gather_function
    """
    if loop.record.on_rank is None:
        raise NotApplicable("the loop does not evaluate over processes: ec.Loop(..., on_rank=...)")
    for ranks in case.ranks:
        _counted_over_ranks(loop, case, ranks, over_processes(loop, case.samples, ranks, case.batch_size))


def _counted_over_ranks(loop: LoopSubject, case: Spread | Gathered, ranks: int, reports: Any) -> None:
    about = f"of {len(case.samples)} sample{'s' * (len(case.samples) > 1)} over {ranks} ranks"
    single = loop.numbers(case.samples, batch_size=case.batch_size)
    if isinstance(reports, Raised) or isinstance(single, Raised):
        expect(reports).equals(single, about=f"the numbers {about}")
        return
    for who, wrong in miscounted(reports, len(case.samples)).items():
        ids = {rank: [place for place, _ in one.records or ()] for rank, one in reports.items()}
        expect(ids).holds(not wrong, about=f"{about} {who} counts not every one once: {'; '.join(wrong)}")
    for other in (1, ranks * case.batch_size):
        if difference(single, loop.numbers(case.samples, batch_size=other), loop.tolerance) is not None:
            inconclusive("the numbers depend on the batch size; ranks have smaller batches, and larger ones together")
            return
    for rank, report in reports.items():
        if report.numbers:
            expect(dict(report.numbers)).equals(single, about=f"the numbers {about}: rank {rank}")


@check(
    "EC503",
    regimes=("a single sample", "a last batch of one", "full batches", "fewer samples than a batch"),
    examples=12,
)
def what_is_said_of_a_sample_is_its_own(loop: LoopSubject, case: Evaluation) -> None:
    """Prediction i, label i and id i belong to one sample: its record is the one that it gets alone.

    Why: error analysis, and every metric that is worked out from saved predictions, reads these records.
    Usual cause: predictions of unequal length are padded, joined and cut elsewhere than the labels, or samples are
    sorted by length and only part of what is said of them is put back.
    Fix: pytest_evalcheck.fixes.loops.PredictionsById
    """
    alone = [loop.records([row], batch_size=case.batch_size) for row in case.samples]
    own = [found if isinstance(found, Raised) else [fields for _, fields in found] for found in alone]
    for config in ({"batch_size": case.batch_size}, *loop.ways(case.batch_size, workers=False)):
        records = loop.records(case.samples, **config)
        if isinstance(records, Raised):
            refused(records)
            continue
        for place, fields in records:
            if place in range(len(own)) and not isinstance(own[place], Raised):
                others = [i for i, one in enumerate(own) if difference([fields], one, loop.tolerance) is None]
                detail = f"It is what sample {others[0]} gets." if others else ""
                about = f"what is said of sample {place} of {len(own)} with {words(config)}"
                expect([fields]).equals(own[place], about=about, detail=detail)


@check("EC507", regimes=("one failure", "the retry fails too", "a last batch of one"))
def a_batch_that_is_retried_counts_once(loop: LoopSubject, case: Exhausted) -> None:
    """A batch that runs out of memory half way and is evaluated again, perhaps in parts, counts once.

    Why: with a batch size that fits itself to the memory, what counts twice depends on the machine.
    Usual cause: what the first parts of a batch added is not taken back before the batch is tried again.
    Fix: pytest_evalcheck.fixes.loops.retry_in_parts
    """
    if not loop.record.retries:
        raise NotApplicable("the loop does not retry a batch: ec.Loop(..., retries=True)")
    live, forwards = loop.fresh(), Forwards()
    with forwards.of(live.model):
        expected = live.evaluate(loop.data(case.samples), batch_size=case.batch_size)
    if not forwards.several or isinstance(expected, Raised):
        inconclusive("no forward pass of several rows was seen")
        return
    for place in range(forwards.several):
        live, failing = loop.fresh(), Forwards(place, case.times)
        with failing.of(live.model):
            found = live.evaluate(loop.data(case.samples), batch_size=case.batch_size)
        where = f"after forward pass {place} ran out of memory{' twice in a row' * (failing.failed > 1)}"
        if isinstance(found, Evaluated) and found.records is not None:
            ids = [one for one, _ in found.records]
            wrong = repeated(ids, len(case.samples))
            expect(ids).holds(not wrong, about=f"{where} not every sample counts once: {'; '.join(wrong)}")
        expect(plainly(found)).equals(plainly(expected), about=f"what is given {where}")

"""EC501, EC506, EC508, EC509: the numbers of an evaluation are those of the samples, however they are evaluated."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.loop.cases import Evaluation, Sequel
from pytest_evalcheck.kinds.loop.cases_interrupted import Spoilt
from pytest_evalcheck.kinds.loop.results import nonfinite, plainly, reported, undefined
from pytest_evalcheck.kinds.loop.subject import LoopSubject, words

_SIZES = (
    "a single sample",
    "fewer samples than a batch",
    "full batches",
    "a last batch of one",
    "a last batch that is not full",
    "a last batch that lacks one",
)


@check("EC501", regimes=_SIZES)
def the_batch_size_does_not_change_the_numbers(loop: LoopSubject, case: Evaluation) -> None:
    """The numbers, the loss included, are the same for every batch size, and those of one sample after the other.

    What is exact is asked of the target: one sample at a time in float64, without the framework.

    Why: two teams with different memory report different numbers for one model.
    Usual cause: batch means are averaged with equal weights, but the last batch is smaller or has fewer tokens.
    Fix: pytest_evalcheck.fixes.loops.LossMean
    """
    loop.option("batch_size")
    one, count = loop.size(1), len(case.samples)
    single = loop.numbers(case.samples, batch_size=one)
    about = f"the numbers of {count} samples at batch size"
    # The sizes of all but one, and of all, are tried with every case: they show most.
    for size in dict.fromkeys(map(loop.size, (case.batch_size, max(1, count - 1), count))):
        found = loop.numbers(case.samples, batch_size=size)
        if (nothing := undefined(single)) and undefined(found):
            refused(nothing)
            return
        expect(found).equals(single, about=f"{about} {size}, beside those at {one}")
    exact = loop.exact(case.samples)
    if exact is not None:
        expect(loop.named(single, exact)).equals(exact, about=f"{about} {one}, beside the exact ones")


@check("EC506", regimes=("fewer samples", "as many samples", "more samples"), examples=4)
def workers_and_their_order_do_not_change_the_numbers(loop: LoopSubject, case: Sequel) -> None:
    """Workers, prefetching, pinning and the order of evaluators do not change the numbers.

    Why: they are set to what a machine can do, and the next machine is another one.
    Usual cause: every worker of an iterable data set gives all of it, or evaluators share what they count in.
    Fix: give each worker a shard (torch.utils.data.get_worker_info), each evaluator its own state.
    """
    ways = loop.ways(case.batch_size, workers=True)
    if not ways and loop.record.evaluators is None:
        raise NotApplicable("the loop has no option about workers and no evaluators")
    expected = plainly(loop.evaluated(case.samples, batch_size=case.batch_size))
    for config in ways:
        found = plainly(loop.evaluated(case.samples, **config))
        expect(found).equals(expected, about=f"what is given of {len(case.samples)} samples with {words(config)}")
    if loop.record.evaluators is not None:
        rows = {"first": case.samples, "second": case.others}
        forwards = loop.together(rows, ("first", "second"), case.batch_size)
        backwards = loop.together(rows, ("second", "first"), case.batch_size)
        expect(backwards).equals(forwards, about="what two evaluators give in the other order")


@check("EC508", needs=("corrupted",), regimes=("the first sample", "a later sample"))
def a_sample_that_is_not_finite_is_seen(loop: LoopSubject, case: Spoilt) -> None:
    """A number that is NaN or infinite for one sample alone is so for all of them, or an error or a warning says so.

    Why: a model that gives NaN for some samples gets a good score on the others.
    Usual cause: a mean that skips NaN, a filter before it, or `nan_to_num`.
    Fix: pytest_evalcheck.fixes.loops.LossMean, which keeps a NaN
    """
    row = [case.samples[case.poisoned]]
    alone = loop.exact(row) or loop.numbers(row, batch_size=case.batch_size)
    names = [] if isinstance(alone, Raised) else nonfinite(alone)
    found, warned = loop.numbers_and_warnings(case.samples, batch_size=case.batch_size)
    if not names:
        inconclusive("no number is NaN or infinite for the sample alone")
        return
    said = isinstance(found, Raised) or warned or reported(found)
    left = [] if said else [name for name in names if name in found and name not in nonfinite(found)]
    expect(found).holds(
        not left,
        about=f"{case.number} in sample {case.poisoned} left no trace in {', '.join(map(repr, left))}",
        detail=f"alone  {show(alone)}\nof all  {show(found)}",
    )


@check("EC509", regimes=("a last batch of one", "full batches", "a single sample"))
def numbers_of_one_quantity_agree(loop: LoopSubject, case: Evaluation) -> None:
    """Numbers that claim the same quantity agree: the loss and the metric of that name, perplexity and loss.

    Why: one of them is quoted, and nobody looks at the other.
    Usual cause: one is a mean over samples and the other over tokens, or one is made of batch means.
    Fix: make one of the other, or both of the same sums and counts.
    """
    if not loop.record.agree:
        raise NotApplicable("the loop names no numbers that claim the same: ec.Loop(..., agree={...})")
    found = loop.numbers(case.samples, batch_size=case.batch_size)
    if isinstance(found, Raised):
        refused(found)
        return
    for name in loop.record.agree:
        about = f"the number {name!r}, beside the same made of the others"
        expect(found.get(name)).equals(loop.agreed(name, found), about=about, detail=show(found))

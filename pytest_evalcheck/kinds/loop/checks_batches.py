"""EC501, EC506, EC508, EC509, EC512: the numbers depend on the samples, not on how they are evaluated."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised, difference, show
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.loop.cases import SIZES, Evaluation, NonFinite, TwoDatasets
from pytest_evalcheck.kinds.loop.subject import (
    BATCH_SIZE,
    LoopSubject,
    all_nan,
    comparable,
    counts_non_finite,
    format_config,
    non_finite,
    options_id,
)


@check("EC501", conditions=SIZES, after=("EC504",))
def the_batch_size_does_not_change_the_numbers(loop: LoopSubject, case: Evaluation) -> None:
    """The numbers, the loss included, are the same for every batch size, and equal the exact numbers.

    The target supplies the exact numbers: one sample at a time in float64, without the framework.

    Why: two teams with different memory report different numbers for one model.
    Usual cause: batch means are averaged with equal weights, but the last batch is smaller or has fewer tokens, or what
    one sample asks for, such as a stop string, is used for its batch; if samples differ in length, padding counts.
    Fix: pytest_evalcheck.fixes.loops.LossMean
    """
    if BATCH_SIZE not in loop.offered:
        raise NotApplicable(f"evaluate() has no option {BATCH_SIZE!r}")
    smallest, count = loop.nearest_batch_size(1), len(case.samples)
    expected = loop.numbers(case.samples, batch_size=smallest)
    about = f"the numbers of {count} samples at batch size"
    # Every case tries batches of all samples but one, and of all: they show most.
    for size in dict.fromkeys(map(loop.nearest_batch_size, (case.batch_size, max(1, count - 1), count))):
        actual = loop.numbers(case.samples, batch_size=size)
        if (refusal := all_nan(expected)) and all_nan(actual):
            refused(refusal)
            return
        expect(actual).equals(
            expected, about=f"{about} {size}, compared with those at {smallest}", id="another-batch-size"
        )
    exact = loop.exact(case.samples)
    if exact is not None:
        actual = loop.with_exact_names(expected, exact)
        expect(actual).equals(exact, about=f"{about} {smallest}, compared with the exact ones", id="exact-numbers")


@check("EC512", existential=True, after=("EC501",))
def other_samples_get_other_numbers(loop: LoopSubject, case: TwoDatasets) -> None:
    """Control: the numbers depend on the samples: some others, as many of them, get other numbers.

    Why: a loop that always returns the same numbers passes nearly every other check.
    Usual cause: no answer can be right, as of an untrained model; or an error becomes a number, numbers of an earlier
    run are returned, or no sample is ever read.
    Fix: let the inputs draw samples that the model answers rightly (expect its own answers to some of them), or return
    a number that varies, such as the loss. Then look at what the loop adds up; no `except Exception` around it.
    """
    count = min(len(case.samples), len(case.others))
    samples, others = case.samples[:count], case.others[:count]
    if samples == others:
        raise NotApplicable("both data sets have the same samples")
    first, second = (loop.numbers(rows, batch_size=case.batch_size) for rows in (samples, others))
    if isinstance(first, Raised) and isinstance(second, Raised):
        refused(first)
        return
    differ = difference(first, second, loop.tolerance) is not None
    about, detail = "nothing was tested: other samples got the same numbers", f"both  {show(first)}"
    expect(first).holds(differ, about=about, id="other-samples", form="different", beside=second, detail=detail)


@check("EC506", conditions=("fewer samples", "as many samples", "more samples"), examples=4, after=("EC504", "EC501"))
def workers_and_evaluator_order_do_not_change_the_numbers(loop: LoopSubject, case: TwoDatasets) -> None:
    """Workers, prefetching, pinned memory and the order of evaluators do not change the numbers.

    Why: these options are set for one machine, and the next machine needs others.
    Usual cause: every worker reads the whole of an iterable data set, or evaluators share their state.
    Fix: a shard for each worker, `islice(data, info.id, None, info.num_workers)`, and a state for each evaluator.
    """
    configs = loop.configs(case.batch_size, workers=True)
    if not configs and loop.record.evaluators is None:
        raise NotApplicable("the loop has no option for workers and no evaluators")
    expected = comparable(loop.evaluate(case.samples, batch_size=case.batch_size))
    for config in configs:
        actual = comparable(loop.evaluate(case.samples, **config))
        about = f"the result of {len(case.samples)} samples with {format_config(config)}"
        expect(actual).equals(expected, about=about, id=f"result{options_id(config)}")
    if loop.record.evaluators is not None:
        rows = {"first": case.samples, "second": case.others}
        expected = loop.run_evaluators(rows, ("first", "second"), case.batch_size)
        actual = loop.run_evaluators(rows, ("second", "first"), case.batch_size)
        expect(actual).equals(
            expected, about="the results of two evaluators in the other order", id="evaluators-in-another-order"
        )


@check(
    "EC508",
    needs=("corrupted",),
    conditions=("the first sample", "a later sample"),
    after=("EC501",),
    outside="a number that is not finite",
)
def non_finite_samples_are_reported(loop: LoopSubject, case: NonFinite) -> None:
    """A number that is NaN or infinite for one sample alone stays so for all samples, or an error or warning says why.

    Why: a model that returns NaN for some samples gets a good score on the others.
    Usual cause: a mean that skips NaN, a filter before it, or `nan_to_num`.
    Fix: pytest_evalcheck.fixes.loops.LossMean, which keeps a NaN
    """
    row = [case.samples[case.corrupted]]
    alone = loop.exact(row) or loop.numbers(row, batch_size=case.batch_size)
    names = [] if isinstance(alone, Raised) else non_finite(alone)
    actual, warned = loop.numbers_and_warnings(case.samples, batch_size=case.batch_size)
    if not names:
        inconclusive("no number is NaN or infinite for the sample alone")
        return
    reported = isinstance(actual, Raised) or warned or counts_non_finite(actual)
    hidden = [] if reported else [name for name in names if name in actual and name not in non_finite(actual)]
    expect(actual).holds(
        not hidden,
        form="visible",
        about=f"{case.number} in sample {case.corrupted} does not show in {', '.join(map(repr, hidden))}",
        id=f"hidden-in-{slug(' '.join(hidden))}",
        detail=f"alone  {show(alone)}\nof all  {show(actual)}",
    )


@check("EC509", conditions=("a last batch of one", "full batches", "a single sample"), after=("EC501",))
def numbers_of_one_quantity_agree(loop: LoopSubject, case: Evaluation) -> None:
    """Numbers that measure the same quantity agree: the loss and the metric of that name, perplexity and loss.

    Why: one of them is quoted, and nobody looks at the other.
    Usual cause: one is a mean over samples and the other over tokens, or one averages batch means.
    Fix: compute one from the other, `perplexity = loss.exp()`, or both from the same sums and counts.
    """
    if not loop.record.agree:
        raise NotApplicable("the loop names no numbers that measure the same quantity: ec.Loop(..., agree={...})")
    numbers = loop.numbers(case.samples, batch_size=case.batch_size)
    if isinstance(numbers, Raised):
        refused(numbers)
        return
    for name in loop.record.agree:
        about = f"the number {name!r}, compared with its value computed from the others"
        expect(numbers.get(name)).equals(
            loop.recompute(name, numbers), about=about, id=f"number-{slug(name)}", detail=show(numbers)
        )

"""EC222, EC224 to EC226, EC238, EC241: ordinary data is scored, weights count, no sample is left out in silence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, difference, has_nonfinite, show
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive
from pytest_evalcheck.kinds.common.calling import is_clear_refusal
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.metric.cases import Declared, FewKinds, PartlyIgnored, Stream, Unequal, Weighted
from pytest_evalcheck.kinds.metric.samplewise import is_per_sample
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.strategies.samples import Arguments


@check(
    "EC222",
    conditions=("a batch of one", "a constant stream", "a last batch of one"),
    after=("EC201",),
    ordinary=True,
    severity="error",
)
def ordinary_data_is_scored_or_clearly_refused(metric: MetricSubject, case: FewKinds) -> None:
    """Ordinary data is scored or refused clearly: one sample, one class, classes that are absent.

    A refusal of `update` or of `compute` is clear where a `raise` statement raises an error with a text, other than
    those of mistakes of the code: a lookup, an attribute, a name, a type, an assertion or a division.

    Why: a small data set, a rare class or one rank of many has such data; the evaluation must not end there.
    Usual cause: the largest of no thresholds, a stack of no classes, an index found by a search that found nothing.
    Fix: `return value.new_tensor(nan)` with a warning for what is undefined, or `raise ValueError` that says what is
    missing.
    """
    live = metric.fresh().update(*case.split)
    if live.failed:
        if is_clear_refusal(live.failed.error):
            inconclusive(str(live.failed))
            return
        about = "update() ended in an error that says nothing about the data"
        expect(live.failed).holds(False, about=about, id="unclear-error-of-update", detail=str(live.failed))
        return
    value = live.compute()
    accident = isinstance(value, Raised) and not is_clear_refusal(value.error)
    expect(value).holds(
        not accident,
        about="compute() ended in an error that says nothing about the data, which update() had taken",
        id="unclear-error-of-compute",
        detail=str(value),
    )


@check("EC224", conditions=("weights of one", "a weight of two", "a weight of zero"), after=("EC201",))
def a_weight_counts_its_sample_so_often(metric: MetricSubject, case: Weighted) -> None:
    """A weight of 1 is no weight, a weight of 2 is the sample twice, and a weight of 0 is the sample left out.

    Why: a data set that is sampled, or balanced, is scored with weights; no reference is needed to see a wrong one.
    Usual cause: a weighted sum is divided by the number of rows, or a count beside it has no weights.
    Fix: pytest_evalcheck.fixes.WeightedMean
    """
    metric.require_weights()
    weighted = [metric.weighted(rows, weights) for rows, weights in case.batches_with_weights]
    repeated = [metric.weighted(rows, None) for rows in case.repeated]
    value, expected = metric.value(weighted), metric.value(repeated)
    if isinstance(value, Raised) and is_clear_refusal(value.error) and not isinstance(expected, Raised):
        inconclusive(str(value))  # such as weights of 0
        return
    what = "weights of 1" if set(case.weights) == {1} else "weights"
    expect(value).equals(
        expected,
        about=f"the value with {what}, beside each sample as often as its weight says",
        id="weights-of-one" if set(case.weights) == {1} else "weights",
    )


@check("EC225", conditions=("once", "repeated"), needs=("undefined",), after=("EC222",))
def an_undefined_value_is_said_to_be_undefined(metric: MetricSubject, case: Declared) -> None:
    """Samples without a value give NaN, an error or a warning, or the value that is documented for them.

    Such samples have no positives, one class, one cluster, or numbers that do not vary; the target declares them.

    Why: a score of 0 or 1 that nothing was measured for goes into a table, and into a mean with those of other data.
    Usual cause: a denominator is clamped or replaced, or a search that finds nothing returns its initial value.
    Fix: `torch.where(count > 0, total / count, nan)` for `total / count.clamp(min=1)`; or document the value and warn.
    """
    name, stream = list(metric.undefined.items())[case.which % len(metric.undefined)]
    rows = list(stream.samples) * case.copies
    value, warned = metric.value_and_all_warnings([rows])
    if stream.value is not None:
        about = f"the value of {name}, beside the one that is documented"
        expect(value).equals(stream.value, about=about, id="documented-value", detail=stream.documented)
        return
    told = bool(warned) or has_nonfinite(value) or (isinstance(value, Raised) and is_clear_refusal(value.error))
    what = "an obscure error" if isinstance(value, Raised) else "an ordinary value"
    expect(value).holds(
        told,
        about=f"{what} for {name}",
        id="obscure-error" if isinstance(value, Raised) else "ordinary-value",
        form="" if isinstance(value, Raised) else "warned",
        detail=f"expected  NaN, an error or a warning\nactual    {show(value)}\nsamples   {show(rows)}",
    )


@check("EC226", conditions=("a constant stream", "several batches"), needs=("symmetric",), after=("EC201", "EC205"))
def a_symmetric_metric_is_symmetric(metric: MetricSubject, case: Stream) -> None:
    """Predictions and targets exchanged give the same value, where the definition of the metric is symmetric.

    Why: whether x is compared with y or y with x must not matter to a correlation, a distance or an agreement.
    Usual cause: one side is centred, clamped or counted otherwise than the other.
    Fix: do to both sides the same: `preds - preds.mean(), target - target.mean()`.
    """
    exchanged = [_exchanged(metric.arguments(batch)) for batch in case.split]
    expect(metric.value(exchanged)).equals(
        metric.value(case.split), about="the value with predictions and targets exchanged", id="exchanged"
    )


def _exchanged(arguments: Arguments) -> Arguments:
    """The first two arguments in each other's place, whether they are given by position or by name."""
    if len(arguments.args) > 1:
        first, second, *others = arguments.args
        return Arguments((second, first, *others), arguments.kwargs)
    names = list(arguments.kwargs)
    if arguments.args or len(names) < 2:
        raise NotApplicable("the inputs have no two arguments that could be exchanged")
    one, other = names[:2]
    return Arguments((), {**arguments.kwargs, one: arguments.kwargs[other], other: arguments.kwargs[one]})


@check("EC238", conditions=("one batch", "several batches"), needs=("partly_ignored",), after=("EC213",))
def ignored_positions_do_not_change_the_value(metric: MetricSubject, case: PartlyIgnored) -> None:
    """Ignored positions among others in one sample do not change the value: tokens, labels or pixels.

    The same samples without these positions, or with other predictions there, have the same value.

    Why: a padded sentence, a prompt that is not scored and a border of an image have ignored positions beside others.
    Usual cause: the positions are counted in a denominator, taken for another class, or cut off by their number.
    Fix: take `labels != ignore_index` once, and use it for predictions, labels and counts.
    """
    actual, expected = metric.value(case.split), metric.value(case.split_beside)
    expect(actual).equals(
        expected, about="the value with ignored positions, beside the same samples without them", id="ignored-positions"
    )


@check("EC241", conditions=("one is missing", "several are missing"), examples=12, after=("EC201",))
def samples_without_a_prediction_are_not_left_out(metric: MetricSubject, case: Unequal) -> None:
    """A batch with fewer predictions than references is refused, or has another value than the pairs alone.

    Where the samples name no `wrong` prediction, nothing says which arguments are predictions: each is cut in turn, and
    the metric must leave out samples in every case. One that looks up predictions by a key may do so in one of them.
    A value that has an entry for each sample, and no other number, shows what is left out.

    Why: where a prediction is lost, the score of the others is reported as that of the data set.
    Usual cause: `zip` ends with the shortest list.
    Fix: `zip(preds, targets, strict=True)`, or count what is missing as wrong.
    """
    left_out = []
    for rows in case.both:
        short = metric.shorten(rows, case.kept)
        values = [metric.value([batch]) for batch, _ in short]
        refused = any(isinstance(value, Raised) for value in values)
        pairs = None if refused else metric.value([rows[: case.kept]])
        if refused or any(difference(value, pairs, metric.tolerance) is not None for value in values):
            compared()
            return
        whole = metric.value([rows])
        all_entries = is_per_sample(pairs, case.kept) and is_per_sample(whole, len(rows))
        if why := _shows_nothing(metric, pairs, whole, all_entries, [metric.value([each]) for _, each in short]):
            inconclusive(why)
            return
        left_out.append((pairs, values[0], whole))
    (pairs, value, whole), (others, *_) = left_out
    if difference(pairs, others, metric.tolerance) is None:
        inconclusive("the pairs of both batches have one value")
        return
    expect(value).holds(
        False,
        form="different",
        beside=pairs,
        about=f"samples without a prediction are left out: {len(case.samples) - case.kept} of {len(case.samples)}",
        id="left-out",
        detail=f"the value  {show(value)}\nof the pairs alone  {show(pairs)}\nof all samples  {show(whole)}",
    )


def _shows_nothing(metric: MetricSubject, pairs: Any, whole: Any, entries: bool, crossed: Sequence[Any]) -> str:
    """Return a reason if batches that are cut short show nothing, else ''."""
    if not crossed:
        return "the batch has one argument with rows"
    if entries:
        return "each sample has an entry of its own: one that is left out has none"
    if isinstance(pairs, Raised) or has_nonfinite(pairs):
        return "the pairs alone have no value"
    if difference(pairs, whole, metric.tolerance) is None:
        return "the samples that are left out do not change the value"
    same = any(difference(pairs, other, metric.tolerance) is None for other in crossed)
    return "the value is the same with references of other samples" if same else ""

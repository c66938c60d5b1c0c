"""EC201 to EC203, EC208, EC213 to EC218, EC220, EC221: the value depends on the samples, and on nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pytest_evalcheck.expectations.comparison import (
    Raised,
    Tolerance,
    difference,
    has_nonfinite,
    is_no_score,
    numbers_of,
    same_numbers,
    show,
)
from pytest_evalcheck.expectations.failures import expect, inconclusive
from pytest_evalcheck.expectations.failures import refused as note_refusal
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.case import RightAndWrong
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.process_ranks import repeated_on_a_rank
from pytest_evalcheck.kinds.metric.cases import (
    EmptyBatches,
    FineStream,
    FirstBatch,
    Ignored,
    NonFinite,
    Processes,
    Reordered,
    Shards,
    Stream,
)
from pytest_evalcheck.kinds.metric.samplewise import Path, constant_entries, fixed_paths, unordered
from pytest_evalcheck.kinds.metric.subject import MetricSubject


@check(
    "EC201",
    conditions=("a last batch of one", "batches of one", "uneven batches", "a constant stream"),
    after=("EC214",),
)
def splitting_a_stream_does_not_change_the_value(metric: MetricSubject, case: FineStream) -> None:
    """The value does not depend on how the stream is split into batches.

    Why: with another batch size, or a short last batch, the same model would get another score.
    Usual cause: a mean of batch means, or a statistic that is computed per batch and then averaged; if only the last
    digits differ, a sum in low precision.
    Fix: pytest_evalcheck.fixes.WeightedMean
    """
    metric.require_accumulator()
    expect(metric.value(case.split)).equals(
        metric.value(case.whole), about="the value of the stream in these batches", id="split"
    )


@check(
    "EC202",
    conditions=("an empty first batch", "an empty last batch", "an empty batch between"),
    after=("EC201",),
    outside="an empty batch",
)
def an_empty_batch_changes_nothing(metric: MetricSubject, case: EmptyBatches) -> None:
    """An empty batch does not change the value, or `update` refuses it.

    Why: filters, uneven ranks and exhausted loaders produce empty batches; one of them must not change a score.
    Usual cause: a mean over no rows is NaN, and NaN stays in every sum to which it is added.
    Fix: pytest_evalcheck.fixes.WeightedMean
    """
    metric.require_accumulator()
    metric.require_empty_batch()
    live = metric.fresh()
    for batch in case.split:
        refused = live.try_update(metric.arguments(batch))
        if refused and batch:
            live.failed = refused
    expect(live.compute()).equals(
        metric.value(case.without_empty), about="the value after an empty batch", id="after-empty-batch"
    )


@check(
    "EC203",
    conditions=("uneven shards", "an empty shard", "a shard of one sample", "several batches a rank"),
    after=("EC201", "EC209", "EC204"),
)
def merging_shards_gives_the_value_of_the_whole(metric: MetricSubject, case: Shards) -> None:
    """Samples split over ranks and merged give the single-process value.

    Why: an average of per-rank averages is biased as soon as one rank holds fewer samples.
    Usual cause: a mean is reduced instead of its sum and its count; if only the order differs, shards are joined in
    another order than that of their ranks; if only the last digits differ, a sum in low precision.
    Fix: pytest_evalcheck.fixes.WeightedMean
    """
    # The same batches in one process: whether another split changes the value is checked by EC201.
    expected = metric.value([batch for shard in case.split for batch in shard])
    for method in metric.merges:
        about = f"the value after merging the shards by {method}"
        expect(metric.merged(method, case.split)).equals(expected, about=about, id=f"merged-by-{slug(method)}")


@check(
    "EC220", conditions=("uneven shards", "an empty shard", "several batches a rank"), after=("EC219", "EC203", "EC214")
)
def an_early_merge_does_not_change_the_final_value(metric: MetricSubject, case: Shards) -> None:
    """Ranks that were merged mid-stream accept more batches, and merge to the same final value as without that.

    Why: intermediate scores are logged; the final one must not depend on it, and no rank may be left waiting.
    Usual cause: a cached value lets a rank skip the collective call in which the others wait.
    Fix: pytest_evalcheck.fixes.cached_compute, which keeps nothing between ranks; torchmetrics:
    `compute_with_cache=False`.
    """
    for method in metric.merges:
        expected = metric.merged(method, case.split)
        if isinstance(expected, Raised):
            inconclusive(f"{expected}, also without an early merge")
            continue
        expect(metric.merged(method, case.split, merge_early=True)).equals(
            expected,
            about=f"the value after merging the shards by {method} for the second time",
            id=f"merged-twice-by-{slug(method)}",
        )


@check(
    "EC221",
    conditions=("two uneven ranks", "three ranks of which one is empty", "two ranks of which the first is empty"),
    marks=("distributed",),
    examples=2,
    after=("EC203", "EC201"),
)
def real_processes_give_the_value_of_the_whole(metric: MetricSubject, case: Processes) -> None:
    """EC203 with real processes: every rank of a gloo group computes the single-process value, and none hangs.

    Why: what real processes gather is padded, cast and ordered by code that ranks in one process never run.
    Usual cause: a rank without data makes fewer collective calls, or gathers a tensor of another dtype or rank.
    Fix: pytest_evalcheck.fixes.WeightedMean
    """
    expected = metric.value(case.whole)
    for plan, shards in case.plans.items():
        values = metric.on_processes(shards)
        if isinstance(values, Raised):
            if repeated_on_a_rank(values, expected):
                note_refusal(values)
                continue
            expect(values).equals(expected, about=f"the value over {plan}", id=f"over-{slug(plan)}")
            continue
        for rank, value in enumerate(values):
            expect(value).equals(expected, about=f"the value of rank {rank} over {plan}", id=f"rank-over-{slug(plan)}")


@check(
    "EC208",
    conditions=("batches that move", "samples that move in their batch", "a tie"),
    after=("EC201",),
    decides=True,
)
def order_does_not_change_the_value(metric: MetricSubject, case: Reordered) -> None:
    """The order of the batches, and of the samples in a batch, does not change the value.

    Results with one entry per sample, or per sample without a NaN, also within tuples and mappings, are compared as a
    multiset of rows.

    Why: loaders shuffle and ranks interleave; a score must not depend on it.
    Usual cause: a running average with a fixed step, a window, state overwritten by the newest batch, or a tie that the
    first sample wins; if samples differ in length, samples are sorted by length and not put back in their order.
    Fix: accumulate sums, `total += value.sum()` for `mean = 0.9 * mean + 0.1 * value`; an order by design:
    not_applicable.
    """
    in_order, reordered = metric.value(case.split), metric.value(case.reordered)
    finite = sum(not has_nonfinite(sample) for sample in case.samples)  # a metric may leave out what is NaN
    count, fixed = len(case.samples), set[Path]()
    for again in (False, True):
        one, other = (unordered(unordered(value, count, fixed), finite, fixed) for value in (in_order, reordered))
        if again or difference(other, one, metric.tolerance) is None:
            break
        # A list may have as many entries by chance: then it has as many for one sample less.
        fixed = fixed_paths(metric.value([case.samples[1:]]), count)
    expect(other).equals(one, about="the value of the same samples in another order", id="another-order")


@check(
    "EC213",
    conditions=("a whole batch ignored", "part of a batch ignored", "everything ignored"),
    needs=("ignored",),
    after=("EC201",),
)
def ignored_samples_do_not_change_the_value(metric: MetricSubject, case: Ignored) -> None:
    """Ignored samples do not change the value: alone, among others, and as a whole batch.

    Where nothing counts, an error and a NaN are the same: no score.

    Why: padding is ignored by its label; if it counts, a score depends on how long the padding is.
    Usual cause: the sum excludes them and the count does not, or a batch with all ignored gives a NaN mean.
    Fix: pytest_evalcheck.fixes.WeightedMean
    """
    if not case.counted and metric.build().function is not None:
        inconclusive("nothing counts, and a function is called with some samples")
        return
    actual, expected = metric.value(case.split), metric.value(case.counted)
    if not case.counted and is_no_score(actual) and is_no_score(expected):
        actual = expected
    expect(actual).equals(expected, about="the value with ignored samples among them", id="ignored-samples")


@check("EC214", conditions=("a first batch of one", "an empty first batch", "a larger one"))
def a_collection_gives_the_values_of_its_members(metric: MetricSubject, case: FirstBatch) -> None:
    """A collection gives the values that its members give alone.

    Where several members name their results alike, the collection may give them other names, and loses none.

    Why: collections share state between members whose states are equal after the first batch; where those members
    differ, one metric is reported under the name of another.
    Usual cause: members are grouped by comparing their states after a batch on which they happen to agree.
    Fix: switch the sharing off (torchmetrics: `compute_groups=False`) or group by hand.
    """
    live = metric.fresh()
    members = metric.members()
    for batch in case.split:
        arguments = metric.arguments(batch)
        if live.try_update(arguments) and batch:
            inconclusive("the collection refuses the batches")
            return
        for member in members.values():
            member.try_update(metric.arguments(batch))
    values = {name: member.compute() for name, member in members.items()}
    _compare_with_members(live.compute(), values, metric.tolerance)


def _compare_with_members(together: object, members: Mapping[str, object], tolerance: Tolerance) -> None:
    """Compare what a collection gives with what each of its members gives alone."""
    named = [value if isinstance(value, dict) else {name: value} for name, value in members.items()]
    every = [(str(key), each) for values in named for key, each in values.items()]
    alone = {key: each for values in named for key, each in values.items()}
    if len(alone) < len(every) and isinstance(together, dict):
        # Several members have a result of one name: which names the collection gives them is its own affair.
        lost = _lost(every, list(together.values()), tolerance)
        about = "the collection has no value for a result whose name another member has, too"
        expect(together).holds(
            not lost, about=about, id="lost-member", detail=f"lost      {', '.join(lost)}\nof        {show(together)}"
        )
        return
    expected: object = alone
    refused = [each for each in alone.values() if isinstance(each, Raised)]
    if isinstance(together, Raised) and refused:
        # One error is all that a collection of which a member raises one can give.
        same = (each for each in refused if difference(together, each, tolerance) is None)
        expected = next(same, refused[0])
    expect(together).equals(expected, about="the values of the collection, beside its members alone", id="members")


def _lost(every: Sequence[tuple[str, Any]], given: list[Any], tolerance: Tolerance) -> list[str]:
    """The results that are not among the values ``given``, each of which is one result."""
    lost = []
    for name, value in every:
        place = next((i for i, each in enumerate(given) if difference(each, value, tolerance) is None), None)
        if place is None:
            lost.append(f"{name}={show(value)}")
        else:
            del given[place]
    return lost


@check("EC215", conditions=("several batches", "uneven batches"), after=("EC201",))
def forward_returns_the_batch_value_and_accumulates(metric: MetricSubject, case: Stream) -> None:
    """`forward` returns the value of its batch and accumulates like `update`.

    Why: training loops log what `forward` returns and read `compute()` at the end; both must be right.
    Usual cause: the state of the batch is merged back with the wrong weight, or not at all.
    Fix: call `update` and `compute` yourself, or accumulate in one place only.
    """
    live = metric.fresh()
    for batch in case.split:
        expect(live.forward(batch)).equals(
            metric.value([batch]), about="what forward() returned for its batch", id="forward"
        )
        if live.failed:
            return
    expect(live.compute()).equals(
        metric.value(case.split), about="the value after feeding through forward()", id="after-forward"
    )


@check(
    "EC216",
    conditions=("the first sample", "a later sample"),
    needs=("corrupted",),
    after=("EC201",),
    outside="a number that is not finite",
)
def non_finite_numbers_are_reported(metric: MetricSubject, case: NonFinite) -> None:
    """A NaN or an infinity is visible: in the value, as an error, or as a warning.

    An infinity may also have the value that a large finite number has, as in a maximum: there it is a number. Where any
    finite number in its place gives the same value, too, the sample does not count, and nothing can be seen of it. A
    value of several parts may count what is left out: a number of samples that no finite number changes. A truth value
    of what only a run has shown is that of a predicate, and has no place for a NaN.

    Why: a diverged model that outputs NaN must not get a score, least of all a good one.
    Usual cause: comparisons and argmax turn NaN into an ordinary answer; `nan_to_num` and masks remove it.
    Fix: pytest_evalcheck.fixes.WeightedMean, which propagates it
    """
    value, warned = metric.value_and_warnings(case.split)
    reported = isinstance(value, Raised) or has_nonfinite(value) or warned
    if metric.inputs.observed and not reported and str(getattr(value, "dtype", type(value).__name__)).endswith("bool"):
        inconclusive("its value is a truth value, as of a predicate: a NaN has no place in it")
        return
    others = [] if reported else _with_finite_numbers(metric, case)
    if others and all(difference(value, other, metric.tolerance) is None for other in others):
        inconclusive("in these samples any number in its place gives the same value, so that none can be seen")
        return
    expect(value).holds(
        bool(reported) or _is_counted(value, others) or _is_a_number_like_others(metric, case, value),
        about=f"{case.number} in sample {case.corrupted} left no trace",
        id="hidden",
        form="visible",
        detail=f"expected  NaN, infinity, an error or a warning\nactual    {show(value)}",
    )


def _is_a_number_like_others(metric: MetricSubject, case: NonFinite, value: Any) -> bool:
    """Return whether a large finite number in place of the infinity gives the same value."""
    if math.isnan(case.number) or metric.inputs.corrupted is None:
        return False
    rows = list(case.samples)
    rows[case.corrupted] = metric.inputs.corrupted(rows[case.corrupted], math.copysign(_LARGE, case.number))
    return difference(value, metric.value(replace(case, samples=rows).split), metric.tolerance) is None


def _with_finite_numbers(metric: MetricSubject, case: NonFinite) -> list[Any]:
    """Return the values with finite numbers in place of the one that is not, as far as they are accepted."""
    if metric.inputs.corrupted is None:
        return []
    rows, at = list(case.samples), case.corrupted
    places = [metric.inputs.corrupted(rows[at], number) for number in _FINITE]
    values = [metric.value(replace(case, samples=[*rows[:at], row, *rows[at + 1 :]]).split) for row in places]
    return [value for value in values if not isinstance(value, Raised)]


def _is_counted(value: Any, others: Sequence[Any]) -> bool:
    """Return whether a number of the value is one more or less than it is with any finite number in that place."""
    usual, now = same_numbers(others), numbers_of(value)
    return any(abs(now.get(name, number) - number) == 1 for name, number in usual.items())


_FINITE = (0.0, 1.0, -1.0, 1e4, -1e4)
"""Numbers that a prediction may be."""
_LARGE = 1e15
"""A number that is larger than those of samples, and whose square float32 holds."""


@check("EC217", conditions=("a constant stream", "several batches"), needs=("reference",), after=("EC201", "EC205"))
def the_value_equals_the_reference(metric: MetricSubject, case: Stream) -> None:
    """The value is the one that the reference of the target computes.

    Why: a metric that measures something else can pass every other check.
    Usual cause: another average, another convention for absent classes or zero division, lost weights.
    Fix: the changed line is in the reference of the target, e.g. `hits.sum() / weights.sum()` for `hits.mean()`.
    """
    assert metric.reference is not None
    expect(metric.value(case.split)).equals(
        metric.reference_value(case.samples), about="the value, beside the reference", id="reference"
    )


def _require_entries_that_move(metric: MetricSubject, right: Any, wrong: Any) -> None:
    """Fail where an entry of a value is the same for all samples that were tried."""
    if metric.inputs.observed:  # rows that nobody wrote may all be of one kind
        return
    constant = constant_entries(metric, [right, wrong])
    names = ", ".join(f"{name} = {number}" for name, number in constant.items())
    expect(right).holds(
        not constant,
        about="an entry of the value is the same for all samples that were tried, and others are not",
        id=f"constant-{slug(' '.join(constant))}",
        form="different",
        beside=wrong,
        detail=f"constant  {names}\nright     {show(right)}\nwrong     {show(wrong)}",
    )


@check("EC218", existential=True, decides=True)
def a_wrong_prediction_changes_the_value(metric: MetricSubject, case: RightAndWrong) -> None:
    """Control: right predictions and wrong ones get different values.

    So does each number of a value of several parts: a mapping, or a tuple. One that is always -1 or NaN is no value, by
    design, unless a metric of the same class that is built without arguments has one.

    Where the samples name no `wrong` prediction, some lists of different samples must have different values. Where all
    of them have the same, the check is not applicable: an honest metric may be 0 for whatever is drawn.

    Why: a metric that always returns the same value passes nearly every other check.
    Usual cause: the state is never updated, or the value is computed from the labels alone.
    Fix: look at what `update` adds to the state.
    """
    right, wrong = metric.value([case.right]), metric.value([case.wrong])
    refused, differ = (isinstance(right, Raised), isinstance(wrong, Raised)), difference(right, wrong, metric.tolerance)
    if metric.inputs.wrong is None and (any(refused) or differ is None):
        inconclusive(
            "nothing tells right from wrong: all samples that were tried have the same value; "
            "name a wrong prediction and a contrast: samples(..., wrong=..., contrast=...)"
        )
        return
    expect(right).holds(
        not all(refused),
        about="neither could be scored",
        id="scored",
        detail=f"{show(right)}\n{show(wrong)}",
    )
    expect(right).holds(
        differ is not None,
        about="right and wrong predictions got the same value",
        id="right-and-wrong",
        form="different",
        beside=wrong,
        detail=f"both      {show(right)}",
    )
    _require_entries_that_move(metric, right, wrong)

"""EC204 to EC207, EC209, EC210, EC219, EC229, EC240: only `update`, `forward` and `reset` change a state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference, is_no_score, show
from pytest_evalcheck.expectations.failures import compared, expect, inconclusive, not_offered
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.allocations import largest_tensor
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import (
    count_elements,
    count_rows,
    count_tensors,
    detached,
    overwrite,
    overwrite_result,
)
from pytest_evalcheck.kinds.metric.cases import NOT_FINITE, Long, Rejected, Repeated, Stream
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.strategies.samples import Arguments


@check("EC204", conditions=("several batches",), after=("EC214",))
def reset_restores_the_initial_state(metric: MetricSubject, case: Stream) -> None:
    """After `reset()` a metric behaves like a new one: after updates, a compute, a forward and a failed update.

    An error and NaN are no value: a new metric may have the one and a metric that was reset the other.

    Why: the score of one epoch, or of one data set, must not affect the next.
    Usual cause: one state of several is not reset, or a cached value survives.
    Fix: `def reset(self): self.__init__(*self.arguments)`, or all state in one place that `reset` creates again.
    """
    expected, blank = metric.value(case.split), metric.fresh().compute()
    used = {"updates": metric.fresh().update(*case.split), "a compute": metric.fresh().update(*case.split)}
    used["a compute"].compute()
    used["a failed update"] = metric.fresh().update(*case.split)
    for batch in _rejectable(metric, case.split[0]).values():
        used["a failed update"].try_update(batch)
    if metric.build().forward is not None:
        used["forward"] = metric.fresh()
        used["forward"].forward(case.split[0])
    for history, live in used.items():
        live.reset()
        expect(live.update(*case.split).compute()).equals(
            expected, about=f"the value after {history} and a reset()", id=f"after-{slug(history)}"
        )
        if not isinstance(expected, Raised):
            live.reset()
            about = f"the value of nothing after {history}, a compute() and a reset()"
            _expect_nothing(live.compute(), blank, metric, case, about, f"nothing-after-{slug(history)}")


def _expect_nothing(value: Any, blank: Any, metric: MetricSubject, case: Stream, about: str, id: str) -> None:
    """The value of nothing after a reset is that of a new metric, or there is no value: an error, or NaN.

    A state that is built by the first update has no value before it, and an initial one after a reset. Then that value
    is compared with the one after a reset from fewer samples: what is left of a stream depends on the stream.
    """
    if is_no_score(value):
        compared()
    elif is_no_score(blank):
        other = metric.fresh().update(case.split[0])
        other.compute()
        other.reset()
        expect(value).equals(
            other.compute(), about=f"{about}, beside the same after fewer samples", id=f"{id}-and-fewer-samples"
        )
    else:
        expect(value).equals(blank, about=about, id=id)


@check("EC205", conditions=("several batches",), after=("EC214", "EC206"), decides=True)
def compute_is_idempotent(metric: MetricSubject, case: Stream) -> None:
    """`compute()` twice gives the same value, with its cache and without; calls between updates change nothing.

    Neither does a call that fails, or one before the first update.

    Why: loggers and progress bars call compute() at any time.
    Usual cause: compute() normalises or concatenates its state in place, and an error comes in between.
    Fix: write nothing, `total = self.total / self.count` for `self.total /= self.count`; keep a value with
    pytest_evalcheck.fixes.cached_compute.
    """
    expected = metric.value(case.split)
    live = metric.fresh().update(*case.split)
    live.compute()
    expect(live.compute()).equals(expected, about="the second compute()", id="second-compute")
    live.forget()
    expect(live.compute()).equals(
        expected, about="the compute() after its cache was dropped", id="compute-without-cache"
    )
    computed_often = metric.fresh()
    for batch in case.split:
        computed_often.update(batch)
        computed_often.compute()
    expect(computed_often.compute()).equals(
        expected, about="the value when compute() was called after every batch", id="compute-after-every-batch"
    )
    asked_early = metric.fresh()
    asked_early.compute()
    expect(asked_early.update(*case.split).compute()).equals(
        expected, about="the value when compute() was called before the first update", id="compute-before-update"
    )


@check("EC240", conditions=("several batches",), examples=12, after=("EC204", "EC205"), decides=True)
def the_same_stream_twice_gives_the_same_bits(metric: MetricSubject, case: Repeated) -> None:
    """The same stream twice in one process gives the same bits: with a new metric, after a reset, and asked again.

    Why: who computes a score again must get the number that was published; a comparison may end in its last digit.
    Usual cause: sums are taken in the order in which workers end, of a set or of random names; compute() stores a
    rounded value in place of what it was computed from.
    Fix: add in the order of the samples, `for result in sorted(results)`, and let `compute` write nothing.
    """
    bulk = metric.inputs.bulk
    many = list(bulk(case.bulk)) if bulk is not None else []
    streams = [case.split, *([[many[:_ROWS], many[_ROWS:]]] if many else [])]
    for stream in streams:
        expected, about = metric.value(stream), f"the value of the same {sum(map(len, stream))} samples"
        live = metric.fresh().update(*stream)
        same = partial(_expect_bits, metric, expected)
        same(live.compute(), f"{about}, of a second metric", "second-metric")
        same(live.compute(), f"{about}, asked again", "second-compute")
        live.forget()
        same(live.compute(), f"{about}, asked again without a cache", "compute-without-cache")
        live.reset()
        same(live.update(*stream).compute(), f"{about}, after a reset", "after-reset")


def _expect_bits(metric: MetricSubject, expected: Any, value: Any, about: str, id: str) -> None:
    """The same bits. What is another number altogether is the matter of other checks."""
    if difference(value, expected, metric.tolerance) is not None:
        inconclusive(f"{about}: {show(value)}, and not {show(expected)}; see EC204 and EC205")
    else:
        expect(value).equals(expected, about=about, id=id, tolerance=EXACT)


_ROWS = 32
"""Number of rows of the first batch of a stream of many."""


@check("EC206", conditions=("several batches",), decides=True)
def update_does_not_change_its_inputs(metric: MetricSubject, case: Stream) -> None:
    """`update` does not change its inputs, and neither does a function that is called with all samples.

    An object that all batches share, such as a client, is none.

    Why: the next metric, the loss and the log use the same tensors.
    Usual cause: an in-place clamp_, a masked fill, or a conversion that writes into a view.
    Fix: work on what the operation returns: `preds = preds.clamp(0, 1)` for `preds.clamp_(0, 1)`.
    """
    live = metric.fresh()
    for batch, arguments in [(rows, given) for rows in case.split for given in metric.plain_and_weighted(rows)]:
        given = arguments.kwargs
        objects = {name for name, each in given.items() if hasattr(each, "__dict__") and not hasattr(each, "shape")}
        again = metric.arguments(batch).kwargs if objects else {}
        samples = {name: each for name, each in given.items() if name not in objects or each is not again.get(name)}
        before = Snapshot({"args": arguments.args, "kwargs": samples}, "update")
        # The record of a function gives it copies, and a caller the batch itself.
        function = live.record.function
        if function is None:
            live.try_update(arguments)
        else:
            attempt("the function", function, *arguments.args, **arguments.kwargs)
        changes = before.changes()
        expect(batch).holds(
            not changes,
            about="update() changed its inputs" if function is None else "the function changed its arguments",
            id="inputs" if function is None else "arguments",
            form="unchanged",
            detail="\n".join(changes[:3]),
        )


@check("EC207", conditions=("several batches",), after=("EC214",))
def state_does_not_alias_inputs(metric: MetricSubject, case: Stream) -> None:
    """The state owns its data: when the caller overwrites the inputs after `update`, the value does not change.

    Why: loaders and models reuse their output buffers; a state that points into them scores other samples.
    Usual cause: a tensor, or a view of one, is appended to a list state without a copy.
    Fix: pytest_evalcheck.fixes.SampleStream
    """
    metric.require_accumulator()
    buffers = [metric.arguments(batch) for batch in case.split]
    live = metric.fresh().update(*buffers)
    for buffer in buffers:
        overwrite(buffer)
    expect(live.compute()).equals(
        metric.value(case.split),
        about="the value after the caller overwrote the inputs of update()",
        id="overwritten-inputs",
    )


@check("EC219", conditions=("several batches",), after=("EC214",))
def writing_into_a_result_does_not_change_the_next_one(metric: MetricSubject, case: Stream) -> None:
    """Writing into a result changes neither the state nor the next result.

    Why: a result that is scaled or rounded in place for a log must not change the score that is reported.
    Usual cause: compute() returns its cache, or a view of its state.
    Fix: pytest_evalcheck.fixes.copy_result, or `return self.total.clone()` for `return self.total`.
    """
    # Both are computed equally often: whether compute() changes the value is checked by EC205.
    live, untouched = metric.fresh().update(*case.split), metric.fresh().update(*case.split)
    first, of_another = live.compute(), untouched.compute()
    if isinstance(first, Raised):
        inconclusive(str(first))
        return
    if not count_tensors(first) and not isinstance(first, (dict, list)) and not hasattr(first, "ndim"):
        inconclusive("the result is a plain number, which nothing can write into")
        return
    before = detached(of_another)
    overwrite_result(first)
    expect(of_another).equals(
        before, about="a result of another metric after the caller wrote into a result", id="result-of-another"
    )
    second = detached(untouched.compute())
    if isinstance(second, Raised):
        inconclusive(f"there is no second result, see EC205: {second}")
        return
    expect(live.compute()).equals(
        second, about="the next compute() after the caller wrote into a result", id="next-compute"
    )
    live.forget()
    untouched.forget()
    expect(live.compute()).equals(
        untouched.compute(), about="the value after a result was written into and the cache dropped", id="state"
    )


@check("EC209", conditions=("several batches",), after=("EC204", "EC214"))
def a_copy_continues_like_its_original(metric: MetricSubject, case: Stream) -> None:
    """Deep copies, pickles and state dicts taken mid-stream reach the same value, and do not affect the original.

    A state dict is loaded into a new metric. What cannot be copied at all, not even when it is new, is not tried.

    Why: evaluation is checkpointed, sent to workers and copied for every data set.
    Usual cause: a plain attribute holds state that copying or the state dict does not include.
    Fix: keep all state where it is copied: `self.register_buffer('total', total)`, or all of it in `__getstate__`.
    """
    expected = metric.value(case.split)
    middle = len(case.split) // 2
    for method in metric.copies:
        original = metric.fresh().update(*case.split[:middle])
        copied = original.copy_by(method)
        if copied.failed and (always := metric.fresh().copy_by(method).failed):
            inconclusive(str(always))
            continue
        copied.update(*case.split[middle:])
        expect(copied.compute()).equals(
            expected, about=f"the value of a copy by {method}", id=f"copy-by-{slug(method)}"
        )
        # The copy was fed the rest of the stream, and the original not yet.
        expect(original.update(*case.split[middle:]).compute()).equals(
            expected,
            about=f"the value of the original after a copy by {method} was fed",
            id=f"original-after-copy-by-{slug(method)}",
        )


@check(
    "EC210",
    conditions=("after a good batch", "before any good batch", "through update", "through forward"),
    examples=75,  # every fault through both methods needs a case in which the loss of a batch changes the value
)
def a_rejected_batch_does_not_change_the_state(metric: MetricSubject, case: Rejected) -> None:
    """A batch that is rejected does not change the state, through `update` and through `forward`.

    It has unequal lengths, another rank or type, an argument less, or a number that is not finite.

    Why: a loop that logs the error and continues would report a score of other samples than it states.
    Usual cause: one state is written before the next one is validated; forward resets before it updates.
    Fix: pytest_evalcheck.fixes.SampleStream
    """
    metric.require_accumulator()
    if case.through == "forward" and metric.build().forward is None:
        not_offered("the metric offers no forward")
        return
    arguments = _rejectable(metric, case.malformed).get(case.fault)
    if arguments is None:
        inconclusive(f"no batch of {case.fault} can be made")
        return
    live = metric.fresh().update(*case.split[: case.at])
    rejected = live.try_forward(arguments) if case.through == "forward" else live.try_update(arguments)
    if case.fault == NOT_FINITE and case.through == "forward":
        # NaN may be stored and have no value, so that forward fails alone.
        stored = metric.fresh().update(*case.split[: case.at]).try_update(arguments)
        rejected = rejected if isinstance(stored, Raised) else None
    if not isinstance(rejected, Raised):
        inconclusive(f"a batch of {case.fault} is accepted")
        return
    expect(live.update(*case.split[case.at :]).compute()).equals(
        metric.value(case.split),
        about=f"the value after a batch of {case.fault} was rejected by {case.through}()",
        id=f"after-rejected-{case.through}",
        detail=f"the batch was rejected with: {rejected}",
    )


@check("EC229", conditions=("few batches", "many batches"), examples=4, after=("EC212",), severity="cost")
def the_state_does_not_grow_with_what_it_counts(metric: MetricSubject, case: Long) -> None:
    """A state takes no more memory for large numbers than for small ones, and a tensor of it does not grow.

    A tensor that has elements in a new metric is a count. What keeps all samples is a list, or is empty at first. The
    largest tensor that `compute` makes does not grow with the numbers either. The number of a query is one of them.

    Why: an evaluation over a whole data set must not end because a few numbers of it are large, or because it is long.
    Usual cause: a table is as long as the largest number or label that was seen; each batch is joined to a sum.
    Fix: fix the size in the constructor, `torch.bincount(x, minlength=classes)`, or count by `torch.unique`; add to
    sums.
    """
    live, small = metric.fresh(), metric.fresh()
    counts = {name for name, value in live.record.contents().items() if count_elements(value, plain=False)}
    seen: list[dict[str, int]] = []
    for batch, like in metric.long_stream(case):
        live.update(batch)
        small.update(like)
        seen.append({name: count_elements(value) for name, value in live.record.contents().items()})
    usual = {name: count_elements(value) for name, value in small.record.contents().items()}
    if live.failed or small.failed or not usual:
        inconclusive(str(live.failed or small.failed or "the metric does not show its state"))
        return
    grown = [f"{name}: {seen[0][name]} elements became {seen[-1][name]}" for name in sorted(counts & seen[0].keys())]
    grown = [line for line in grown if seen[-1][line.split(":")[0]] > seen[0][line.split(":")[0]]]
    about, detail = "a tensor of the state grew with the stream", "\n".join(grown[:3])
    expect(usual).holds(not grown, about=about, id="tensor-grows", detail=detail)
    detail, small_enough = _sizes(case, seen[-1], usual), sum(seen[-1].values()) <= 2 * sum(usual.values()) + _SLACK
    expect(usual).holds(small_enough, about="the state is larger for large numbers", id="state", detail=detail)
    largest, least = largest_tensor(live.compute), largest_tensor(small.compute)
    about, detail = "compute() makes a larger tensor for large numbers", _sizes(case, largest, least)
    expect(usual).holds(largest <= 2 * least + _SLACK, about=about, id="compute", detail=detail)


def _sizes(case: Long, large: Any, usual: Any) -> str:
    return f"elements for numbers of size {case.scale:g}: {large}\nfor numbers of size 1: {usual}"[:400]


_SLACK = 1000
"""Number of elements more that are no growth: a table of a few bins may be filled by large numbers alone."""


def _rejectable(metric: MetricSubject, rows: Sequence[Any]) -> dict[str, Arguments]:
    """Return batches by fault: malformed, or with a number that is not finite in the last row."""
    malformed = _malformed(metric.arguments(rows))
    if metric.inputs.corrupted is None:
        return malformed
    last = metric.inputs.corrupted(rows[-1], metric.inputs.nonfinite[0])
    return {**malformed, NOT_FINITE: metric.arguments([*rows[:-1], last])}


def _malformed(good: Arguments) -> dict[str, Arguments]:
    """Return arguments by fault: with unequal lengths, of another rank, of another type, or with one missing.

    A fault that is impossible for these arguments, such as unequal lengths of a single one, is not included.
    """
    batches: dict[str, Arguments] = {}
    values = good.by_place
    with_rows = [place for place, value in values.items() if count_rows(value)]
    if len(with_rows) > 1:
        batches["unequal lengths"] = good.replaced({with_rows[0]: values[with_rows[0]][:-1]})
    tensors = [place for place, value in values.items() if hasattr(value, "unsqueeze")]
    if tensors:
        batches["another rank"] = good.replaced({tensors[0]: values[tensors[0]].unsqueeze(0).unsqueeze(-1)})
    if values:
        last = list(values)[-1]
        batches["another type"] = good.replaced({last: object()})
        without_last = {name: value for name, value in good.kwargs.items() if name != last}
        batches["too few arguments"] = Arguments(good.args if good.kwargs else good.args[:-1], without_last)
    return batches

"""EC204 to EC207, EC209, EC210, EC219: the state of a metric is its own, and goes where it should."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.malformed import malformed
from pytest_evalcheck.kinds.common.tensors import count_tensors, overwrite
from pytest_evalcheck.kinds.common.values import detached
from pytest_evalcheck.kinds.metric.cases import Stream
from pytest_evalcheck.kinds.metric.cases_hostile import Rejected
from pytest_evalcheck.kinds.metric.subject import LiveMetric, MetricSubject


@check("EC204", regimes=("several batches",))
def reset_gives_back_a_new_metric(metric: MetricSubject, case: Stream) -> None:
    """`reset()` gives back a new metric: after updates, after a compute, after forward, after a failed update.

    Why: the score of one epoch, or of one data set, must not reach into the next.
    Usual cause: one state of several is not reset, or a cached value survives.
    Fix: keep all state in one place that reset() makes anew.
    """
    expected, blank = metric.value(case.cut), metric.fresh().compute()
    used = {"updates": metric.fresh().update(*case.cut), "a compute": metric.fresh().update(*case.cut)}
    used["a compute"].compute()
    used["a failed update"] = metric.fresh().update(*case.cut)
    for batch in malformed(metric.arguments(case.cut[0])).values():
        used["a failed update"].try_update(batch)
    if metric.build().forward is not None:
        used["forward"] = metric.fresh()
        used["forward"].forward(case.cut[0])
    for past, live in used.items():
        live.reset()
        expect(live.update(*case.cut).compute()).equals(expected, about=f"the value after {past} and a reset()")
        if not isinstance(expected, Raised):
            live.reset()
            expect(live.compute()).equals(blank, about=f"the value of nothing after {past}, a compute() and a reset()")


@check("EC205", regimes=("several batches",))
def asking_does_not_change_the_answer(metric: MetricSubject, case: Stream) -> None:
    """`compute()` twice gives the same, with its cache and without; asking in the middle does not change the end.

    Why: loggers and progress bars ask whenever they like.
    Usual cause: compute() normalises or concatenates its state in place.
    Fix: let compute() read the state and write nothing.
    """
    expected = metric.value(case.cut)
    live = metric.fresh().update(*case.cut)
    live.compute()
    expect(live.compute()).equals(expected, about="the second compute()")
    live.forget()
    expect(live.compute()).equals(expected, about="the compute() after its cache was dropped")
    nosy = metric.fresh()
    for batch in case.cut:
        nosy.update(batch)
        nosy.compute()
    expect(nosy.compute()).equals(expected, about="the value when compute() was called after every batch")


@check("EC206", regimes=("several batches",))
def update_leaves_its_inputs_as_they_were(metric: MetricSubject, case: Stream) -> None:
    """`update` leaves its inputs as they were.

    Why: the next metric, the loss and the log are fed from the same tensors.
    Usual cause: an in-place clamp_, a masked fill, or a conversion that writes into a view.
    Fix: work on what the operation returns, not in the caller's tensor.
    """
    live = metric.fresh()
    for batch in case.cut:
        arguments = metric.arguments(batch)
        before = Snapshot({"args": arguments.args, "kwargs": dict(arguments.kwargs)}, "update")
        live.try_update(arguments)
        changes = before.changes()
        expect(batch).holds(not changes, about="update() changed its inputs", detail="\n".join(changes[:3]))


@check("EC207", regimes=("several batches",))
def refilling_a_buffer_does_not_rewrite_history(metric: MetricSubject, case: Stream) -> None:
    """The state owns its data: refilling the caller's buffers does not change what was counted.

    Why: loaders and models reuse their output buffers; a state that points into them scores other samples.
    Usual cause: a tensor, or a view of one, is appended to a list state without a copy.
    Fix: pytest_evalcheck.fixes.SampleStream
    """
    live, buffers = metric.fresh(), []
    for batch in case.cut:
        arguments = metric.arguments(batch)
        live.failed = live.failed or live.try_update(arguments)
        buffers.append(arguments)
    for buffer in buffers:
        overwrite(buffer)
    expect(live.compute()).equals(
        metric.value(case.cut), about="the value after the caller refilled the buffers that update() was given"
    )


@check("EC219", regimes=("several batches",))
def writing_into_a_result_does_not_change_the_next_one(metric: MetricSubject, case: Stream) -> None:
    """Writing into a result reaches neither the state nor the next result.

    Why: a result that is scaled or rounded in place for a log must not change the score that is reported.
    Usual cause: compute() returns its cache, or a view of its state.
    Fix: return a copy from compute().
    """
    # The other one is asked as often and left alone: that asking changes the answer is EC205's matter.
    live, untouched = metric.fresh().update(*case.cut), metric.fresh().update(*case.cut)
    first = live.compute()
    untouched.compute()
    if isinstance(first, Raised):
        inconclusive(str(first))
        return
    if not count_tensors(first) and not isinstance(first, (dict, list)) and not hasattr(first, "ndim"):
        raise NotApplicable("the result is a plain number, which nothing can write into")
    overwrite(first)
    expect(live.compute()).equals(
        detached(untouched.compute()), about="the next compute() after the caller wrote into a result"
    )
    for each in (live, untouched):
        each.forget()
    expect(live.compute()).equals(
        untouched.compute(), about="the value after a result was written into and the cache dropped"
    )


@check("EC209", regimes=("several batches",))
def a_copy_continues_in_mid_stream(metric: MetricSubject, case: Stream) -> None:
    """Deep copies, pickles and state dicts taken in mid-stream continue as if nothing had happened.

    Why: evaluation is checkpointed, sent to workers and copied for every data set.
    Usual cause: a plain attribute holds state that copying or the state dict does not know.
    Fix: keep all state in one place and write it out whole.
    """
    expected = metric.value(case.cut)
    middle = len(case.cut) // 2
    for way in metric.copies:
        original = metric.fresh().update(*case.cut[:middle])
        twin = original.copied(way).update(*case.cut[middle:])
        expect(twin.compute()).equals(expected, about=f"the value that a copy by {way} came to")
        # The copy was fed the rest; the original must not have noticed.
        expect(original.update(*case.cut[middle:]).compute()).equals(
            expected, about=f"the value of the original after a copy by {way} went on"
        )


@check(
    "EC210",
    regimes=("after a good batch", "before any good batch", "through update", "through forward"),
    examples=75,  # every fault by every way needs a case in which the loss of a batch changes the value
)
def a_rejected_batch_leaves_the_state_as_it_was(metric: MetricSubject, case: Rejected) -> None:
    """A batch that is rejected leaves the state as it was, through `update` and through `forward`.

    Why: a loop that logs the error and goes on would report a score of other samples than it thinks.
    Usual cause: one state is written before the next one is validated; forward resets before it updates.
    Fix: pytest_evalcheck.fixes.SampleStream
    """
    arguments = malformed(metric.arguments(case.spoilt)).get(case.fault)
    if arguments is None:
        inconclusive(f"no batch of {case.fault} can be made")
        return
    live = metric.fresh()
    rejected: Raised | None = None
    for i, batch in enumerate([*case.good, None]):
        if i == case.at:
            rejected = _reject(live, arguments, case.through)
            if rejected is None:
                inconclusive(f"a batch of {case.fault} is accepted")
                return
        if batch is not None:
            live.update(batch)
    expected = metric.value(case.good)
    expect(live.compute()).equals(
        expected,
        tolerance=EXACT,
        about=f"the value after a batch of {case.fault} was rejected by {case.through}()",
        detail=f"the batch was rejected with: {rejected}",
    )


def _reject(live: LiveMetric, arguments: object, through: str) -> Raised | None:
    result = live.try_forward(arguments) if through == "forward" else live.try_update(arguments)  # type: ignore[arg-type]
    return result if isinstance(result, Raised) else None

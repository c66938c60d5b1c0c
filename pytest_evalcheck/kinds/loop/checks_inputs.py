"""EC513, EC514: what a loop does with an error of its metric function, and with the memory of its batches."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.failing_metric import FailingMetric
from pytest_evalcheck.kinds.common.reused_buffers import ReusedBuffers
from pytest_evalcheck.kinds.loop.cases import ManyBatches, MetricErrors
from pytest_evalcheck.kinds.loop.subject import LoopSubject, comparable


@check("EC513", conditions=("one batch", "several batches"), examples=4, after=("EC504",))
def an_error_of_a_metric_function_ends_the_evaluation_as_itself(loop: LoopSubject, case: MetricErrors) -> None:
    """An error of a metric function ends the evaluation, with its type and its text, or as the cause of another one.

    Why: a metric that fails is no score of zero, nor one of fewer samples, and another error hides which line is wrong.
    Usual cause: a `StopIteration` is taken for the end of the data; `except Exception` around the call, or a retry.
    Fix: only `next(batches)` inside the `try`; `raise ... from error`.
    """
    for error in case.errors:
        run, function = loop.fresh(), called(FailingMetric, error)
        if run.record.scored_with is None:
            raise NotApplicable("no other metric function can be given to the loop: ec.Loop(..., scored_with=...)")
        evaluate = partial(run.record.scored_with, function)
        result = run.attempt("scored_with()", evaluate, loop.data(case.samples), batch_size=case.batch_size)
        if not function.called:
            inconclusive("the function was not called")
            return
        problem, where = function.problem(result), f"where the metric function raises {error}"
        form = "" if isinstance(result, Raised) else "error"
        expect(result).holds(not problem, about=f"{where}, {problem}", id=f"metric-raises-{slug(error)}", form=form)


@check("EC514", examples=4, after=("EC504", "EC501"))
def the_result_owns_its_memory(loop: LoopSubject, case: ManyBatches) -> None:
    """The numbers and records are the same where a loader fills its buffers again, in turn, while the loop goes on.

    A batch is overwritten when as many others were read as the loader has buffers, and all of them after the last one.

    Why: loaders that decode into fixed memory are the fastest, and results of the last batches count for all others.
    Usual cause: labels are kept in a list until the end of the evaluation, and joined there.
    Fix: join or copy what is kept when its batch is evaluated: `labels.clone()`.
    """
    buffers = loop.record.buffers
    if buffers is None:
        raise NotApplicable(
            "every batch has its own memory; ec.Loop(..., buffers=2) declares a loader with two buffers"
        )
    expected = loop.evaluate(case.samples, batch_size=case.batch_size)
    if isinstance(expected, Raised):
        refused(expected)
        return
    data = loop.data(case.samples)
    collate = ReusedBuffers(data.collate, buffers)
    actual = loop.fresh().evaluate(replace(data, collate=collate), batch_size=case.batch_size)
    collate.overwrite()
    if not collate.reused:
        inconclusive(f"the loop has read {collate.batches} batches with tensors, and there are {buffers} buffers")
        return
    about = f"the result where {buffers} buffers are filled in turn"
    expect(comparable(actual)).equals(comparable(expected), about=about, id="reused-buffers")

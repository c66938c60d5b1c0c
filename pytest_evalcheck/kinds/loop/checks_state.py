"""EC504, EC505, EC510: the state that an evaluation leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.expectations.failures import TargetError, compared, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.failing_metric import FailingMetric
from pytest_evalcheck.kinds.common.process_state import restored_settings, same_random_numbers
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import detached
from pytest_evalcheck.kinds.loop.cases import MODES, DuringTraining, Evaluation, TwoDatasets
from pytest_evalcheck.kinds.loop.memory import RetainedTensors
from pytest_evalcheck.kinds.loop.record import LoopData
from pytest_evalcheck.kinds.loop.subject import LoopRun, LoopSubject, comparable
from pytest_evalcheck.kinds.loop.training_state import (
    MODES_KIND,
    TrainingStateSnapshot,
    describe_change,
    describe_changes,
    evaluate_in_training,
    first_line,
    interrupt,
)
from pytest_evalcheck.kinds.wrapper.model_state import set_initial_modes

_Evaluation = tuple[str, str, LoopData, "Callable[..., float] | None"]
"""A clause about an evaluation, a part of an id, its data, and the metric function in place of the loop's own."""


@check("EC504", conditions=("as many samples", "fewer samples", "more samples"), examples=12)
def evaluating_twice_gives_the_same_result(loop: LoopSubject, case: TwoDatasets) -> None:
    """A loop returns the same result for the same data, bit by bit, whatever it evaluated before; so do its evaluators.

    Before the last evaluation one is tried that ends in an error: a sample cannot be read.

    Why: scores of the first epoch, of the second and of a run by hand are put into one table.
    Usual cause: a metric is not reset, or only at the end of a run; a check run before training still counts; or
    batches are kept between runs.
    Fix: pytest_evalcheck.fixes.loops.evaluate; reset every metric first, keep batches by their samples
    """
    run, size = loop.fresh(), case.batch_size
    data, other = loop.data(case.samples), loop.data(case.others)
    expected = comparable(loop.evaluate(case.samples, batch_size=size))
    expected_other = comparable(loop.evaluate(case.others, batch_size=size))
    for which, id, dataset, wanted in (
        ("first", "first", data, expected),
        ("second", "second", data, expected),
        ("third, of other data,", "other-data", other, expected_other),
        ("fourth, of the first data again,", "first-data-again", data, expected),
    ):
        actual = comparable(run.evaluate(dataset, batch_size=size))
        expect(actual).equals(wanted, about=f"the result of the {which} evaluation", id=id, tolerance=EXACT)
    if isinstance(run.evaluate(data.failing(-1), batch_size=size), Raised):
        actual = comparable(run.evaluate(data, batch_size=size))
        expect(actual).equals(
            expected, about="the result of the evaluation after one that ended in an error", id="after-an-error"
        )
    if loop.record.evaluators is not None:
        results = loop.run_evaluators({"first": case.samples, "second": case.others}, ("first", "second"), size)
        both = results if isinstance(results, Raised) else [results["first"], results["second"]]
        expect(both).equals(
            [expected, expected_other],
            about="the results of two evaluators, compared with each alone",
            id="two-evaluators",
        )


@check(
    "EC505",
    conditions=(*MODES, "an error in the first batch", "an error in a later batch"),
    examples=12,
)
def evaluating_leaves_training_as_it_was(loop: LoopSubject, case: DuringTraining) -> None:
    """Training goes on as if there had been no evaluation, also after one that ended in an error.

    The error is that of a sample which cannot be read, or of a metric function, where the loop takes another one and
    an evaluation with one that raises no error leaves training as it was.
    Without ``train`` the check compares modes, parameters, gradients, buffers, the optimiser and random numbers. Two
    conventions are no failure: the one seed that torch's DataLoader draws, and a loop that always ends with every
    submodule in eval mode, where neither ``train`` nor ``resume`` says how training goes on.

    Why: how often a model is evaluated must not change the model that training produces.
    Usual cause: `model.train()` switches frozen layers to training, a sampler shuffles with the generator that
    training uses, or nothing is restored when an error leaves the loop.
    Fix: pytest_evalcheck.fixes.evaluating
    """
    data, broken = loop.data(case.samples), case.broken
    evaluations: list[_Evaluation] = [
        ("", "", data, None),
        (f" in which sample {broken} could not be read", "-after-unreadable-sample", data.failing(broken), None),
    ]
    if loop.record.scored_with is not None:
        failing = FailingMetric("ValueError")
        evaluations.append((" whose metric function raised an error", "-after-metric-error", data, failing))
    if loop.record.train is None:
        expect_the_same_state(loop, case, evaluations)
    else:
        expect_the_same_outcome(loop, case, evaluations)


@check("EC510", examples=3, after=("EC504",), severity="cost")
def an_evaluation_releases_its_tensors(loop: LoopSubject, case: Evaluation) -> None:
    """After an evaluation no graph stays alive, nor outputs of more than one batch; another one adds no tensors.

    Why: the tenth evaluation of a long run ends in an out-of-memory error that the first did not have.
    Usual cause: losses are summed up with their graphs, outputs are kept in a list, or every run adds metrics.
    Fix: `total += loss.item()` for `total += loss`, under `torch.no_grad()`; drop outputs at the end.
    """
    with RetainedTensors() as retained:
        run, data = loop.fresh(), loop.data(case.samples)
        for _ in range(2):
            with retained.watch(run.model):
                result = run.evaluate(data, batch_size=case.batch_size)
            if isinstance(result, Raised):
                refused(result)
                return
            result = None
            saved, outputs = retained.saved_for_backward(), retained.passes_with_outputs(run.model)
            expect(saved).holds(
                not saved, about=f"{saved} tensors are still saved for a backward pass", id="saved-tensors"
            )
            expect(outputs).holds(
                outputs < 2, about=f"the outputs of {outputs} forward passes are still alive", id="outputs-alive"
            )
        counts = retained.growing(lambda: run.evaluate(data, batch_size=case.batch_size))
        detail = f"tensors after each evaluation: {', '.join(map(str, counts))}"
        expect(counts).holds(
            not counts, about="every evaluation leaves more tensors behind", id="growing-tensors", detail=detail
        )


def expect_the_same_state(loop: LoopSubject, case: DuringTraining, evaluations: Sequence[_Evaluation]) -> None:
    """Expect that each of these evaluations leaves the state of training as it was."""
    leaves_modes = False
    for what, after_error, data, metric in evaluations:
        if metric is not None and interrupt(loop, data, case.modes, case.batch_size, _constant_metric).changes:
            inconclusive(_NO_OTHER_METRIC)
            continue
        after = interrupt(loop, data, case.modes, case.batch_size, metric)
        if isinstance(after.result, Raised) and not what:
            refused(after.result)
            return
        # A loop that restores modes at its end has to do so after an error as well.
        leaves_modes = leaves_modes or (not what and after.all_evaluate)
        undeclared = leaves_modes and after.all_evaluate and loop.record.resume is None
        if undeclared and after.changes.pop(MODES_KIND, {}):
            inconclusive("every evaluation ends in eval mode: declare how training goes on, with resume= or train=")
        for kind, lines in after.changes.items():
            about = f"an evaluation{what} left something changed: {first_line(lines)}"
            id = f"{slug(kind)}-of-{slug(next(iter(lines)) or 'the model')}-changed{after_error}"
            expect(after.result).holds(False, about=about, id=id, detail=describe_change(kind, after.changes))
        compared()


def expect_the_same_outcome(loop: LoopSubject, case: DuringTraining, evaluations: Sequence[_Evaluation]) -> None:
    """Expect that training has the same outcome with each of these evaluations in the middle."""
    expected, again = (train(loop, case.samples, case.modes, lambda _: None) for _ in range(2))
    if isinstance(expected, Raised):
        raise TargetError("train() raised an error", actual=str(expected), expected="an outcome", cause="train")
    if difference(expected, again, loop.tolerance) is not None:
        inconclusive("training has another outcome every time")
        return
    for what, after_error, data, metric in evaluations:
        results: list[Any] = []
        left: list[str] = []
        interrupted = partial(_evaluate_between, data=data, batch_size=case.batch_size, results=results, left=left)
        actual = train(loop, case.samples, case.modes, partial(interrupted, metric=metric))
        if not what and isinstance(results[-1], Raised):
            refused(results[-1])
            return
        about, detail = f"the outcome of training with an evaluation{what} in the middle", left[-1]
        if metric is not None and difference(actual, expected, loop.tolerance) is not None:
            scored = train(loop, case.samples, case.modes, partial(interrupted, metric=_constant_metric))
            if difference(scored, expected, loop.tolerance) is not None:
                inconclusive(_NO_OTHER_METRIC)
                continue
        expect(actual).equals(expected, about=about, id=f"training{after_error}", detail=detail)


def _constant_metric(*_: Any, **__: Any) -> float:
    """A metric function that raises no error."""
    return 0.0


_NO_OTHER_METRIC = "an evaluation with another metric function changes training whether it raises an error or not"


def _evaluate_between(
    run: LoopRun,
    *,
    data: LoopData,
    metric: Callable[..., float] | None,
    batch_size: int,
    results: list[Any],
    left: list[str],
) -> None:
    """Evaluate in the middle of a training, and note the result and what is left changed."""
    before = TrainingStateSnapshot(run)
    results.append(evaluate_in_training(run, data, batch_size, metric))
    left.append(describe_changes(before.by_kind()))


def train(loop: LoopSubject, rows: Rows, modes: str, between: Callable[[LoopRun], object]) -> Any:
    """The outcome of training from these modes with ``between`` called in the middle, or the error.

    Raises:
        TargetError: where ``train`` does not call it exactly once.
    """
    run, times = loop.fresh(), 0
    assert run.record.train is not None
    if run.model is not None:
        set_initial_modes(run.model, modes)

    def middle() -> None:
        nonlocal times
        times += 1
        between(run)

    with restored_settings(), same_random_numbers():
        outcome = attempt("train", run.record.train, loop.data(rows), middle)
    if isinstance(outcome, Raised):
        return outcome
    if times != 1:
        raise TargetError(
            f"train() called between() {times} times", expected="once, in the middle of training", cause="train"
        )
    return detached(outcome)

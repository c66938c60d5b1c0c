"""EC106, EC110, EC111: an evaluation restores all state, also after an error, and keeps none for later batches."""

from __future__ import annotations

import copy

from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.process_state import restored_settings
from pytest_evalcheck.kinds.wrapper.cases import Batch, TwoBatches
from pytest_evalcheck.kinds.wrapper.malformed import malformed_batches
from pytest_evalcheck.kinds.wrapper.model_state import (
    ALL_EVALUATE,
    INITIAL_MODES,
    ModelStateSnapshot,
    set_initial_modes,
)
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject, in_mode, mode_id

_EXAMPLES = 12


@check("EC106", conditions=("several rows",), examples=5, after=("EC102",))
def evaluation_restores_the_state_of_model_and_process(wrapper: WrapperSubject, case: Batch) -> None:
    """Evaluation restores the state of the model and of the process, also after an exception.

    The state is: the mode of every submodule; `requires_grad`, the values and the gradient of every parameter; the grad
    mode and the default dtype. Buffers and random numbers are compared only where every submodule is in evaluation
    mode: in training mode layers count batches and draw dropout masks.

    Why: an evaluation in the middle of training must not change the training.
    Usual cause: `model.eval()` before and `model.train()` after, for frozen submodules too, or not after an error.
    Fix: pytest_evalcheck.fixes.evaluating
    """
    if wrapper.record.model is None:
        raise NotApplicable("the wrapper names no model")
    for mode in wrapper.modes:
        good = wrapper.batch(case.samples, mode)
        bad = malformed_batches(good, wrapper.inputs.labels)
        malformed = {f"a batch whose {batch.field!r} is {batch.fault}": batch.batch for batch in bad}
        batches = {"a batch": good, "an object that is no batch": object(), **malformed}
        for name in INITIAL_MODES:
            live = wrapper.fresh()  # one for all batches: each must restore the state for the next
            set_initial_modes(live.record.model, name)
            for what, batch in batches.items():
                before = ModelStateSnapshot(live.record.model, values=name == ALL_EVALUATE)
                with restored_settings(seeds=name == ALL_EVALUATE) as left:
                    outputs = attempt("forward", live.record.forward, copy.copy(batch))
                live.metric_values(batch, outputs)
                lines = [*before.differences(), *left]
                about = f"{what} left things changed, where {name}{in_mode(mode)}"
                expect(outputs).holds(
                    not lines,
                    about=about,
                    id=f"state-after-{slug(what)}-where-{slug(name)}{mode_id(mode)}",
                    detail="\n".join(lines[:4]),
                )


@check(
    "EC110",
    conditions=("several rows",),
    examples=_EXAMPLES,
    after=("EC101", "EC104", "EC102"),
    outside="a malformed batch",
)
def a_malformed_batch_is_rejected_and_the_next_one_scored(wrapper: WrapperSubject, case: Batch) -> None:
    """A missing or malformed field is rejected with an error that names it, and the wrapper works afterwards.

    A missing field that the wrapper does not need is no error. For labels of another length any error is enough, since
    torch names the sizes; labels of another dtype are rejected, or scored as with the right one.

    Why: otherwise a batch without labels, or with too few, gets a score, or an error that does not name the cause.
    Usual cause: labels that are None reach a metric; a length of 1 is broadcast; an exception leaves state behind.
    Fix: pytest_evalcheck.fixes.require_batch, before the model runs.
    """
    for mode in wrapper.modes:
        good = wrapper.fresh().scores(wrapper.batch(case.samples, mode))
        batches = wrapper.malformed(case.samples, mode, good)
        if any(isinstance(value, Raised) for value in good.values()) or not batches:
            inconclusive("a batch of this mode is refused" if batches else "its batches are no mappings")
            continue
        for bad in batches:
            live = wrapper.fresh()
            actual = live.scores(bad.batch)
            problem = bad.problem(actual, good, wrapper.tolerance)
            about = f"{bad.field!r} is {bad.fault}{in_mode(mode)}"
            form, beside = bad.form(good)
            expect(actual).holds(
                not problem,
                about=f"where {about}, {problem}",
                id=f"{slug(bad.field)}-{slug(bad.fault)}{mode_id(mode)}",
                detail=f"seen: {show(bad.fault)}",
                form=form,
                beside=beside,
            )
            again = live.scores(wrapper.batch(case.samples, mode))
            expect(again).equals(
                good,
                about=f"the results of a good batch after one where {about}",
                id=f"good-batch-after-{slug(bad.field)}-{slug(bad.fault)}{mode_id(mode)}",
            )


@check(
    "EC111",
    conditions=("batches of one size", "batches of unequal sizes"),
    examples=_EXAMPLES,
    after=("EC104", "EC101", "EC102"),
)
def labels_of_an_earlier_batch_are_not_used(wrapper: WrapperSubject, case: TwoBatches) -> None:
    """A batch without labels is not scored with the labels of an earlier batch.

    Why: the predictions of one batch are compared with the labels of another, and the score looks plausible.
    Usual cause: labels are stored on the module, and replaced only by a batch that has some.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    for mode in wrapper.modes:
        expected = wrapper.fresh().evaluate(wrapper.without_labels(case.second_rows, mode))
        for earlier in wrapper.modes:
            live = wrapper.fresh()
            first = live.evaluate(wrapper.batch(case.first_rows, earlier))
            actual = live.evaluate(wrapper.without_labels(case.second_rows, mode))
            about = f"the results of a batch without labels{in_mode(mode)} after one that has some{in_mode(earlier)}"
            expect(actual).equals(
                expected, about=about, id=f"without-labels{mode_id(mode)}-after-labels{mode_id(earlier)}"
            )
            # A wrapper may reject a batch without labels, but one that rejects every batch shows nothing.
            if isinstance(actual, Raised) and not isinstance(first, Raised):
                compared()

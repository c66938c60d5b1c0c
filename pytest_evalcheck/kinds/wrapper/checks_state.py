"""EC106, EC110, EC111: an evaluation gives back what it borrows, and survives what it refuses."""

from __future__ import annotations

import copy

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.malformed import spoiled
from pytest_evalcheck.kinds.common.process_state import kept
from pytest_evalcheck.kinds.wrapper.cases import Batch, Pair
from pytest_evalcheck.kinds.wrapper.model_state import EVALUATES, STARTS, Borrowed, start
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject, in_mode

_EXAMPLES = 12


@check("EC106", regimes=("several rows",), examples=5)
def evaluating_gives_back_what_it_borrows(wrapper: WrapperSubject, case: Batch) -> None:
    """Evaluating gives back what it borrows: modes, gradients, buffers, random numbers; also after an exception.

    That is the modes of every submodule; `requires_grad`, the values and the gradient of every parameter; the grad mode
    and the default dtype. Buffers and random numbers are judged where every submodule evaluates: in training mode
    layers count batches and draw dropout masks, which whoever set that mode has asked for.

    Why: an evaluation in the middle of training must leave the training as it was.
    Usual cause: `model.eval()` before and `model.train()` after, for frozen submodules too, or not after an error.
    Fix: pytest_evalcheck.fixes.evaluating
    """
    if wrapper.record.model is None:
        raise NotApplicable("the wrapper names no model")
    for mode in wrapper.modes:
        good = wrapper.batch(case.samples, mode)
        spoilt = {f"a batch whose {s.field!r} is {s.fault}": s.batch for s in spoiled(good, wrapper.inputs.labels)}
        batches = {"a batch": good, "an object that is no batch": object(), **spoilt}
        for name in STARTS:
            live = wrapper.fresh()  # used again for every batch, since it was given back as it was
            start(live.record.model, name)
            for what, batch in batches.items():
                before = Borrowed(live.record.model, values=name == EVALUATES)
                with kept(seeds=name == EVALUATES) as left:
                    outputs = attempt("forward", live.record.forward, copy.copy(batch))
                live.fed(batch, outputs)
                lines = [*before.kept_back(), *left]
                about = f"{what} left things changed, where {name}{in_mode(mode)}"
                expect(outputs).holds(not lines, about=about, detail="\n".join(lines[:4]))


@check("EC110", regimes=("several rows",), examples=_EXAMPLES)
def a_malformed_batch_is_refused_and_the_next_one_scored(wrapper: WrapperSubject, case: Batch) -> None:
    """A missing or malformed field gets an error that names it, and the wrapper still works afterwards.

    A field may also be one that is not needed. Labels of another length are refused in any words, for torch names
    the sizes; labels of another dtype are refused, or scored as if they had the right one.

    Why: a batch without labels, or with too few, otherwise gets a number, or an error that says nothing.
    Usual cause: labels that are None reach a metric; a length of 1 is broadcast; an exception leaves state behind.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    for mode in wrapper.modes:
        good = wrapper.fresh().scores(wrapper.batch(case.samples, mode))
        batches = wrapper.spoiled(case.samples, mode, good)
        if any(isinstance(value, Raised) for value in good.values()) or not batches:
            inconclusive("a batch of this mode is refused" if batches else "its batches are no mappings")
            continue
        for bad in batches:
            live = wrapper.fresh()
            said = bad.unanswered(live.scores(bad.batch), good, wrapper.tolerance)
            about = f"{bad.field!r} is {bad.fault}{in_mode(mode)}"
            expect(bad.fault).holds(not said, about=f"where {about}, {said}")
            again = live.scores(wrapper.batch(case.samples, mode))
            expect(again).equals(good, about=f"what is seen of a good batch after one where {about}")


@check("EC111", regimes=("batches of one size", "batches of unequal sizes"), examples=_EXAMPLES)
def labels_are_never_those_of_an_older_batch(wrapper: WrapperSubject, case: Pair) -> None:
    """A label that the forward did not need is not silently replaced by an older one.

    Why: a batch without labels is scored against another batch, and the number looks plausible.
    Usual cause: labels are kept on the module and set only where they are found.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    for mode in wrapper.modes:
        expected = wrapper.fresh().seen(wrapper.without_labels(case.after, mode))
        for earlier in wrapper.modes:
            live = wrapper.fresh()
            first = live.seen(wrapper.batch(case.before, earlier))
            found = live.seen(wrapper.without_labels(case.after, mode))
            about = f"what is seen of a batch without labels{in_mode(mode)} after one that has some{in_mode(earlier)}"
            expect(found).equals(expected, about=about)
            # A batch without labels may well be refused, but not by a wrapper that refuses whatever it gets.
            if isinstance(found, Raised) and not isinstance(first, Raised):
                expect(found).holds(True, about="it was refused")

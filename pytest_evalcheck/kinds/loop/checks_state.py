"""EC504, EC505, EC510: what an evaluation leaves behind."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import expect, inconclusive, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.loop.cases import Evaluation, Sequel
from pytest_evalcheck.kinds.loop.cases_interrupted import MODES, Interrupted
from pytest_evalcheck.kinds.loop.memory import Held
from pytest_evalcheck.kinds.loop.results import plainly
from pytest_evalcheck.kinds.loop.subject import LoopSubject
from pytest_evalcheck.kinds.loop.training import disturbed, trained


@check("EC504", regimes=("as many samples", "fewer samples", "more samples"), examples=12)
def evaluating_twice_gives_the_same(loop: LoopSubject, case: Sequel) -> None:
    """A loop gives the same whenever it evaluates the same, whatever it evaluated before, and so do several evaluators.

    Why: scores of the first epoch, of the second and of a run by hand are put into one table.
    Usual cause: a metric is not reset, a check run before training still counts, or batches are kept between runs.
    Fix: pytest_evalcheck.fixes.loops.evaluate; reset every metric first, keep batches by their samples
    """
    live, size = loop.fresh(), case.batch_size
    first, other = loop.data(case.samples), loop.data(case.others)
    expected, apart = (plainly(loop.evaluated(rows, batch_size=size)) for rows in (case.samples, case.others))
    turns = (
        ("the first time", first, expected),
        ("the second time", first, expected),
        ("of other data after it", other, apart),
        ("of the first data again", first, expected),
    )
    for when, data, wanted in turns:
        expect(plainly(live.evaluate(data, batch_size=size))).equals(wanted, about=f"what an evaluation gives {when}")
    if loop.record.evaluators is not None:
        found = loop.together({"first": case.samples, "second": case.others}, ("first", "second"), size)
        both = found if isinstance(found, Raised) else [found["first"], found["second"]]
        expect(both).equals([expected, apart], about="what two evaluators give in one run, beside each alone")


@check(
    "EC505",
    regimes=(*MODES, "an error in the first batch", "an error in a later batch"),
    examples=12,
)
def evaluating_leaves_training_as_it_was(loop: LoopSubject, case: Interrupted) -> None:
    """Training goes on as if there had been no evaluation, also after one that ended in an error.

    Without ``train`` modes, parameters, gradients, buffers, the optimiser and random numbers are held instead.

    Why: how often one looks at a model must not decide what becomes of it.
    Usual cause: `model.train()` wakes frozen layers, a data loader draws from the generator that training uses, or
    nothing is put back when an error leaves the loop.
    Fix: pytest_evalcheck.fixes.evaluating
    """
    good = loop.data(case.samples)
    failing = {"": good, f" in which sample {case.broken} could not be read": good.failing(case.broken)}
    if loop.record.train is None:
        for why, data in failing.items():
            made, changes = disturbed(loop, data, case.modes, case.batch_size)
            if isinstance(made, Raised) and not why:
                refused(made)
            about = f"an evaluation{why} left something changed: {(*changes, '')[0]}"
            expect(made).holds(not changes, about=about, detail="\n".join(changes[1:5]))
        return
    undisturbed, again = (trained(loop, case.samples, case.modes, repr) for _ in range(2))
    if difference(undisturbed, again, loop.tolerance) is not None:
        inconclusive("training gives something else every time")
        return
    for why, data in failing.items():
        found = trained(loop, case.samples, case.modes, loop.evaluation(data, case.batch_size))
        expect(found).equals(undisturbed, about=f"what became of training with an evaluation{why} in its middle")


@check("EC510", examples=3)
def nothing_stays_alive_after_an_evaluation(loop: LoopSubject, case: Evaluation) -> None:
    """After an evaluation no graph is alive and outputs of one batch at most, and another one leaves no more tensors.

    Why: the tenth evaluation of a long run ends in an out-of-memory error that the first did not have.
    Usual cause: losses are summed up with their graphs, outputs are kept in a list, or every run adds metrics.
    Fix: torch.no_grad(), sums as numbers, and what is kept is dropped at the end
    """
    with Held() as held:
        live, data = loop.fresh(), loop.data(case.samples)
        for _ in range(2):
            with held.of(live.model):
                made = live.evaluate(data, batch_size=case.batch_size)
            if isinstance(made, Raised):
                refused(made)
                return
            made = None
            graphs, outputs = held.graphs(), held.outputs(live.model)
            expect(graphs).holds(not graphs, about=f"{graphs} tensors are still kept for a backward pass")
            expect(outputs).holds(outputs < 2, about=f"the outputs of {outputs} forward passes are still held")
        counts = held.growing(lambda: live.evaluate(data, batch_size=case.batch_size))
        detail = f"tensors after each evaluation: {', '.join(map(str, counts))}"
        expect(counts).holds(not counts, about="every evaluation leaves more tensors behind", detail=detail)

"""EC520 and EC521: configurations that are faster, held against the plain one."""

from __future__ import annotations

from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.loop.cases import Evaluation
from pytest_evalcheck.kinds.loop.cases_many import Many
from pytest_evalcheck.kinds.loop.cost import measure
from pytest_evalcheck.kinds.loop.subject import LoopSubject
from pytest_evalcheck.kinds.loop.variants import declared, evaluated, hold, lengths, spend


@check("EC520", regimes=("full batches", "a last batch of one", "a last batch that is not full"))
def a_variant_gives_the_numbers_of_the_plain_configuration(loop: LoopSubject, case: Evaluation) -> None:
    """An optimised configuration gives the numbers of the plain one, within the tolerance it declares.

    It counts the same samples, and says of each of them the same. Its speed and memory are measured beside the plain
    configuration in the same run, and reported.

    Why: a faster evaluation is worth nothing where its numbers are those of another model.
    Usual cause: a buffer outlives the batch it was made for, or results come back in the order they were worked out.
    Fix: pytest_evalcheck.fixes.loops.PredictionsById
    """
    variants = declared(loop, budgeted=False)
    measure(loop, {name: variant for name, variant in variants.items() if variant.budget is None})
    for rows, size in lengths(loop, case.samples, case.batch_size):
        plain = evaluated(loop, rows, batch_size=size)
        for name, variant in variants.items():
            hold(name, variant, evaluated(loop, rows, variant, size), plain)


@check("EC521", examples=1)
def a_variant_stays_within_its_accuracy_budget(loop: LoopSubject, case: Many) -> None:
    """A variant that trades accuracy for speed loses no more than its budget, sample by sample on the same samples.

    The losses are paired, and their 95 % interval decides: broken is what lies beyond the budget altogether, kept what
    lies within it; where the budget is inside, there are too few samples to say. Scores of 0 and 1 have Tango's score
    interval of paired proportions (1998), others a paired bootstrap (BCa, Efron and Tibshirani 1993, a fixed seed).

    Why: two averages that look alike hide losses that are all on one side, or all in one class.
    Usual cause: calibration on other data, a layer that should have stayed in full precision, samples left out.
    Fix: keep what loses most in full precision, or declare the loss that there is
    """
    variants, undecided = declared(loop, budgeted=True), []
    measure(loop, variants)
    rows = case.of_inputs(loop.inputs)
    plain = evaluated(loop, rows)
    for name, variant in variants.items():
        undecided += spend(name, variant, rows, evaluated(loop, rows, variant), plain)
    if undecided:
        raise NotApplicable(f"too few samples to say: {'; '.join(undecided)}")

"""EC107 to EC109: what belongs to a row does not depend on the company it is in."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import expect, inconclusive
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.wrapper.cases import Padded, Rowwise
from pytest_evalcheck.kinds.wrapper.outputs import compare_shapes, row
from pytest_evalcheck.kinds.wrapper.subject import GIVEN, WrapperSubject, in_mode

_EXAMPLES = 12


@check("EC107", regimes=("one row of many", "rows in another order"), examples=_EXAMPLES)
def rows_do_not_see_each_other(wrapper: WrapperSubject, case: Rowwise) -> None:
    """The outputs of a row do not depend on the other rows: alone, in another order, beside blank rows.

    Why: otherwise a score depends on the batch size, on shuffling, and on what fills the last batch.
    Usual cause: normalisation or attention over the rows of a batch, or a model left in training mode.
    Fix: normalise with stored statistics; evaluate under pytest_evalcheck.fixes.evaluating
    """
    # A row of padding changes how others are masked only where they have some padding, too.
    widths, count = wrapper.widths(case.samples, 1), len(case.samples)
    company = case.company(wrapper.inputs.padding and wrapper.inputs.padding.blank)
    for mode in wrapper.modes:
        whole = wrapper.fresh().rows(wrapper.batch(case.samples, mode, widths=widths), count)
        alone = wrapper.fresh().rows(wrapper.batch(case.alone, mode, widths=widths), 1)
        if isinstance(whole, Raised) or isinstance(alone, Raised):
            expect(alone).equals(whole, about=f"the outputs of row {case.row} alone{in_mode(mode)}")
            continue
        # What has one entry in any batch, such as a weight for each class, belongs to no row.
        wanted = {path: value for path, value in row(whole, case.row).items() if path in alone}
        if not wanted:
            inconclusive("no output has an entry for each row")
            continue
        for how, (rows, place) in company.items():
            found = wrapper.fresh().rows(wrapper.batch(rows, mode, widths=widths), len(rows))
            actual = found if isinstance(found, Raised) else row(found, place, of=wanted)
            expect(actual).equals(wanted, about=f"the outputs of row {case.row} {how}{in_mode(mode)}")


@check("EC108", regimes=("more padding", "a row of padding"), needs=("padding",), examples=_EXAMPLES)
def padding_changes_nothing(wrapper: WrapperSubject, case: Padded) -> None:
    """Padding does not change a row, nor a loss, nor a metric: however wide, on any side that the model can take.

    Why: how far a row is padded depends on the longest row of its batch, which has nothing to do with it.
    Usual cause: a mean over all positions, a mask that is ignored, labels of padding that are not.
    Fix: weight by the mask: pytest_evalcheck.fixes.WeightedMean
    """
    for mode in wrapper.modes:
        least = wrapper.through_padding(case.samples, mode)
        more = wrapper.through_padding(case.samples, mode, side=case.side, extra=case.extra, blank=case.blank)
        company = " and a row of padding" if case.blank else ""
        about = f"what is seen with padding of {case.extra} on the {case.side}{company}{in_mode(mode)}"
        own = wrapper.unpadded(case.samples, more, least)
        expect(own).equals(wrapper.unpadded(case.samples, least, more), about=about)


@check("EC109", regimes=("one row of many",), examples=_EXAMPLES)
def a_batch_of_one_has_the_shape_of_any_other(wrapper: WrapperSubject, case: Rowwise) -> None:
    """A batch of one has the shape and meaning of any other: outputs, and what metrics are given.

    Why: the last batch of a data set is often of one, and a missing dimension is broadcast without a word.
    Usual cause: `squeeze()` without a dimension.
    Fix: squeeze the one dimension that is meant: `squeeze(dim=-1)`.
    """
    widths, count = wrapper.widths(case.samples), len(case.samples)
    for mode in wrapper.modes:
        live, many = wrapper.fresh(), wrapper.batch(case.samples, mode, widths=widths)
        one = wrapper.batch(case.alone, mode, widths=widths)
        of_many, of_one = live.forward(many), live.forward(one)
        if isinstance(of_many, Raised) or isinstance(of_one, Raised):
            expect(of_one).equals(of_many, about=f"the outputs of a batch of one{in_mode(mode)}")
            continue
        expect(of_one).holds(True, about="it was accepted")
        compare_shapes(of_many, of_one, count, "outputs")
        if live.record.update is not None:
            given = [live.fed(*pair, only=GIVEN)[GIVEN] for pair in ((many, of_many), (one, of_one))]
            if not any(isinstance(value, Raised) for value in given):
                compare_shapes(given[0], given[1], count, "what a metric is given")

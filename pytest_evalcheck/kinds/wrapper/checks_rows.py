"""EC107 to EC109, EC112: the outputs of a row do not depend on the other rows, on padding or on the batch size."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import compared, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import rounding_of
from pytest_evalcheck.kinds.wrapper.cases import LargeBatch, Padded, SingleRow
from pytest_evalcheck.kinds.wrapper.outputs import compare_shapes, row
from pytest_evalcheck.kinds.wrapper.subject import METRIC_INPUTS, WrapperSubject, in_mode, mode_id

_EXAMPLES = 12


@check(
    "EC107",
    conditions=("one row of many", "rows in another order"),
    examples=_EXAMPLES,
    after=("EC101", "EC102", "EC104", "EC109"),
)
def rows_are_independent(wrapper: WrapperSubject, case: SingleRow) -> None:
    """The outputs of a row do not depend on the other rows: alone, in another order, beside blank rows.

    Why: otherwise a score depends on the batch size, on shuffling, and on the rows that fill the last batch.
    Usual cause: normalisation or attention over the rows of a batch, or a model left in training mode; if samples
    differ in length, lengths or a mask that are not passed on, so that a short row is computed with its padding.
    Fix: normalise with stored statistics; evaluate under pytest_evalcheck.fixes.evaluating
    """
    # With one more column every row has some padding: only then can a blank row change how the others are masked.
    widths, count = wrapper.widths(case.samples, 1), len(case.samples)
    batches = case.batches(wrapper.inputs.padding and wrapper.inputs.padding.blank)
    for mode in wrapper.modes:
        whole = wrapper.fresh().rows(wrapper.batch(case.samples, mode, widths=widths), count)
        alone = wrapper.fresh().rows(wrapper.batch(case.alone, mode, widths=widths), 1)
        if isinstance(whole, Raised) or isinstance(alone, Raised):
            expect(alone).equals(
                whole, about=f"the outputs of row {case.row} alone{in_mode(mode)}", id=f"row-alone{mode_id(mode)}"
            )
            continue
        # An output that has as many entries in only one of both, such as a weight for each class, belongs to no row.
        expected = row(whole, case.row, of=alone)
        if not expected:
            inconclusive("no output has an entry for each row")
            continue
        for name, (rows, index) in batches.items():
            outputs = wrapper.fresh().rows(wrapper.batch(rows, mode, widths=widths), len(rows))
            actual = outputs if isinstance(outputs, Raised) else row(outputs, index, of=expected)
            expect(actual).equals(
                expected,
                about=f"the outputs of row {case.row} {name}{in_mode(mode)}",
                id=f"row-{slug(name)}{mode_id(mode)}",
                tolerance=rounding_of(expected, wrapper.tolerance),
            )


@check(
    "EC108",
    conditions=("more padding", "a row of padding"),
    needs=("padding",),
    examples=_EXAMPLES,
    after=("EC101", "EC102", "EC107", "EC109"),
)
def padding_changes_nothing(wrapper: WrapperSubject, case: Padded) -> None:
    """Padding of any width, on any side that the model supports, changes no output of a row, no loss and no metric.

    Why: the width to which a row is padded depends on the longest row of its batch, and says nothing about the row.
    Usual cause: a mean over all positions, a mask that is ignored, labels of padding that are not ignored.
    Fix: weight by the mask: pytest_evalcheck.fixes.WeightedMean
    """
    for mode in wrapper.modes:
        least = wrapper.padded_outputs(case.samples, mode)
        more = wrapper.padded_outputs(case.samples, mode, side=case.side, extra=case.extra, blank=case.blank)
        row_of_padding = " and a row of padding" if case.blank else ""
        about = f"the results with padding of {case.extra} on the {case.side}{row_of_padding}{in_mode(mode)}"
        expected = wrapper.unpadded(case.samples, least, more)
        expect(wrapper.unpadded(case.samples, more, least)).equals(
            expected,
            about=about,
            id=f"padding-on-the-{case.side}{mode_id(mode)}",
            tolerance=rounding_of(expected, wrapper.tolerance),
        )


@check("EC109", conditions=("one row of many",), examples=_EXAMPLES)
def a_batch_of_one_has_the_usual_shapes(wrapper: WrapperSubject, case: SingleRow) -> None:
    """The outputs of a batch of one, and the inputs of its metrics, have the same dimensions as for any other batch.

    Why: the last batch of a data set often has one row, and a missing dimension is broadcast without an error.
    Usual cause: `squeeze()` without a dimension.
    Fix: squeeze only the intended dimension: `squeeze(dim=-1)`.
    """
    widths, count = wrapper.widths(case.samples), len(case.samples)
    for mode in wrapper.modes:
        live, many = wrapper.fresh(), wrapper.batch(case.samples, mode, widths=widths)
        one = wrapper.batch(case.alone, mode, widths=widths)
        of_many, of_one = live.forward(many), live.forward(one)
        if isinstance(of_many, Raised) or isinstance(of_one, Raised):
            expect(of_one).equals(
                of_many, about=f"the outputs of a batch of one{in_mode(mode)}", id=f"batch-of-one{mode_id(mode)}"
            )
            continue
        compared()
        compare_shapes(of_many, of_one, count, "outputs")
        if live.record.update is not None:
            inputs = [
                live.metric_values(batch, outputs, only=METRIC_INPUTS)[METRIC_INPUTS]
                for batch, outputs in ((many, of_many), (one, of_one))
            ]
            if not any(isinstance(value, Raised) for value in inputs):
                compare_shapes(inputs[0], inputs[1], count, METRIC_INPUTS)


@check(
    "EC112",
    conditions=("as many rows as a kernel takes at once", "one row more"),
    examples=4,
    after=("EC101", "EC102", "EC107", "EC109"),
)
def rows_are_the_same_in_a_large_batch(wrapper: WrapperSubject, case: LargeBatch) -> None:
    """The outputs of a row are the same alone and in a batch of many rows: within rounding, or bit by bit if declared.

    Rounding is 128 units in the last place of the largest output, 32 in half precision, or the tolerance of the target
    where that is wider.
    A record with `batch_invariant=True` claims the same bits.

    Why: the batch size is chosen for the memory of one machine, and benchmarks are compared to the third digit.
    Usual cause: experts with a capacity drop tokens of large batches, a scale is taken over the batch, or a large batch
    is computed in parts or in another precision.
    Fix: per-row scales, `x.abs().amax(-1, keepdim=True)` for `x.abs().max()`, and no capacity in evaluation.
    """
    widths, exact = wrapper.widths(case.samples), wrapper.record.batch_invariant
    for mode in wrapper.modes:
        many = wrapper.fresh().rows(wrapper.batch(case.repeated_rows, mode, widths=widths), case.rows)
        for index in dict.fromkeys((0, case.rows - 1)):
            alone = wrapper.fresh().rows(wrapper.batch([case.repeated_rows[index]], mode, widths=widths), 1)
            if isinstance(many, Raised) or isinstance(alone, Raised):
                expect(many).equals(
                    alone, about=f"the outputs of {case.rows} rows{in_mode(mode)}", id=f"large-batch{mode_id(mode)}"
                )
                continue
            expected = row(alone, 0, of=many)
            if not expected:
                inconclusive("no output has an entry for each row")
                continue
            tolerance = EXACT if exact else rounding_of(expected, wrapper.tolerance)
            about = f"the outputs of row {index} of {case.rows}{in_mode(mode)}"
            expect(row(many, index, of=expected)).equals(
                expected, about=about, id=f"row-in-a-large-batch{mode_id(mode)}", tolerance=tolerance
            )

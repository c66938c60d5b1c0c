"""EC117: the log-probabilities of labels that a wrapper reports."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import rounding_of
from pytest_evalcheck.kinds.wrapper.cases import Batch
from pytest_evalcheck.kinds.wrapper.label_scores import alike
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject, in_mode, mode_id


@check("EC117", conditions=("a batch of one", "several rows"), examples=8, after=("EC101", "EC102", "EC107", "EC108"))
def labels_have_the_log_probabilities_of_the_logits(wrapper: WrapperSubject, case: Batch) -> None:
    """The log-probability that a wrapper reports of a label is the log-softmax of the logits that predict it.

    It is reported for each label, as a sum for each row, or as the mean of all labels that count, as in a loss. The
    same wrapper is asked again for the rows in the other order.

    Why: perplexities, comparisons of answers and rewards are made of it.
    Usual cause: labels are shifted twice or not at all, a mean is one of the means of rows, or results stay in the
    order in which rows were sorted.
    Fix: `logits[:, :-1].log_softmax(-1)` at `labels[:, 1:]`, and one mean of all labels that count.
    """
    if not wrapper.record.log_probabilities:
        raise NotApplicable("the wrapper reports no log-probabilities: ec.Wrapper(..., log_probabilities=...)")
    for mode in wrapper.modes:
        for name in wrapper.record.log_probabilities:
            live = wrapper.fresh()
            for rows, words in ((case.samples, ""), (case.samples[::-1], " in the other order")):
                batch = wrapper.batch(rows, mode)
                outputs = live.forward(batch)
                if isinstance(outputs, Raised):
                    refused(outputs)
                    continue
                found = live.log_probabilities(name, batch, outputs)
                if found is None or found[1].isnan().any() or found[0].isnan().all():
                    inconclusive("no label counts, or logits are NaN")
                    continue
                expected, logits = found
                reported = live.reported(name, batch, outputs)
                tolerance = rounding_of([reported, logits], wrapper.tolerance)
                actual, expected = (
                    (reported, expected) if isinstance(reported, Raised) else alike(reported, expected, name)
                )
                about = f"the log-probabilities of labels by {name!r}{in_mode(mode)}{words}"
                id = f"log-probs-by-{slug(name)}{mode_id(mode)}{'-in-the-other-order' if words else ''}"
                expect(actual).equals(expected, about=about, id=id, tolerance=tolerance)

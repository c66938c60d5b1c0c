"""EC315, EC316: the same rows are decoded to the same numbers, at the second time and in a batch of many."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import expect, inconclusive
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cases import LargeBatch, Prompts, even
from pytest_evalcheck.kinds.decoder.subject import NEW_TOKENS, DecoderSubject


@check("EC315", conditions=("one row", "rows of unequal length"), examples=4, after=("EC301", "EC309"))
def decoding_twice_gives_the_same_bits(subject: DecoderSubject, case: Prompts) -> None:
    """The same prompts get the same logits and tokens every time, bit by bit, and similar ones their own.

    Similar prompts have the same ids in another order. Between both times they are decoded.

    Why: who evaluates a model again must get the number that was published.
    Usual cause: sampling that a configuration of the model asks for, or a memory of prompts whose key is a sum, a
    length or the first ids.
    Fix: pass `do_sample=False`; look up prompts by all of their ids.
    """
    similar = subject.inputs.similar
    for decoder in subject.precisions():
        rows, others = (
            even(decoder.truncate(subject.prompts(samples), NEW_TOKENS))
            for samples in (case.samples, [*map(similar, case.samples)] if similar else case.samples[::-1])
        )
        new = subject.another(decoder)
        for method in decoder.methods:
            first = decoder.decode_with_new_cache(method, rows)
            if isinstance(first, Raised) or first is None:
                inconclusive(f"rows get no answer: {first}")
                continue
            after, wanted = (one.decode_with_new_cache(method, others) for one in (decoder, new))
            expect(after).equals(
                wanted,
                about=f"what prompts get by {method} after similar ones",
                id=f"after-similar-prompts-by-{method}",
                tolerance=EXACT,
            )
            again = decoder.decode_with_new_cache(method, rows)
            expect(again).equals(
                first,
                about=f"what prompts get by {method} at the second time",
                id=f"second-time-by-{method}",
                tolerance=EXACT,
            )


@check("EC316", conditions=("many rows",), examples=4, after=("EC301", "EC305"))
def a_row_is_decoded_alike_in_a_large_batch(subject: DecoderSubject, case: LargeBatch) -> None:
    """A row in a batch of many gets what it gets alone: within rounding, or bit by bit if declared.

    A record with `batch_invariant=True` claims the same bits of logits.

    Why: the batch size is chosen for the memory of one machine, and an answer must not depend on it.
    Usual cause: experts with a capacity drop tokens of large batches, a scale is taken over the batch, or a large batch
    is computed in parts.
    Fix: per-row scales, `x.abs().amax(-1, keepdim=True)` for `x.abs().max()`, and no capacity in evaluation.
    """
    for decoder in subject.precisions():
        rows = even(decoder.truncate(subject.prompts(case.samples), NEW_TOKENS))
        count = min(case.rows, decoder.record.max_rows or case.rows)
        many = [rows[i % len(rows)] for i in range(count)]
        for method in decoder.methods:
            alone = [decoder.decode_with_new_cache(method, [row]) for row in rows]
            failed = [result for result in alone if isinstance(result, Raised) or result is None]
            if failed:
                inconclusive(f"a row alone gets no answer: {failed[0]}")
                continue
            about = f"what {count} rows get by {method}"
            actual = decoder.decode(method, decoder.start(count), many)
            if not isinstance(actual, Raised) and len(actual) != count:
                about = f"the number of rows that {method}() gives for {count}"
                expect(len(actual)).equals(count, about=about, id=f"number-of-rows-by-{method}")
                continue
            expected = [alone[i % len(rows)][0] for i in range(count)]
            if decoder.record.batch_invariant and method == "step":
                expect(actual).equals(expected, about=about, id=f"rows-by-{method}", tolerance=EXACT)
            elif method == "step":
                decoder.assert_same(actual, expected, about=about, id=f"rows-by-{method}")
            elif decoder.agrees([row[0] for row in alone], decoder.greedy(rows, [row[0] for row in alone])):
                wanted = decoder.greedy(many, actual)
                decoder.assert_same(actual, wanted, about=about, id=f"rows-by-{method}")
            else:
                inconclusive("a row alone is decoded otherwise than without a cache; see EC301")

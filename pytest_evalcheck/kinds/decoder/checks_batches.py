"""EC302 to EC305: batches of any size, one after the other, through one cache."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cases import OversizedBatch, PaddedBatch, SameBatchSize, SmallerBatch, even
from pytest_evalcheck.kinds.decoder.subject import (
    NEW_TOKENS,
    DecoderSubject,
    DecoderUnderTest,
    Ids,
    all_rows_or_none,
    plural,
)

_FEW = 8


@check("EC302", conditions=("a last batch of one row", "a few rows less"), examples=_FEW, after=("EC301",))
def a_smaller_batch_is_decoded_as_with_a_new_cache(subject: DecoderSubject, case: SmallerBatch) -> None:
    """A smaller batch after a larger one gets what it gets from a new cache, and so does a larger one after it.

    Why: the last batch of a data set is smaller than the others.
    Usual cause: rows of the earlier batch stay behind those of the new one, or the number of rows is fixed.
    Fix: use the first rows of what is allocated; transformers has pytest_evalcheck.fixes.caches.ResizableStaticCache
    """
    for decoder in subject.precisions():
        decoder.require_cache()
        rows, after = (decoder.truncate(subject.prompts(batch), NEW_TOKENS) for batch in (case.samples, case.after))
        if len(after) >= len(rows):
            inconclusive("a cache takes no more than one row")
            continue
        count, larger = len(after), [*after, *even(rows[len(after) :], len(after[0]))]
        for method in decoder.methods:
            # Rows that only fill a generation are checked by EC305.
            expected = decoder.decode_with_new_cache(method, after, len(rows) if method == "generate" else 0)
            batches = [rows, after, rows] if decoder.offers("reset") else [after]
            first, *others = decoder.decode_in_turn(method, len(rows), batches)
            actual = others[0] if others else first
            if others and not decoder.agrees(actual, expected):
                # Is it the size of the batch? As many rows as before, of which the first ones are the same, say so.
                as_many = decoder.decode_in_turn(method, len(rows), [rows, larger])[1]
                if not decoder.starts_with(as_many, expected):
                    inconclusive("a reset leaves something behind; see EC304")
                    continue
            if not decoder.is_declared_refusal(actual, "smaller batches"):
                _expect_smaller(decoder, method, rows, after, actual, expected)
                if others:
                    about = f"what {len(rows)} rows get by {method} after {count}"
                    decoder.assert_same(others[1], all_rows_or_none(first, rows), about=about, id=f"larger-by-{method}")


def _expect_smaller(decoder: DecoderUnderTest, method: str, rows: Ids, after: Ids, actual: Any, expected: Any) -> None:
    decoder.assert_same(
        actual,
        expected,
        about=f"what {plural(len(after), 'row')} get by {method} from a cache for {len(rows)}",
        id=f"smaller-by-{method}",
        refusable="smaller batches",
    )


@check("EC303", conditions=("one row more", "rows times choices"), examples=12, after=("EC301", "EC302"))
def a_larger_batch_is_decoded_or_refused(subject: DecoderSubject, case: OversizedBatch) -> None:
    """A batch of more rows than the cache was made for gets what a cache for so many rows gives, or a clear error.

    A clear error is raised on purpose, by a `raise` of the code under test with a text; one of an operator is not.

    Why: a question with four choices is four rows.
    Usual cause: only the rows that there is room for are kept, or several rows share memory.
    Fix: pytest_evalcheck.fixes.caches.expand_choices
    """
    for decoder in subject.precisions():
        decoder.require_cache()
        rows = decoder.truncate(subject.prompts(case.samples), NEW_TOKENS)
        if len(rows) <= case.cache_rows:
            inconclusive("a cache takes no more rows")
            continue
        for method in decoder.methods:
            expected = decoder.decode_with_new_cache(method, rows)
            actual = decoder.decode(method, decoder.start(case.cache_rows), rows)
            about = f"what {len(rows)} rows get by {method} from a cache for {case.cache_rows}"
            if isinstance(actual, Raised):
                expect(actual).holds(
                    actual.on_purpose,
                    about=f"an error that is no refusal for {about}",
                    id=f"unclear-refusal-by-{method}",
                    detail=str(actual),
                )
            else:
                decoder.assert_same(actual, expected, about=about, id=f"larger-batch-by-{method}")


@check("EC304", conditions=("longer after shorter", "shorter after longer"), examples=_FEW, after=("EC301",))
def a_reset_cache_behaves_like_a_new_cache(subject: DecoderSubject, case: SameBatchSize) -> None:
    """After a reset nothing of the earlier batch is left: other rows of any length get what a new cache gives.

    Why: otherwise the earlier prompt changes the answer to the next one.
    Usual cause: keys are cleared, but not the number of tokens, the mask, or a second state.
    Fix: empty all that a row left; transformers has pytest_evalcheck.fixes.caches.ResizableStaticCache
    """
    for decoder in subject.precisions():
        decoder.require_cache()
        if not decoder.offers("reset"):
            raise NotApplicable("the cache offers no reset")
        rows, after = (decoder.truncate(subject.prompts(batch), NEW_TOKENS) for batch in (case.samples, case.after))
        for method in decoder.methods:
            actual = decoder.decode_in_turn(method, len(rows), [rows, after])[1]
            expected = decoder.decode_with_new_cache(method, after)
            decoder.assert_same(
                actual, expected, about=f"what rows get by {method} after a reset", id=f"after-reset-by-{method}"
            )


@check("EC305", conditions=("no row added", "all but one row added", "equal rows"), examples=12)
def filler_rows_do_not_affect_other_rows(subject: DecoderSubject, case: PaddedBatch) -> None:
    """Rows that are added to fill a batch change no other row, and exactly these rows are removed afterwards.

    Some rows of a batch are equal, as prompts of real data are: none of them is lost.

    Why: a last batch is filled up for a cache of fixed size; a lost or shifted row is scored against another's answer.
    Usual cause: ``results[:-added]``, which is empty where none was added; added rows that come first; prompts as keys.
    Fix: pytest_evalcheck.fixes.caches.trim
    """
    for decoder in subject.precisions():
        decoder.require_cache()
        rows = decoder.truncate(subject.prompts(case.samples), NEW_TOKENS)
        added = min(case.fillers, (decoder.record.max_rows or len(rows) + case.fillers) - len(rows))
        about = f"what {plural(len(rows), 'row')} get by {{}} with {added} more to fill the batch"
        if "step" in decoder.methods:
            fillers = [[decoder.record.pad_token] * len(rows[0])] * added
            actual = decoder.decode_with_new_cache("step", [*rows, *fillers])
            actual = actual if isinstance(actual, Raised) else actual[: len(rows)]
            expected = decoder.decode_with_new_cache("step", rows)
            decoder.assert_same(actual, expected, about=about.format("step"), id="filled-batch-by-step")
        if "generate" in decoder.methods:
            actual = decoder.decode("generate", decoder.start(len(rows) + added), rows)
            if not isinstance(actual, Raised):
                about_count = f"the number of rows that generate() gives for {len(rows)}"
                expect(len(actual)).equals(len(rows), about=about_count, id="number-of-rows")
            expected = decoder.decode_with_new_cache("generate", rows)
            decoder.assert_same(
                actual,
                expected,
                about=about.format("generate"),
                id="filled-batch-by-generate",
            )

"""EC302 to EC305: batches of any size, one after the other, through one cache."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cases import even
from pytest_evalcheck.kinds.decoder.cases_turns import Again, Fewer, Filled, TooMany
from pytest_evalcheck.kinds.decoder.subject import NEW, DecoderSubject, counted, whole

_FEW = 8


@check("EC302", regimes=("a last batch of one row", "a few rows less"), examples=_FEW)
def a_smaller_batch_gives_what_a_fresh_cache_gives(decoder: DecoderSubject, case: Fewer) -> None:
    """A smaller batch after a larger one gives what a fresh cache gives, and so does a larger one after it.

    Why: the last batch of a data set is smaller than the others.
    Usual cause: rows of the earlier batch stay behind those of the new one, or their number is fixed.
    Fix: pytest_evalcheck.fixes.caches.ResizableStaticCache
    """
    for live in decoder.tries():
        rows, after = (live.room(decoder.prompts(batch), NEW) for batch in (case.samples, case.after))
        if len(after) >= len(rows):
            inconclusive("a cache takes no more than one row")
            continue
        count, larger = len(after), [*after, *even(rows[len(after) :], len(after[0]))]
        for way in live.ways:
            # Rows that only fill a generation are what EC305 is about.
            expected = live.fresh(way, after, len(rows) if way == "generate" else 0)
            about = f"what {counted(count, 'row')} get by {way} from a cache for {len(rows)}"
            batches = [rows, after, rows] if live.offers("reset") else [after]
            first, *others = live.in_turn(way, len(rows), batches)
            found = others[0] if others else first
            odd = others and not live.agree(found, expected)
            if odd and not live.begins(live.in_turn(way, len(rows), [rows, larger])[1], expected):
                inconclusive("a reset leaves something behind; EC304 tells")
            elif not live.declared(found, "smaller batches"):
                live.same(found, expected, about=about)
                if others:
                    live.same(others[1], whole(first, rows), about=f"what {len(rows)} rows get by {way} after {count}")


@check("EC303", regimes=("one row more", "rows times choices"), examples=12)
def a_larger_batch_is_decoded_or_refused(decoder: DecoderSubject, case: TooMany) -> None:
    """A larger batch than the cache was made for gives what a cache for so many rows gives, or is refused clearly.

    Why: a question with four choices is four rows.
    Usual cause: only the rows that there is room for are kept, or rows share the memory of one.
    Fix: pytest_evalcheck.fixes.caches.expand_choices
    """
    for live in decoder.tries():
        rows = live.room(decoder.prompts(case.samples), NEW)
        if len(rows) <= case.made_for:
            inconclusive("a cache takes no more rows")
            continue
        for way in live.ways:
            expected, found = live.fresh(way, rows), live.answers(way, live.start(case.made_for), rows)
            about = f"what {len(rows)} rows get by {way} from a cache for {case.made_for}"
            if isinstance(found, Raised):
                expect(found).holds(bool(str(found.error).strip()), about=f"an error without a text for {about}")
            else:
                live.same(found, expected, about=about)


@check("EC304", regimes=("longer after shorter", "shorter after longer"), examples=_FEW)
def nothing_is_left_after_a_reset(decoder: DecoderSubject, case: Again) -> None:
    """After a reset nothing of the earlier batch is left: other rows of any length get what a fresh cache gives.

    Why: the next prompt would be answered with the one before it in mind.
    Usual cause: keys are cleared, but not the number of tokens seen, the mask, or a second state.
    Fix: pytest_evalcheck.fixes.caches.ResizableStaticCache
    """
    for live in decoder.tries():
        if not live.offers("reset"):
            raise NotApplicable("the cache offers no reset")
        rows, after = (live.room(decoder.prompts(batch), NEW) for batch in (case.samples, case.after))
        for way in live.ways:
            found = live.in_turn(way, len(rows), [rows, after])[1]
            live.same(found, live.fresh(way, after), about=f"what rows get by {way} after a reset")


@check("EC305", regimes=("no row added", "all but one row added"), examples=12)
def rows_that_fill_a_batch_change_no_other(decoder: DecoderSubject, case: Filled) -> None:
    """Rows that are added to fill a batch change no other row, and exactly they are taken out again.

    Why: a last batch is filled up for a cache of fixed size; a lost or shifted row is scored against another's answer.
    Usual cause: ``results[:-added]``, which is nothing where none was added; added rows that are put first.
    Fix: pytest_evalcheck.fixes.caches.trim
    """
    for live in decoder.tries():
        rows = live.room(decoder.prompts(case.samples), NEW)
        added = min(case.added, (live.record.max_rows or len(rows) + case.added) - len(rows))
        about = f"what {counted(len(rows), 'row')} get by {{}} with {added} more to fill the batch"
        if "step" in live.ways:
            blanks = [[live.record.pad_token] * len(rows[0])] * added
            found = live.fresh("step", [*rows, *blanks])
            found = found if isinstance(found, Raised) else found[: len(rows)]
            live.same(found, live.fresh("step", rows), about=about.format("step"))
        if "generate" in live.ways:
            found = live.answers("generate", live.start(len(rows) + added), rows)
            if not isinstance(found, Raised):
                expect(len(found)).equals(len(rows), about=f"the number of rows that generate() gives for {len(rows)}")
            live.same(found, live.fresh("generate", rows), about=about.format("generate"))

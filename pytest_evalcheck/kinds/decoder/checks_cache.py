"""EC301, EC307, EC308, EC311: what is decoded with a cache is what is decoded without one."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cache_capacity import brimful, overrun, sound
from pytest_evalcheck.kinds.decoder.cache_inspection import continued
from pytest_evalcheck.kinds.decoder.cache_operations import OPERATIONS, performed, replayed
from pytest_evalcheck.kinds.decoder.cases import Overrun, Pieces, Program, even
from pytest_evalcheck.kinds.decoder.generation import reading
from pytest_evalcheck.kinds.decoder.subject import NEW, DecoderSubject, counted

_FEW = 8


@check("EC301", regimes=("one token at a time", "several tokens at a time"), examples=15)
def a_cache_does_not_change_what_is_decoded(decoder: DecoderSubject, case: Pieces) -> None:
    """Cached decoding gives the logits and the greedy tokens of uncached decoding.

    Why: a cache is there to save time, and every number of an evaluation that generates rests on it.
    Usual cause: positions or masks that count from the new tokens instead of from the beginning.
    Fix: number positions by what the cache holds, and mask by absolute places.
    """
    for live in decoder.tries():
        rows = live.room(decoder.prompts(case.samples))
        if "step" in live.ways:
            pieces = case.sizes(len(rows[0]))
            found = live.start(len(rows)).feed_pieces(rows, pieces)
            if max(pieces[1:], default=1) == 1 or not live.declared(found, "chunks"):
                live.same(found, live.uncached(rows), about=f"the logits of rows that come in pieces of {pieces}")
        if "generate" in live.ways:
            prompts = live.room(rows, NEW)
            found = live.answers("generate", live.start(len(prompts)), prompts)
            live.same(found, live.greedy(prompts, found), about="the tokens that are generated")


@check("EC307", regimes=("one operation", "several operations"), examples=15)
def operations_act_on_the_cache_as_on_the_rows(decoder: DecoderSubject, case: Program) -> None:
    """Reordering, selecting, repeating and cropping a cache is the same as doing it to the rows before.

    An operation may refuse.

    Why: beams are reordered at every step, and rows that are done are taken out.
    Usual cause: keys and values are reordered, but not what else belongs to a row: positions, a state, a mask.
    Fix: apply the operation to everything that has an entry a row.
    """
    for live in decoder.tries():
        if "step" not in live.ways or not any(map(live.offers, OPERATIONS)):
            raise NotApplicable("the cache offers no operation on rows")
        seen = performed(live, decoder.prompts(case.samples), case.program)
        if seen.refused:
            refused(seen.refused)
        elif not seen.done:
            inconclusive("no operation of this program is offered")
        else:
            live.same(seen.last, replayed(live, seen), about=f"the logits after {', '.join(seen.done)}")


@check("EC308", regimes=("a token when it is full", "a prompt that is too long"), examples=_FEW)
def running_past_the_capacity_is_refused(decoder: DecoderSubject, case: Overrun) -> None:
    """A cache can be filled to its capacity, and what comes beyond is refused, or decoded as without a cache.

    Why: a long prompt would otherwise be scored by what is left of it.
    Usual cause: the place of a new token wraps around, or is clamped to the last one.
    Fix: raise an error that tells the capacity and what was asked for.
    """
    for live in decoder.tries():
        if live.record.capacity is None:
            raise NotApplicable("the cache grows")
        rows = even(live.room(decoder.prompts(case.samples)), live.record.capacity + case.over)
        for way in live.ways:
            if not sound(live, way, rows):
                inconclusive("a few tokens are decoded otherwise than without a cache; EC301 tells")
                continue
            live.same(*brimful(live, way, rows), about=f"what is decoded by {way} up to the capacity")
            found, expected = overrun(live, way, rows, case.at_once)
            about = f"what is decoded by {way} of {counted(case.over, 'token')} more than the capacity"
            if isinstance(found, Raised):
                expect(found).holds(bool(str(found.error).strip()), about=f"an error without a text for {about}")
            elif isinstance(expected, Raised):
                expect(found).equals(expected, about=about)
            else:
                live.same(found, expected, about=about)


@check("EC311", existential=True, examples=_FEW)
def the_cache_is_used(decoder: DecoderSubject, case: Pieces) -> None:
    """Control: what the cache holds is read, and a generation does not read a prompt again.

    Why: a cache that is never hit keeps every other promise, and saves no time.
    Usual cause: the model makes a cache of its own in every call, or all ids are fed again.
    Fix: hand the cache to the model in every call, and only the ids that are new.
    """
    for live in decoder.tries():
        rows = live.room(even(decoder.prompts(case.samples), max(4, len(case.samples[0]))), NEW)
        if "step" in live.ways:
            plain, spoiled = continued(live, rows), continued(live, rows, spoilt=True)
            about = "logits are the same when the memory of the cache is overwritten"
            expect(plain).holds(isinstance(plain, list) and not live.agree(spoiled, plain), about=about)
        if "generate" in live.ways:
            with reading(live.record.model) as read:
                live.answers("generate", live.start(len(rows)), rows)
            if read:
                about = f"forwards of a generation read {read} ids of a row, of which {len(rows[0])} are the prompt"
                expect(read).holds(len(read) == 1 or read[-1] < len(rows[0]), about=about)
            else:
                inconclusive("the model has no embedding at which ids could be counted")

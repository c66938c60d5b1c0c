"""EC309, EC313: what decoding leaves behind."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cache_inspection import Watched
from pytest_evalcheck.kinds.decoder.cases import Prompts, even
from pytest_evalcheck.kinds.decoder.environment import Surroundings
from pytest_evalcheck.kinds.decoder.subject import NEW, DecoderSubject, whole

_FEW = 4


@check("EC309", regimes=("one row", "rows of unequal length"), examples=_FEW)
def decoding_leaves_everything_as_it_was(decoder: DecoderSubject, case: Prompts) -> None:
    """Ids, masks, positions, prompts, the model's weights and modes, and its configurations are as before.

    Why: the next call, and the next user of the model, are given the same objects.
    Usual cause: a prompt is extended in place, or the configuration is set for one call and not put back.
    Fix: make new tensors; copy a configuration before it is changed.
    """
    for live in decoder.tries():
        rows = live.room(decoder.prompts(case.samples), NEW)
        rows = rows if live.record.sides and not live.refuses("padding") else even(rows, len(rows[0]))
        before, live.watching = Surroundings(live.record), True
        for way in live.ways:
            conversation = live.start(len(rows))
            if way == "step":
                side = live.record.sides[0] if live.record.sides else "left"
                conversation.feed_padded(rows, side)
                found = conversation.feed(even(rows, 1))
            else:
                found = live.answers(way, conversation, rows)
            if isinstance(found, Raised):
                refused(found)
            changes = [*live.changes, *before.changes()]
            about = f"what {way} was given, or uses, is changed"
            expect(found).holds(not changes, about=about, detail="\n".join(changes[:4]))


@check("EC313", regimes=("one row",), examples=_FEW)
def tearing_down_gives_the_memory_back(decoder: DecoderSubject, case: Prompts) -> None:
    """A cache that is torn down, or that nobody holds any more, gives its memory back, and the decoder works as before.

    Why: caches are the largest tensors of an evaluation, and the next model needs their room.
    Usual cause: the model, a list of caches or a compiled graph still holds them after they were zeroed.
    Fix: pytest_evalcheck.fixes.caches
    """
    for live in decoder.tries():
        rows = live.room(even(decoder.prompts(case.samples), len(case.samples[0])), NEW)
        for way in live.ways:
            conversation = live.start(len(rows))
            if conversation.cache is live.record.model and not live.offers("tear_down"):
                raise NotApplicable("its cache is state of the model, and offers no tear_down")
            before = live.answers(way, conversation, rows)
            if isinstance(before, Raised):
                refused(before)
                continue
            watched = Watched(live.memory(conversation.cache))
            if live.offers("tear_down"):
                conversation.operate("tear_down")
            conversation.cache = None
            alive = watched.alive()
            if watched.size:
                about = f"of a cache of {watched.size} bytes {alive} are still held after it was torn down"
                expect(alive).holds(not alive, about=about)
            else:
                inconclusive("the cache holds no numbers")
            live.same(
                live.fresh(way, rows), whole(before, rows), about=f"what rows get by {way} after a cache was torn down"
            )

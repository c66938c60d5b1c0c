"""Filling a cache: with rows beside each other, up to its capacity, and beyond."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.calls import Ids
from pytest_evalcheck.kinds.decoder.subject import NEW, Live, whole
from pytest_evalcheck.strategies.samples import Side

_SHORT = 6


def sound(live: Live, way: str, rows: Ids) -> bool:
    """Whether a few tokens are decoded as they are without a cache, which EC301 is about."""
    short = [row[: max(1, min(_SHORT, (live.record.capacity or _SHORT) - NEW))] for row in rows]
    found = live.fresh(way, short)
    return live.agree(found, live.uncached(short) if way == "step" else live.greedy(short, found))


def brimful(live: Live, way: str, rows: Ids) -> tuple[Any, Any]:
    """What rows get that fill the cache exactly, and what they get without a cache."""
    capacity = live.record.capacity or 0
    if way == "step":
        given = [row[:capacity] for row in rows]
        return live.answers(way, live.start(len(rows)), given), live.uncached(given)
    given = [row[: max(1, capacity - NEW)] for row in rows]
    found = whole(live.answers(way, live.start(len(rows)), given), rows)
    return found, live.greedy(given, found or [])


def overrun(live: Live, way: str, rows: Ids, at_once: bool) -> tuple[Any, Any]:
    """What rows get that are longer than the cache, and what they get without one."""
    capacity, length = live.record.capacity or 0, len(rows[0])
    conversation = live.start(len(rows))
    if way == "step":
        pieces = [length] if at_once else [capacity, *[1] * (length - capacity)]
        return conversation.feed_pieces(rows, pieces), live.uncached(rows)
    given = rows if at_once else [row[: max(1, capacity - NEW)] for row in rows]
    count = 1 if at_once else length - len(given[0]) + 1
    found = conversation.error or whole(live.generate(given, conversation.cache, count), rows)
    return found, found if isinstance(found, Raised) else live.greedy(given, found or [], count)


def beside(live: Live, rows: Ids, side: Side, follow: Ids) -> Any:
    """The logits of rows that are padded to one length, and of the ids that follow each; or the error."""
    import torch

    conversation = live.start(len(rows))
    found = conversation.feed_padded(rows, side)
    later = [conversation.feed([[row[place]] for row in follow]) for place in range(len(follow[0]))]
    if conversation.error:
        return conversation.error
    return [torch.cat([own, *(piece[row] for piece in later)]) for row, own in enumerate(found)]


def alone(live: Live, rows: Ids, follow: Ids) -> Any:
    """The same of each row by itself, without padding."""
    return _joined([beside(live, [row], "left", [after]) for row, after in zip(rows, follow, strict=True)])


def generated_alone(live: Live, rows: Ids) -> Any:
    """What each row generates by itself, or the error; None where it gets nothing at all."""
    return _joined([live.fresh("generate", [row]) for row in rows])


def _joined(found: list[Any]) -> Any:
    odd = [one for one in found if not isinstance(one, list)]
    return odd[0] if odd else [row for one in found for row in one]

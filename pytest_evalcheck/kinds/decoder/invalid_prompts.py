"""Prompts that are none: without a token, of nothing but padding, of ids that do not exist."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.calls import Ids
from pytest_evalcheck.kinds.decoder.subject import NEW, Live, whole


def beside_nothing(live: Live, way: str, row: Ids) -> tuple[Any, Any]:
    """What a row gets beside one of nothing but padding, or beside an empty prompt; and what it gets by itself."""
    conversation = live.start(2)
    if way == "generate":
        found = conversation.error or whole(live.generate([*row, []], conversation.cache, NEW), [*row, []])
        return found[:1] if isinstance(found, list) else found, live.fresh(way, row)
    blanks = [live.record.pad_token] * len(row[0])
    found = conversation.feed([*row, blanks], [[1] * len(row[0]), [0] * len(row[0])])
    expected = live.start(1).feed(row)
    return (*(one if isinstance(one, Raised) else list(one[:1]) for one in (found, expected)),)  # type: ignore[return-value]


def outside_the_vocabulary(live: Live, way: str, row: Ids) -> Any:
    """What a prompt gets that ends in an id beyond any vocabulary of this size: an error, where that is noticed."""
    logits = live.full(row)
    if isinstance(logits, Raised):
        return logits
    odd = [[*row[0][:-1], 10 * logits.shape[-1] + 1000]]
    if way == "generate":
        conversation = live.start(1)
        return conversation.error or live.generate(odd, conversation.cache, NEW)
    return live.start(1).feed(odd)

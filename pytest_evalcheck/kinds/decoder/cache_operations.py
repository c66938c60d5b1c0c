"""Programs on a cache: what is done to it, and what a new cache is fed to hold the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.cached_decoding import ON_ROWS
from pytest_evalcheck.kinds.decoder.calls import Ids
from pytest_evalcheck.kinds.decoder.subject import Live

OPERATIONS = ("reorder", "select", "repeat", "crop")


@dataclass
class Performed:
    """What a program did."""

    rows: list[list[int]]
    """The ids that the cache holds, row by row."""
    sizes: list[int] = field(default_factory=list)
    """The pieces in which they came."""
    done: list[str] = field(default_factory=list)
    """The operations that the cache offers, with their arguments."""
    refused: Raised | None = None
    """The error of an operation."""
    last: Any = None
    """The logits of the last piece, row by row, or the error."""


def performed(live: Live, samples: Ids, program: Sequence[tuple[str, Any]]) -> Performed:
    """Do what a program says."""
    feeds = sum(count for name, count in program[1:] if name == "feed")
    source = live.room(samples, feeds)
    conversation, seen, fed = live.start(len(source)), Performed([[] for _ in source]), 0
    for name, argument in program:
        if name == "feed":
            # Rows that are copies of each other go on with other ids.
            new = [
                list(islice(cycle(source[i % len(source)]), fed + i * bool(fed), fed + i * bool(fed) + argument))
                for i in range(len(seen.rows))
            ]
            new = [row[: len(source[0])] for row in new] if not fed else new
            fed += len(new[0])
            seen.last = conversation.feed(new)
            seen.rows = [[*before, *row] for before, row in zip(seen.rows, new, strict=True)]
            seen.sizes.append(len(new[0]))
        elif live.offers(name) and seen.rows[0]:
            _operate(live, conversation, seen, name, argument)
        if conversation.error:
            break
    seen.last = seen.last if isinstance(seen.last, Raised) else list(seen.last)
    return seen


def replayed(live: Live, seen: Performed) -> Any:
    """The logits of the last piece with a new cache, into which the rows come as they are in the end."""
    found = live.start(len(seen.rows)).feed_pieces(seen.rows, seen.sizes)
    return found if isinstance(found, Raised) else [row[-seen.sizes[-1] :] for row in found]


def _operate(live: Live, conversation: Any, seen: Performed, name: str, argument: Any) -> None:
    count, length = len(seen.rows), len(seen.rows[0])
    if name == "reorder":
        argument = list(islice(cycle([i % count for i in argument]), count))
    elif name == "select":
        argument = sorted({i % count for i in argument})
    elif name == "crop":
        argument = max(1, length - argument)
        seen.sizes = _cropped(seen.sizes, argument)
    elif count * argument > (live.record.max_rows or count * argument):
        return
    conversation.operate(name, argument)
    seen.refused = conversation.error
    seen.rows = ON_ROWS[name](seen.rows, argument)
    seen.done.append(f"{name}({argument})")


def _cropped(sizes: Sequence[int], length: int) -> list[int]:
    left: list[int] = []
    for size in sizes:
        left.append(min(size, length - sum(left)))
    return [size for size in left if size]

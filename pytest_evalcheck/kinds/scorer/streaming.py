"""How many documents a scorer holds while it is given them one by one."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, difference
from pytest_evalcheck.expectations.failures import NotApplicable


class _Responses(list):  # type: ignore[type-arg]
    """A list that can be watched."""

    __slots__ = ("__weakref__",)


class _Document(dict):  # type: ignore[type-arg]
    """A mapping that can be watched."""

    __slots__ = ("__weakref__",)


@dataclass
class Streamed:
    """What was seen of a stream."""

    scores: int = 0
    held: int = 0
    """The most documents, or their responses, that were alive at once, the one just asked for among them."""
    wrong: str | None = None
    """The first score that is not the one of its document."""


def streamed(
    stream: Callable[[Iterable[Any]], Iterable[Any]],
    given: Callable[[], tuple[list[Any], list[Any]]],
    expected: Sequence[Any],
    count: int,
) -> Streamed:
    """Give ``count`` documents, those of ``given`` again and again, and read the scores as they come.

    Raises:
        NotApplicable: where documents are no mappings, which cannot be watched.
    """
    seen, alive = Streamed(), dict[int, Any]()

    def watched(made: Any) -> Any:
        reference = weakref.ref(made, lambda gone: alive.pop(id(gone), None))
        alive[id(reference)] = reference
        return made

    def made(own: Any, row: Any, place: int) -> tuple[Any, Any]:  # no name of ours may keep a document alive
        pair = watched(_Responses(own)), watched(_Document(row))
        seen.held = max(seen.held, _most(alive, place))
        return pair

    def documents() -> Iterator[tuple[Any, Any]]:
        responses, rows = given()
        if not all(isinstance(row, dict) for row in rows) or not all(isinstance(own, list) for own in responses):
            raise NotApplicable("documents that are no mappings cannot be watched")
        for place, own, row in zip(range(count), cycle(responses), cycle(rows), strict=False):
            yield made(own, row, place)

    for score, own in zip(stream(documents()), cycle(expected), strict=False):
        seen.scores += 1
        found = difference(score, own, EXACT)
        if found is not None and seen.wrong is None:
            seen.wrong = f"score {seen.scores - 1}: {found}"
    return seen


def _most(alive: Mapping[int, Any], place: int) -> int:
    # Responses and documents are watched together. What is part of a cycle is not held, it waits to be collected.
    if len(alive) > 200 and place % 100 == 0:
        gc.collect()
    return (len(alive) + 1) // 2

"""Scores as they are compared: lists of plain values, whatever iterators they came in."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference, show
from pytest_evalcheck.kinds.common.calling import TargetError

_END = 100_000


def listed(scores: Any) -> list[Any]:
    """One entry a document; iterators become lists, outside and inside.

    Raises:
        TargetError: where the scores cannot be iterated over, are a text or a mapping, or have no end.
    """
    if isinstance(scores, (str, bytes, Mapping)) or not hasattr(scores, "__iter__"):
        raise TargetError(
            "score() gave no list of scores",
            actual=f"{type(scores).__name__}: {show(scores)}",
            expected="one score a document, in their order",
            cause="scores",
        )
    found = [_read(score) for score in islice(scores, _END)]
    if len(found) == _END:
        raise TargetError(
            "score() gave no end of scores", actual=f"{_END} and more", expected="one a document", cause="scores"
        )
    return found


def same_in_another_order(scores: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two lists hold the same scores, but not at the same places."""
    return difference(list(scores), list(others), EXACT) is not None and sorted(map(show, scores)) == sorted(
        map(show, others)
    )


def _read(score: Any) -> Any:
    return [_read(part) for part in score] if isinstance(score, Iterator) else score


def entries(
    seen: Any,
    failed: Callable[[Any], bool],
    salvaged: Callable[[BaseException], Mapping[int, Any] | Sequence[Any] | None],
) -> dict[int, Any]:
    """The scores that are there, by the index of their document, of a list with failed entries or of an error."""
    if isinstance(seen, Raised):
        seen = salvaged(seen.error) or {}
        if isinstance(seen, Mapping):
            return dict(seen)
    return {place: score for place, score in enumerate(seen) if not failed(score)}


def named(error: BaseException, places: Sequence[int], document: Any) -> bool:
    """Whether the text of an error, its notes or its causes tell a document by place, as a whole or by a field."""
    texts: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(texts) < 10:
        texts += [str(cause), *getattr(cause, "__notes__", [])]
        cause = cause.__cause__ or cause.__context__
    text = "\n".join(texts)
    fields = document.values() if isinstance(document, Mapping) else [document]
    marks = [repr(document), *(field for field in fields if isinstance(field, str) and len(field) > 1)]
    return any(re.search(rf"\b{place}\b", text) for place in places) or any(
        re.search(rf"\b{re.escape(mark)}\b", text) for mark in marks
    )

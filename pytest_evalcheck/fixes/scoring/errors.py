"""What went wrong with which document."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

RAISED, TIMEOUT, DIED, SENDING, CHANGED = "raised", "timeout", "died", "sending", "changed"


@dataclass(frozen=True)
class Failure:
    """Why a document has no score, in words that can travel from a worker."""

    kind: str
    error: str
    message: str
    traceback: str = ""
    exception: BaseException | None = None

    def without_exception(self) -> Failure:
        """Return the same in words alone, for an exception that cannot be pickled."""
        return replace(self, exception=None)


def failure_of(error: BaseException, *, kind: str = RAISED) -> Failure:
    """Put an exception into words, and let go of the frames that it holds."""
    try:
        message = str(error)
    except Exception:  # an exception whose text raises is still an exception
        message = "(its text could not be made)"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    let_go(error)
    return Failure(kind, type(error).__name__, message, text, error)


def let_go(error: BaseException | None) -> None:
    """Drop the tracebacks of an exception and of those before it: they keep documents and locals alive."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            waiting += [each.__cause__, each.__context__]


class DocumentError(Exception):
    """A document without a score.

    ``index`` is its place in the stream, ``document_id`` its id where it has one, ``kind`` one of "raised",
    "timeout", "died" (the process that scored it ended), "sending" (the document or its score could not be pickled)
    and "changed" (the score function wrote into its document). ``error``, ``message`` and ``traceback`` are the name,
    the text and the trace of what was raised, also where that could not be pickled; where it could, it is
    ``__cause__``. Two are equal when they say the same of the same document.
    """

    def __init__(self, index: int, document_id: Any, failure: Failure) -> None:
        super().__init__(index, document_id, failure)
        self.index = index
        self.document_id = document_id
        self.kind = failure.kind
        self.error = failure.error
        self.message = failure.message
        self.traceback = failure.traceback
        self.__cause__ = failure.exception

    @property
    def failure(self) -> Failure:
        """The failure without the document."""
        return Failure(self.kind, self.error, self.message, self.traceback, self.__cause__)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.index, self.document_id, self.failure)

    def __str__(self) -> str:
        named = "" if self.document_id is None else f" (id {self.document_id!r})"
        text = f"{self.error}: {self.message}" if self.message else self.error
        return f"document {self.index}{named}: {text}"

    def __repr__(self) -> str:
        return f"<DocumentError {self}>"

    def _told(self) -> tuple[Any, ...]:
        return self.index, repr(self.document_id), self.kind, self.error, self.message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DocumentError) and self._told() == other._told()

    def __hash__(self) -> int:
        return hash(self._told())


class ScoringError(Exception):
    """Some documents have no score: ``errors`` names them, ``scores`` holds those of all the others.

    ``scores`` is in document order, with the `DocumentError` in the place of a score that is missing.
    """

    def __init__(self, errors: Sequence[DocumentError], scores: Sequence[Any]) -> None:
        super().__init__(errors, scores)
        self.errors = list(errors)
        self.scores = scores

    def __str__(self) -> str:
        first = [f"  {error}" for error in self.errors[:5]]
        if len(self.errors) > len(first):
            first.append(f"  and {len(self.errors) - len(first)} more")
        lines = [f"{len(self.errors)} of {len(self.scores)} documents have no score:", *first]
        if self.errors[0].traceback:
            lines += ["the first one:", self.errors[0].traceback.rstrip()]
        lines.append('the other scores are in .scores; errors="record" returns them instead of raising')
        return "\n".join(lines)


class SetupError(Exception):
    """The run could not start, or not go on: no document is at fault."""


def identified(document: Any, key: Any) -> Any:
    """Return the id of a document: of its key or attribute ``key``, or what ``key(document)`` says; None without."""
    try:
        if callable(key):
            return key(document)
        if isinstance(document, Mapping):
            return document.get(key)
        return getattr(document, key, None) if isinstance(key, str) else None
    except Exception:  # an error message must not fail on a document that is broken
        return None

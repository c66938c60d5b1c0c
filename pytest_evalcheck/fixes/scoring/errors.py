"""Errors of documents, of a whole run, and of a library that is missing."""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RAISED, TIMEOUT, DIED, SENDING, CHANGED = "raised", "timeout", "died", "sending", "changed"
_INSTALL = {
    "tqdm": "pip install tqdm, or pass progress= a function of the number of finished documents",
    "lm_eval": "pip install lm_eval",
    "ray": "pip install ray",
    "distributed": "pip install 'dask[distributed]'",
}


def needed(name: str) -> Any:
    """Import an optional library, or say how to install it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        library = name.partition(".")[0]
        if error.name != library:
            raise
        command = _INSTALL.get(library, "pip install 'pytest-evalcheck[scoring]'")
        raise ModuleNotFoundError(
            f"{library} is needed for this and is not installed: {command}", name=library
        ) from error


@dataclass(frozen=True)
class Failure:
    """Reason for a missing score; can be sent from a worker."""

    kind: str
    error: str
    message: str
    traceback: str = ""
    exception: BaseException | None = None


def failure_of(error: BaseException) -> Failure:
    """Describe what a score function raised, and drop the frames that the exception holds."""
    try:
        message = str(error)
    except Exception:
        message = "(its __str__ raised)"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    # Tracebacks keep documents and local variables alive.
    seen: dict[int, BaseException] = {}
    pending: list[BaseException | None] = [error]
    while pending:
        each = pending.pop()
        if each is not None and id(each) not in seen:
            seen[id(each)] = each.with_traceback(None)
            pending += [each.__cause__, each.__context__]
    return Failure(RAISED, type(error).__name__, message, text, error)


class DocumentError(Exception):
    """A document without a score.

    ``index`` is its position in the stream, ``document_id`` its id where it has one, ``kind`` one of "raised",
    "timeout", "died" (the process that scored it ended), "sending" (the document or its score could not be pickled)
    and "changed" (the score function modified its document). ``error``, ``message`` and ``traceback`` are the name,
    the text and the trace of what was raised, also where that could not be pickled; where it could, it is
    ``__cause__``. Two errors are equal when position, id, kind, name and text are equal.
    """

    def __init__(self, index: int, document_id: Any, failure: Failure) -> None:
        super().__init__(index, document_id, failure)
        self.index, self.document_id, self.failure = index, document_id, failure
        self.kind, self.error, self.message = failure.kind, failure.error, failure.message
        self.traceback = failure.traceback
        self.__cause__ = failure.exception

    def __str__(self) -> str:
        named = "" if self.document_id is None else f" (id {self.document_id!r})"
        return f"document {self.index}{named}: {self.error}" + (f": {self.message}" if self.message else "")

    def __repr__(self) -> str:
        return f"<DocumentError {self}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DocumentError) and (self.kind, str(self)) == (other.kind, str(other))

    def __hash__(self) -> int:
        return hash((self.kind, str(self)))


class ScoringError(Exception):
    """Some documents have no score: ``errors`` names them, ``scores`` has those of all the others.

    ``scores`` is in document order, with a `DocumentError` in place of each missing score.
    """

    def __init__(self, errors: Sequence[DocumentError], scores: Sequence[Any]) -> None:
        super().__init__(errors, scores)
        self.errors = list(errors)
        self.scores = scores

    def __str__(self) -> str:
        lines = [f"{len(self.errors)} of {len(self.scores)} documents have no score:"]
        lines += [f"  {error}" for error in self.errors[:5]]
        if len(self.errors) > 5:
            lines.append(f"  and {len(self.errors) - 5} more")
        if self.errors[0].traceback:
            lines += ["the first one:", self.errors[0].traceback.rstrip()]
        return "\n".join([*lines, 'the other scores are in .scores; errors="record" returns them instead of raising'])


class SetupError(Exception):
    """The run could not start or continue, and no document is the cause."""


def identified(document: Any, key: Any) -> Any:
    """Return the id of a document: its key or attribute ``key``, or ``key(document)``; None if it has none."""
    try:
        if callable(key):
            return key(document)
        if isinstance(document, Mapping):
            return document.get(key)
        return getattr(document, key, None) if isinstance(key, str) else None
    except Exception:  # an error message must not fail on a broken document
        return None

"""The arguments of a library's scorer: the gold answer of a document, and the first response to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Gold = str | Callable[[Any], Any]
"""The field of a document that holds its gold answer, or a function of the document."""


def gold(document: Any, target: Gold) -> Any:
    """The gold answer to a document: a field of it, or the result of a function of it.

    Raises:
        KeyError: where the document has no such field; the error names those it has.
    """
    if callable(target):
        return target(document)
    if not isinstance(document, Mapping) or target not in document:
        fields = list(document) if isinstance(document, Mapping) else repr(document)[:100]
        raise KeyError(f"target={target!r} is no field of a document with {fields}; name one, or give a function")
    return document[target]


def first(responses: Sequence[Any], document: Any) -> Any:
    """The first response.

    Raises:
        ValueError: where there is none.
    """
    if not responses:
        raise ValueError(f"there is no response to the document {document!r}")
    return responses[0]

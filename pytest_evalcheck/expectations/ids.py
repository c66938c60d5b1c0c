"""Ids of comparisons: a few words that stay when the prose of a check changes."""

from __future__ import annotations

import re
from functools import cache

_ID = re.compile(r"[^\W_]+(-[^\W_]+)*")


def slug(text: str) -> str:
    """Return a name as a part of an id: its words in small letters, joined by dashes.

    Numbers are left out: they belong to a case, and what has one cause has one id.

    >>> slug("the convention 'state_dict', rank 2")
    'the-convention-state-dict-rank'
    """
    words = re.findall(r"[^\W_]+", text.lower())
    return "-".join(word for word in words if not word.isdecimal()) or "number"


@cache
def require_id(text: str) -> str:
    """Return an id as it is.

    Raises:
        ValueError: where it is not written as one.
    """
    if text and (text != text.lower() or not _ID.fullmatch(text)):
        raise ValueError(f"id={text!r}; expected words in small letters joined by dashes, such as {slug(text)!r}")
    return text

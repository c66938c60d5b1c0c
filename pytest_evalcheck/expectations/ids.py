"""Ids of comparisons: a few words that stay when the prose of a check changes.

A check of another distribution may give none. Its comparisons are counted, in the order in which they stand in their
function: ``values_agree#2``. Such an id is another one as soon as a comparison is added before it.
"""

from __future__ import annotations

import dis
import re
from functools import cache
from types import CodeType, FrameType

_ID = re.compile(r"[^\W_]+(-[^\W_]+)*")


def slug(text: str) -> str:
    """Return a name as a part of an id: its words in small letters, joined by dashes.

    Numbers are left out: they belong to a case, and what has one cause has one id.

    >>> slug("the convention 'state_dict', rank 2")
    'the-convention-state-dict-rank'
    """
    words = re.findall(r"[^\W_]+", text.lower())
    return "-".join(word for word in words if not word.isdecimal()) or "number"


def is_stable(signature: str) -> bool:
    """Return whether the id in a signature was given by the author of the check, and not made from an order."""
    return "#" not in signature.split(": ")[1] if ": " in signature else True


def calling_frame(frame: FrameType | None) -> FrameType | None:
    """Return the frame of a check of another distribution that a comparison comes from; None for a shipped check."""
    inside = _package(frame)
    while frame is not None and inside and _package(frame) == inside:
        frame = frame.f_back
    return None if _package(frame) else frame


def line_of(frame: FrameType) -> str:
    """Return the file and the line of a comparison."""
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def id_from_order(frame: FrameType) -> str:
    """Return the id of a comparison from its place among those of its function."""
    return _numbered(frame.f_code, frame.f_lasti)


def id_of_error(error: BaseException) -> str:
    """Return the id of a failure that a check raised itself, from the place of its ``raise`` or ``assert``."""
    frames = [(frame.f_code, last) for frame, last in _last_instructions(error)]
    return _numbered(*frames[-1]) if frames else ""


def _last_instructions(error: BaseException) -> list[tuple[FrameType, int]]:
    found, step = [], error.__traceback__
    while step is not None:
        found.append((step.tb_frame, step.tb_lasti))
        step = step.tb_next
    return found


def _numbered(code: CodeType, last: int) -> str:
    count = sum(offset <= last for offset in _comparisons(code))
    return f"{code.co_name.strip('<>')}#{count}"


@cache
def _comparisons(code: CodeType) -> tuple[int, ...]:
    """Return where in its bytecode a function compares or raises, in order."""
    return tuple(step.offset for step in dis.get_instructions(code) if _compares(step))


def _compares(step: dis.Instruction) -> bool:
    if step.opname in ("LOAD_CONST", "LOAD_ASSERTION_ERROR"):
        return step.opname != "LOAD_CONST"
    return step.argval in _NAMES or step.argrepr == "AssertionError"


_NAMES = ("equals", "holds", "differs_from", "assert_same", "CheckFailure", "AssertionError")


def _package(frame: FrameType | None) -> str:
    """Return the package of this distribution that a frame is in; nothing for other code."""
    parts = str(frame.f_globals.get("__name__", "")).split(".") if frame is not None else []
    return ".".join(parts[:2]) if parts[:1] == [_OURS] else ""


_OURS = __name__.partition(".")[0]


@cache
def require_id(text: str) -> str:
    """Return an id as it is.

    Raises:
        ValueError: where it is not written as one.
    """
    if text and (text != text.lower() or not _ID.fullmatch(text)):
        raise ValueError(f"id={text!r}; expected words in small letters joined by dashes, such as {slug(text)!r}")
    return text

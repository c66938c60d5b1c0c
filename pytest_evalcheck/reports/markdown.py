"""Any text as GitHub's Markdown, so that it shows as itself and can end neither a table nor a page."""

from __future__ import annotations

import re

from pytest_evalcheck.reports.text import body, clip, line, references

_LONGEST = 10_000
_LONGEST_SCREEN = 20_000
# What can be markup anywhere, and what can begin a list or a rule where a line begins.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#!|&~@:$]|^[-+=]|^[0-9](?=[0-9]{0,8}[.)])")


def prose(text: str, *, limit: int = _LONGEST) -> str:
    """Text on one line with no markup; a character reference never is any (CommonMark 0.31, section 2.5)."""
    return _escaped(clip(line(text), limit))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", text)


def code(text: str, *, limit: int = _LONGEST) -> str:
    """Text on one line, as code; a code span of backticks cannot hold a pipe in a table."""
    return f"<code>{prose(text, limit=limit)}</code>"


def fenced(text: str, language: str = "text") -> str:
    """Text of several lines as a block of code, whose fence is longer than any in the text."""
    shown = body(text, _LONGEST_SCREEN)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}"


def linked(text: str) -> str:
    """Like `prose`, with ``org/repo#123`` and URLs as links."""
    pieces = references(clip(line(text), _LONGEST))
    return "".join(f"[{_escaped(piece)}](<{url}>)" if url else _escaped(piece) for piece, url in pieces)

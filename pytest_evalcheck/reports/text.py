"""Any text on one line, in one column or in one paragraph of a report, without terminal escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from unicodedata import category, combining, east_asian_width

# CSI, OSC, and the escapes of two characters.
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_JOINERS = "\u200c\u200d"
_LINK = re.compile(
    r"(?P<url>https?://[\w./~%?=&#+:,@-]*[\w/])|(?<![\w/.-])(?P<repo>[\w-]+/[\w.-]+)#(?P<number>[0-9]+)\b",
    re.ASCII,
)


def plain(text: str, *, unicode: bool = True) -> str:
    r"""``text`` without terminal escapes; every character that is not printed is written as an escape, except ``\n``.

    Without ``unicode`` every character that is not ASCII is written as an escape too.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _ANSI.sub("", text).replace("\r\n", "\n").replace("\r", "\n").expandtabs(4)
    return "".join(c if _printed(c, unicode) else c.encode("unicode_escape").decode() for c in text)


def _printed(char: str, unicode: bool) -> bool:
    if char == "\n" or char.isascii():
        return char == "\n" or char.isprintable()
    return unicode and (char in _JOINERS or category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"))


def line(text: str, *, unicode: bool = True) -> str:
    """``text`` as one line, each run of white space as one space."""
    words = " ".join(plain(text).split())  # white space that is not ASCII is none once it is an escape
    return words if unicode else plain(words, unicode=False)


def body(text: str, limit: int) -> str:
    """``text`` of several lines without terminal escapes; beyond ``limit`` characters the rest is counted."""
    fit = plain(text).strip("\n")
    return fit if len(fit) <= limit else f"{fit[:limit]}\n... {len(fit) - limit} more characters"


def references(text: str) -> Iterator[tuple[str, str]]:
    """``text`` in pieces, each with the address that it names as ``org/repo#123`` or as itself, or an empty one."""
    end = 0
    for match in _LINK.finditer(text):
        yield text[end : match.start()], ""
        yield match[0], match["url"] or f"https://github.com/{match['repo']}/issues/{match['number']}"
        end = match.end()
    yield text[end:], ""


def columns(text: str) -> int:
    """The columns of a terminal that ``text`` needs; a character of ambiguous width counts as one."""
    return len(text) if text.isascii() else sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if combining(char) or category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


def clip(text: str, limit: int, *, unicode: bool = True, middle: bool = False) -> str:
    """``text`` in at most ``limit`` columns, with a mark where the end or the ``middle`` is cut out."""
    if columns(text) <= limit:
        return text
    mark = ("…" if unicode else "..")[:limit]
    room = limit - columns(mark)
    tail = _take(text[::-1], room // 2 if middle else 0)[::-1]
    return _take(text, room - columns(tail)) + mark + tail


def _take(text: str, limit: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += _columns(char)
        if used > limit:
            return text[:index]
    return text


def pad(text: str, width: int) -> str:
    """``text`` with spaces behind it up to ``width`` columns."""
    return text + " " * (width - columns(text))


def wrap(text: str, width: int, *, indent: str = "", hang: str = "") -> list[str]:
    """``text`` in lines of ``width`` columns at most: ``indent`` before the first, ``hang`` before others."""
    lines: list[str] = []
    current, empty = indent, True
    for word in _words(text, max(8, width - max(columns(indent), columns(hang)))):
        if not empty and columns(current) + 1 + columns(word) > width:
            lines.append(current)
            current, empty = hang, True
        current += word if empty else f" {word}"
        empty = False
    return lines if empty else [*lines, current]


def fold(text: str, width: int, *, hang: str = "", code: bool = False) -> list[str]:
    """One line in lines of ``width`` columns, ``hang`` before all but the first; nothing without a space is split.

    White space inside of a line stays as it is. Of ``code`` no string is split.
    """
    if columns(text) <= width:
        return [text]
    lines: list[str] = []
    pattern = _SEAM if code else _SPACES
    rest, start = text, len(text) - len(text.lstrip())
    while columns(rest) > width:
        seams = [match for match in pattern.finditer(rest, start) if match[0].isspace()]
        fitting = [match for match in seams if columns(rest[: match.start()]) <= width]
        match = fitting[-1] if fitting else next(iter(seams), None)
        if match is None or match.end() == len(rest):
            break
        lines.append(rest[: match.start()])
        rest, start = hang + rest[match.end() :], len(hang)
    return [*lines, rest]


_SPACES = re.compile(r"\s+")
_SEAM = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\s+")
"""A string of Python, or white space between what is none."""


def _words(text: str, limit: int) -> Iterator[str]:
    for word in text.split():
        while columns(word) > limit:
            head = _take(word, limit)
            seam = max(head.rfind(mark) + 1 for mark in "_:/.=")
            head = head[:seam] if seam > len(head) // 2 else head
            yield head
            word = word[len(head) :]
        yield word

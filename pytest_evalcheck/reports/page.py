"""A terminal as the blocks of a report see it: its width, what it can show, how much was asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pytest_evalcheck.reports.results import OUTCOMES, Outcome
from pytest_evalcheck.reports.text import clip, columns, line, wrap

Markup = Mapping[str, bool]
Segment = tuple[str, Markup]
"""A text and its markup, as the keywords of ``write`` of pytest's terminal reporter."""
Line = tuple[Segment, ...]

PLAIN: Markup = {}
BOLD: Markup = {"bold": True}
LIGHT: Markup = {"light": True}
MARKUP: Mapping[Outcome, Markup] = {
    "kept": {"green": True},
    "broken": {"red": True, "bold": True},
    "known": {"yellow": True},
    "not applicable": LIGHT,
    "not run": {"cyan": True},
}
# What is kept is quiet, so that the rest is seen without colour too.
_ASCII: Mapping[Outcome, str] = dict(zip(OUTCOMES, ".X!-?", strict=True))
_UNICODE: Mapping[Outcome, str] = {**_ASCII, "kept": "·", "broken": "✗"}


@dataclass(frozen=True, kw_only=True)
class Page:
    """``width`` in columns; ``verbosity`` as pytest counts it; without ``unicode`` all is ASCII."""

    width: int
    unicode: bool
    verbosity: int

    def symbol(self, outcome: Outcome) -> str:
        """The one character that stands for an outcome."""
        return (_UNICODE if self.unicode else _ASCII)[outcome]

    def line(self, value: str) -> str:
        """Any text, made fit for one line."""
        return line(value, unicode=self.unicode)

    def clip(self, value: str, limit: int | None = None, *, middle: bool = False) -> str:
        """A fit text in at most ``limit`` columns, or those of the page."""
        return clip(value, self.width if limit is None else limit, unicode=self.unicode, middle=middle)

    def paragraph(self, value: str, *, indent: str, hang: str = "", most: int | None = None) -> Iterator[Line]:
        """Any text over as many lines as it takes, ``hang`` and ``indent`` before all but the first.

        Over at most ``most`` lines, unless all was asked for.
        """
        lines = wrap(self.line(value), self.width, indent=indent, hang=indent + hang)
        if most is not None and self.verbosity < 1 and len(lines) > most:
            lines[most - 1 :] = [self.clip(f"{lines[most - 1]} {lines[most].strip()}")]
        for each in lines:
            yield ((each, PLAIN),)

    def flow(self, items: Iterable[Segment], *, indent: str = "", hang: str = "") -> Iterator[Line]:
        """Items side by side, none of them broken, on as many lines as they take."""
        current: list[Segment] = [(indent, PLAIN)]
        used = columns(indent)
        for item, markup in items:
            if len(current) > 1 and used + 2 + columns(item) > self.width:
                yield tuple(current)
                current, used = [(hang, PLAIN)], columns(hang)
            gap = "  " if len(current) > 1 else ""
            current += [(gap, PLAIN), (item, markup)]
            used += len(gap) + columns(item)
        yield tuple(current)

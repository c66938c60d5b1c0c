"""Checks by code, by name, or by a prefix of either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import no_match


@dataclass(frozen=True)
class CheckSelection:
    """Words to select and words to ignore; no word to select selects all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, select: str, ignore: str) -> CheckSelection:
        """Read comma-separated words that were validated already."""
        return cls(_words(select), _words(ignore))

    @classmethod
    def parse(cls, select: str, ignore: str, checks: Sequence[Check]) -> CheckSelection:
        """Read comma-separated words.

        Raises:
            UsageError: when a word is the beginning of no code and of no name.
        """
        selection = cls.of(select, ignore)
        for word in (*selection.select, *selection.ignore):
            if not any(_matches(word, check) for check in checks):
                raise UsageError(no_match(word, {check.code: check.name for check in checks}))
        return selection

    def selects(self, check: Check) -> bool:
        """Return whether this check is tried."""
        selected = not self.select or any(_matches(word, check) for word in self.select)
        return selected and not any(_matches(word, check) for word in self.ignore)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text) if word)


def _matches(word: str, check: Check) -> bool:
    return check.code.startswith(word.upper()) or check.name.startswith(word)

"""Which checks are tried: by code, by name, or by a prefix of either."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.kinds.common.check import Check


@dataclass(frozen=True)
class Selection:
    """Words to take and words to leave; no word to take takes all."""

    take: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()

    @classmethod
    def of(cls, take: str, leave: str) -> Selection:
        """From comma-separated words that were validated already."""
        return cls(_words(take), _words(leave))

    @classmethod
    def parse(cls, take: str, leave: str, checks: Sequence[Check]) -> Selection:
        """From comma-separated words.

        Raises:
            UsageError: when a word is the beginning of no code and of no name.
        """
        made = cls.of(take, leave)
        for word in (*made.take, *made.leave):
            if not any(_matches(word, check) for check in checks):
                known = [w for check in checks for w in (check.code, check.name)]
                raise UsageError(f"{word!r} is the beginning of no check's code or name{nearest(word, known)}")
        return made

    def takes(self, check: Check) -> bool:
        """Whether this check is tried."""
        taken = not self.take or any(_matches(word, check) for word in self.take)
        return taken and not any(_matches(word, check) for word in self.leave)


def _words(text: str) -> tuple[str, ...]:
    return tuple(word for word in re.split(r"[,\s]+", text) if word)


def _matches(word: str, check: Check) -> bool:
    return check.code.startswith(word.upper()) or check.name.startswith(word)

"""Choice of similar cases that a test tries: all of them where EVALCHECK_ALL_TESTS is set, as `.ci/run full` does."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

Case = TypeVar("Case")

ALL_CASES = bool(os.environ.get("EVALCHECK_ALL_TESTS"))


def every_nth(step: int, cases: Iterable[Case]) -> list[Case]:
    """The first of every ``step`` cases, always the same ones; all where EVALCHECK_ALL_TESTS is set."""
    return list(cases)[:: 1 if ALL_CASES else step]

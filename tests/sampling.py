"""Choice of what a test run tries: all where EVALCHECK_ALL_TESTS is set, as `.ci/run full` does; else not what is slow.

``@pytest.mark.slow`` is for a test that tries again, by another way, what a faster one shows, and
``@pytest.mark.slow(every=N)`` for one with many similar cases: the first of every N runs always.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

ALL_CASES = bool(os.environ.get("EVALCHECK_ALL_TESTS"))


def leave_out_slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests, unless tests are named on the command line: by an id, ``-k`` or ``-m``."""
    if ALL_CASES or config.option.keyword or config.option.markexpr or any("::" in given for given in config.args):
        return
    seen: Counter[str] = Counter()
    left_out = []
    for item in sorted(items, key=_place):  # they may be shuffled, and the choice is the same in every run
        if mark := item.get_closest_marker("slow"):
            every, function = mark.kwargs.get("every"), _place(item)[0]
            if every is None or seen[function] % every:
                left_out.append(item)
            seen[function] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _place(item: pytest.Item) -> tuple[str, tuple[int, ...]]:
    """The function of a test, and the indices of its parameters."""
    parameters = getattr(getattr(item, "callspec", None), "indices", {})
    return item.nodeid.partition("[")[0], tuple(parameters.values())

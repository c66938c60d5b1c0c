"""Compare two JSON reports: the same outcome for every target, code and device.

``python benchmarks/compare_outcomes.py before.json after.json`` exits 0 where they agree and 1 where they do not.
Checks are compared by their code, so that a check may be renamed between the two. Run it around every change of
structure: the main job's report must not change.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

Key = tuple[str, str, str]
_NOW = {"kept": "passed", "broken": "failed"}
"""Outcomes as reports named them before schema 3, which also called checks cells."""


def outcomes(path: Path) -> dict[Key, str]:
    """The outcome of every cell of a report, by target, code and device."""
    report = json.loads(path.read_text(encoding="utf-8"))
    cells = report.get("checks") or report["cells"]
    return {
        (cell["target"], cell["code"], cell["device"]): _NOW.get(cell["outcome"], cell["outcome"]) for cell in cells
    }


def differences(before: dict[Key, str], after: dict[Key, str]) -> list[str]:
    """One line for each cell that is in one report alone or has another outcome."""
    lines = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key, "absent"), after.get(key, "absent")
        if old != new:
            target, code, device = key
            lines.append(f"{target} {code} [{device}]: {old} -> {new}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Print what differs, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--within", action="store_true", help="compare only the checks that the second report has")
    given = parser.parse_args(arguments)
    before, after = outcomes(given.before), outcomes(given.after)
    if not before or not after:
        print("a report without checks compares nothing")
        return 1
    if given.within:
        before = {key: outcome for key, outcome in before.items() if key in after}
    lines = differences(before, after)
    print("\n".join(lines[:200]))
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(Counter(after.values()).items()))
    print(f"{len(before)} checks before, {len(after)} after ({counts}): {len(lines)} differ")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())

"""The comparisons of each property that show nothing: those that no ready target reaches, or only with one value.

``python benchmarks/vacuous.py [FILE ...]`` runs the main job at quick effort in one process, and counts for
every comparison of `expectations/ids.json` the checks that reach it, and those in which its two sides are values that
differ from case to case: a comparison of equal constants, or of errors, would also hold for code that computes nothing.
It is a plugin of pytest in that run. ``--record FILE`` keeps what was counted, or takes it from there. ``--smoke``
runs one file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from main_job import SMOKE, run

from pytest_evalcheck.expectations import comparison, failures
from pytest_evalcheck.integration.item_cells import runner_of

IDS = Path(failures.__file__).with_name("ids.json")
RECORD = "EVALCHECK_VACUOUS"
"""The environment variable that names the file of what a run counts."""


class Watch:
    """Values that each comparison of the running check has seen, by its id."""

    def __init__(self) -> None:
        self.code = ""
        self.seen: dict[str, set[str]] = defaultdict(set)
        self.reached: Counter[str] = Counter()
        self.moved: Counter[str] = Counter()

    def see(self, id: str, value: Any, *, compares: bool) -> None:
        """Note a value; errors are no values, and texts beyond the first two say nothing more.

        A condition is computed from values that are not seen here.
        """
        texts = self.seen[id]
        if not compares:
            texts.update(("a condition", "holds"))
        elif not isinstance(value, comparison.Raised) and len(texts) < 2:
            texts.add(comparison.show(value))

    def end(self) -> None:
        """Count the check that has ended."""
        for id, texts in self.seen.items():
            self.reached[f"{self.code} {id}"] += 1
            self.moved[f"{self.code} {id}"] += len(texts) > 1
        self.seen.clear()


watch = Watch()


def pytest_configure() -> None:
    """Watch both kinds of comparisons."""
    plain = failures.calling_frame

    def watched(frame: FrameType | None) -> FrameType | None:
        comparing = sys._getframe(2)  # `expect(...).equals`, or `holds`
        given = comparing.f_locals
        watch.see(given["id"], given["self"].actual, compares=comparing.f_code.co_name == "equals")
        return plain(frame)

    failures.calling_frame = watched


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count what one check compares, if it does not fail: a failure ends it early."""
    runner = runner_of(item)
    watch.code = runner.spec.check.code if runner else ""
    result = yield
    watch.end()
    return result


def pytest_unconfigure() -> None:
    """Write what was counted."""
    if path := os.environ.get(RECORD):
        Path(path).write_text(json.dumps({"reached": watch.reached, "moved": watch.moved}), encoding="utf-8")


def by_comparison(counted: dict[str, dict[str, int]]) -> dict[tuple[str, str], tuple[int, int]]:
    """Return for each code and comparison the checks that reach it, and those in which values differ."""
    templates: dict[str, Any] = json.loads(IDS.read_text(encoding="utf-8"))
    found = {}
    for code, known in templates.items():
        patterns = {id: re.compile(re.sub(r"(\\-)?\\\{.*?\\\}", ".*", re.escape(id))) for id in known}
        totals = {id: [0, 0] for id in known}
        for name, count in counted["reached"].items():
            of, _, id = name.partition(" ")
            exact = id if id in known else next((t for t, pattern in patterns.items() if pattern.fullmatch(id)), None)
            if of == code and exact is not None:
                totals[exact][0] += count
                totals[exact][1] += counted["moved"].get(name, 0)
        found |= {(code, id): (reached, moved) for id, (reached, moved) in totals.items()}
    return found


def main() -> None:
    """Print the comparisons that show nothing, and how many do."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", help="files of fixtures/targets")
    parser.add_argument("--record", type=Path, help="file of what was counted")
    parser.add_argument("--smoke", action="store_true", help="one file of targets")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = (asked.record or Path(folder) / "counted.json").absolute()
        if not record.exists():
            options = ["-n", "0", "-p", "vacuous", "--evalcheck-run=in-process", "--evalcheck-device=cpu"]
            run(Path(folder) / "report.json", asked.files or asked.smoke * SMOKE, options, {RECORD: str(record)})
        found = by_comparison(json.loads(record.read_text(encoding="utf-8")))
    groups = {"not reached": [], "one value in every check": [], "shows something": []}
    for (code, id), (reached, moved) in sorted(found.items()):
        group = "shows something" if moved else "one value in every check" if reached else "not reached"
        groups[group].append(f"{code} {id}" + (f" ({reached} checks)" if reached else ""))
    for group, names in groups.items():
        print(f"{group}: {len(names)} of {len(found)} comparisons")
        for name in names if group != "shows something" else ():
            print(f"  {name}")


if __name__ == "__main__":
    main()

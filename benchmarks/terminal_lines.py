"""Number of lines at the end of a run: a green run of 200 targets, a red one, and the main job from its JSON report.

    python benchmarks/terminal_lines.py [--report main.json]

``--report`` is what ``pytest --evalcheck -n 2 -m "full or not full" --evalcheck-report=json=main.json`` writes. Counted
is what comes after the cells: at 60 columns all that pytest prints there, and how many lines of the whole screen are
wider although they are neither a command, nor a path, nor pytest's own; at 60, 80 and 200 columns the part of this
plugin, and in it the lines of failures, which are as many as there are root causes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pytest_evalcheck.reports import json, terminal
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.reports.text import columns

ROOT = Path(__file__).resolve().parents[1]
WIDTHS = (60, 80, 200)
WHOLE = re.compile(r" *(reproduce +)?pytest --evalcheck |FAILED |plugins: |rootdir: |=+ .* =+$")
CHECKS = "EC201,EC203,EC204,EC205"
BUGS = (
    "def update(self, values): self.total += sum(values) / len(values); self.count += 1",
    "def reset(self): pass",
    "def compute(self): self.total += 1; return self.total / self.count if self.count else float('nan')",
    "def update(self, values): raise KeyError(values[0])",
)


def targets(count: int, files: int, bugs: int) -> Iterator[tuple[str, str]]:
    """Names and sources of files with ``count`` targets in all, of which the first ``bugs`` have one of four bugs."""
    sys.path.insert(0, str(ROOT / "tests"))
    from target_files import CORRECT, HEADER

    for file in range(files):
        source = HEADER
        for number in range(file, count, files):
            if number < bugs:
                source += f"\nclass B{number}(Mean):\n    {BUGS[number % len(BUGS)]}\n"
                source += f"\n@ec.metric(inputs=numbers)\ndef m{number}(device): return ec.Metric.of(B{number}())\n"
            else:
                source += CORRECT.replace("def mean(", f"def m{number}(")
        yield f"evalcheck_{file}.py", source


def run(count: int, files: int, bugs: int) -> tuple[int, int, Report]:
    """At 60 columns the lines after the cells, and how many lines are wider; and the report."""
    with tempfile.TemporaryDirectory() as folder:
        for name, source in targets(count, files, bugs):
            Path(folder, name).write_text(source, encoding="utf-8")
        path = Path(folder, "report.json")
        command = [sys.executable, "-m", "pytest", "--evalcheck", f"--evalcheck-select={CHECKS}"]
        command += ["--evalcheck-effort=quick", "--evalcheck-device=cpu", f"--evalcheck-report=json={path}"]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly", "-W", "ignore"]
        variables = {**os.environ, "COLUMNS": str(WIDTHS[0]), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
        if done.returncode != bool(bugs):
            raise SystemExit(f"the run ended in {done.returncode}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        shown = done.stdout.splitlines()
        begin = next(index for index, line in enumerate(shown) if line.strip("=") == " evalcheck ")
        wide = [line for line in shown if columns(line) > WIDTHS[0] and " " in line.strip() and not WHOLE.match(line)]
        return len(shown) - begin, len(wide), json.load(path)


def lines(report: Report, width: int) -> tuple[int, int]:
    """The lines of the report at a width, and how many of them are about failures."""
    parts = terminal.text(report, width=width).split("\n\n")
    failures = sum(part.count("\n") + 2 for part in parts if part.startswith(("Broken:", "Incomplete:")))
    return sum(part.count("\n") + 2 for part in parts) - 1, failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", type=Path, help="the JSON report of the main job")
    parser.add_argument("--smoke", action="store_true", help="few targets")
    given = parser.parse_args()
    count = 24 if given.smoke else 200
    print(f"{'':44}all at 60    wider " + "".join(f"{f'at {width}':>16}" for width in WIDTHS))
    cases = [
        (f"green, {count} targets in 10 files", count, 10, 0),
        (f"green, {count} targets in {count} files", count, count, 0),
        (f"red, {count} targets in 10 files, 12 bugs", count, 10, 12),
    ]
    for title, *arguments in cases[:1] + cases[2:] if given.smoke else cases:
        all_of_it, wide, report = run(*arguments)
        show(title, report, f"{all_of_it:>9}{wide:>9}")
    if given.report:
        show("the main job", json.load(given.report), "")


def show(title: str, report: Report, all_of_it: str) -> None:
    counted = [lines(report, width) for width in WIDTHS]
    texts = [f"{all_lines} ({failures} red)" if failures else f"{all_lines}" for all_lines, failures in counted]
    print(f"{title:44}{all_of_it:>18} " + "".join(f"{text:>16}" for text in texts))


if __name__ == "__main__":
    main()

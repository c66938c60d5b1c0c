"""Hostile targets between honest ones: each costs its own cell, and the session ends with a summary and a report.

``python benchmarks/hostile.py`` runs them in one session, over two workers, and with each cell in a process of its own.
It exits 1 where a hostile target is green, an honest one is red, a cell is missing, or no report was written.
``--smoke`` runs the first way alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fixtures.gallery.hostile_process import session_source  # noqa: E402

INTERRUPTS = "interrupts_its_parent"
"""Over workers the parent of a cell's process cannot know who interrupted it: that session ends, and is not green."""
WAYS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "in one session": ([], ()),
    "over two workers": (["-n", "2"], (INTERRUPTS,)),
    "in isolation": (["--evalcheck-run=isolated"], ()),
}


def run(way: str) -> bool:
    """Run them in one way, print a line, and return whether each cost its own cell alone."""
    options, without = WAYS[way]
    source = session_source(*without)
    with tempfile.TemporaryDirectory() as name:
        folder, report = Path(name), Path(name, "report.json")
        (folder / "evalcheck_hostile.py").write_text(source, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--evalcheck"]
        command += ["--evalcheck-select=EC201", f"--evalcheck-report=json={report}", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        cells = json.loads(report.read_text(encoding="utf-8"))["checks"] if report.exists() else []
    names = {cell["target"].partition("::")[2]: cell["outcome"] for cell in cells}
    honest = {name: outcome for name, outcome in names.items() if name.startswith("honest_")}
    hostile = {name: outcome for name, outcome in names.items() if name not in honest}
    last = "".join(done.stdout.rstrip().splitlines()[-1:])
    asked = source.count(" = h.") + source.count(" = hostile.")
    counts = ", ".join(f"{count} {outcome}" for outcome, count in Counter(hostile.values()).most_common())
    kept = sum(outcome == "passed" for outcome in honest.values())
    print(
        f"{way:<17} {asked} hostile: {counts}; {len(honest)} honest: {kept} passed; exit code {done.returncode}; {last}"
    )
    for name in [name for name, outcome in hostile.items() if outcome not in ("failed", "incomplete")]:
        print(f"    {name}: {hostile[name]}")
    red = len(hostile) == asked and set(hostile.values()) <= {"failed", "incomplete"}
    return red and kept == len(honest) > 5 and done.returncode == 1 and last != ""


def main() -> int:
    """Print a line for each way and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="in one session alone")
    ways = list(WAYS)[: 1 if parser.parse_args().smoke else None]
    good = [run(way) for way in ways]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

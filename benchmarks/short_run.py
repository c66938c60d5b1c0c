"""The README's first command beside the whole main job: CPU and wall seconds, cells and cases a second.

``python benchmarks/short_run.py`` runs both over two workers at normal effort, one after the other, which takes half an
hour. ``--short`` leaves the main job out, ``--smoke`` runs one file for each at quick effort.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from main_job import SMOKE, Job, run

WHOLE = ("-m", "full or not full")
SHORT = ("-m", "")
"""Without an expression: what `run` has as one is replaced."""


def line(name: str, job: Job) -> str:
    """One run as a line of the table."""
    cells = json.loads(job.report.read_text(encoding="utf-8"))["checks"]
    ran = [cell for cell in cells if cell["outcome"] in ("passed", "known", "failed")]
    cases = sum(cell["examples"] for cell in ran)
    rates = f"{len(ran) / job.cpu:8.2f} {cases / job.cpu:8.1f} {1000 * job.cpu / max(cases, 1):7.1f}"
    return f"{name:<10} {job.cpu:7.0f} {job.wall:7.0f} {len(ran):6} {cases:7} {rates}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="the short run alone")
    parser.add_argument("--smoke", action="store_true", help="one file of targets, quickly")
    asked = parser.parse_args()
    effort = "quick" if asked.smoke else "normal"
    ways: dict[str, Sequence[str]] = {"short run": SHORT} if asked.short else {"short run": SHORT, "main job": WHOLE}
    print(f"{'':<10} {'CPU s':>7} {'wall s':>7} {'cells':>6} {'cases':>7} {'cells/s':>8} {'cases/s':>8} {'ms/case':>7}")
    jobs: dict[str, Job] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, expression in ways.items():
            options = ["-n", "2", f"--evalcheck-effort={effort}", *expression]
            jobs[name] = run(Path(folder) / f"{name}.json", SMOKE if asked.smoke else (), options)
            print(line(name, jobs[name]))
    if len(jobs) == 2:
        short, whole = jobs["short run"], jobs["main job"]
        print(
            f"the short run takes {short.cpu / whole.cpu:.0%} of the CPU and {short.wall / whole.wall:.0%} of the time"
        )


if __name__ == "__main__":
    main()

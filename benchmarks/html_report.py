"""The size of the HTML report, and how long a browser takes to show it, for 5,000 cells of real outcomes.

    python benchmarks/html_report.py [--from REPORT.json] [--cells 5000] [--runs 7] [--smoke]

Without ``--from`` some targets of the main job are run first. Their cells, or those of the report, are repeated under
other names until there are enough. ``as they are`` has them as they ended; in ``all failures are broken`` no known
failure is known, so that each is in a root cause. Printed are bytes, seconds of CPU to write the page, and the medians
of the first contentful paint and of the end of loading in headless Chromium, from the start of navigation.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

from pytest_evalcheck.reports import html, json
from pytest_evalcheck.reports.results import Cell, Report

ROOT = Path(__file__).parent.parent
TARGETS = ("evalcheck_torchmetrics_aggregation.py", "evalcheck_torcheval.py", "evalcheck_fixes.py")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PROBE = """
addEventListener("load", () => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  document.documentElement.dataset.timing = [paint ? paint.startTime : performance.now(), performance.now()].join(" ");
});
"""
"""Writes the times into the page, from where ``--dump-dom`` brings them."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="report", type=Path, help="a report that --evalcheck-report=json=PATH wrote")
    parser.add_argument("--checks", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    runs, wanted = (2, 300) if asked.smoke else (asked.runs, asked.cells)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        report = json.load(asked.report) if asked.report else run(folder, TARGETS[:1] if asked.smoke else TARGETS)
        cells = list(islice(repeated(report), wanted))
        if len(cells) < wanted:
            sys.exit("the report has no check; expected one of --evalcheck-report=json=PATH of a run of targets")
        broken = [replace(cell, outcome="failed", upstream="") if cell.outcome == "known" else cell for cell in cells]
        browser = next(filter(None, map(shutil.which, BROWSERS)), "")
        for title, found in (("as they are", cells), ("all failures are broken", broken)):
            print(f"{title}: {measured(Report(found, run=report.run), folder / 'page.html', browser, runs)}")


def run(folder: Path, targets: tuple[str, ...]) -> Report:
    """The report of some targets of the main job."""
    path = folder / "report.json"
    names = [f"fixtures/targets/{name}" for name in targets]
    options = ("-q", "-p", "no:cacheprovider", "--evalcheck-effort=quick", f"--evalcheck-report=json={path}")
    command = [sys.executable, "-m", "pytest", "--evalcheck", *options, *names]
    subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    return json.load(path)


def repeated(report: Report) -> Iterator[Cell]:
    """The cells of a report without end, in each further round in other files."""
    for number in count():
        if not report.cells:
            return
        for cell in report.cells:
            yield replace(cell, target=cell.target.replace(".py", f"_{number}.py", 1)) if number else cell


def measured(report: Report, path: Path, browser: str, runs: int) -> str:
    """The figures of one report, as a line."""
    start = time.process_time()
    html.write(report, path)
    seconds = time.process_time() - start
    line = f"{len(report.cells)} checks, {path.stat().st_size:,} bytes, {seconds:.2f} s to write"
    if not browser:
        return f"{line}; not shown, because none of {', '.join(BROWSERS)} is installed"
    add_probe(path)
    times = [shown(path, browser) for _ in range(runs)]
    paint, load = (statistics.median(values) for values in zip(*times, strict=True))
    return f"{line}; first paint {paint:.0f} ms, loaded {load:.0f} ms (slowest of {runs}: {max(times)[1]:.0f} ms)"


def add_probe(path: Path) -> None:
    """Allow the probe in the policy of the page, and put it before the page's own script."""
    text = path.read_text(encoding="utf-8").replace("script-src ", f"script-src {html.digest(PROBE)} ", 1)
    path.write_text(text.replace("<script>", f"<script>{PROBE}</script><script>", 1), encoding="utf-8")


def shown(path: Path, browser: str) -> tuple[float, float]:
    """Milliseconds to the first paint and to the end of loading."""
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1440,900", "--dump-dom")
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, *options, f"--user-data-dir={profile}", path.as_uri()]
        page = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8").stdout
    found = re.search(r'data-timing="([0-9.]+) ([0-9.]+)"', page)
    if found is None:
        sys.exit("the browser did not show the page")
    return float(found[1]), float(found[2])


if __name__ == "__main__":
    main()

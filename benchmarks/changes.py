"""Numbers of cells of the main job that `--evalcheck-since` skips, for a change of one file and for commits.

    python benchmarks/changes.py [--commits 6] [--until REV] [--smoke]

The cells are collected in a clone, and not run. The files that a commit changed are changed there as they are now,
since older commits have no such option. Printed are the cells that are to run, of all of them, and for which file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ONE_FILE = {
    "a file of targets": "fixtures/targets/evalcheck_torcheval.py",
    "a module of targets": "fixtures/targets/_keras.py",
    "a test": "tests/reports/test_causes.py",
    "a page": "docs/design.md",
    "the runner": "pytest_evalcheck/engine/runner.py",
}
PROBE = """
import json
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    facts = session.config.pluginmanager.getplugin("pytest_evalcheck_session").facts
    cells = {"run": len(session.items), "left": sum(facts.unchanged.values()), "why": facts.changed}
    with open(session.config.getoption("--probe"), "w") as out:
        json.dump(cells, out)

def pytest_addoption(parser):
    parser.addoption("--probe")
"""


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def collected(folder: Path, since: str, files: list[str]) -> tuple[int, int, str]:
    """Return how many cells run and are skipped, and the reason for most; the plugin is that of the folder."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "probe_of_changes.py").write_text(PROBE, encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        command += [
            "--collect-only",
            "-p",
            "probe_of_changes",
            f"--probe={name}/cells.json",
            "--evalcheck",
            "-m",
            "full or not full",
        ]
        command += [f"--evalcheck-since={since}", *files]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(folder), name])}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        path = Path(name) / "cells.json"
        if not path.exists():
            raise SystemExit(f"nothing was collected since {since}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        cells = json.loads(path.read_text(encoding="utf-8"))
    why = max(cells["why"], key=cells["why"].get, default="")
    return cells["run"], cells["left"], re.sub(r" changed since \w+.*", "", why)


def line(name: str, cells: tuple[int, int, str]) -> str:
    run, left, why = cells
    return f"{name:52.52}  {run:6} of {run + left:6}  {100 * left / max(run + left, 1):4.0f} %  {why}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=6)
    parser.add_argument("--until", default="HEAD", metavar="REV", help="the last of the commits")
    parser.add_argument("--smoke", action="store_true", help="two changes and one file of targets, in seconds")
    asked = parser.parse_args()
    files = ["fixtures/targets/evalcheck_torchmetrics_aggregation.py"] if asked.smoke else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        git(ROOT, "clone", "--quiet", "--shared", str(ROOT), str(folder))
        print(f"{'what changed':52}  {'cells to run':>16}   skipped  because of")
        for what, path in list(ONE_FILE.items())[: 2 if asked.smoke else None]:
            changed = folder / path
            before = changed.read_bytes()
            changed.write_bytes(before + (b"\n# changed\n"))
            print(line(f"{what} ({Path(path).name})", collected(folder, "HEAD", files)), flush=True)
            changed.write_bytes(before)
        commits = git(folder, "log", "--no-merges", f"-{asked.commits}", "--format=%h", asked.until).split()
        for commit in [] if asked.smoke else commits:
            names = git(folder, "diff", "--name-only", f"{commit}~", commit).splitlines()
            there = {path: path.read_bytes() for each in names if (path := folder / each).exists()}
            for path, content in there.items():
                path.write_bytes(content + b"\n")
            subject = git(folder, "log", "-1", "--format=%h %s", commit)
            print(line(subject, collected(folder, "HEAD", files)), flush=True)
            for path, content in there.items():
                path.write_bytes(content)


if __name__ == "__main__":
    main()

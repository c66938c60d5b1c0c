"""Metrics of libraries for which no line was written: how many have targets, what is red, and what inference costs.

``python benchmarks/inferring.py`` infers targets for the metrics of each library that is installed. With ``--run`` they
are run on the CPU, at the default effort or that of ``--effort``: red cells by check, CPU seconds per metric, the share
of inference, and of the upstream faults that the registry knows, how many a run without any target of ours comes upon.
``--recall`` reads the last from reports that were written before. ``--first`` prints the seconds until a module's first
check has ended, beside the seconds that importing it takes.
``--smoke`` takes one function.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pytest_evalcheck.discovery.search import Discovery, discover
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.upstream import Fault, faults

os.environ.setdefault("KERAS_BACKEND", "torch")  # read when keras is imported
MODULES = ("torchmetrics", "sklearn.metrics", "torcheval.metrics", "ignite.metrics", "keras.metrics", "monai.metrics")
UNAVAILABLE = (
    "ModuleNotFoundError",
    "ImportError",
    "requires",
    "internet",
    "installed",
    "network",
    "abstract",
    "offline",
)
"""Words in a reason that say: not here, with these installed distributions."""


def cpu() -> float:
    """CPU seconds of the processes that this one has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def available(found: Discovery) -> int:
    """Return how many candidates are not refused by what is not installed, by the network, or for being abstract."""
    refused = [name for name in found.candidates if any(word in found.left.get(name, "") for word in UNAVAILABLE)]
    return len(found.candidates) - len(refused)


def run(module: str, folder: Path, effort: str) -> tuple[dict[str, Any], float]:
    """The JSON report of the inferred targets of a module, and the CPU seconds of the run."""
    path, before = folder / f"{module}.json", cpu()
    options = [
        f"--evalcheck-effort={effort}",
        "--evalcheck-device=cpu",
        f"--evalcheck-report=json={path}",
        "-q",
        "-n",
        "2",
    ]
    command = [sys.executable, "-m", "pytest", "--evalcheck-target", module, *options]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return json.loads(path.read_text(encoding="utf-8")), cpu() - before


def first_result(module: str) -> float:
    """Return the seconds from the start of a run at quick effort until its first check has ended."""
    with tempfile.TemporaryDirectory() as folder:
        path, before = Path(folder) / "cells.jsonl", time.monotonic()
        options = ["--evalcheck-effort=quick", "--evalcheck-device=cpu", f"--evalcheck-report=jsonl={path}"]
        command = [sys.executable, "-m", "pytest", "-W", "ignore", "--evalcheck-target", module, *options]
        run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while run.poll() is None and not (path.exists() and '"EC' in path.read_text(encoding="utf-8")):
            time.sleep(0.05)
        seconds = time.monotonic() - before
        run.terminate()
        run.wait()
    return seconds


def imported(module: str) -> float:
    """Return the seconds that a new process takes to import a module."""
    before = time.monotonic()
    subprocess.run([sys.executable, "-W", "ignore", "-c", f"import {module}"], check=True)
    return time.monotonic() - before


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help=f"what --evalcheck-target takes (default: {', '.join(MODULES)})")
    parser.add_argument("--run", action="store_true", help="run the targets, too")
    parser.add_argument("--effort", default="normal", choices=("quick", "normal", "thorough"), help="of these runs")
    parser.add_argument("--reasons", action="store_true", help="say why each of the others is not tried")
    parser.add_argument("--smoke", action="store_true", help="one function")
    parser.add_argument(
        "--recall", nargs="+", type=Path, metavar="JSON", help="reports of runs without targets of ours"
    )
    parser.add_argument("--first", action="store_true", help="the seconds to the first result, and nothing else")
    given = parser.parse_args()
    if given.first:
        for module in given.modules or ["torchmetrics.classification"]:
            print(f"{module}: first result after {first_result(module):.1f} s, imported in {imported(module):.1f} s")
        return
    if given.recall:
        recall([cell for path in given.recall for cell in json.loads(path.read_text(encoding="utf-8"))["checks"]])
        return
    asked = given.modules or [module for module in MODULES if find_spec(module.partition(".")[0])]
    asked = ["sklearn.metrics:accuracy_score"] if given.smoke else asked
    print(f"{'module':<32}{'found':>7}{'here':>7}{'tried':>7}{'share':>8}{'targets':>9}{'CPU s a metric':>16}")
    with tempfile.TemporaryDirectory() as name:
        for module in asked:
            before = cpu()
            try:
                found = discover([module])
            except UsageError as error:
                print(f"{module:<32}{str(error).splitlines()[0]}")
                continue
            inference = cpu() - before
            here = available(found)
            share = found.tried / here
            row = (
                f"{module:<32}{len(found.candidates):>7}{here:>7}{found.tried:>7}{share:>8.1%}{len(found.proposals):>9}"
            )
            print(f"{row}{inference / len(found.candidates):>16.2f}", flush=True)
            for metric, why in found.left.items() if given.reasons else ():
                print(f"    {metric}: {why}")
            if given.run:
                report, seconds = run(module, Path(name), given.effort)
                _print_run(report, seconds, inference, found)


def _print_run(report: dict[str, Any], seconds: float, inference: float, found: Discovery) -> None:
    cells = report["checks"]
    outcomes = Counter(cell["outcome"] for cell in cells)
    red = Counter(cell["code"] for cell in cells if cell["outcome"] == "failed")
    print(f"    {len(cells)} checks: {', '.join(f'{count} {name}' for name, count in outcomes.items())}")
    print(f"    red by check: {', '.join(f'{code} {count}' for code, count in sorted(red.items())) or 'none'}")
    print(f"    {seconds / found.tried:.1f} CPU s a metric, {inference / seconds:.1%} of them for inference")
    recall(cells)


def recall(cells: Sequence[Mapping[str, Any]]) -> None:
    """Print how many of the upstream faults that cells could show they do show.

    A cell could show a fault where it is of one of its checks, and its object of one of its classes; a check that needs
    a reference, such as EC217, applies to no target that nobody wrote.
    """
    possible = {fault.id for fault in faults() if any(_could_show(cell, fault) for cell in cells)}
    seen = {cell["upstream"] for cell in cells} & {fault.id for fault in faults()}
    if possible | seen:
        print(f"    upstream faults: {len(seen)} of {len(possible | seen)} that its checks could show")
        print(f"    not seen: {', '.join(sorted(possible - seen)) or 'none'}")


def _could_show(cell: Mapping[str, Any], fault: Fault) -> bool:
    tried = cell["outcome"] not in ("not applicable", "not run") and cell["code"] in fault.codes
    return tried and bool(_bases(cell["class_name"]) & set(fault.classes))


@cache
def _bases(name: str) -> set[str]:
    """The qualified names of a class and of what it is derived from; empty for what is no class."""
    module, _, last = name.rpartition(".")
    cls = getattr(sys.modules.get(module) or (importlib.import_module(module) if module else None), last, None)
    return {f"{base.__module__}.{base.__qualname__}" for base in getattr(cls, "__mro__", ())}


if __name__ == "__main__":
    main()

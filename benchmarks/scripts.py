"""Count of the root causes of docs/findings that become a stand-alone script which shows them, and its length.

python benchmarks/scripts.py                     # runs the main job on the CPU, then makes the scripts: hours
python benchmarks/scripts.py --report run.json   # of a report of an earlier run, json or jsonl
python benchmarks/scripts.py --infer             # of targets that are inferred for what the registry names
python benchmarks/scripts.py --smoke             # one file of targets, two scripts

``--keep DIR`` keeps the scripts, ``--pages loops,trl`` is about some pages. A root cause is a finding; the registry of
upstream faults says which one a known failure shows. A cell shows one finding, and a sweep is not part of the run:
examples of known failures whose finding no cell has shown are tried, too. ``--infer`` is for libraries that have no
targets of ours, in an environment that has them: ``nox -s others``. Findings that nothing on the CPU shows are counted
apart: their environment or device is another one, or no target of the suite shows them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from findings import findings  # noqa: E402

from pytest_evalcheck import KnownFailure, Target, upstream  # noqa: E402
from pytest_evalcheck.kinds.registry import shipped  # noqa: E402
from pytest_evalcheck.reports.case_codec import encode_case  # noqa: E402
from pytest_evalcheck.reports.results import Cell, Failure  # noqa: E402
from pytest_evalcheck.scripts.producing import Made, make  # noqa: E402

SMOKE = "fixtures/targets/evalcheck_torchmetrics_aggregation.py"
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "-q", "--evalcheck-run=in-process")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--report", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pages", type=lambda text: text.split(","), default=[])
    parser.add_argument("--infer", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if asked.infer:
            shown = by_finding(inferred(Path(folder), asked.pages))
        else:
            shown = by_finding(cells_of(asked.report or run(Path(folder) / "run.jsonl", smoke=asked.smoke)))
        if not asked.smoke:
            shown |= by_finding(examples({*shown}, asked.pages))
        if asked.pages:
            shown = {place: cells for place, cells in shown.items() if place.partition(".md")[0] in asked.pages}
        if asked.smoke:
            shown = dict(list(shown.items())[:2])
        made = scripts(shown, asked.workers)  # what was inferred is in the folder
    if asked.keep:
        asked.keep.mkdir(parents=True, exist_ok=True)
        for place, one in made.items():
            name = place.replace(".md#", "_").replace("-", "_")[:100]
            (asked.keep / f"{name}.py").write_text(one.script, encoding="utf-8") if one.script else None
    table(made)
    if asked.smoke and not (made and all(one.script for one in made.values())):
        raise SystemExit("a script of the smoke run did not come out")


def run(path: Path, *, smoke: bool) -> Path:
    """The main job on the CPU, or one file of it."""
    targets = [SMOKE] if smoke else ["fixtures/targets", "-m", "full or not full"]
    command = [sys.executable, "-m", "pytest", "--evalcheck", *targets, "-q", "-n", "2", "--evalcheck-effort=quick"]
    command += ["--evalcheck-device=cpu", f"--evalcheck-report=jsonl={path}"]
    subprocess.run(command, cwd=ROOT, env=environment(), check=False, stdout=subprocess.DEVNULL)
    return path


def inferred(folder: Path, pages: Sequence[str]) -> list[Cell]:
    """The cells of targets that are inferred for the first classes or functions of each fault; a run a library."""
    asked: dict[str, list[upstream.Fault]] = defaultdict(list)
    for fault in upstream.faults():
        if fault.classes and not fault.why_out_of_range and (not pages or fault.finding.partition(".md")[0] in pages):
            asked[fault.library].append(fault)
    cells: list[Cell] = []
    for library, faults in asked.items():
        names = dict.fromkeys(name for fault in faults for name in fault.classes[:TRIED])
        requests = [f"--evalcheck-target={':'.join(name.rsplit('.', 1))}" for name in names]
        report = folder / f"{library}.jsonl"
        command = [sys.executable, "-W", "ignore", "-m", "pytest", "--evalcheck", *requests, "-q", "-W", "ignore"]
        command += [f"--evalcheck-select={','.join(dict.fromkeys(code for fault in faults for code in fault.codes))}"]
        command += ["--evalcheck-effort=quick", "--evalcheck-device=cpu", f"--evalcheck-report=jsonl={report}"]
        # Its cache has the files of what was inferred, which a replay needs.
        command += ["-o", f"cache_dir={folder / library}", "-p", "no:randomly", "-p", "no:xdist"]
        subprocess.run(command, cwd=ROOT, env=environment(), check=False, stdout=subprocess.DEVNULL)
        cells += cells_of(report) if report.exists() else []
        print(f"{library}: {len(requests)} inferred", file=sys.stderr, flush=True)
    return cells


TRIED = 3
"""The most names of one fault of which a script is tried, with a cell each."""


def environment() -> dict[str, str]:
    """Environment variables of a replay: modules beside the files of targets are found without pytest, too."""
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}


def cells_of(report: Path) -> list[Cell]:
    """The cells of a report."""
    text = report.read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()] if report.suffix == ".jsonl" else json.loads(text)["checks"]
    rows = [row["check"] if isinstance(row.get("check"), dict) else row for row in rows]  # a line wraps its check
    return [Cell.from_json(row) for row in rows if "outcome" in row]


def by_finding(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Return by finding the known failures on the CPU that show it, those of different checks first."""
    found: dict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        fault = upstream.find(cell.upstream) if cell.upstream else None
        if fault and cell.device == "cpu" and cell.failure and cell.failure.case is not None:
            found[fault.finding].append(cell)
    for place, own in found.items():
        seen: set[str] = set()
        found[place] = sorted(own, key=lambda cell: (cell.code in seen, seen.add(cell.code) or 0))
    return found


def examples(shown: set[str], pages: Sequence[str]) -> list[Cell]:
    """Examples of known failures on the CPU whose finding is not shown, as the cells that would show them alone."""
    checks = {word: made for made in shipped() for word in (made.code, made.name)}
    found = []
    for path in sorted((ROOT / "fixtures" / "targets").glob("evalcheck_*.py")):
        try:
            targets = [one for one in vars(loaded(path)).values() if isinstance(one, Target)]
        except ImportError:  # of a library that is not installed
            continue
        available = [one for one in targets if not one.missing()]
        for target, word, entry in ((one, *pair) for one in available for pair in entries(one)):
            fault, check = upstream.find(entry.upstream) if entry.upstream else None, checks[word]
            if fault is None or fault.finding in shown or entry.example is None or fault.why_out_of_range:
                continue
            if (entry.devices and "cpu" not in entry.devices) or check.accelerators:
                continue
            if pages and fault.finding.partition(".md")[0] not in pages:
                continue
            place = f"{path.relative_to(ROOT)}::{target.name}"
            blob = encode_case(check.code, entry.example)
            command = f"pytest --evalcheck {shlex.quote(f'{place}::{check.name}[cpu]')} --evalcheck-replay={blob}"
            command += " -m 'sweep or not sweep'"
            failure = Failure(about=entry.reason, case=entry.example, statement=check.statement, reproduce=command)
            of = {"kind": target.kind, "check": check.name, "code": check.code, "device": "cpu", "outcome": "known"}
            signature = f"{check.code}: {fault.id}"
            found.append(Cell(target=place, **of, upstream=fault.id, signature=signature, failure=failure))
    return found


def entries(target: Target) -> Iterator[tuple[str, KnownFailure]]:
    """The known failures of a target, each with the code or the name of its check."""
    for code, given in target.known_failures.items():
        yield from ((code, entry) for entry in ([given] if isinstance(given, KnownFailure) else given))


def loaded(path: Path) -> Any:
    """The module of a file of targets."""
    sys.path[:0] = [] if str(path.parent) in sys.path else [str(path.parent)]
    return importlib.import_module(path.stem)


def scripts(shown: dict[str, list[Cell]], workers: int) -> dict[str, Made]:
    """The script of each finding, by its place."""

    def script_of(cells: Sequence[Cell]) -> Made:
        made = make(cells, ROOT, OPTIONS, environment())
        outcome = made.why or f"script of {len(made.script.splitlines())} lines"
        print(f"{made.cell.code} {made.cell.target}: {outcome}", file=sys.stderr, flush=True)
        return made

    with ThreadPoolExecutor(workers) as pool:
        return dict(zip(shown, pool.map(script_of, shown.values()), strict=True))


def table(made: dict[str, Made]) -> None:
    """Counts by page, and why others have none."""
    pages: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for finding in findings():
        row = pages[finding.page]
        row[0] += 1
        row[1] += finding.place in made
        row[2] += finding.place in made and bool(made[finding.place].script)
    print("| page | findings | shown on the CPU here | with a script |\n| --- | --- | --- | --- |")
    for page, row in pages.items():
        print(f"| {page} | {row[0]} | {row[1]} | {row[2]} |")
    total = [sum(row[i] for row in pages.values()) for i in range(3)]
    print(f"| all | {total[0]} | {total[1]} | {total[2]} |")
    good = [one.script for one in made.values() if one.script]
    share = len(good) / max(1, len(made))
    lines = statistics.median([len(text.splitlines()) for text in good]) if good else 0
    print(
        f"\n{len(good)} of {len(made)} root causes that were shown have a script: {share:.0%}; median {lines:g} lines"
    )
    for why, count in Counter(one.why.partition(":")[0] for one in made.values() if one.why).most_common():
        print(f"* {count}: {why}")
    print("\nWithout a script:")
    for place, one in made.items():
        if not one.script:
            print(f"* {place} ({one.cell.code}): {one.why}")


if __name__ == "__main__":
    main()

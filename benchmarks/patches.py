"""Prove the patches: checks of the faults that they mend, with them and without.

    python benchmarks/patches.py [LIBRARY ...] [--all-checks] [--device cpu] [--files evalcheck_*.py] [--workers 2]

For each library, the targets of fixtures/targets run twice, with `--evalcheck-patched` and without, at quick effort:
the checks of the mended faults, or all of them with `--all-checks`. Those of faults that the CPU does not show run on
every device and in processes of their own, too. A fault is mended where its known checks pass,
or show another known fault. Prints a table, and exits with 1 where a fault is not mended or not seen, or where a check
that passed does not pass any more.
"""

from __future__ import annotations

import argparse
import functools
import json
import re
import statistics
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from pytest_evalcheck import upstream  # noqa: E402
from pytest_evalcheck.fixes.patches import applying  # noqa: E402
from pytest_evalcheck.fixes.patches.editing import PatchError  # noqa: E402
from pytest_evalcheck.fixes.patches.patch import Library, Patch  # noqa: E402

TARGETS = ROOT / "fixtures" / "targets"


def cells(
    files: list[Path],
    codes: list[str],
    device: str | None,
    workers: int,
    *,
    patched: bool,
    python: str = sys.executable,
) -> dict[tuple[str, str, str], dict[str, str]]:
    """Run checks by an interpreter; return outcome and upstream fault by target, check and device.

    Without a device they run on every one, and in processes of their own.
    """
    options = ["-m", "full or not full or distributed"]
    if device is not None:
        options = [f"--evalcheck-device={device}", "-m", "full or not full"]
    options += ["--evalcheck-select", ",".join(codes)] if codes else []
    options += ["--evalcheck-patched"] if patched else []
    return _cells(python, workers, [*options, *map(str, files)]) if files else {}


def sweep_cells(
    ids: Iterable[str], codes: list[str], workers: int, *, patched: bool = False, python: str = sys.executable
) -> dict[tuple[str, str, str], dict[str, str]]:
    """Run checks of those targets of sweeps that name one of these entries, on the CPU."""
    listed = _sweep_targets(tuple(ids))
    options = ["--evalcheck-device=cpu", *(["--evalcheck-select", ",".join(codes)] if codes else [])]
    options += ["-m", "sweep or distributed"]
    options += ["--evalcheck-patched"] if patched else []
    return _cells(python, workers, [*options, *listed]) if listed else {}


@functools.cache
def _sweep_targets(ids: tuple[str, ...]) -> list[str]:
    find = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "patches_cost.py"), "--targets", *ids]
    return subprocess.run(find, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def _cells(python: str, workers: int, options: list[str]) -> dict[tuple[str, str, str], dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [python, "-m", "pytest", "--evalcheck", "-q", "-n", str(workers), "-p", "no:cacheprovider"]
        command += ["--evalcheck-effort=quick", f"--evalcheck-report=json={report}", *options]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if not report.exists():
            raise SystemExit(f"no report was written:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        found = json.loads(report.read_text(encoding="utf-8"))["checks"]
    return {
        (c["target"], c["code"], c["device"]): {
            "outcome": c["outcome"],
            "fault": c.get("upstream") or "",
            "reason": c.get("reason") or "",
        }
        for c in found
    }


def _shows(cell: Mapping[str, str], fault: upstream.Fault) -> bool:
    """Return whether a check shows a fault, perhaps beside others: a cell has the id of the first, and all reasons."""
    return cell["outcome"] == "known" and (cell["fault"] == fault.id or fault.reason in cell["reason"])


def files_about(ids: Iterable[str], names: str) -> list[Path]:
    """Find the files of targets that show one of these entries, themselves or by a module that they share."""
    needles = {f'"{name}"' for name in ids}
    modules = {path.stem: path.read_text(encoding="utf-8") for path in TARGETS.glob("_*.py")}
    shared = {name for name, text in modules.items() if any(one in text for one in needles)}
    while more := {
        name
        for name, text in modules.items()
        if name not in shared and any(re.search(rf"\b{one}\b", text) for one in shared)
    }:
        shared |= more
    found = []
    for path in sorted(TARGETS.glob(names)):
        text = path.read_text(encoding="utf-8")
        if any(one in text for one in needles) or any(re.search(rf"\b{one}\b", text) for one in shared):
            found.append(path)
    return found


def chosen_libraries(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Sequence[Library]:
    """Return the libraries that the arguments name, or all.

    A library without patches is an error, and an id of ``--only`` that none of them has.
    """
    try:
        chosen = [applying.load(name) for name in given.library] or applying.all_libraries()
    except PatchError as error:
        parser.error(str(error))
    if unknown := {*getattr(given, "only", ())} - {patch.id for library in chosen for patch in library.patches}:
        parser.error(f"no patch of these libraries has the id {', '.join(sorted(unknown))}")
    return chosen


def lines_of(patch: Patch) -> int:
    """Count the lines of code that a patch puts."""
    return sum(
        len(textwrap.dedent(edit.put).strip().splitlines()) for several in patch.edits.values() for edit in several
    )


def prove(library: Library, device: str, names: str, workers: int, *, every: bool) -> int:
    """Print the rows of a library; return how many of its faults are not proved."""
    faults = {fault: patch for patch in library.patches for fault in patch.mends}
    files = files_about(faults, names)
    known = [fault for name in faults if (fault := upstream.find(name))]
    codes = [] if every else sorted({code for fault in known for code in fault.codes})
    before, after = (
        cells(files, codes, device, workers, patched=patched) | sweep_cells(faults, codes, workers, patched=patched)
        for patched in (False, True)
    )
    if unseen := [fault for fault in known if not any(_shows(cell, fault) for cell in before.values())]:
        rest, codes = files_about([fault.id for fault in unseen], names), {code for one in unseen for code in one.codes}
        for outcomes, patched in ((before, False), (after, True)):
            more = cells(rest, sorted(codes), None, workers, patched=patched)
            outcomes |= {key: cell for key, cell in more.items() if key not in outcomes}
    shown: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for key, cell in before.items():
        for fault in known:
            if _shows(cell, fault):
                shown[fault.id].append(key)
    bad = 0
    for name in faults:
        seen = shown[name]
        green = [key for key in seen if after.get(key, {}).get("outcome") == "passed"]
        covered = [
            key for key in seen if key in after and after[key]["outcome"] == "known" and after[key]["fault"] != name
        ]
        red = [key for key in seen if key not in green and key not in covered]
        verdict = "not seen" if not seen else "not mended" if red else "mended"
        bad += verdict != "mended"
        counts = f"{len(seen):4} known, {len(green):4} pass, {len(covered):3} show another known fault"
        print(f"  {verdict:10} {counts}  {name}")
        for key in red:
            print(f"             {after.get(key, {}).get('outcome', 'gone')}: {' '.join(key)}")
    mended = {key for name in faults for key in shown[name]}
    now = {key: after.get(key, {}).get("outcome", "gone") for key in before}
    changed = [key for key, cell in before.items() if key not in mended and now[key] != cell["outcome"]]
    worse = [key for key in changed if now[key] != "passed"]
    for key in changed:
        print(f"  changed    {before[key]['outcome']} -> {now[key]}: {' '.join(key)}")
    size = statistics.median(map(lines_of, library.patches))
    print(f"{library.name}: {len(library.patches)} patches of {size} lines at the median, {len(faults)} faults:")
    print(f"  {bad} not proved; of {len(before)} checks", end=" ")
    print(f"{len(changed)} others changed, {len(worse)} of them for the worse", flush=True)
    return bad + len(worse)


def figures() -> None:
    """Print how many patches of how many lines mend how many entries, and what they add to the wheel."""
    libraries = [library for library in applying.all_libraries() if library.patches]
    sizes = [lines_of(patch) for library in libraries for patch in library.patches]
    for library in libraries:
        known = [fault for fault in upstream.faults() if fault.library == library.name]
        mended = [fault for patch in library.patches for fault in patch.mends]
        print(f"  {library.name}: {len(library.patches)} patches mend {len(mended)} of {len(known)} entries")
    entries = sum(len(patch.mends) for library in libraries for patch in library.patches)
    print(f"{len(sizes)} patches mend {entries} of {len(upstream.faults())} entries")
    print(f"lines of a patch: median {statistics.median(sizes):g}, at most {max(sizes)}")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, str(ROOT)]
        subprocess.run(command, check=True, capture_output=True)
        made = next(Path(folder).glob("*.whl"))
        with zipfile.ZipFile(made) as wheel:
            patches = sum(one.compress_size for one in wheel.infolist() if "/fixes/patches/" in one.filename)
        print(f"wheel: {made.stat().st_size // 1024} KiB, of which patches {patches // 1024} KiB")


def main() -> int:
    """Prove the patches of some libraries, or of all that are installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", nargs="*")
    parser.add_argument(
        "--all-checks", action="store_true", help="run every check of the targets, not those of the faults alone"
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--files", default="evalcheck_*.py", metavar="PATTERN", help="files of fixtures/targets")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="the patches of MONAI alone")
    parser.add_argument("--figures", action="store_true", help="count patches, entries and lines, and run nothing")
    given = parser.parse_args()
    if given.figures:
        figures()
        return 0
    if given.smoke:
        given.library, given.files = ["monai"], "evalcheck_monai.py"
    bad = 0
    for library in chosen_libraries(parser, given):
        if not library.patches or (why := applying.why_not_tested(library)):
            print(f"{library.name}: not run: {why if library.patches else 'it has no patch'}")
            continue
        bad += prove(library, given.device, given.files, given.workers, every=given.all_checks)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())

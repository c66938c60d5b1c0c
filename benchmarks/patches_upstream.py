"""Run the tests that libraries ship, about what patches edit, with the patches and without, and compare the outcomes.

    python benchmarks/patches_upstream.py FOLDER [LIBRARY ...] [--files 1] [--match REGEX] [--seconds 900]

FOLDER holds unpacked source distributions or checkouts of the installed releases, named as the library or with its
release behind (``keras-3.15.1``). For each patch, the test files that name most often what it edits run twice, in a
process each: without patches, and with all patches of the library in memory. Both import the library from the folder.
Prints the tests that changed, and exits with 1 where one that passed does not pass any more. A run that ends by its
time counts with the tests that it ran. What these tests need beside the library can be added by PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.patches import chosen_libraries  # noqa: E402
from pytest_evalcheck.fixes.patches import applying  # noqa: E402
from pytest_evalcheck.fixes.patches.patch import Library, Patch  # noqa: E402

RUN = """
import importlib, json, sys, warnings
warnings.simplefilter("ignore")
library, package, with_patches, report, *options = sys.argv[1:]
import pytest
from pytest_evalcheck.fixes import patched
found = importlib.import_module(package).__file__
ids = patched(library, missing="warn").ids if with_patches == "True" else ()
written = open(report, "w", encoding="utf-8")
print(json.dumps([found, len(ids)]), file=written, flush=True)
class Outcomes:
    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            print(json.dumps([report.nodeid, report.outcome]), file=written, flush=True)
    def pytest_collectreport(self, report):
        if report.outcome != "passed":
            print(json.dumps([report.nodeid, "not collected"]), file=written, flush=True)
pytest.main(options, plugins=[Outcomes()])
"""
"""The code of a process: it writes the place of the package, the number of patches, and the outcome of each test."""


def tests_about(root: Path, patch: Patch, most: int) -> list[Path]:
    """Find test files that name the classes or functions that a patch edits, those that name them most first."""
    names = {part for where in patch.edits for part in where.partition(":")[2].split(".")[:1] if part}
    names |= {where.partition(":")[0].split(".")[-1] for where in patch.edits if not where.partition(":")[2]}
    word = re.compile(rf"\b({'|'.join(map(re.escape, names)) or '$^'})\b")
    counted = [
        (len(word.findall(path.read_text(encoding="utf-8", errors="replace"))), path)
        for path in root.rglob("*.py")
        if path.name.startswith("test_") or path.stem.endswith("_test")
    ]
    return [path for count, path in sorted(counted, key=lambda one: (-one[0], str(one[1]))) if count][:most]


def outcomes(
    library: Library, root: Path, files: list[Path], options: list[str], seconds: float, *, with_patches: bool
) -> tuple[int, dict[str, str]]:
    """Run test files; return the number of patches that were applied, and the outcome of each test."""
    source = root / library.source
    package = next(iter(library.patches[0].edits)).split(":")[0].split(".")[0]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "outcomes"
        command = [sys.executable, "-c", RUN, library.name, package, str(with_patches), str(report), "-q", *options]
        command += ["-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:evalcheck", "-o", "addopts="]
        command += ["--continue-on-collection-errors", *map(str, files)]
        path = os.pathsep.join(map(str, (source, ROOT, root / "tests", os.environ.get("PYTHONPATH", ""))))
        environment = {"KERAS_BACKEND": "torch", **os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        try:
            ended = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=seconds)
            says = ended.stdout[-2000:] + ended.stderr[-2000:]
        except subprocess.TimeoutExpired:
            says = "it took longer than --seconds"
            print(f"  ended after {seconds:g} s, {'with' if with_patches else 'without'} patches", flush=True)
        lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
        if len(lines) < 2:
            raise SystemExit(f"no test of {library.name} ran in {root}: {says}")
        (place, applied), *found = map(json.loads, lines)
    if not Path(place).is_relative_to(source):
        raise SystemExit(f"{package} was imported from {place}, not from {source}")
    return applied, dict(found)


def compare(library: Library, root: Path, match: str, most: int, options: list[str], seconds: float) -> int:
    """Print the outcomes of one library; return the number of tests that are worse with the patches."""
    about = {patch.id: tests_about(root, patch, most) for patch in library.patches}
    about = {name: [path for path in files if re.search(match, str(path))] for name, files in about.items()}
    files = sorted({path for several in about.values() for path in several})
    if not files:
        print(f"{library.name}: no test file of {match!r} in {root} names what a patch edits")
        return 0
    _, before = outcomes(library, root, files, options, seconds, with_patches=False)
    applied, after = outcomes(library, root, files, options, seconds, with_patches=True)
    both = before.keys() & after.keys()
    changed = sorted(name for name in both if before[name] != after[name])
    for name in changed:
        print(f"  {before[name]} -> {after[name]}: {name}")
    worse = sum(before[name] == "passed" for name in changed)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(before[name] for name in both).items()))
    tested = sum(bool(several) for several in about.values())
    print(f"{library.name}: {applied} patches, {len(files)} test files about {tested} of them, {len(both)} tests")
    print(f"  without patches {kinds}; with them {len(changed)} changed, {worse} for the worse", flush=True)
    return worse


def main() -> int:
    """Compare the tests of some libraries, or of all that the folder has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("library", nargs="*")
    parser.add_argument("--files", type=int, default=1, metavar="N", help="test files for each patch")
    parser.add_argument("--match", default="", metavar="REGEX", help="only test files whose path matches")
    parser.add_argument("--seconds", type=float, default=900, help="the limit of one run")
    parser.add_argument("--pytest", default="", metavar="OPTIONS", help="options of pytest")
    given = parser.parse_args()
    if not given.folder.is_dir():
        parser.error(f"{given.folder} is not a folder of source distributions")
    worse = 0
    for library in chosen_libraries(parser, given):
        own = re.compile(rf"{re.sub(r'[-_.]+', '[-_.]', library.name)}(-\d.*)?", re.IGNORECASE)
        roots = [path.resolve() for path in sorted(given.folder.iterdir()) if own.fullmatch(path.name)]
        if given.library and not roots:
            parser.error(f"{given.folder} has no folder named {library.name} or {library.name}-RELEASE")
        if not roots or not library.patches:
            continue
        if why := applying.why_not_tested(library):
            print(f"{library.name}: not run: {why}")
            continue
        worse += compare(library, roots[-1], given.match, given.files, shlex.split(given.pytest), given.seconds)
    return 1 if worse else 0


if __name__ == "__main__":
    raise SystemExit(main())

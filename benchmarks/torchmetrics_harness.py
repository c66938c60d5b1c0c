"""Our battery beside torchmetrics' own test harness: seconds on one metric, and the planted bugs each catches.

    python benchmarks/torchmetrics_harness.py [--checkout PATH] [--repeats 3] [--only seconds|gallery] [--smoke]

``--smoke`` runs one check of our side, on one configuration and its planted bugs. ``--checkout`` is a checkout of
torchmetrics at the tag of the installed version: its tests are in no distribution. Without it the tag is cloned
from GitHub. Both sides run in the environment of this command, which
needs what the harness imports (from scikit-learn 1.8 on, no rows are an error that its references do not expect):

    python -m pip install "scikit-learn<1.8" cachier==4.1.0 pytest-doctestplus

Conditions are the same: one fresh process a run, one thread, no plugin but those named here, bytecode compiled
before, an empty cache of references, an empty example database; sides take turns, and the least counts. What
each side does on `MulticlassAccuracy`:

* torchmetrics: 24 configurations on 7 kinds of input, 4 batches of 32 rows each, against scikit-learn; once in
  one process and once over its pool of 2; the functional form; half and double precision; differentiability.
  Its items for CUDA are skipped where there is none, and cost nothing.
* pytest-evalcheck: every check about a metric that applies, on cases that Hypothesis draws, for one
  configuration, on the CPU and two simulated devices; in rows of their own, on the CPU alone, at quick effort, with
  the promise about real processes too, and for the same 24.

A pair of the gallery goes through the harness as `torchmetrics_items.py` says: streams as in its own tests, and
the correct twin as the reference. A bug is caught there by an item that is red on it and green on its twin; here
by the promise that it was planted for, while its twin keeps all.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import torchmetrics_records as records
import torchmetrics_targets as targets
from torchmetrics_runs import HERE, ROOT, Bench, Run, stop

URL = "https://github.com/Lightning-AI/torchmetrics"
THEIR_CLASS = "unittests/classification/test_accuracy.py::TestMulticlassAccuracy"
THEIR_ONE_CONFIGURATION = "micro-global--1 or differentiability or half_cpu"

WITH_PROCESSES = ("-m", "distributed or not distributed")
ON_THE_CPU = ("--evalcheck-device", "cpu")  # where there is no GPU, the harness skips its items for one

IDLE = "start-up alone: pytest, torch, torchmetrics"
THEIRS = "torchmetrics' test class, 24 configurations"
THEIRS_OF_ONE = "torchmetrics' items of one configuration"
OURS = "pytest-evalcheck, one target"
OURS_ON_THE_CPU = "the same, on the CPU alone"
OURS_QUICK = "the same, on the CPU alone, quick effort"
OURS_OVER_PROCESSES = "one target, and real processes (-m)"
OURS_OF_ALL = "pytest-evalcheck, the same 24 configurations"


def compare_seconds(bench: Bench, repeats: int) -> None:
    """Print the seconds of both sides on `MulticlassAccuracy`, and their ratios."""
    one, every = targets.one_configuration(), targets.every_configuration()
    sides: dict[str, Callable[[], Run]] = {
        IDLE: bench.startup,
        THEIRS: lambda: bench.theirs(THEIR_CLASS),
        THEIRS_OF_ONE: lambda: bench.theirs(THEIR_CLASS, "-k", THEIR_ONE_CONFIGURATION),
        OURS: lambda: bench.ours(one),
        OURS_ON_THE_CPU: lambda: bench.ours(one, *ON_THE_CPU),
        OURS_QUICK: lambda: bench.ours(one, *ON_THE_CPU, "--evalcheck-effort", "quick"),
        OURS_OVER_PROCESSES: lambda: bench.ours(one, *WITH_PROCESSES),
        OURS_OF_ALL: lambda: bench.ours(every),
    }
    for prepare in (bench.startup, lambda: bench.theirs(THEIR_CLASS, "--collect-only"), lambda: bench.ours(one)):
        prepare()  # bytecode, rewritten assertions and the disk's cache are not what is measured
    taken: dict[str, list[Run]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            taken[name].append(side())
            if not taken[name][-1].counts:
                stop(taken[name][-1])
    # The least of several runs: what another program takes from a machine only ever adds.
    least = {name: [min(r.seconds for r in runs), min(r.processor for r in runs)] for name, runs in taken.items()}
    idle = least[IDLE]
    print(f"{f'MulticlassAccuracy, least of {repeats} runs':<46}{'seconds':>9}{'processor':>11}  items")
    for name, (wall, work) in least.items():
        print(f"{name:<46}{wall:9.2f}{work:11.2f}  {taken[name][-1].counts}")
    print(f"\n{'how many times faster we are':<46}{'seconds':>9}{'processor':>11}   the same, less start-up")
    pairs = {
        "one target / its test class": (OURS, THEIRS),
        "one target, CPU alone / its test class": (OURS_ON_THE_CPU, THEIRS),
        "one target, CPU alone, quick / its test class": (OURS_QUICK, THEIRS),
        "one target, real processes / its test class": (OURS_OVER_PROCESSES, THEIRS),
        "one target / its items of one configuration": (OURS, THEIRS_OF_ONE),
        "24 configurations / its test class": (OURS_OF_ALL, THEIRS),
    }
    for name, (ours, theirs) in pairs.items():
        whole = [a / b for a, b in zip(least[theirs], least[ours], strict=True)]
        beyond = [(a - i) / (b - i) for a, b, i in zip(least[theirs], least[ours], idle, strict=True)]
        print(f"{name:<46}{whole[0]:9.1f}{whole[1]:11.1f}{beyond[0]:12.1f}{beyond[1]:11.1f}")


def their_verdicts(bench: Bench, pairs: int) -> list[records.Verdict]:
    """Return what the harness says about each pair; a process that an item ended is followed by one for the rest."""
    log = bench.folder / "records.jsonl"
    arguments: list[str | Path] = [
        "-p",
        "unittests.conftest",
        "-p",
        "torchmetrics_items",
        HERE / "torchmetrics_items.py",
    ]
    arguments += ["-c", bench.checkout / "pyproject.toml", "--rootdir", bench.checkout]
    while True:
        before = len(records.read(log))
        latest = bench.theirs(*arguments, EVALCHECK_GALLERY_RECORDS=str(log))
        now = records.read(log)
        if now and latest.counts:
            return [records.verdict(now, index) for index in range(pairs)]
        if len(now) == before:
            stop(latest)


def our_verdicts(bench: Bench, gallery: str, *arguments: str) -> dict[str, list[str]]:
    """The promises that each target of the gallery breaks."""
    latest = bench.ours(gallery, *arguments)
    broken: dict[str, list[str]] = {}
    for cell in bench.report() or stop(latest):
        name = cell["target"].rpartition("::")[2]
        broken.setdefault(name, []).extend([cell["code"]] if cell["outcome"] == "failed" else [])
    return broken


def compare_catches(bench: Bench) -> None:
    """Print which side catches which planted bug."""
    sys.path.insert(0, str(ROOT))
    specimens = importlib.import_module("fixtures.gallery.table").SPECIMENS
    theirs, ours = their_verdicts(bench, len(specimens)), our_verdicts(bench, targets.gallery(), *WITH_PROCESSES)
    print(f"{'planted bug':<30}{'promise':<9}{'pytest-evalcheck':<24}torchmetrics' harness")
    caught = 0
    for index, (specimen, verdict) in enumerate(zip(specimens, theirs, strict=True)):
        broken, alarms = ours[f"planted_{index}"], ours[f"correct_{specimen.twin.name}"]
        caught += specimen.code in broken and not alarms
        mine = "caught" if specimen.code in broken else f"missed ({' '.join(broken) or 'all kept'})"
        mine = f"alarm on its twin: {' '.join(alarms)}" if alarms else mine
        verb = "caught" if verdict.caught else "missed" if verdict.runnable else "cannot run it"
        print(f"{specimen.bug.name:<30}{specimen.code:<9}{mine:<24}{verb}; {verdict.why[:100]}")
    by_them, runnable = sum(v.caught for v in theirs), sum(v.runnable for v in theirs)
    print(
        f"caught of {len(theirs)}: pytest-evalcheck {caught}, torchmetrics' harness {by_them} ({runnable} it can run)"
    )


def smoke() -> None:
    """Run one check of our side on one configuration and on its planted bugs, without a checkout of torchmetrics."""
    sys.path.insert(0, str(ROOT))
    specimens = list(enumerate(importlib.import_module("fixtures.gallery.table").SPECIMENS))
    specimens = [(index, specimen) for index, specimen in specimens if specimen.code == "EC201"]
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(ROOT, Path(name))
        options = ["--evalcheck-device=cpu", "--evalcheck-effort=quick", "--evalcheck-select=EC201"]
        one = bench.ours(targets.one_configuration(), *options)
        if " passed" not in one.counts or " failed" in one.counts:
            stop(one)
        broken = our_verdicts(bench, targets.gallery("EC201"), *options)
    for index, specimen in specimens:
        assert specimen.code in broken[f"planted_{index}"], f"{specimen.code} missed {specimen.bug.name}"
        assert not broken[f"correct_{specimen.twin.name}"], f"an alarm on {specimen.twin.name}"
    print(f"one configuration: {one.counts}; caught {len(specimens)} of {len(specimens)} planted bugs")


def _checkout(given: Path | None, folder: Path) -> Path:
    version = metadata.version("torchmetrics")
    tag = f"git clone --depth 1 --branch v{version} {URL}"
    if given is None:
        given = folder / "torchmetrics"
        if subprocess.run([*tag.split(), str(given)], capture_output=True).returncode:
            sys.exit(f"could not run `{tag}`; give a checkout of v{version} with --checkout PATH")
    about = given / "src/torchmetrics/__about__.py"
    if not about.is_file() or not (given / "tests/unittests/_helpers/testers.py").is_file():
        sys.exit(f"{given} is no checkout of torchmetrics with its tests; get one with `{tag}`")
    found = re.search(r'__version__ = "(.+?)"', about.read_text(encoding="utf-8"))
    if found is None or found[1] != version:
        sys.exit(f"{given} is torchmetrics {found and found[1]}, {version} is installed; get it with `{tag}`")
    return given.resolve()


def _require_what_the_harness_imports() -> None:
    missing = [name for name in ("cachier", "pytest_doctestplus", "sklearn") if importlib.util.find_spec(name) is None]
    if not missing and tuple(map(int, metadata.version("scikit-learn").split(".")[:2])) >= (1, 8):
        missing = ["scikit-learn below 1.8"]
    if missing:
        needs = 'python -m pip install "scikit-learn<1.8" cachier==4.1.0 pytest-doctestplus'
        sys.exit(f"torchmetrics' harness needs {', '.join(missing)}: {needs}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, help="torchmetrics at the tag of the installed version")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("seconds", "gallery"))
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    given = parser.parse_args()
    if given.smoke:
        smoke()
        return
    _require_what_the_harness_imports()
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(_checkout(given.checkout, Path(name)), Path(name))
        if given.only != "gallery":
            compare_seconds(bench, given.repeats)
            print()
        if given.only != "seconds":
            compare_catches(bench)


if __name__ == "__main__":
    main()

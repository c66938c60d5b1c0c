"""Our battery beside torchmetrics' own test harness: seconds on one metric, and the planted bugs each catches.

    python benchmarks/torchmetrics_harness.py [--checkout PATH] [--repeats 3] [--only seconds|gallery]

``--checkout`` is a checkout of torchmetrics at the tag of the installed version: its tests are in no
distribution. Without it the tag is cloned from GitHub. Both sides run in the environment of this command, which
needs what the harness imports (from scikit-learn 1.8 on, no rows are an error that its references do not expect):

    python -m pip install "scikit-learn<1.8" cachier==4.1.0 pytest-doctestplus

Conditions are the same: one fresh process a run, one thread, no plugin but those named here, bytecode compiled
before, an empty cache of references, an empty example database; sides take turns, and the median counts. What
each side does on `MulticlassAccuracy`:

* torchmetrics: 24 configurations on 7 kinds of input, 4 batches of 32 rows each, against scikit-learn; once in
  one process and once over its pool of 2; the functional form; half and double precision; differentiability.
  Its items for CUDA are skipped where there is none, and cost nothing.
* pytest-evalcheck: every promise about a metric that applies, on cases that Hypothesis draws, for one
  configuration; in a row of its own, for the same 24.

A pair of the gallery goes through the harness as `torchmetrics_items.py` says: streams as in its own tests, and
the correct twin as the reference. A bug is caught there by an item that is red on it and green on its twin; here
by the promise that it was planted for, while its twin keeps all.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import torchmetrics_records as records
import torchmetrics_targets as targets

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
URL = "https://github.com/Lightning-AI/torchmetrics"
THEIR_CLASS = "unittests/classification/test_accuracy.py::TestMulticlassAccuracy"
THEIR_ONE_CONFIGURATION = "micro-global--1 or differentiability or half_cpu"
STARTUP = "from torchmetrics.classification import MulticlassAccuracy\n\n\ndef test_nothing():\n    pass\n"


@dataclass(frozen=True)
class Run:
    """One process of pytest."""

    seconds: float
    output: str

    @property
    def counts(self) -> str:
        """``345 passed, 306 skipped``, as pytest's last line says it."""
        return ", ".join(
            re.findall(r"\d+ (?:passed|failed|skipped|errors?|xfailed)", self.output.strip().rpartition("\n")[2])
        )


def run(arguments: Sequence[str | Path], *, cwd: Path, **environment: str) -> Run:
    """Run pytest in a process group of its own, which is gone afterwards."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(HERE), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        **environment,
    }
    options = ["-p", "no:cacheprovider", "--color=no", "-q"]
    command = [sys.executable, "-m", "pytest", *options, *map(str, arguments)]
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=cwd, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            process.wait()
            seconds = time.perf_counter() - start
        finally:
            # Processes of a pool outlive a parent that was ended by an item, and wait for each other.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return Run(seconds, output.read())


@dataclass(frozen=True)
class Bench:
    """A checkout to run in, and a folder to write in."""

    checkout: Path
    folder: Path

    def theirs(self, *arguments: str | Path, **environment: str) -> Run:
        """Run torchmetrics' harness with its own configuration, its pool, and no cached reference."""
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:
            environment |= {"USE_PYTEST_POOL": "1", "PYTEST_REFERENCE_CACHE": cache}
            plugins = ["-p", "pytest_doctestplus.plugin"]
            return run([*plugins, *arguments], cwd=self.checkout / "tests", **environment)

    def ours(self, text: str, *arguments: str) -> Run:
        """Run the battery on a file of targets; `report` has its cells afterwards."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            file = Path(name, "evalcheck_benchmark.py")
            file.write_text(text, encoding="utf-8")
            Path(name, "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
            plugins = ["-p", "_hypothesis_pytestplugin", "-p", "pytest_evalcheck.plugin"]
            options = ["--evalcheck", f"--evalcheck-report=json={report}", *arguments]
            return run([*plugins, *options, file.name], cwd=Path(name))

    def startup(self) -> Run:
        """Run one empty test that imports the metric: what both sides pay before they do anything."""
        file = self.folder / "test_startup.py"
        file.write_text(STARTUP, encoding="utf-8")
        return run([file, "-c", os.devnull, "--rootdir", self.folder], cwd=self.folder)

    def report(self) -> list[dict[str, object]]:
        """The cells of the battery's latest run."""
        file = self.folder / "report.json"
        return list(json.loads(file.read_text(encoding="utf-8"))["cells"]) if file.is_file() else []


def compare_seconds(bench: Bench, repeats: int) -> None:
    """Print the seconds of both sides on `MulticlassAccuracy`, and their ratios."""
    one, every = targets.one_configuration(), targets.every_configuration()
    sides: dict[str, Callable[[], Run]] = {
        "start-up alone: pytest, torch, torchmetrics": bench.startup,
        "torchmetrics, its test class: 24 configurations": lambda: bench.theirs(THEIR_CLASS),
        "torchmetrics, its items of one configuration": lambda: bench.theirs(
            THEIR_CLASS, "-k", THEIR_ONE_CONFIGURATION
        ),
        "pytest-evalcheck, one target": lambda: bench.ours(one),
        "pytest-evalcheck, the same 24 configurations": lambda: bench.ours(every),
    }
    # Untimed: bytecode, rewritten assertions and the disk's cache.
    bench.startup(), bench.theirs(THEIR_CLASS, "--collect-only"), bench.ours(one, "--collect-only")
    taken: dict[str, list[Run]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            taken[name].append(side())
    idle, whole, part, ours, all_ours = (statistics.median(r.seconds for r in runs) for runs in taken.values())
    print(f"{'on MulticlassAccuracy, median of ' + str(repeats):<50}{'seconds':>8}{'less start-up':>15}  items")
    for (name, runs), seconds in zip(taken.items(), (idle, whole, part, ours, all_ours), strict=True):
        print(f"{name:<50}{seconds:8.2f}{seconds - idle:15.2f}  {runs[-1].counts or _stop(runs[-1])}")
    print(f"\n{'how many times faster we are':<50}{'whole':>8}{'less start-up':>15}")
    for name, theirs, mine in (
        ("one target, beside its test class", whole, ours),
        ("one target, beside its items of one configuration", part, ours),
        ("24 targets, beside its test class", whole, all_ours),
    ):
        print(f"{name:<50}{theirs / mine:8.1f}{(theirs - idle) / (mine - idle):15.1f}")


def their_verdicts(bench: Bench, pairs: int) -> list[records.Verdict]:
    """What the harness says about each pair; a process that an item ended is followed by one for the rest."""
    log = bench.folder / "records.jsonl"
    arguments = ["-p", "unittests.conftest", "-p", "torchmetrics_items", HERE / "torchmetrics_items.py"]
    arguments += ["-c", bench.checkout / "pyproject.toml", "--rootdir", bench.checkout]
    while True:
        before = len(records.read(log))
        latest = bench.theirs(*arguments, EVALCHECK_GALLERY_RECORDS=str(log))
        now = records.read(log)
        if now and latest.counts:
            return [records.verdict(now, index) for index in range(pairs)]
        if len(now) == before:
            _stop(latest)


def our_verdicts(bench: Bench, pairs: int) -> list[tuple[list[str], list[str]]]:
    """The promises that each planted bug and each correct twin break."""
    latest = bench.ours(targets.GALLERY)
    broken: dict[str, list[str]] = {}
    for cell in bench.report() or _stop(latest):
        name = str(cell["target"]).rpartition("::")[2]
        broken.setdefault(name, []).extend([str(cell["code"])] if cell["outcome"] == "broken" else [])
    return [(broken[f"planted_{index}"], broken[f"correct_{index}"]) for index in range(pairs)]


def compare_catches(bench: Bench) -> None:
    """Print which side catches which planted bug."""
    sys.path.insert(0, str(ROOT))
    from fixtures.gallery.table import SPECIMENS

    theirs, ours = their_verdicts(bench, len(SPECIMENS)), our_verdicts(bench, len(SPECIMENS))
    print(f"{'planted bug':<30}{'promise':<9}{'pytest-evalcheck':<24}torchmetrics' harness")
    caught = 0
    for specimen, verdict, (broken, on_twin) in zip(SPECIMENS, theirs, ours, strict=True):
        caught += specimen.code in broken and not on_twin
        mine = "caught" if specimen.code in broken else f"missed ({' '.join(broken) or 'all kept'})"
        mine = f"alarm on its twin: {' '.join(on_twin)}" if on_twin else mine
        verb = "caught" if verdict.caught else "missed" if verdict.runnable else "cannot run it"
        print(f"{specimen.bug.name:<30}{specimen.code:<9}{mine:<24}{verb}; {verdict.why[:100]}")
    by_them, runnable = sum(v.caught for v in theirs), sum(v.runnable for v in theirs)
    print(f"caught of {len(ours)}: pytest-evalcheck {caught}, torchmetrics' harness {by_them} of {runnable} it can run")


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


def _stop(latest: Run) -> str:
    sys.exit(f"this run told nothing; the end of its output:\n{latest.output[-3000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, help="torchmetrics at the tag of the installed version")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=("seconds", "gallery"))
    given = parser.parse_args()
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

"""Runs of pytest for both sides of `torchmetrics_harness.py`, under the same conditions."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
STARTUP = "from torchmetrics.classification import MulticlassAccuracy\n\n\ndef test_nothing():\n    pass\n"


@dataclass(frozen=True)
class Run:
    """One process of pytest."""

    seconds: float
    processor: float
    """Seconds of all its processes together: what a busy machine disturbs less."""
    output: str

    @property
    def counts(self) -> str:
        """``345 passed, 306 skipped``, as pytest's last line says it."""
        last = re.findall(r"^.* in \d+\.\d+s.*$", self.output, re.MULTILINE)[-1:]
        return ", ".join(re.findall(r"\d+ (?:passed|failed|skipped|errors?|xfailed)", "".join(last)))


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
        start, spent = time.perf_counter(), _processor()
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
        return Run(seconds, _processor() - spent, output.read())


def _processor() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


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

    def report(self) -> list[dict[str, Any]]:
        """The cells of the battery's latest run."""
        file = self.folder / "report.json"
        return list(json.loads(file.read_text(encoding="utf-8"))["checks"]) if file.is_file() else []


def stop(latest: Run) -> NoReturn:
    sys.exit(f"this run told nothing; the end of its output:\n{latest.output[-3000:]}")

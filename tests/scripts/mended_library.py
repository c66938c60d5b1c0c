"""A project with a library whose faults an environment variable mends, and what its scripts and tests must show."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock


def made_project(factory: pytest.TempPathFactory, name: str, library: str, targets: str, *options: str) -> Path:
    """A project after a run with `--evalcheck-scripts` of a folder and a file; what it printed is screen.txt.

    The first worker that asks for it makes it for all of them.
    """
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"project_of_{name}"
    with FileLock(f"{folder}.lock"):  # a requirement of torch
        if not folder.exists():
            folder.mkdir()
            _run(folder, library, targets, *options)
    return folder


def _run(folder: Path, library: str, targets: str, *options: str) -> None:
    (folder / "library.py").write_text(library, encoding="utf-8")
    (folder / "evalcheck_library.py").write_text(targets, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = .\n", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "--evalcheck", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    command += ["--evalcheck-device=cpu", "--evalcheck-effort=quick", *options]
    command += ["--evalcheck-scripts=scripts", "--evalcheck-scripts=test_regressions.py"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    (folder / "screen.txt").write_text(ended.stdout + ended.stderr, encoding="utf-8")


def run(folder: Path, *command: str, mended: bool) -> subprocess.CompletedProcess[str]:
    """A command of Python in the project, with the faults of its library or without them."""
    environment = {name: value for name, value in os.environ.items() if name != "MENDED"}
    environment |= {"PYTHONPATH": str(folder), **({"MENDED": "1"} if mended else {})}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def require_script(made: Path, name: str, expected: str) -> tuple[str, str]:
    """A script stands alone, exits with 1 while the fault is there and with 0 without it: its source and its output."""
    path = made / "scripts" / f"{name}.py"
    assert path.exists(), (made / "screen.txt").read_text(encoding="utf-8")
    source = path.read_text(encoding="utf-8")
    assert expected in source, source
    assert not any(f"import {package}" in source for package in ("pytest", "hypothesis", "pytest_evalcheck"))
    broken, mended = run(made, str(path), mended=False), run(made, str(path), mended=True)
    assert (broken.returncode, mended.returncode) == (1, 0), (
        broken.stdout + broken.stderr + mended.stdout + mended.stderr
    )
    return source, broken.stdout


def require_tests(made: Path, count: int) -> None:
    """Require that `count` tests fail while the faults are there, and pass without them."""
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:pytest_evalcheck", "test_regressions.py")
    broken, mended = run(made, *command, mended=False), run(made, *command, mended=True)
    assert f"{count} failed" in broken.stdout, broken.stdout
    assert f"{count} passed" in mended.stdout, mended.stdout

"""The short run of this repository: what `pytest --evalcheck` alone tries."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_evalcheck.kinds.registry import shipped

ROOT = Path(__file__).parents[1]
LIBRARIES = (
    *("accelerate", "evaluate", "ignite", "keras", "lightning", "lm_eval", "monai", "peft", "pipelines", "plain"),
    *("sentence_transformers", "sklearn", "torcheval", "torchmetrics", "torchtune", "transformers", "trl"),
)
"""Composer needs an environment of its own."""


@pytest.fixture(scope="module")
def cells() -> list[tuple[str, str, str]]:
    """File, target and check of each cell that is collected."""
    command = [sys.executable, "-m", "pytest", "--evalcheck", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    lines = [line.split("[")[0].split("::") for line in done.stdout.splitlines() if "::" in line and "[" in line]
    return [(Path(file).stem.removeprefix("evalcheck_"), target, check) for file, target, check in lines]


@pytest.fixture(scope="module")
def short() -> set[tuple[str, str]]:
    """Return the entries of its list."""
    spec = importlib.util.spec_from_file_location("conftest_of_targets", ROOT / "fixtures/targets/conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {(file, name) for file, names in module.SHORT.items() for name in names.split()}


def test_it_is_what_its_list_names(cells: list[tuple[str, str, str]], short: set[tuple[str, str]]) -> None:
    assert {(file, target) for file, target, _ in cells} == short


def test_it_has_every_library_and_every_kind(cells: list[tuple[str, str, str]]) -> None:
    files = {file for file, _, _ in cells}
    assert [library for library in LIBRARIES if not any(library in file for file in files)] == []
    kinds = {check.name: check.kinds for check in shipped()}
    only = {kinds[check][0] for _, _, check in cells if len(kinds[check]) == 1}
    assert only == {"decoder", "engine", "loop", "metric", "scorer", "task", "wrapper"}

"""Layouts of projects: none of them needs a conftest.py, and two projects of one repository stay apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from target_files import BROKEN, CORRECT, HEADER

from pytest_evalcheck.testing import Project

TARGETS = "import pytest_evalcheck as ec\nfrom {library}.metrics import {names}, numbers\n"
SETTINGS = "[project]\nname = 'mine'\nversion = '1'\n\n[tool.pytest.ini_options]\n"

Write = Callable[[str, str], None]


@pytest.fixture
def write(evalcheck_project: Project) -> Write:
    def write(name: str, text: str) -> None:
        path = evalcheck_project.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    return write


def write_library(write: Write, folder: str, library: str) -> None:
    write(f"{folder}/{library}/__init__.py", "")
    write(f"{folder}/{library}/metrics.py", HEADER)


def targets(library: str, target: str = CORRECT) -> str:
    return TARGETS.format(library=library, names="Mean, MeanOfMeans") + target


def test_a_project_of_one_file_needs_neither_settings_nor_a_conftest(evalcheck_project: Project, write: Write) -> None:
    write("mylib/__init__.py", "")
    write("mylib/metrics.py", HEADER)
    write("evalcheck_metrics.py", targets("mylib"))
    evalcheck_project.run("-k", "EC201", code=0).shows("evalcheck: ok: 1 passed")


@pytest.mark.parametrize("place", ["tests", "src/mylib", "."])
def test_a_package_in_src(evalcheck_project: Project, write: Write, place: str) -> None:
    write_library(write, "src", "mylib")
    write("pyproject.toml", f"{SETTINGS}testpaths = ['{place}']\npythonpath = ['src']\n")
    write(f"{place}/evalcheck_metrics.py", targets("mylib"))
    evalcheck_project.run("-k", "EC201", code=0).shows("evalcheck: ok: 1 passed")


def test_a_package_in_src_that_is_not_installed_is_named(evalcheck_project: Project, write: Write) -> None:
    write_library(write, "src", "mylib")
    write("pyproject.toml", f"{SETTINGS}testpaths = ['tests']\n")
    write("tests/evalcheck_metrics.py", targets("mylib"))
    evalcheck_project.run(code=1).shows(
        "No module named 'mylib'", "evalcheck: not ok: nothing was tried, 1 error while collecting"
    )


@pytest.fixture
def monorepo(evalcheck_project: Project, write: Write) -> Project:
    """Two projects with the same names of files: what is wrong in the first one is right in the second one."""
    for project, target in (("one", BROKEN), ("two", BROKEN.replace("MeanOfMeans", "Mean"))):
        write_library(write, project, f"lib{project}")
        write(f"{project}/pyproject.toml", f"{SETTINGS}testpaths = ['tests']\npythonpath = ['.']\n")
        write(f"{project}/tests/evalcheck_metrics.py", targets(f"lib{project}", target))
    return evalcheck_project


def test_each_project_of_a_monorepo_runs_in_its_folder(monorepo: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    for project, code in (("one", 1), ("two", 0)):
        monkeypatch.chdir(monorepo.path / project)
        result = monorepo.run("-k", "EC201", code=code)
        assert [cell.target for cell in result.report.cells] == ["tests/evalcheck_metrics.py::mean_of_means"]


def test_both_projects_of_a_monorepo_run_from_its_root(monorepo: Project, write: Write) -> None:
    write(
        "pyproject.toml",
        "[tool.pytest.ini_options]\ntestpaths = ['one/tests', 'two/tests']\npythonpath = ['one', 'two']\n"
        "addopts = ['--import-mode=importlib']\n",
    )
    result = monorepo.run("-k", "EC201", code=1)
    assert {cell.target: cell.outcome for cell in result.report.cells} == {
        "one/tests/evalcheck_metrics.py::mean_of_means": "failed",
        "two/tests/evalcheck_metrics.py::mean_of_means": "passed",
    }


def test_files_of_one_id_do_not_replace_each_other(monorepo: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without settings above both, pytest takes those of the first project, and counts ids of the second from it."""
    for project in ("one", "two"):
        monkeypatch.syspath_prepend(str(monorepo.path / project))
    both = ("--import-mode=importlib", "-k", "EC201", "one", "two")
    result = monorepo.run(*both, code=1).shows(
        f"{Path('two/tests/evalcheck_metrics.py')} and ",
        f"have one id, since the root directory is {monorepo.path / 'one'}",
        "name a folder that holds both, such as --rootdir=.",
        "evalcheck: not ok: 1 failed, 1 error while collecting",
    )
    assert [cell.outcome for cell in result.report.cells] == ["failed"]
    result = monorepo.run("--rootdir=.", *both, code=1)
    assert sorted(cell.outcome for cell in result.report.cells) == ["failed", "passed"]

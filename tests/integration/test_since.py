"""`--evalcheck-since REV`: what nothing that changed reaches is left out, and all else runs."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from target_files import BROKEN, CORRECT

from pytest_evalcheck.integration.choosing.since import ChangedSince
from pytest_evalcheck.testing import Project, Result

SELECT = "--evalcheck-select=EC201,EC202"
SINCE = "--evalcheck-since=v1"
LAZY = """
@ec.metric(inputs=numbers)
def lazy(device):
    {line}
    return ec.Metric.of(Mean())
"""
PLAIN = "evalcheck_plain.py"
LEFT = "not selected: {cells} of {targets} unchanged since v1; --evalcheck-since= runs them"
GIT = {
    **{f"GIT_{who}_{what}": "tester" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *arguments: str) -> str:
    made = subprocess.run(["git", *arguments], cwd=folder, env={**os.environ, **GIT}, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout


def write(project: Project, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = project.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def commit(project: Project, tag: str = "") -> None:
    git(project.path, "add", "--all")
    git(project.path, "commit", "--quiet", "--allow-empty", "-m", "a commit")
    if tag:
        git(project.path, "tag", tag)


@pytest.fixture
def repository(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project in git, with a target that imports nothing of it; a run imports nothing of another run."""
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", "--hypothesis-seed=1 --evalcheck-effort=quick")
    git(project.path, "init", "--quiet", "-b", "main")
    write(project, {".gitignore": "__pycache__/\n.evalcheck/\nrunpytest*\nstdout\nstderr\n"})
    return project.write(CORRECT, name=PLAIN)


def with_line(project: Project, line: str, files: dict[str, str] | None = None) -> Project:
    """A second target, with a line in its factory, and other files; all of it is the revision v1."""
    write(project, files or {})
    project.write(LAZY.format(line=line), name="evalcheck_lazy.py")
    commit(project, "v1")
    return project


def ran(result: Result) -> set[str]:
    return {cell.target.partition("::")[2] for cell in result.report.cells}


def test_nothing_changed_is_green_and_says_so(repository: Project) -> None:
    commit(repository, "v1")
    result = repository.run(SELECT, SINCE, code=0)
    result.shows(LEFT.format(cells="2 checks", targets="1 target"))
    assert result.text.rstrip().splitlines()[-1] == "evalcheck: ok: nothing changed since v1, 2 checks not selected"
    assert result.report.cells == ()
    repository.run(SELECT, "--evalcheck-since=", code=0).lacks("since v1").assert_outcomes(passed=2)


def test_a_broken_cell_that_did_change_is_red_beside_what_is_left_out(repository: Project) -> None:
    commit(repository, "v1")
    repository.write(BROKEN, name="evalcheck_broken.py")
    result = repository.run(SELECT, SINCE, code=1)
    result.shows(
        LEFT.format(cells="2 checks", targets="1 target"),
        "selected: 2 checks: evalcheck_broken.py changed since v1",
        "evalcheck: not ok: 1 failed",
    )
    assert ran(result) == {"mean_of_means"}
    repository.write(CORRECT.replace("mean(", "other("), name="evalcheck_broken.py")
    fine = repository.run(SELECT, SINCE, code=0)
    assert fine.text.rstrip().endswith("evalcheck: ok: 2 passed, 2 not selected (unchanged since v1)")


PACKAGE = {"pkg/__init__.py": "", "pkg/a.py": "", "pkg/b.py": "", "pkg/c.py": "", "helper.py": ""}
REACHED = {
    "a module": ("import helper", {}, "helper.py"),
    "a module of a package": ("import pkg.a", {}, "pkg/a.py"),
    "a name of a package": ("from pkg import a", {}, "pkg/a.py"),
    "the package on the way": ("import pkg.a", {}, "pkg/__init__.py"),
    "all of a package": (
        "import pkg.b",
        {"pkg/b.py": "from pkg import *", "pkg/__init__.py": "__all__ = ['c']\n"},
        "pkg/c.py",
    ),
    "through two modules, lazily": (
        "import helper",
        {"helper.py": "def f():\n    from pkg import a\n", "pkg/a.py": "def f():\n    import pkg.b\n"},
        "pkg/b.py",
    ),
    "a relative import": ("import pkg.a", {"pkg/a.py": "def f():\n    from . import b\n"}, "pkg/b.py"),
    "a relative import of a name": ("import pkg.a", {"pkg/a.py": "from .b import x\n"}, "pkg/b.py"),
    "two folders up": ("import pkg.d.e", {"pkg/d/__init__.py": "", "pkg/d/e.py": "from .. import c\n"}, "pkg/c.py"),
    "for types": ("import pkg.a", {"pkg/a.py": "if TYPE_CHECKING:\n    from .b import X\n"}, "pkg/b.py"),
    "a namespace": ("import spread.one", {"spread/one.py": ""}, "spread/one.py"),
    "a literal": ("__import__('importlib').import_module('pkg.b')", {}, "pkg/b.py"),
    "a literal from the package": (
        "import pkg.a",
        {"pkg/a.py": "import importlib\nimportlib.import_module('.b', __package__)\n"},
        "pkg/b.py",
    ),
    "a table of names": (
        "import pkg",
        {"pkg/__init__.py": "TABLE = {'B': 'pkg.b'}\n"},
        "pkg/b.py",
    ),
    "a table of names from the package": (
        "import pkg",
        {"pkg/__init__.py": "import importlib\nTABLE = {'B': 'b'}\n"},
        "pkg/b.py",
    ),
    "a name that is known in part": (
        "import helper",
        {"helper.py": "from importlib import import_module\ndef load(x):\n    return import_module(f'pkg.{x}')\n"},
        "pkg/c.py",
    ),
    "a loop over names": (
        "import helper",
        {"helper.py": "import importlib\nfor name in ('pkg.a', 'pkg.b'):\n    importlib.import_module(name)\n"},
        "pkg/b.py",
    ),
    "src": ("import inner", {"src/inner.py": ""}, "src/inner.py"),
    "a script": ("call = ['python', 'scripts/run.py']", {"scripts/run.py": ""}, "scripts/run.py"),
    "a script as a string": ("call = ['python', '-c', 'from pkg import b, c; b.f()']", {}, "pkg/c.py"),
    "a module that may be missing": ("__import__('pytest').importorskip('pkg.b')", {}, "pkg/b.py"),
    "a script by parts of its path": ("call = ['scripts', 'run.py']", {"scripts/run.py": ""}, "scripts/run.py"),
    "a folder of scripts": ("where = 'scripts/plugins'", {"scripts/plugins/one.py": ""}, "scripts/plugins/one.py"),
    "a folder that the target puts on the path": (
        "import deep",
        {"deep_folder/deep.py": "", "conftest.py": "import sys\nsys.path.insert(0, 'de' + 'ep_folder')\n"},
        "deep_folder/deep.py",
    ),
}


DYNAMIC = {
    *("a literal", "a literal from the package", "a table of names from the package", "a name that is known in part"),
    *("a loop over names", "a module that may be missing", "a folder that the target puts on the path"),
}
"""Dependencies that are not followed; the cell runs whatever changed."""


@pytest.mark.parametrize("name", REACHED)
@pytest.mark.slow(every=4)
def test_what_a_target_imports_reaches_it(repository: Project, name: str) -> None:
    line, files, changed = REACHED[name]
    with_line(repository, f"if device is None: {line}" if "=" not in line else line, {**PACKAGE, **files})
    path = repository.path / changed
    path.write_text(path.read_text() + "# changed\n")
    result = repository.run(SELECT, SINCE, code=0)
    assert ran(result) >= {"lazy"}
    if name not in DYNAMIC:
        result.shows(f"selected: 2 checks: {changed} changed since v1")
        assert ran(result) == {"lazy"}


@pytest.mark.parametrize("name", sorted(REACHED.keys() - DYNAMIC))
@pytest.mark.slow(every=4)
def test_what_a_target_does_not_import_does_not_reach_it(repository: Project, name: str) -> None:
    line, files, _ = REACHED[name]
    with_line(repository, f"if device is None: {line}" if "=" not in line else line, {**PACKAGE, **files})
    write(repository, {"unrelated.py": "# new\n", "tests/test_helper.py": "import helper\n"})
    result = repository.run(SELECT, SINCE, code=0)
    result.shows("evalcheck: ok: no change since v1 affects a check, 4 checks not selected")


UNKNOWN = {
    "a name that is computed": "import importlib\ndef f(x):\n    return importlib.import_module(x)\n",
    "under another name": "from importlib import import_module as load\n",
    "passed on": "import importlib\nload = importlib.import_module\n",
    "by getattr": "import importlib\ngetattr(importlib, 'import_module')\n",
    "__import__": "def f(x):\n    return __import__(x)\n",
    "a name that may be missing": "import pytest\ndef f(x):\n    return pytest.importorskip(x)\n",
    "exec": "exec(open('x').read()) if 0 else 0\n",
    "eval": "def f(x):\n    return eval(x)\n",
    "runpy": "import runpy\n",
    "a file by its path": "from importlib.util import spec_from_file_location\n",
    "a name that a loop does not bind": (
        "import importlib\ndef f(names):\n    for name in names:\n        importlib.import_module(name)\n"
    ),
    "a loop's name that is bound again": (
        "import importlib\nfor name in ('a',):\n    name = name.upper()\n    importlib.import_module(name)\n"
    ),
    "sys.path in a function": "def f():\n    import sys\n    sys.path.append('x')\n",
    "sys.path of a module that was not imported": "import sys\nsys.path.insert(0, 'x')\n",
    "no Python": "def f(:\n",
}


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.slow(every=4)
def test_what_may_import_anything_runs(repository: Project, name: str) -> None:
    with_line(repository, "if device is None: import helper", {"helper.py": UNKNOWN[name], "other.py": ""})
    result = repository.run(SELECT, SINCE, code=0)
    result.shows("selected: 2 checks: helper.py may import anything: it ")
    assert ran(result) == {"lazy"}


UNSEEN = {
    "a file that git ignores": "def f():\n    return open('made/words.json')\n",
    "a path outside of the repository": "def f():\n    return open('/somewhere/else/words.json')\n",
    "a folder beside the repository": "def f():\n    return open('../words.json')\n",
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_git_does_not_see_runs(repository: Project, name: str) -> None:
    write(repository, {".gitignore": "__pycache__/\n.evalcheck/\nrunpytest*\nmade/\n", "made/words.json": "{}"})
    with_line(repository, "if device is None: import helper", {"helper.py": UNSEEN[name]})
    result = repository.run(SELECT, SINCE, code=0)
    result.shows("selected: 2 checks: helper.py may import anything: it names")
    assert ran(result) == {"lazy"}


def test_a_module_outside_of_the_repository_runs(
    repository: Project, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    (other / "module_of_others.py").write_text("")
    monkeypatch.syspath_prepend(other)
    with_line(repository, "if device is None: import module_of_others")
    result = repository.run(SELECT, SINCE, code=0)
    result.shows("evalcheck_lazy.py may import anything: it imports module_of_others, which is outside of the repo")
    assert ran(result) == {"lazy"}


def test_a_package_that_cannot_be_read_runs(repository: Project) -> None:
    with_line(repository, "if device is None: import pkg.a", {**PACKAGE, "pkg/odd.py": "def f(:\n"})
    result = repository.run(SELECT, SINCE, code=0)
    result.shows(" checks: grimp cannot read pkg: ")
    assert ran(result) >= {"lazy"}


def test_grimp_is_named_where_it_is_not_installed(repository: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, "v1")
    monkeypatch.setattr("pytest_evalcheck.integration.choosing.since.find_spec", lambda name: None)
    repository.run(SINCE, code=4).shows("needs grimp, which reads imports: pip install 'pytest-evalcheck[since]'")


def deleted(path: Path) -> None:
    path.unlink()


def renamed(path: Path) -> None:
    path.rename(path.with_name("renamed.py"))


def staged(path: Path) -> None:
    path.write_text("# staged\n")
    git(path.parent, "add", path.name)


def assumed_unchanged(path: Path) -> None:
    git(path.parent, "update-index", "--assume-unchanged", path.name)
    path.write_text("# hidden\n")


def a_package_in_its_place(path: Path) -> None:
    path.with_suffix("").mkdir()
    (path.with_suffix("") / "__init__.py").write_text("")


@pytest.mark.parametrize("change", [deleted, renamed, staged, assumed_unchanged, a_package_in_its_place])
@pytest.mark.slow(every=2)
def test_every_way_to_change_a_file_is_seen(repository: Project, change: Callable[[Path], None]) -> None:
    with_line(repository, "if device is None: import helper", PACKAGE)
    change(repository.path / "helper.py")
    assert ran(repository.run(SELECT, SINCE, code=0)) >= {"lazy"}
    commit(repository)
    if change is not assumed_unchanged:
        assert ran(repository.run(SELECT, SINCE, code=0)) >= {"lazy"}


def test_a_file_that_is_new_and_imported_before_it_is_there(repository: Project) -> None:
    with_line(repository, "if device is None: import later")
    assert ran(repository.run(SELECT, SINCE, code=0)) == set()
    write(repository, {"later.py": ""})
    assert ran(repository.run(SELECT, SINCE, code=0)) == {"lazy"}


def test_a_conftest_reaches_all_that_it_may_be_loaded_with(repository: Project) -> None:
    write(repository, {"conftest.py": "", "tests/conftest.py": "def pytest_configure(): import deep\n", "deep.py": ""})
    write(repository, {"other/conftest.py": "def fixture(): import of_fixtures\n", "of_fixtures.py": ""})
    commit(repository, "v1")
    write(repository, {"of_fixtures.py": "# changed\n"})
    assert ran(repository.run(SELECT, SINCE, code=0)) == set()
    (repository.path / "other" / "evalcheck_below.py").write_text((repository.path / PLAIN).read_text())
    git(repository.path, "add", "--all")
    git(repository.path, "commit", "--quiet", "-m", "before", "--", "other")
    git(repository.path, "tag", "-f", "v1")
    below = repository.run(SELECT, SINCE, code=0).shows("of_fixtures.py changed since v1", "2 not selected")
    assert {cell.target for cell in below.report.cells} == {"other/evalcheck_below.py::mean"}
    commit(repository)
    git(repository.path, "tag", "-f", "v1")
    write(repository, {"deep.py": "# changed\n"})
    assert ran(repository.run(SELECT, SINCE, code=0)) == {"mean"}
    assert ran(repository.run(SELECT, SINCE, PLAIN, code=0)) == set()
    write(repository, {"conftest.py": "# changed\n"})
    assert ran(repository.run(SELECT, SINCE, PLAIN, code=0)) == {"mean"}


@pytest.mark.parametrize("name", ["data/words.json", "pytest.ini", "constraints.txt", "setup.py", "prompts/judge.md"])
def test_a_file_that_no_import_shows_runs_everything(repository: Project, name: str) -> None:
    with_line(repository, "pass")
    write(repository, {name: "[pytest]\n" if name == "pytest.ini" else "# new\n"})
    result = repository.run(SELECT, SINCE, code=0)
    result.shows(f"selected: 4 checks: {name} changed since v1 (evalcheck_irrelevant names what cannot matter)")
    assert ran(result) == {"mean", "lazy"}


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "docs/a/b.md", ".hypothesis/examples/x", "pkg/x.pyc"])
def test_prose_and_what_runs_leave_run_nothing(repository: Project, name: str) -> None:
    commit(repository, "v1")
    write(repository, {name: "x"})
    repository.run(SELECT, SINCE, code=0).shows("ok: nothing changed since v1")


def test_patterns_say_what_cannot_matter(repository: Project) -> None:
    write(repository, {"pytest.ini": "[pytest]\nevalcheck_irrelevant = data/**/*.txt generated.py\n"})
    write(repository, {".gitignore": "__pycache__/\n.evalcheck/\ngenerated.py\n", "generated.py": ""})
    with_line(repository, "if device is None: import generated")
    write(repository, {"data/a/b.txt": "x"})
    repository.run(SELECT, SINCE, code=0).shows("ok: nothing changed since v1")
    write(repository, {"README.md": "x"})
    repository.run(SELECT, SINCE, code=0).shows("4 checks: README.md changed since v1")


def test_what_git_ignores_cannot_be_seen_to_be_unchanged(repository: Project) -> None:
    write(repository, {".gitignore": "__pycache__/\n.evalcheck/\ngenerated/\n", "generated/made.py": ""})
    with_line(repository, "if device is None: from generated import made")
    result = repository.run(SELECT, SINCE, code=0)
    result.shows("2 checks: git ignores generated/made.py, so that nobody sees whether it changed")
    assert ran(result) == {"lazy"}
    write(repository, {".gitignore": "__pycache__/\n.evalcheck/\nevalcheck_lazy.py\n"})
    git(repository.path, "rm", "-q", "--cached", "evalcheck_lazy.py")
    commit(repository, "v2")
    result = repository.run(SELECT, "--evalcheck-since=v2", code=0)
    result.shows("2 checks: its file is not in the repository, or git ignores it")
    assert ran(result) == {"lazy"}


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("conf/net.yaml", "net:\n  _target_: pkg.b.Net\n"),
        ("conf/net.json", '{"call": "pkg.b:build"}'),
        ("pkg/task.yml", "process: !function b.process\n"),
        ("conf/plugins.ini", "[all]\nuse = pkg.b\n"),
        ("conf/tasks.toml", "script = 'pkg/b.py'\n"),
        ("setup.py", "setup(entry_points={'x': ['y = pkg.b:f']})\n"),
    ],
)
@pytest.mark.slow(every=3)
def test_a_module_that_a_file_of_settings_names_reaches_everything(
    repository: Project, settings: str, text: str
) -> None:
    with_line(repository, "pass", {**PACKAGE, settings: text, "pkg/b.py": "import helper\n"})
    write(repository, {"pkg/c.py": "# changed\n"})
    assert ran(repository.run(SELECT, SINCE, code=0)) == set()
    write(repository, {"helper.py": "# changed\n"})
    assert ran(repository.run(SELECT, SINCE, code=0)) == {"mean", "lazy"}


def test_a_report_of_nothing_can_be_written(repository: Project) -> None:
    commit(repository, "v1")
    paths = {name: f".evalcheck/report.{name}" for name in ("html", "github", "jsonl")}
    reports = [f"--evalcheck-report={name}={path}" for name, path in paths.items()]
    repository.run(SELECT, SINCE, *reports, f"--junit-xml={repository.path / 'junit.xml'}", code=0)
    for name in ("html", "github"):
        assert "nothing changed since v1, 2 checks not selected" in (repository.path / paths[name]).read_text()
    repository.run(SELECT, SINCE, f"--junit-xml={repository.path / 'junit.xml'}", code=0)


def test_a_new_module_that_hides_another_runs_everything(repository: Project) -> None:
    commit(repository, "v1")
    write(repository, {"colorsys.py": ""})
    repository.run(SELECT, SINCE, code=0).shows("colorsys.py was added since v1, and hides another module")


def test_a_submodule_is_a_file_of_data(repository: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    git(other, "init", "--quiet")
    (other / "inner.py").write_text("")
    git(other, "add", "--all")
    git(other, "commit", "--quiet", "-m", "one")
    git(repository.path, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), "sub")
    with_line(repository, "if device is None: import sub.inner")
    repository.run(SELECT, SINCE, code=0).shows("ok: nothing changed since v1")
    (repository.path / "sub" / "inner.py").write_text("# changed\n")
    repository.run(SELECT, SINCE, code=0).shows("4 checks: sub changed since v1")


def test_what_is_named_runs(repository: Project) -> None:
    commit(repository, "v1")
    repository.run(SELECT, SINCE, f"{PLAIN}::mean", code=0).assert_outcomes(passed=2)
    node = f"{PLAIN}::mean::splitting_a_stream_does_not_change_the_value[cpu]"
    repository.run(SINCE, node, code=0).assert_outcomes(passed=1)
    assert ran(repository.run(SELECT, SINCE, PLAIN, code=0)) == set()


def test_a_part_of_a_target_that_runs_is_no_whole(repository: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check that changed is not applicable: that says nothing against a target whose other checks are left out."""
    repository.write(CORRECT.replace("inputs=numbers", "inputs=numbers, not_applicable={'EC202': 'no'}"), name=PLAIN)
    commit(repository, "v1")
    monkeypatch.setattr(ChangedSince, "reason", lambda self, path, target, check: "changed" * (check.code == "EC202"))
    result = repository.run(SELECT, SINCE, code=0).assert_outcomes(not_applicable=1)
    result.shows("evalcheck: ok: 1 not applicable, 1 not selected (unchanged since v1)")
    monkeypatch.setattr(ChangedSince, "reason", lambda self, path, target, check: "changed")
    write(repository, {"pytest.ini": "[pytest]\nevalcheck_select = EC202\n"})
    repository.run(SINCE, code=1).shows("no check was tried of evalcheck_plain.py::mean")


def test_the_ini_file_may_name_the_revision(repository: Project) -> None:
    write(repository, {"pytest.ini": "[pytest]\nevalcheck_since = v1\n"})
    commit(repository, "v1")
    repository.run(SELECT, code=0).shows("ok: nothing changed since v1")
    repository.run(SELECT, "--evalcheck-since=", code=0).assert_outcomes(passed=2)
    repository.run("--evalcheck-since=v1", evalcheck=False, code=4).shows("does nothing without --evalcheck")


def test_other_choices_are_as_without_it(repository: Project) -> None:
    with_line(repository, "pass")
    repository.write(LAZY.format(line="pass  # changed"), name="evalcheck_lazy.py")
    repository.run(SELECT, SINCE, "-k", "nothing_is_called_so", code=5)
    repository.run(SELECT, SINCE, "-k", "lazy", code=0).assert_outcomes(passed=2)
    repository.run(SELECT, SINCE, "evalcheck_none.py", code=4)


@pytest.mark.slow
def test_workers_leave_out_the_same(repository: Project) -> None:
    with_line(repository, "if device is None: import helper", PACKAGE)
    unchanged = repository.spawn("--evalcheck", SELECT, SINCE, "-n", "2", code=0)
    unchanged.shows("evalcheck: ok: nothing changed since v1, 4 checks not selected")
    write(repository, {"helper.py": "# changed\n"})
    result = repository.spawn("--evalcheck", SELECT, SINCE, "-n", "2", code=0)
    assert ran(result) == {"lazy"}
    assert result.output.count(LEFT.format(cells="2 checks", targets="1 target")) == 1
    result.shows("selected: 2 checks: helper.py changed since v1", "ok: 2 passed, 2 not selected (unchanged since v1)")


def test_a_revision_that_does_not_exist(repository: Project) -> None:
    commit(repository, "v1")
    git(repository.path, "branch", "release-2")
    repository.run("--evalcheck-since=relase-2", code=4).shows(
        "--evalcheck-since relase-2: there is no such revision; expected a branch, a tag or a commit of this "
        "repository; did you mean 'release-2'?"
    )
    repository.run("--evalcheck-since=--all", code=4).shows("there is no such revision", "such as main")


def test_no_commit_yet(repository: Project) -> None:
    repository.run("--evalcheck-since=main", code=4).shows("there is no such revision", "which has no commit yet")


def test_a_shallow_clone_says_how_to_fetch(repository: Project, tmp_path: Path) -> None:
    commit(repository, "v1")
    commit(repository)
    clone = repository.path.parent / f"{repository.path.name}_clone"
    git(repository.path, "clone", "--quiet", "--depth=1", "--no-tags", repository.path.as_uri(), str(clone))
    result = repository.run(f"--rootdir={clone}", "--evalcheck-since=origin/stable", str(clone), code=4)
    result.shows("This is a shallow clone", "git fetch origin stable:refs/remotes/origin/stable", "--unshallow")
    result = repository.run(f"--rootdir={clone}", "--evalcheck-since=v1", str(clone), code=4)
    result.shows("This is a shallow clone", "git fetch origin v1")


def test_no_repository(project: Project) -> None:
    project.write(CORRECT).run(SINCE, code=4).shows("--evalcheck-since v1: ", "is in no git repository")
    project.run(SELECT, "--evalcheck-since=", code=0)


def test_no_git(repository: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, "v1")
    monkeypatch.setenv("PATH", str(repository.path))
    assert shutil.which("git") is None
    repository.run(SINCE, code=4).shows("--evalcheck-since v1: git is not installed, or not on PATH")


@pytest.mark.parametrize(
    ("patterns", "said"),
    [("../*", "evalcheck_irrelevant has '../*'"), ("/docs", "has '/docs'"), ('""', "has ''; expected")],
)
def test_a_pattern_that_cannot_be_meant(repository: Project, patterns: str, said: str) -> None:
    write(repository, {"pytest.ini": f"[pytest]\nevalcheck_irrelevant = {patterns}\n"})
    commit(repository, "v1")
    repository.run(SINCE, code=4).shows(said)


def test_a_change_of_this_package_runs_everything(repository: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """No import shows which of its modules a check uses: kinds, checks and adapters are named in tables."""
    with_line(repository, "pass", PACKAGE)
    write(repository, {"pkg/a.py": "# changed\n"})
    assert ran(repository.run(SELECT, SINCE, code=0)) == set()
    monkeypatch.setattr("pytest_evalcheck.__file__", str(repository.path / "pkg" / "__init__.py"))
    repository.run(SELECT, SINCE, code=0).shows("4 checks: pkg/a.py of pytest_evalcheck itself changed since v1")

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from report_samples import small

from pytest_evalcheck.reports import FORMATS, ReportError, check_paths, check_writable, parse, write


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("json=out.json", ("json", Path("out.json"))),
        (" github = a=b.md ", ("github", Path("a=b.md"))),
        (r"json=C:\runs\out.json", ("json", Path(r"C:\runs\out.json"))),
        ("json=runs, and others/b=1,jsn=2.json", ("json", Path("runs, and others/b=1,jsn=2.json"))),
        ("json=~/out.json", ("json", Path.home() / "out.json")),
    ],
)
def test_a_spec_is_a_format_and_a_path(spec, expected):
    assert parse(spec) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("jsn=x", "--evalcheck-report 'jsn=x': there is no format 'jsn'; did you mean 'json'?"),
        ("GitHub=x", "--evalcheck-report 'GitHub=x': there is no format 'GitHub'; did you mean 'github'?"),
        ("=x", f"--evalcheck-report '=x': there is no format ''; there are {', '.join(FORMATS)}."),
        ("pdf=x", f"--evalcheck-report 'pdf=x': there is no format 'pdf'; there are {', '.join(FORMATS)}."),
        (
            "json=out.json,html=page.html,sarif=x",
            "--evalcheck-report 'json=out.json,html=page.html,sarif=x' names several reports; give each its own "
            "option: --evalcheck-report=json=out.json --evalcheck-report=html=page.html",
        ),
        (
            "out.json",
            "--evalcheck-report 'out.json' has no path: write FORMAT=PATH, such as json=evalcheck.json",
        ),
        (
            "github",
            "--evalcheck-report 'github' has no path: write FORMAT=PATH, such as github=\"$GITHUB_STEP_SUMMARY\"",
        ),
        (
            "github=",
            "--evalcheck-report 'github=' has no path after '='; if you used a variable, it is not set.",
        ),
    ],
)
def test_a_wrong_spec_is_told_what_is_wrong_and_what_would_be_right(spec, message):
    with pytest.raises(ReportError) as caught:
        parse(spec)
    assert str(caught.value) == message


def test_html_without_jinja2_is_an_error_before_the_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ReportError) as caught:
        parse("html=page.html")
    assert str(caught.value) == (
        "--evalcheck-report 'html=page.html' needs jinja2, which is not installed: pip install 'pytest-evalcheck[html]'"
    )
    assert parse("json=out.json") == ("json", Path("out.json"))


def test_html_without_jinja2_runs_no_cell(project):
    project.write("open('collected', 'w')")
    (project.pytester.path / "without_jinja2.py").write_text("import sys; sys.modules['jinja2'] = None")
    result = project.spawn("--evalcheck", "-p", "without_jinja2", "--evalcheck-report=html=page.html", code=4)
    assert "pip install 'pytest-evalcheck[html]'" in result.errors
    assert not (project.pytester.path / "collected").exists()


def test_a_place_that_can_be_written_is_left_as_it_was(tmp_path):
    new, there = tmp_path / "a" / "b" / "new.json", tmp_path / "there.json"
    there.write_text("before")
    check_writable(new)
    check_writable(there)
    assert there.read_text() == "before"
    assert new.parent.is_dir()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "there.json"]


def _refusal(path: Path) -> str:
    with pytest.raises(ReportError) as caught:
        check_writable(path)
    return str(caught.value)


def test_what_is_in_the_way_of_a_report_is_named(tmp_path):
    file = tmp_path / "file"
    file.touch()
    assert _refusal(tmp_path) == (
        f"the report {str(tmp_path)!r} cannot be written: it is a folder; "
        f"name a file, such as {str(tmp_path / 'evalcheck.json')!r}."
    )
    assert f"{str(file)!r} is a file, not a folder" in _refusal(file / "out.json")
    assert str(file) in _refusal(file / "deeper" / "out.json")
    assert "too long" in _refusal(tmp_path / ("x" * 300))


def test_a_folder_without_permission_is_named_before_the_run(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(closed, os.W_OK):
        pytest.skip("this user may write everywhere")
    assert f"Permission denied ({str(closed)!r})" in _refusal(closed / "out.json")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no files")
def test_a_place_that_takes_no_files_is_named_before_the_run():
    assert "('/proc/self')" in _refusal(Path("/proc/self/out.json"))


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_written_by_its_name(name, tmp_path):
    path = tmp_path / "not" / "there" / "yet"
    assert write(small(), name, path) == ""
    shown = "3 failed, 5 passed" if name == "badge" else "merging_shards"
    assert shown in path.read_text("utf-8").replace("&#95;", "_").replace("merging shards", "merging_shards")
    if not FORMATS[name].appends:  # to whatever is there
        check_paths([(name, path)])
        path.write_text('{"another": "program"}')
        with pytest.raises(ReportError, match=f"a file that is not a {name} report of this plugin; expected 'reports/"):
            check_paths([(name, path)])


def test_the_registry_imports_no_view_and_the_views_nothing_but_cells():
    code = (
        "import sys; before = set(sys.modules); import pytest_evalcheck.reports as r;"
        "first = {m for m in sys.modules if m.startswith('pytest_evalcheck')};"
        "import pytest_evalcheck.reports.json, pytest_evalcheck.reports.github, pytest_evalcheck.reports.terminal;"
        "new = {m.split('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names);"
        "ours = {m for m in sys.modules if m.startswith('pytest_evalcheck.') and '.reports' not in m};"
        "print(sorted(first), sorted(new), sorted(ours))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == (
        "['pytest_evalcheck', 'pytest_evalcheck.errors', 'pytest_evalcheck.reports', 'pytest_evalcheck.reports.case_codec', 'pytest_evalcheck.reports.causes', 'pytest_evalcheck.reports.results', 'pytest_evalcheck.reports.runs', 'pytest_evalcheck.reports.severity'] ['pytest_evalcheck'] ['pytest_evalcheck.errors']"
    )

"""Ways to a green that means nothing: none ends in 0 without saying what was not tried."""

from __future__ import annotations

import json
import math
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from green_sessions import SAID, SESSIONS, Session, metric
from green_targets import FOUND, LOST, MISTAKES, MISTAKES_HEADER, VALUES
from hypothesis import strategies as st
from target_files import BROKEN, CORRECT

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.testing import Project, Result

ONE = "--evalcheck-select=EC201"

_runs: dict[str, Result] = {}


def once(name: str, run: Callable[[], Result]) -> Result:
    """The result of a run that several tests look at."""
    if name not in _runs:
        _runs[name] = run()
        _runs[name].__dict__["ok"] = ok_of(_runs[name])
    return _runs[name]


def ok_of(result: Result) -> bool | None:
    """Return `ok` of the JSON report; None if no report was written."""
    if not result.report_path.exists():
        return None
    return bool(json.loads(result.report_path.read_text(encoding="utf-8"))["summary"]["ok"])


def agree(result: Result) -> None:
    """Require that the last line, the exit code and the JSON report say the same."""
    last = result.text.rstrip().splitlines()[-1]
    assert re.match("evalcheck: (not )?ok: .", last), result.output
    assert last.startswith("evalcheck: ok: ") == (result.code == 0), result.output
    if result.report_path.exists():
        summary = json.loads(result.report_path.read_text(encoding="utf-8"))["summary"]
        assert summary["ok"] is (result.code == 0), result.output
        assert summary["ok"] is not bool(summary["why"])


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Any:
    yield
    _runs.clear()


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_of_its_target(project: Project, name: str) -> None:
    def run() -> Result:
        for way, (source, _) in MISTAKES.items():
            project.write(MISTAKES_HEADER, source.format(name=way), name=f"evalcheck_{way}.py")
        return project.write(CORRECT).run(ONE)

    result = once("mistakes", run)
    assert result.code == 1
    result.shows(f"{len(MISTAKES)} errors while collecting", "evalcheck_example.py .")
    said = [line for line in result.text.splitlines() if f"target {name}: " in line]
    assert said, result.text
    start = result.text.index(said[0])
    assert MISTAKES[name][1] in result.text[start : start + 600], result.text[start : start + 600]
    assert re.search(rf"evalcheck_{name}\.py:\d+: target", said[0])


@pytest.mark.parametrize("name", LOST)
def test_a_target_that_no_name_holds_is_an_error(project: Project, name: str) -> None:
    def run() -> Result:
        for way, (source, _) in LOST.items():
            project.write(source.format(name=way), BROKEN, name=f"evalcheck_{way}.py")
        return project.write(CORRECT).run(ONE)

    result = once("lost", run)
    assert result.code == 1
    (said,) = {line for line in result.text.splitlines() if f"target {name} is not collected: " in line}
    assert LOST[name][1] in said
    assert re.search(rf"evalcheck_{name}\.py:\d+: target", said)


@pytest.mark.parametrize("name", FOUND)
def test_a_target_in_an_unusual_place_is_collected(project: Project, name: str) -> None:
    def run() -> Result:
        for way, source in FOUND.items():
            project.write(source, name=f"evalcheck_{way}.py")
        return project.run(ONE)

    result = once("found", run)
    assert result.code == 1
    assert "errors" not in result.outcomes, result.text
    cells = [cell for cell in result.report.cells if cell.target.startswith(f"evalcheck_{name}.py::")]
    assert [cell.outcome for cell in cells] == ["failed"], result.text


class Agrees:
    """Is equal to everything."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


class EqualNan(float):
    """A NaN that says it is equal to itself."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and math.isnan(other)

    __hash__ = float.__hash__


class Mean:
    """A class that is no value."""


bare = es.samples(st.integers(0, 9), collate=lambda rows: ([float(row) for row in rows],), name="numbers")
numbers = es.samples(
    st.integers(0, 9),
    collate=lambda rows: ([float(row) for row in rows],),
    name="numbers",
    wrong=lambda row: row + 1,
    contrast=(1, 2),
)


def stub_of(name: str, inputs: Any) -> ec.Target:
    value = eval(VALUES[name], {"mock": mock, "Agrees": Agrees, "EqualNan": EqualNan, "Mean": Mean})

    @ec.metric(inputs=inputs)
    def stub() -> ec.Metric:
        return ec.Metric(update=lambda values: None, compute=lambda: value)

    return stub


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.slow(every=3)
def test_a_value_that_is_none_is_not_green(name: str) -> None:
    report = ec.run(stub_of(name, numbers), effort="quick")
    assert not report.ok, report.verdict.line
    with pytest.raises(ec.VerdictError):
        report.raise_for_failures()


def _single() -> ec.Target:
    one = es.samples(st.just(3), collate=lambda rows: ([float(row) for row in rows],))

    @ec.metric(inputs=one)
    def single() -> ec.Metric:
        seen: list[float] = []
        return ec.Metric(update=seen.extend, compute=lambda: sum(seen) / max(len(seen), 1), reset=seen.clear)

    return single


def _own_reference() -> ec.Target:
    @ec.metric(inputs=bare, reference=lambda samples: 0.5)
    def itself() -> ec.Metric:
        return ec.Metric(update=lambda values: None, compute=lambda: 0.5)

    return itself


BARE: dict[str, Callable[[], ec.Target]] = {
    **{name: lambda name=name: stub_of(name, bare) for name in VALUES},  # type: ignore[misc]
    "a sample of one value": _single,
    "a reference that is the metric itself": _own_reference,
}


@pytest.mark.parametrize("name", BARE)
@pytest.mark.slow(every=3)
def test_a_value_that_is_none_is_not_green_where_samples_offer_no_control(name: str) -> None:
    report = ec.run(BARE[name](), effort="quick")
    assert not report.ok, report.verdict.line


def session(project: Project, way: Session, monkeypatch: pytest.MonkeyPatch) -> Result:
    if way.conftest:
        (project.path / "conftest.py").write_text(way.conftest)
    if way.ini:
        project.pytester.makeini(f"[pytest]\n{way.ini}")
    if way.source:
        project.write(way.source)
    write(project, way.files)
    if way.later is not None:
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "one"), ("tag", "v1")):
            user = ("-c", "user.name=tester", "-c", "user.email=tester", "-c", "commit.gpgsign=false")
            subprocess.run(["git", *user, *arguments], cwd=project.path, check=True)
        write(project, way.later)
    for name, text in way.environment.items():
        monkeypatch.setenv(name, text)
    return project.spawn("--evalcheck", *way.arguments) if way.spawn else project.run(*way.arguments)


def write(project: Project, files: Mapping[str, str]) -> None:
    for name, source in files.items():
        (project.path / name).parent.mkdir(exist_ok=True)
        if source == "gone":
            (project.path / name).unlink()
        elif name.endswith(".py") and source and "pytest.skip" not in source:
            project.write(source, name=name, header=None if name.startswith("ev") and "/" not in name else "")
        else:
            (project.path / name).write_text(source)


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.slow(every=4)
def test_a_session_is_not_green(project: Project, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    way = SESSIONS[name]
    result = session(project, way, monkeypatch)
    result.shows(*way.says)
    assert result.code == (way.code or 1), result.output
    if result.code != 4:
        agree(result)


@pytest.mark.parametrize("name", SAID)
@pytest.mark.slow(every=3)
def test_a_green_session_says_what_was_left_out(project: Project, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    way = SAID[name]
    result = session(project, way, monkeypatch)
    result.shows(*way.says)
    assert result.code == 0, result.output
    agree(result)


def test_without_a_terminal_the_exit_code_says_it(project: Project) -> None:
    assert project.write(BROKEN).run(ONE, "-p", "no:terminal").code == 1
    assert project.write(CORRECT).run(ONE, "-p", "no:terminal").code == 0


@pytest.mark.parametrize("option", ["-qq", "--no-summary", "--no-header", "-rN"])
def test_a_quiet_run_says_it_too(project: Project, option: str) -> None:
    agree(project.write(BROKEN).run(ONE, option))


def test_looking_is_no_run(project: Project) -> None:
    project.write(BROKEN)
    for option in ("--collect-only", "--fixtures"):
        assert "evalcheck: " not in project.run(option, code=0).text.splitlines()[-1]
    project.write("@ec.metric(inputs=3)\ndef wrong(device): pass\n", name="evalcheck_other.py")
    assert project.run("--collect-only").code != 0


@pytest.mark.parametrize("option", ["--lf", "--ff", "--sw"])
def test_failed_first_without_failures_tries_everything(project: Project, option: str) -> None:
    arguments = ("-p", "no:randomly", "--evalcheck", ONE, option)
    made = project.write(BROKEN).pytester.runpytest_inprocess(*arguments)
    assert made.ret in (1, 2)
    assert made.outlines[-1].startswith("evalcheck: not ok: 1 failed")


def test_asserts_that_python_takes_out_are_missed(project: Project) -> None:
    source = '''
    from pytest_evalcheck.kinds.metric.cases import Stream
    from pytest_evalcheck.kinds.metric.subject import MetricSubject
    @ec.check("MY101")
    def asserts(metric: MetricSubject, case: Stream) -> None:
        """Nothing."""
        assert metric.value(case.whole) == -1
    @ec.metric(inputs=numbers, extra_checks=[asserts])
    def mean(device): return ec.Metric.of(Mean())
    '''
    project.write(source)
    arguments = ("-m", "pytest", "--evalcheck", "--evalcheck-select=MY101", "-p", "no:cacheprovider")
    made = project.pytester.run(__import__("sys").executable, "-O", *arguments)
    assert made.ret == 1
    assert made.outlines[-1].startswith("evalcheck: not ok: 1 failed")


def test_a_replay_of_another_code_is_not_green(project: Project) -> None:
    from dataclasses import make_dataclass

    from pytest_evalcheck.reports.case_codec import encode_case

    case = make_dataclass("Case", ["rows"])([1])
    result = project.write(CORRECT).run(f"--evalcheck-replay={encode_case('EC101', case)}", code=5)
    agree(result)


@pytest.mark.parametrize("option", ["--ignore=evalcheck_other.py", "--ignore-glob=*other*"])
def test_an_optional_name_may_be_required_by_a_file_that_is_ignored(project: Project, option: str) -> None:
    project.write(CORRECT).write(metric("inputs=numbers, requires=('no-such-thing',)"), name="evalcheck_other.py")
    project.run(ONE, "--evalcheck-optional=no-such-thing", option, code=0).lacks("evalcheck_optional names")


@pytest.mark.parametrize(
    "use", [bool, lambda report: not report, lambda report: report or 1], ids=["bool", "not", "or"]
)
def test_a_report_is_no_truth_value(use: Callable[[Any], Any]) -> None:
    @ec.metric(inputs=numbers)
    def stub() -> ec.Metric:
        return ec.Metric(update=lambda values: None, compute=lambda: 1.0)

    with pytest.raises(TypeError, match="has no truth value"):
        use(ec.run(stub, select="EC201", effort="quick"))


def test_every_row_of_the_page_is_a_test() -> None:
    page = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| .* \| (\d) \| (`.*`) \|$", page, re.M)
    without = len(re.findall(r"^\| .* \| 2; 3 \| \|$", page, re.M))  # an interrupt, and an internal error of pytest
    assert len(rows) + without == len(re.findall(r"^\| .* \| \d.* \|$", page, re.M)) > 30
    for code, names in rows:
        for name in re.findall(r"`([^`]+)`", names):
            known = {"a mistake": 1, "a lost target": 1, **{way: one.code or 1 for way, one in SESSIONS.items()}}
            assert {**known, **dict.fromkeys(SAID, 0)}[name] == int(code), name


def test_there_are_more_than_120_ways() -> None:
    assert len(MISTAKES) + len(LOST) + len(VALUES) + len(BARE) + len(SESSIONS) >= 120

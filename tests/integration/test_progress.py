"""Progress in the terminal: a line that is updated, failures as they happen, stalled cells by name."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from target_files import BROKEN, CORRECT

from pytest_evalcheck.integration.process.stall_watch import StallWatch
from pytest_evalcheck.integration.screen import progress
from pytest_evalcheck.integration.screen.progress import Estimate, roughly
from pytest_evalcheck.testing import Project

ROOT = Path(__file__).resolve().parents[2]
ONE = "--evalcheck-select=EC201"
WAYS = [(), ("-n", "2"), ("--evalcheck-run=in-process",)]
SCREEN = "smallest input"
HEADLINE = re.compile(r"^_+ mean_of_means\.splitting_a_stream_does_not_change_the_value\[cpu\] _+$", re.M)
SLOW = """
import time
@ec.metric(inputs=numbers)
def slow(device):
    time.sleep(0 if hasattr(ec, "slept") else 1.5)
    ec.slept = True
    return ec.Metric.of(Mean())
"""
NAMED = r"^evalcheck_example.py::slow::splitting_a_stream_does_not_change_the_value\[cpu\] has been running for {} s$"

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="checks run in forked processes on Linux alone")
ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way) or "supervised")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "no:randomly", "-p", "no:cacheprovider", *arguments]


# Failures as they happen.


@ways
@pytest.mark.slow(every=3)
def test_a_screen_is_printed_while_later_cells_have_not_run(project: Project, way: tuple[str, ...]) -> None:
    waits = """
    import pathlib, time
    @ec.metric(inputs=numbers, timeout=120)
    def waits(device):
        until = time.monotonic() + 100
        while time.monotonic() < until and not pathlib.Path(__file__).with_name("go").exists():
            time.sleep(0.05)
        return ec.Metric.of(Mean())
    """
    project.write(BROKEN, waits)
    run = subprocess.Popen(command("--evalcheck", ONE, *way), cwd=project.path, stdout=subprocess.PIPE, text=True)
    assert run.stdout is not None
    try:
        before = ""
        for line in run.stdout:
            before += line
            if line.startswith("reproduce "):
                break
        assert run.poll() is None, before
        (project.path / "go").touch()
        after, _ = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode == 1
    assert HEADLINE.search(before)
    assert SCREEN in before
    assert "samples=[0, 0, 1]" in before
    assert SCREEN not in after
    assert "FAILURES" not in before + after
    for text in ("1 passed, 1 failed", "FAILED evalcheck_example.py::mean_of_means", "1 failed, 1 passed", "not ok"):
        assert text in after


def test_ordinary_tests_are_reported_as_ever(project: Project) -> None:
    project.write("def test_fails():\n    one = 1\n    assert one == 2\n", name="test_ordinary.py", header="")
    result = project.write(BROKEN).run(ONE, "--evalcheck-with-tests", code=1)
    cells, tests = result.text.split("= FAILURES =")
    assert cells.count(SCREEN) == 1
    assert SCREEN not in tests
    assert "assert 1 == 2" in tests
    assert "assert 1 == 2" not in cells
    assert result.outcomes == {"failed": 2}


def test_without_the_option_nothing_is_printed_or_moved(project: Project) -> None:
    project.write("def test_fails():\n    assert 1 == 2\n", name="test_ordinary.py", header="")
    result = project.run(code=1, evalcheck=False)
    result.lacks("checks", " red", "left")
    assert "assert 1 == 2" in result.text.split("= FAILURES =")[1]


@pytest.mark.parametrize(("option", "sections"), [("--tb=no", 0), ("--tb=line", 1), ("--no-summary", 0)])
def test_who_asks_for_no_screens_gets_none(project: Project, option: str, sections: int) -> None:
    result = project.write(BROKEN).run(ONE, option, code=1)
    assert not HEADLINE.search(result.text)
    assert result.text.count("= FAILURES =") == sections
    result.shows("1 failed")


def test_everything_else_about_a_failure_stays(project: Project) -> None:
    prints = """
    import pytest
    @pytest.fixture
    def shared():
        yield 1
        print("printed by the teardown")
    @ec.metric(inputs=numbers)
    def prints(device, shared):
        print("printed by the target")
        return ec.Metric.of(MeanOfMeans())
    """
    project.write(prints, CORRECT)
    result = project.run(ONE, "-rA", "--junitxml=junit.xml", code=1)
    assert result.text.count("Captured stdout call") == 1
    assert result.text.count("Captured stdout teardown") == 1
    result.shows("printed by the target", "printed by the teardown", "PASSED evalcheck_example.py::mean::")
    result.shows("FAILED evalcheck_example.py::prints::")
    (case,) = xml.etree.ElementTree.parse(project.path / "junit.xml").iterfind(".//testcase[failure]")
    assert SCREEN in (case[0].text or "") + "".join(each.text or "" for each in case)
    result = project.run(ONE, "--show-capture=no", code=1)
    result.lacks("printed by the target", "printed by the teardown")
    assert result.text.count(SCREEN) == 1


def test_errors_of_fixtures_are_shown_when_they_happen(project: Project) -> None:
    source = """
    import pytest
    @pytest.fixture
    def missing():
        raise RuntimeError("no such data set")
    @ec.metric(inputs=numbers)
    def needs(device, missing): return ec.Metric.of(Mean())
    """
    result = project.write(source, CORRECT).run(ONE, code=1)
    assert len(re.findall(r"^_+ ERROR at setup of needs\.\w+\[cpu\] _+$", result.text, re.M)) == 1
    assert result.text.index("ERROR at setup of") < result.text.index("= evalcheck =")
    result.lacks("= ERRORS =").shows("ERROR evalcheck_example.py::needs::")


def test_x_and_lf_and_resume(project: Project) -> None:
    project.write(BROKEN, CORRECT, BROKEN.replace("def mean_of_means", "def again"))
    cache = ["-p", "cacheprovider"]
    assert project.run(ONE, *cache, "-x", code=1).text.count(SCREEN) == 1
    result = project.run(ONE, *cache, "--evalcheck-report=jsonl=cells.jsonl", code=1)
    assert result.text.count(SCREEN) == 2
    assert project.run(ONE, *cache, "--lf", code=1).text.count(SCREEN) == 2
    again = project.run(ONE, "--evalcheck-resume=cells.jsonl", code=1)
    assert again.text.count(SCREEN) == 2
    assert again.text.index(SCREEN) < again.text.index("= evalcheck =")


def test_a_run_without_a_terminal_reporter_ends_the_same(project: Project) -> None:
    result = project.write(BROKEN, CORRECT).run(ONE, "-p", "no:terminal", code=1).assert_outcomes(passed=1, failed=1)
    result.lacks(SCREEN)


def test_the_plugin_can_be_taken_out(project: Project) -> None:
    result = project.write(BROKEN).run(ONE, "-p", "no:pytest_evalcheck_progress", code=1)
    assert SCREEN in result.text.split("= FAILURES =")[1]


# Stalled cells.


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "STALLED", (0.3, 0.9, 60.0))


@pytest.mark.usefixtures("soon")
@on_linux
@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: " ".join(way) or "supervised")
@pytest.mark.slow(every=2)
def test_a_stalled_cell_is_named_once_at_each_time(project: Project, way: tuple[str, ...]) -> None:
    result = project.write(CORRECT, SLOW).run(ONE, *way, code=0)
    for seconds in ("0.3", "0.9"):
        assert len(re.findall(NAMED.format(seconds), result.text, re.M)) == 1, result.text
    assert result.text.index("has been running for 0.9 s") < result.text.index("= evalcheck =")
    result.lacks("has been running for 60 s")
    project.run(ONE, "-qq", *way, code=0).lacks("has been running")


IN_PROCESS = """
from pytest_evalcheck.integration.screen import progress
progress.STALLED = (0.3, 60.0)
"""


@on_linux
def test_in_the_process_of_pytest_a_hang_that_holds_the_lock_of_python_is_named(project: Project) -> None:
    holds = """
    import ctypes, os, threading
    @ec.metric(inputs=numbers)
    def slow(device):
        assert threading.active_count() == 1
        try:
            os.wait()
        except ChildProcessError:
            pass  # no child of pytest is there to wait for
        if not hasattr(ec, "slept"):
            ec.slept = True
            ctypes.PyDLL(None).usleep(900_000)
        return ec.Metric.of(Mean())
    """
    project.write(IN_PROCESS, name="conftest.py", header="").write(CORRECT, holds)
    result = project.spawn("--evalcheck", "--evalcheck-run=in-process", ONE, code=0)
    assert len(re.findall(NAMED.format("0.3"), result.text, re.M)) == 1, result.text
    assert result.text.index("has been running") < result.text.index("= evalcheck =")
    result.lacks("for 60 s")


@on_linux
def test_the_process_that_names_a_cell_ends_with_pytest(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as terminal:
        watch = StallWatch(terminal)
        assert watch._process is not None
        program = f"{os.getpid()}"
        watch.expect([(0.05, "first\n"), (0.1, "second \N{SNOWMAN}\n")])
        wait_for(lambda: "second" in (tmp_path / "out").read_text())
        watch.expect([(0.2, "never\n")])
        watch.expect([])
        found = processes("stall_watch.py", program)
        assert len(found) == 1
        watch.close()
        wait_for(lambda: not processes("stall_watch.py", program))
        time.sleep(0.2)
        assert (tmp_path / "out").read_text() == "first\nsecond \N{SNOWMAN}\n"
        watch.expect([(0.0, "closed\n")])


def test_a_pipe_that_code_under_test_replaced_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as terminal, (tmp_path / "other").open("w") as other:
        watch = StallWatch(terminal)
        assert watch._pipe is not None
        kept = os.dup(watch._pipe)
        os.dup2(other.fileno(), watch._pipe)
        watch.expect([(0.0, "into another file\n")])
        os.dup2(kept, watch._pipe)
        os.close(kept)
        watch.close()
    assert (tmp_path / "other").read_text() == ""


def wait_for(condition: Any) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until and not condition():
        time.sleep(0.02)
    assert condition()


def processes(*words: str) -> list[int]:
    """The processes whose command line has all of these words."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            arguments = path.read_bytes().decode(errors="replace")
            if all(word in arguments for word in words):
                found.append(int(path.parent.name))
    return found


@on_linux
def test_a_terminal_that_keeps_pytest_waiting_takes_no_time_from_a_cell(project: Project) -> None:
    project.write(
        """
        import time
        def pytest_collection_finish(session):
            waits = [6.0]
            def wait():
                time.sleep(waits.pop()) if waits else None
            session.config.pluginmanager.getplugin("pytest_evalcheck_session").meanwhile.append(wait)
        """,
        name="conftest.py",
        header="",
    )
    source = "@ec.metric(inputs=numbers, timeout=2)\ndef mean(device):\n    return ec.Metric.of(Mean())\n"
    project.write(source).run(ONE, code=0).assert_outcomes(passed=1)


# The line.


@pytest.mark.usefixtures("soon")
@pytest.mark.slow
def test_without_a_terminal_a_plain_line_now_and_then(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(BROKEN, CORRECT, CORRECT.replace("def mean", "def again"))
    pattern = re.compile(r"^\d+ of 6 checks, [01] red(, a few seconds left)?$", re.M)
    assert not pattern.search(project.run("--evalcheck-select=EC201,EC205", code=1).text)
    monkeypatch.setattr(progress, "PLAIN_EVERY", 0.0)
    for way in ((), ("-n", "1")):
        result = project.run("--evalcheck-select=EC201,EC205", *way, code=1)
        found = [match.group() for match in pattern.finditer(result.text)]
        assert found, result.text
        assert [int(line.split()[0]) for line in found] == sorted(int(line.split()[0]) for line in found)
        assert any("1 red" in line for line in found)
        assert "6 of 6" not in result.text
    assert not pattern.search(project.run("--evalcheck-select=EC201,EC205", "-qq", code=1).text)


pty = pytest.importorskip("pty")


def screen_of(project: Project, *arguments: str, variables: dict[str, str] | None = None) -> str:
    """Return what a run of pytest writes to a terminal of 100 columns."""
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    known = {name: value for name, value in os.environ.items() if name not in ("CI", "COLUMNS", "NO_COLOR")}
    environment = {**known, "TERM": "xterm", **(variables or {})}
    line = command(*arguments)
    run = subprocess.Popen(line, cwd=project.path, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    timer = threading.Timer(120, run.kill)
    timer.start()
    data = b""
    with contextlib.suppress(OSError):  # the last process that had the terminal has ended
        while chunk := os.read(ours, 65536):
            data += chunk
    os.close(ours)
    run.wait()
    timer.cancel()
    return re.sub(r"\x1b\[[\d;]*m", "", data.decode()).replace("\r\n", "\n")


def shown(text: str) -> str:
    """Return what is left in the terminal: a carriage return writes over its line."""

    def lines() -> Iterator[str]:
        for line in text.split("\n"):
            row = ""
            for part in line.split("\r"):
                row = part + row[len(part) :]
            yield row.rstrip()

    return "\n".join(lines())


@ways
@pytest.mark.slow(every=3)
def test_in_a_terminal_one_line_is_written_over(project: Project, way: tuple[str, ...]) -> None:
    project.write(IN_PROCESS, name="conftest.py", header="")
    project.write(BROKEN, SLOW, CORRECT)
    text = screen_of(project, "--evalcheck", "--evalcheck-select=EC201,EC205", *way)
    counts = re.findall(r"\r(\d) of 6 checks, (\d) red", text)
    assert counts, text
    assert counts[0] == ("0", "0"), text
    assert ("1", "1") in counts or ("2", "1") in counts or way == ("-n", "2")
    assert [int(done) for done, _ in counts] == sorted(int(done) for done, _ in counts)
    left = shown(text)
    assert " of 6 checks" not in left, left
    assert len(re.findall(NAMED.format("0.3"), left, re.M)) == 1, left
    assert left.count(SCREEN) == 1
    assert HEADLINE.search(left)
    assert "FAILURES" not in left
    assert not re.search(r"^evalcheck_example.py [.F]", left, re.M), "pytest's own progress is there as well"
    assert re.search(r"^=+ 1 failed, 5 passed in .* =+$", left, re.M)


@pytest.mark.parametrize(
    "option",
    [
        "-s",
        "-v",
        "-qq",
        "--capture=tee-sys",
        "--evalcheck-with-tests",
        "-oconsole_output_style=classic",
        "-olog_cli=true",
    ],
)
@pytest.mark.slow(every=4)
def test_where_a_line_cannot_be_written_over_pytest_shows_its_own_progress(project: Project, option: str) -> None:
    project.write(CORRECT)
    assert " of 1 checks" not in screen_of(project, "--evalcheck", ONE, option)


@pytest.mark.slow
def test_no_line_in_a_terminal_that_cannot_move_its_cursor_or_where_nothing_runs(project: Project) -> None:
    project.write(CORRECT).write("def test_one(): pass\n", name="test_one.py", header="")
    assert " of 1 checks" in screen_of(project, "--evalcheck", ONE)
    assert " of 1 checks" not in screen_of(project, "--evalcheck", ONE, variables={"TERM": "dumb"})
    assert " of " not in screen_of(project, "--evalcheck", ONE, "--collect-only")
    assert " checks" not in screen_of(project, "test_one.py")


# The time left.


def report(nodeid: str, seconds: float, *, resumed: bool = False) -> Any:
    return SimpleNamespace(nodeid=nodeid, duration=seconds, start=0.0, stop=0.0 if resumed else seconds)


def advanced(estimate: Estimate, ids: list[str], seconds: float, **more: Any) -> Estimate:
    estimate.begin(100.0)
    for nodeid in ids:
        estimate.add(report(nodeid, seconds, **more))
        estimate.end(nodeid)
    return estimate


CELLS = [f"evalcheck_x.py::target_{i // 10}::check_{i % 10}[cpu]" for i in range(100)]


@pytest.mark.parametrize("workers", [1, 4])
def test_the_time_left_follows_what_runs_at_once(workers: int) -> None:
    half = advanced(Estimate(CELLS), CELLS[:50], 1.0)
    assert half.done == 50
    assert half.seconds(100.0 + 50.0 / workers) == pytest.approx(50.0 / workers)


def test_the_last_cell_needs_its_time_with_any_number_of_workers() -> None:
    estimate = advanced(Estimate(CELLS), CELLS[:99], 1.0)
    assert estimate.seconds(100.0 + 99 / 8) == pytest.approx(1.0)


def test_cells_of_a_resumed_file_took_no_time_in_this_run() -> None:
    estimate = advanced(Estimate(CELLS), CELLS[:80], 3.0, resumed=True)
    assert estimate.seconds(103.0) is None
    advanced(estimate, CELLS[80:90], 3.0)
    assert estimate.seconds(130.0) == pytest.approx(30.0)


def test_the_first_cell_of_a_target_that_imports_its_library_says_little_about_the_others() -> None:
    estimate = advanced(Estimate(CELLS), CELLS[:50], 0.1)
    advanced(estimate, CELLS[50:51], 20.0)
    left = estimate.seconds(125.0)
    assert left is not None
    assert left < 30.0


def test_cells_like_those_that_ran_count_like_them() -> None:
    quick, heavy = [f"a.py::a::check_{i}[cpu]" for i in range(50)], [f"b.py::b::check_{i}[cpu]" for i in range(50)]
    estimate = advanced(advanced(Estimate(quick + heavy), quick[:25], 0.1), heavy[:25], 10.0)
    left = estimate.seconds(100.0 + 252.5)
    assert left is not None
    assert 200 < left < 320


def test_no_time_is_named_before_something_is_known() -> None:
    assert advanced(Estimate(CELLS), CELLS[:4], 10.0).seconds(140.0) is None
    assert advanced(Estimate(CELLS), CELLS[:5], 10.0).seconds(150.0) is not None
    many = [f"evalcheck_x.py::target_{i}::check[cpu]" for i in range(1000)]
    assert advanced(Estimate(many), many[:49], 10.0).seconds(590.0) is None
    assert advanced(Estimate(CELLS), CELLS[:10], 0.001).seconds(110.0) is None
    assert advanced(Estimate(CELLS), CELLS, 1.0).seconds(200.0) is None


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "a few seconds left"),
        (9.9, "a few seconds left"),
        (14.9, "about 10 s left"),
        (59.0, "about 1 min left"),
        (101.0, "about 1 min 40 s left"),
        (598.0, "about 10 min left"),
        (1490.0, "about 25 min left"),
        (3590.0, "about 1 h left"),
        (7800.0, "about 2 h 10 min left"),
    ],
)
def test_a_time_in_words_is_as_coarse_as_an_estimate(seconds: float, said: str) -> None:
    assert roughly(seconds) == said

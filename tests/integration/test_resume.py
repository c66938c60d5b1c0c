"""Cells are written as they end, and a run goes on from the file of one that was ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from target_files import BROKEN, CORRECT

from pytest_evalcheck.integration.known.baseline import FILE
from pytest_evalcheck.reports import ReportError, jsonl
from pytest_evalcheck.testing import Project, Result

ROOT = Path(__file__).resolve().parents[2]
SELECT = "--evalcheck-select=EC201,EC205"
COUNTS = """
import pathlib
@ec.metric(inputs=numbers)
def counted(device):
    with pathlib.Path(__file__).with_name("built").open("a") as file:
        file.write("x")
    return ec.Metric.of(Mean())
"""


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def built(project: Project) -> int:
    path = project.path / "built"
    size = path.stat().st_size if path.exists() else 0
    path.unlink(missing_ok=True)
    return size


@pytest.fixture
def done(project: Project) -> Project:
    """A project whose cells are in the file ``cells.jsonl``."""
    project.write(CORRECT, BROKEN, COUNTS)
    project.run(SELECT, "--evalcheck-report=jsonl=cells.jsonl", code=1).assert_outcomes(passed=5, failed=1)
    assert built(project)
    return project


def resumed(project: Project, *arguments: str, code: int = 1) -> Result:
    return project.run(SELECT, "--evalcheck-resume", "cells.jsonl", *arguments, code=code)


def test_a_file_has_a_header_all_cells_and_the_end(done: Project) -> None:
    head, *cells, end = lines(done.path / "cells.jsonl")
    assert head["schema"] == jsonl.SCHEMA
    assert head["versions"]
    assert [sorted(line) for line in cells] == [["check", "id", "source"]] * 6
    assert end["end"]["ok"] is False  # type: ignore[index]


def test_cells_of_the_file_are_not_run_again_and_count_in_everything(done: Project) -> None:
    before = (done.path / "cells.jsonl").read_text().splitlines()[:7]
    result = resumed(done, "--junitxml=junit.xml").assert_outcomes(passed=5, failed=1)
    assert not built(done)
    assert result.outcomes == {"passed": 5, "failed": 1}
    assert (done.path / "cells.jsonl").read_text().splitlines()[:7] == before
    assert len(lines(done.path / "cells.jsonl")) == 8
    assert 'tests="6"' in (done.path / "junit.xml").read_text()
    result.shows("mean_of_means")


def test_cells_that_are_missing_are_run_and_added(done: Project) -> None:
    path = done.path / "cells.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]) + '{"id": "evalcheck_exam')
    resumed(done).assert_outcomes(passed=5, failed=1)
    assert len(jsonl.load(path)[1]) == 6
    assert len(lines(path)) == 7


@pytest.mark.parametrize("more", [("-n", "2"), ("--evalcheck-run=in-process",)], ids=" ".join)
@pytest.mark.slow(every=2)
def test_resuming_in_workers_and_in_one_process(
    done: Project, more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    path = done.path / "cells.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    done.spawn("--evalcheck", SELECT, "--evalcheck-resume", "cells.jsonl", *more, code=1).assert_outcomes(
        passed=5, failed=1
    )
    assert len(jsonl.load(path)[1]) == 6


def test_a_changed_target_is_run_again_and_the_run_says_so(done: Project) -> None:
    source = done.path / "evalcheck_example.py"
    source.write_text(source.read_text() + "\n# changed\n")
    result = resumed(done).assert_outcomes(passed=5, failed=1)
    result.shows("resumed: 6 checks were run again, because evalcheck_example.py has changed")
    assert built(done)


def test_cells_that_had_no_time_are_run_again(done: Project) -> None:
    path = done.path / "cells.jsonl"
    path.write_text(path.read_text().replace('"outcome": "passed"', '"outcome": "incomplete"'))
    resumed(done).assert_outcomes(passed=5, failed=1).shows("because they were incomplete")


def test_what_the_baseline_is_about_is_run_again(done: Project) -> None:
    assert not (done.path / FILE).exists()
    accepting = resumed(done, "--evalcheck-known=accept", code=0).assert_outcomes(passed=5, known=1)
    accepting.shows("resumed: 1 check was run again, because --evalcheck-known=accept needs what fails")
    again = resumed(done, code=0).assert_outcomes(passed=5, known=1)
    again.shows("resumed: 1 check was run again, because the baseline may have changed")
    (done.path / FILE).unlink()
    resumed(done).assert_outcomes(passed=5, failed=1)


def test_an_entry_that_does_not_fail_is_pruned_in_a_resumed_run(done: Project) -> None:
    resumed(done, "--evalcheck-known=accept", code=0)
    done.write(CORRECT, CORRECT.replace("def mean(", "def mean_of_means("), COUNTS)
    resumed(done).assert_outcomes(passed=5, failed=1)  # it is stale, and the file says so
    resumed(done, "--evalcheck-known=prune", code=0).assert_outcomes(passed=6)
    resumed(done, code=0).assert_outcomes(passed=6)


def test_a_resumed_file_can_be_written_anew(done: Project) -> None:
    resumed(done, "--evalcheck-report=jsonl=new.jsonl")
    assert jsonl.load(done.path / "new.jsonl")[1] == jsonl.load(done.path / "cells.jsonl")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--evalcheck-effort=quick"], "the effort of .* is 'normal', but this run has 'quick'"),
        (["--evalcheck-device=cpu"], r"the devices of .* is \['auto'\]"),
        (["--evalcheck-replay=eNqr"], "replay"),
    ],
)
def test_a_file_of_another_run_is_refused(done: Project, arguments: list[str], says: str) -> None:
    result = resumed(done, *arguments, code=4)
    assert re.search(says, result.output), result.output


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "has no header"),
        (b"{}\n", "its schema is None"),
        (b"\x89PNG\n", "is not JSON"),
        (b'{"schema": "pytest-evalcheck/3"}\n', "its schema is 'pytest-evalcheck/3'"),
        (b'HEAD\n{"check": {"kind": 3}}\n', "line 2"),
        (b"HEAD\n[1]\n", "line 2 of .* is neither a check nor the end of a run"),
        (b'HEAD\nnonsense\n{"end": {}}\n', "line 2 of .* is not JSON"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "cells.jsonl"
    path.write_bytes(content.replace(b"HEAD", json.dumps({"schema": jsonl.SCHEMA}).encode()))
    with pytest.raises(ReportError, match=says):
        jsonl.load(path)


def test_a_missing_file_is_a_usage_error(project: Project) -> None:
    project.write(CORRECT).run("--evalcheck-resume", "nowhere.jsonl", code=4).shows("nowhere.jsonl")


def test_other_versions_are_refused(done: Project) -> None:
    path = done.path / "cells.jsonl"
    path.write_text(path.read_text().replace('"hypothesis": "', '"hypothesis": "0.', 1))
    resumed(done, code=4).shows("was written with hypothesis 0.", "start a new file")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_run_that_is_killed_leaves_what_was_done(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    project.write(
        CORRECT,
        "import time, pathlib\n",
        BROKEN.replace("return", "time.sleep(0 if pathlib.Path('go').exists() else 60); return"),
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--evalcheck", SELECT]
    run = subprocess.Popen([*command, "--evalcheck-report=jsonl=cells.jsonl"], cwd=project.path)
    path = project.path / "cells.jsonl"
    until = time.monotonic() + 120
    while time.monotonic() < until and not (path.exists() and path.read_text().count("\n") >= 3):
        time.sleep(0.05)
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert [line.cell.outcome for line in jsonl.load(path)[1].values()] == ["passed", "passed"]
    (project.path / "go").touch()
    project.spawn("--evalcheck", SELECT, "--evalcheck-resume", "cells.jsonl", code=1).assert_outcomes(
        passed=3, failed=1
    )


HIDES_NAN = """
floats = es.samples(st.integers(0, 9), collate=lambda rows: ([float(row) for row in rows],), name="floats",
                    corrupted=lambda row, number: number, wrong=lambda row: row + 1, contrast=(1, 2))

class HidesNan(Mean):
    def update(self, values):
        super().update([value for value in values if value == value])

@ec.metric(inputs=floats)
def hides_nan(device):
    return ec.Metric.of(HidesNan())
"""


@pytest.mark.parametrize(
    "found", [HIDES_NAN, HIDES_NAN.replace("[value for value in values if value == value]", "values")]
)
def test_a_case_with_a_nan_is_written_once(project: Project, found: str) -> None:
    """A NaN differs from itself, and three reports of an item carry one check."""
    project.write(found)
    options, failed = ["--evalcheck-select=EC216", "--evalcheck-device=cpu"], found is HIDES_NAN
    project.run(*options, "--evalcheck-report=jsonl=cells.jsonl", code=int(failed))
    head, cell, end = lines(project.path / "cells.jsonl")
    assert cell["check"]["outcome"] == ("failed" if failed else "passed")  # type: ignore[index]
    project.run(*options, "--evalcheck-resume=cells.jsonl", code=int(failed))
    assert lines(project.path / "cells.jsonl") == [head, cell, end]

"""Cells as tasks of Dask and Ray: what one process gives, whatever happens to workers, and clear errors."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import interruptible
from target_files import BROKEN, CORRECT

from pytest_evalcheck.integration.process import cluster_client, cluster_worker, clusters, spawned
from pytest_evalcheck.integration.process.cluster_client import ClusterError, Lost, Schedule, require_same_versions
from pytest_evalcheck.testing import Project

ROOT = Path(__file__).resolve().parents[2]
SELECT = "--evalcheck-select=EC201,EC205"
LIBRARIES = ("dask", "ray")
HOSTILE = """
import ctypes, os
@ec.metric(inputs=numbers)
def crashes(device):
    ctypes.string_at(0)
@ec.metric(inputs=numbers)
def leaves(device):
    os._exit(0)
@ec.metric(inputs=numbers, timeout=3)
def hangs(device):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue
"""
KILLS = """
import os, pathlib, signal

def parents(pid):
    while pid > 1:
        pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        yield pid

@ec.metric(inputs=numbers)
def kills_its_worker(device):
    try:
        pathlib.Path(__file__).with_name("killed").touch(exist_ok=False)
    except FileExistsError:
        return ec.Metric.of(Mean())
    for pid in parents(os.getpid()):
        line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        if line.startswith(b"ray::") or b"multiprocessing.spawn" in line:
            os.kill(pid, signal.SIGKILL)
            break
    return ec.Metric.of(Mean())
"""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="workers are found in /proc"),
    pytest.mark.filterwarnings("ignore"),  # those of the clusters are not ours
]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> str:
    mark = uuid.uuid4().hex
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("EVALCHECK_TEST_MARK", mark)
    return mark


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster of Dask with one worker."""
    distributed = pytest.importorskip("distributed")
    os.environ["PYTHONPATH"] = str(ROOT)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        yield cluster.scheduler_address


def options(library: str, *more: str) -> list[str]:
    pytest.importorskip("distributed" if library == "dask" else library)
    return ["--evalcheck", SELECT, f"--evalcheck-run={library}:workers=2", *more]


def comparable(project: Project) -> dict[str, Any]:
    """The cells without durations, and the order of what pytest reports; where a hang was found is up to the clock."""
    report = json.loads((project.path / ".evalcheck" / "report.json").read_text(encoding="utf-8"))
    for cell in report["checks"]:
        del cell["seconds"]
    names = re.findall(r'<testcase classname="([^"]*)" name="([^"]*)"', (project.path / "junit.xml").read_text())
    hostile = [cell for cell in report["checks"] if cell.get("cause") in ("hang", "died")]
    return {
        "checks": [cell for cell in report["checks"] if cell not in hostile],
        "hostile": [(cell["target"], cell["check"], cell["outcome"], cell["cause"]) for cell in hostile],
        "names": names,
    }


def left(mark: str) -> list[str]:
    """The processes of a test that still run."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if folder.name != str(os.getpid()) and mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " ")[:150])
        except OSError:
            continue
    return [line for line in found if line]


def none_left(mark: str) -> None:
    until = time.monotonic() + 60
    while left(mark) and time.monotonic() < until:
        time.sleep(0.2)
    assert not left(mark)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.slow(every=2)
def test_a_cluster_gives_what_one_process_gives(library: str, project: Project, environment: str) -> None:
    project.write(CORRECT, BROKEN, BROKEN.replace("mean_of_means", "another"), HOSTILE)
    project.spawn("--evalcheck", SELECT, "--junitxml=junit.xml", code=1).assert_outcomes(passed=4, failed=8)
    expected = comparable(project)
    result = project.spawn(*options(library, "--junitxml=junit.xml"), code=1).assert_outcomes(passed=4, failed=8)
    assert comparable(project) == expected
    assert not result.errors
    none_left(environment)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.slow(every=2)
def test_a_worker_that_is_killed_costs_no_cell(library: str, project: Project) -> None:
    project.write(CORRECT, KILLS, BROKEN)
    project.spawn(*options(library), code=1).assert_outcomes(passed=5, failed=1)
    assert (project.path / "killed").exists()


@pytest.mark.slow
def test_a_cluster_at_an_address_is_left_as_it_was(scheduler: str, project: Project, environment: str) -> None:
    project.write(CORRECT, BROKEN)
    arguments = ["--evalcheck", SELECT, f"--evalcheck-run=dask:{scheduler}"]
    first = project.spawn(*arguments, "--evalcheck-report=jsonl=cells.jsonl", code=1).assert_outcomes(
        passed=3, failed=1
    )
    first.lacks("resumed")
    lines = (project.path / "cells.jsonl").read_text().splitlines(keepends=True)
    (project.path / "cells.jsonl").write_text("".join(lines[:3]))
    project.spawn(*arguments, "--evalcheck-resume=cells.jsonl", code=1).assert_outcomes(passed=3, failed=1)
    after = (project.path / "cells.jsonl").read_text().splitlines()
    ids = [[read["id"] for read in map(json.loads, part) if "id" in read] for part in (lines, after)]
    assert ids[0] == ids[1]
    none_left(environment)


@pytest.mark.slow
def test_a_stalled_cell_is_named(scheduler: str, project: Project) -> None:
    project.write(
        "from pytest_evalcheck.integration.screen import progress; progress.STALLED = (1, 60)",
        name="conftest.py",
        header="",
    )
    project.write(
        CORRECT, BROKEN.replace("return", "import time; time.sleep(0 if hasattr(ec, 'x') else 3); ec.x = 1; return")
    )
    result = project.spawn("--evalcheck", "--evalcheck-select=EC201", f"--evalcheck-run=dask:{scheduler}", code=1)
    assert result.text.count("has been running for 1 s") == 1, result.text
    result.shows("mean_of_means::splitting_a_stream_does_not_change_the_value[cpu] has been running for 1 s")


def test_workers_with_other_versions_are_refused(
    scheduler: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "versions", lambda: {**_versions(), "torch": "9.9.9"})
    project.write(CORRECT)
    result = project.run(SELECT, f"--evalcheck-run=dask:{scheduler}", code=4)
    result.shows(
        "workers of dask differ from the process of pytest", "instead of 9.9.9", "pytest ended in a usage error"
    )


def _versions() -> dict[str, str | None]:
    from pytest_evalcheck.reports import json as reports_json

    return reports_json.versions()


def test_what_differs_at_workers_is_named() -> None:
    expected = {"python": "3.11.7", "pytest-evalcheck": "0.1.0", "torch": "2.13.0"}
    good = {**expected, "package": True, "folder": True}
    require_same_versions("dask", {"w1": good}, expected)
    found = {
        "w1": good,
        "w2": {**good, "torch": None},
        "w3": {**good, "package": False},
        "w4": {**good, "folder": False},
    }
    with pytest.raises(ClusterError) as raised:
        require_same_versions("dask", found, expected)
    lines = str(raised.value).splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["w2", "w3", "w4"]
    assert "torch not at all instead of 2.13.0" in lines[0]
    assert "lacks pytest-evalcheck 0.1.0" in lines[1]
    assert "lacks the folder" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--evalcheck-run=dask:tcp://127.0.0.1:9"], ["no process listens at tcp://127.0.0.1:9", "dask scheduler"]),
        (["--evalcheck-run=ray:127.0.0.1:9"], ["no process listens at 127.0.0.1:9", "ray start --head"]),
        (
            ["--evalcheck-run=dask:tcp://no.such.host.invalid:8786"],
            ["no process listens at tcp://no.such.host.invalid"],
        ),
        (
            ["--evalcheck-run=dusk"],
            ["--evalcheck-run=dusk; expected supervised, isolated, in-process, dask", "did you mean 'dask'"],
        ),
        (["--evalcheck-run=dask", "-n", "2"], ["use one of them"]),
        (["--evalcheck-run=dask", "--pdb"], ["a debugger needs items in this process"]),
        (["--evalcheck-run=dask:workers=0"], ["expected a number of local workers from 1 to 1024", "dask:workers=4"]),
        (["--evalcheck-run=dask:worker=2"], ["expected a number of local workers from 1 to 1024", "dask:workers=4"]),
        (["--evalcheck-run=ray:workers=two"], ["expected a number of local workers from 1 to 1024", "ray:workers=4"]),
    ],
    ids=lambda value: " ".join(value)[:40],
)
def test_what_cannot_be_meant_is_a_usage_error(project: Project, arguments: list[str], says: list[str]) -> None:
    started = time.monotonic()
    project.write(CORRECT).run(*arguments, code=4).shows(*says).lacks("internal error")
    assert time.monotonic() - started < 30


def test_the_options_need_evalcheck(project: Project) -> None:
    project.run("--evalcheck-run=dask", code=4, evalcheck=False).shows("does nothing without --evalcheck")


def test_a_library_that_is_missing_is_named_with_its_command(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    (project.path / "stubs" / "distributed").mkdir(parents=True)
    (project.path / "stubs" / "distributed" / "__init__.py").write_text("raise ImportError('not here')")
    monkeypatch.setenv("PYTHONPATH", f"{project.path / 'stubs'}{os.pathsep}{ROOT}")
    result = project.write(CORRECT).spawn("--evalcheck", SELECT, "--evalcheck-run=dask", code=4)
    result.shows("--evalcheck-run=dask needs distributed (not here): pip install 'distributed>=")


def test_only_looking_starts_no_cluster(project: Project) -> None:
    project.write(CORRECT).run("--collect-only", "--evalcheck-run=dask:tcp://127.0.0.1:9", code=0)


def test_an_interrupt_leaves_no_process(project: Project, environment: str) -> None:
    project.write(
        CORRECT,
        "import time, pathlib\n",
        BROKEN.replace("return", "pathlib.Path('on').touch(); time.sleep(50); return"),
    )
    reports = ["--evalcheck-report=json=report.json", "--evalcheck-report=jsonl=cells.jsonl"]
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", *options("dask"), *reports]
    with interruptible(command, project.path) as run:
        until, written = time.monotonic() + 120, project.path / "cells.jsonl"
        while time.monotonic() < until and not (
            (project.path / "on").exists() and written.exists() and written.read_text().count('"passed"') == 2
        ):
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        text, _ = run.communicate(timeout=60)
    assert run.returncode == 2, text
    assert "the run was interrupted" in text
    kept = json.loads((project.path / "report.json").read_text())["checks"]
    assert [cell["outcome"] for cell in kept] == ["passed", "passed"]
    none_left(environment)


# A worker without a cluster.


def asked(project: Project, **more: Any) -> dict[str, Any]:
    name = "evalcheck_example.py"
    ids = [
        f"{name}::mean::{check}[cpu]"
        for check in ("splitting_a_stream_does_not_change_the_value", "compute_is_idempotent")
    ]
    return {
        "key": uuid.uuid4().hex,
        "arguments": ["-p", "no:randomly", "--evalcheck", SELECT],
        "folder": str(project.path),
        "path": list(sys.path),
        "environment": {},
        "workerinput": {},
        "ids": spawned._digest_of_ids(ids),
        "files": {name: serving_digest(project.path / name)},
        "nodeid": ids[0],
        **more,
    }


def serving_digest(path: Path) -> str:
    from pytest_evalcheck.reports.jsonl import digest

    return digest(str(path))


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"ids": "0"}, "it collects other checks than this run"),
        ({"files": {"evalcheck_example.py": "0"}}, "evalcheck_example.py is another file than in this run"),
        ({"files": {"evalcheck_other.py": "0"}}, "evalcheck_other.py is missing"),
        ({"folder": "/nowhere/at/all"}, "there is no folder /nowhere/at/all"),
        ({"arguments": ["--evalcheck", "--no-such-option"]}, "unrecognized arguments: --no-such-option"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_a_worker_says_why_it_cannot_run_the_cells(project: Project, more: dict[str, Any], says: str) -> None:
    project.write(CORRECT)
    run = asked(project, **more)
    answer = cluster_worker.run_item(run, run["nodeid"], None)
    assert says in answer["refused"]["text"]
    if more.get("ids"):
        assert len(answer["refused"]["ids"]) == 2
    cluster_worker.end_run(run["key"])


@pytest.mark.slow
def test_one_pytest_serves_item_after_item_and_another_one_follows_where_it_died(project: Project) -> None:
    project.write(CORRECT)
    run = asked(project)
    try:
        kinds = []
        for _ in range(2):
            messages = cluster_worker.run_item(run, run["nodeid"], None)["messages"]
            kinds.append([message[0] for message in messages])
        assert kinds == [["report"] * 3] * 2
        (process,) = cluster_worker._waiting[run["key"]]
        os.kill(process.pid, signal.SIGKILL)
        while not process.gone:
            time.sleep(0.01)
        assert cluster_worker.run_item(run, run["nodeid"], None)["messages"]
        assert cluster_worker._waiting[run["key"]] != [process]
    finally:
        cluster_worker.end_run(run["key"])
    assert not cluster_worker._waiting.get(run["key"])


# The schedule, with tasks that do as they are told.


class FakeTasks:
    """Tasks whose results ``answer(nodeid, try, beside)`` gives."""

    def __init__(self, answer: Callable[[str, int, set[str]], dict[str, Any]], slots: int = 2) -> None:
        self.answer, self.workers = answer, slots
        self.tries: Counter[str] = Counter()
        self.running: deque[tuple[int, str]] = deque()

    def slots(self) -> int:
        return self.workers

    def submit(self, run: Any, nodeid: str, following: str | None) -> int:
        self.tries[nodeid] += 1
        self.running.append((sum(self.tries.values()), nodeid))
        return self.running[-1][0]

    def done(self, seconds: float) -> Any:
        if not self.running or not self.workers:
            time.sleep(0.01)
            return None
        ticket, nodeid = self.running.popleft()
        beside = {other for _, other in self.running}
        return ticket, lambda: self.answer(nodeid, self.tries[nodeid], beside)


def results(tasks: FakeTasks, count: int = 10, **more: Any) -> list[Any]:
    sent: list[Any] = []
    Schedule(tasks, {}, [(str(n), None) for n in range(count)], **more).results(  # type: ignore[arg-type]
        lambda *message: sent.append(message), lambda: False
    )
    return sent


def test_a_worker_that_dies_costs_a_try() -> None:
    def answer(nodeid: str, number: int, beside: set[str]) -> dict[str, Any]:
        if number == 1:
            raise Lost("w1")
        return {"messages": [nodeid]}

    tasks = FakeTasks(answer)
    assert sorted(results(tasks)) == [("item", n, [str(n)]) for n in range(10)]
    assert set(tasks.tries.values()) == {2}


def test_only_the_item_at_which_workers_die_is_blamed() -> None:
    def answer(nodeid: str, number: int, beside: set[str]) -> dict[str, Any]:
        if nodeid == "3" or "3" in beside:
            raise Lost("w1")
        return {"messages": [nodeid]}

    tasks = FakeTasks(answer)
    sent = results(tasks)
    assert [message[:2] for message in sent if message[0] == "died"] == [("died", 3)]
    assert sorted(message[1] for message in sent) == list(range(10))
    assert tasks.tries["3"] == cluster_client.MOST_DEATHS


def test_a_pytest_that_dies_at_a_worker_counts_as_its_worker() -> None:
    sent = results(FakeTasks(lambda nodeid, *_: {"died": "exit code -9"} if nodeid == "0" else {"messages": []}), 3)
    assert ("died", 0, "exit code -9") in sent
    assert len(sent) == 3


def test_a_cluster_without_workers_ends_the_run_and_keeps_what_there_is() -> None:
    tasks = FakeTasks(lambda nodeid, *_: {"messages": [nodeid]})

    def answer(nodeid: str, number: int, beside: set[str]) -> dict[str, Any]:
        tasks.workers = 0
        return {"messages": [nodeid]}

    tasks.answer = answer
    sent: list[Any] = []
    schedule = Schedule(tasks, {}, [("0", None), ("1", None)], patience=0.1)  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match=r"has had no worker for 0\.1 seconds"):
        schedule.results(lambda *message: sent.append(message), lambda: False)
    assert sent == [("item", 0, ["0"])]


def test_an_error_of_a_task_ends_the_run() -> None:
    def answer(nodeid: str, number: int, beside: set[str]) -> dict[str, Any]:
        raise ModuleNotFoundError("No module named 'pytest_evalcheck'")

    with pytest.raises(ClusterError, match="a task ended in an error: ModuleNotFoundError: No module named"):
        results(FakeTasks(answer))

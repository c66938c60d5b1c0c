from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from pathlib import Path

import pytest
import scoring_cases as cases

from pytest_evalcheck.fixes.scoring import SetupError, backends, score_documents, stream_scores

pytest.importorskip("joblib")
pytest.importorskip("pebble")


def away(score, documents, **options):
    return score_documents(score, documents, **{"backend": "processes", "n_jobs": 2, "errors": "record", **options})


def here(score, documents):
    return score_documents(score, documents, backend="serial", errors="record")


@pytest.mark.parametrize("score", [cases.mixed, cases.drawing, cases.drawing_sometimes, cases.drawing_from_numpy])
def test_processes_give_what_one_gives(score):
    documents = cases.numbered(120)
    for options in ({}, {"chunk": 1}, {"chunk": 17, "window": 5}, {"n_jobs": 1}):
        assert repr(list(away(score, documents, **options))) == repr(list(here(score, documents)))


def test_documents_are_scored_elsewhere_by_as_many_workers_as_asked():
    assert os.getpid() not in away(cases.process, cases.numbered(4), n_jobs=1)
    assert away(cases.doubled, cases.numbered(1), n_jobs=3) == [0]
    assert away(cases.doubled, []) == []


def test_lambdas_and_closures_can_be_sent():
    factor = 3
    assert away(lambda document: factor * document["n"], cases.numbered(5)) == [0, 3, 6, 9, 12]


def test_errors_that_cannot_be_pickled_survive_as_text():
    scores = away(cases.raising, [{"id": 1, "kind": "awkward"}, {"id": 2, "kind": "lock"}])
    assert [str(error) for error in scores.errors] == [
        "document 0 (id 1): Awkward: went wrong (3)",
        "document 1 (id 2): Unpicklable: held",
    ]
    assert all("scoring_cases.py" in error.traceback and error.__cause__ is None for error in scores.errors)


def test_documents_and_scores_that_cannot_be_pickled_fail_alone():
    documents = [{"n": 0}, {"n": 1, "held": threading.Lock()}, {"n": 2}, {"n": 3}]
    scores = away(cases.unsendable_score, documents, chunk=4)
    assert [scores[0], scores[3]] == [0, 3]
    assert [error.kind for error in scores.errors] == ["sending", "sending"]
    assert "the document could not be pickled" in scores.errors[0].message
    assert "its score, of type generator, could not be pickled" in scores.errors[1].message


def test_a_worker_that_ends_is_the_fault_of_one_document():
    documents = cases.numbered(30)
    documents[11]["leave"] = True
    scores = away(cases.leaving, documents)
    assert [*scores[:11], *scores[12:]] == [*range(11), *range(12, 30)]
    (error,) = scores.errors
    assert (error.index, error.document_id, error.kind) == (11, "d11", "died")
    assert "the process that scored it ended (exit code 7)" in error.message
    assert scores.report.lost_workers == 3


def test_a_worker_that_is_killed_once_loses_no_document(tmp_path):
    documents = cases.numbered(30)
    documents[4]["mark"] = str(tmp_path / "killed")
    scores = away(cases.killed_once, documents)
    assert (scores, scores.report.lost_workers) == (list(range(30)), 1)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no alarms")
def test_a_document_that_takes_too_long_is_stopped():
    documents = cases.numbered(12)
    documents[3]["hang"] = "sleep"
    scores = away(cases.hanging, documents, timeout=0.3)
    assert [*scores[:3], *scores[4:]] == [0, 1, 2, *range(4, 12)]
    assert (scores.errors[0].index, scores.errors[0].kind, scores.report.lost_workers) == (3, "timeout", 0)


def test_a_document_that_does_not_react_ends_with_its_process():
    documents = cases.numbered(12)
    documents[3]["hang"] = "deaf"
    scores = away(cases.hanging, documents, timeout=0.3)
    assert [*scores[:3], *scores[4:]] == [0, 1, 2, *range(4, 12)]
    assert (scores.errors[0].kind, scores.report.lost_workers) == ("timeout", 1)
    assert "did not react" in scores.errors[0].message


def test_a_time_limit_means_processes():
    assert score_documents(cases.doubled, cases.numbered(3), n_jobs=2, timeout=5).report.backend == "processes"


def test_documents_that_are_slow_enough_go_to_workers():
    documents = [{"n": number, "seconds": 0.05} for number in range(60)]
    scores = score_documents(cases.leaving, documents, n_jobs=2)
    assert (scores, scores.report.backend, scores.report.n_jobs) == (list(range(60)), "processes", 2)


def test_a_module_that_no_import_finds_travels_along(tmp_path):
    # As lm-eval loads the file beside a task's YAML: under its path, which is no name of a module.
    import importlib.util

    path = tmp_path / "utils.py"
    path.write_text("def helper(n):\n    return n + 1\n\ndef score(document):\n    return helper(document['n'])\n")
    name = str(path.with_suffix(""))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    try:
        assert away(module.score, cases.numbered(3)) == [1, 2, 3]
    finally:
        del sys.modules[name]


def test_a_function_that_no_worker_finds_is_told(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def score(document):\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    from only_here import score

    (tmp_path / "only_here.py").unlink()
    with pytest.raises(SetupError, match=r"cannot be loaded in a worker \(ModuleNotFoundError"):
        away(score, [1, 2])


def test_a_stream_that_is_left_early_ends_quietly():
    with stream_scores(cases.doubled, cases.numbered(500), backend="processes", n_jobs=2, chunk=1) as stream:
        assert next(stream) == 0
    assert away(cases.doubled, cases.numbered(3)) == [0, 2, 4]


INTERRUPTED = """
import signal
import sys
import threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts what is in the background without it
sys.path[:0] = {path!r}
import scoring_cases as cases
from pytest_evalcheck.fixes.scoring import score_documents
documents = [{{"n": number, "trace": {trace!r}}} for number in range(2000)]
score_documents(cases.leaving_a_trace, documents, backend="processes", n_jobs=2, cache={cache!r}, chunk=1,
                version="1")
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted in /proc")
def test_an_interrupt_leaves_no_process_and_keeps_what_was_finished(tmp_path):
    program = INTERRUPTED.format(
        path=[str(Path(__file__).parent), *sys.path], trace=str(tmp_path / "trace"), cache=str(tmp_path / "scores")
    )
    run = subprocess.Popen([sys.executable, "-c", program], start_new_session=True, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: (tmp_path / "trace").exists() and (tmp_path / "trace").stat().st_size > 20)
        os.killpg(run.pid, signal.SIGINT)
        _, errors = run.communicate(timeout=30)
        assert "KeyboardInterrupt" in errors
        wait_for(lambda: not members(run.pid))
    finally:
        for process in members(run.pid):
            os.kill(process, signal.SIGKILL)
    with sqlite3.connect(tmp_path / "scores") as file:
        (kept,) = file.execute("SELECT COUNT(*) FROM scores").fetchone()
    file.close()
    assert 5 <= kept <= (tmp_path / "trace").stat().st_size


def wait_for(condition):
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def members(session):
    """Running processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(path.parent.name))
    return found


def test_workers_that_are_killed_at_any_time_lose_no_document():
    documents = [{"n": number, "seconds": 0.01} for number in range(150)]
    scores = []
    for number, score in enumerate(stream_scores(cases.leaving, documents, backend="processes", n_jobs=2, chunk=5)):
        scores.append(score)
        if number in (20, 80):
            os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    assert scores == list(range(150))


def test_idle_workers_that_are_killed_between_two_runs_are_replaced():
    pids = set(away(cases.process, cases.numbered(40)))
    assert pids & set(away(cases.process, cases.numbered(40))), "workers are used again"
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGKILL)
    again = away(cases.process, cases.numbered(40))
    assert not again.errors
    assert not pids & set(again)


def test_a_pool_that_ended_without_an_answer_is_replaced(monkeypatch):
    """Simulate a last process that is gone already, unnoticed by pebble when the documents were sent."""
    real, opened = backends._processes, []

    def processes(jobs):
        opened.append(jobs)
        if len(opened) > 1:
            return real(jobs)
        return lambda *_: Future(), lambda idle: None, lambda: True

    monkeypatch.setattr(backends, "_processes", processes)
    scores = away(cases.doubled, cases.numbered(6))
    assert scores == [0, 2, 4, 6, 8, 10]
    assert len(opened) == 2


def test_idle_workers_end_after_a_while(monkeypatch):
    monkeypatch.setattr("pytest_evalcheck.fixes.scoring.backends.IDLE_SECONDS", 0.2)
    pids = set(away(cases.process, cases.numbered(4), n_jobs=3))
    wait_for(lambda: not pids & {child.pid for child in multiprocessing.active_children()})
    assert away(cases.doubled, cases.numbered(3), n_jobs=3) == [0, 2, 4]


def test_workers_that_die_before_they_score_are_an_error_of_the_run():
    with pytest.raises(SetupError, match="workers ended 5 times in a row before they scored anything"):
        away(EndsWorkers(), cases.numbered(3))


class EndsWorkers:
    """Ends the process that unpickles it."""

    def __call__(self, document):
        return document

    def __reduce__(self):
        return os._exit, (3,)


def test_two_streams_at_a_time_do_not_disturb_each_other():
    streams = [stream_scores(each, cases.numbered(200), backend="processes", n_jobs=2) for each in (cases.doubled, len)]
    for number, pair in enumerate(zip(*streams, strict=True)):
        assert pair == (2 * number, 2)


def test_within_a_worker_no_processes_are_started():
    def inner(document):
        report = score_documents(cases.doubled, cases.numbered(3), backend="processes", n_jobs=2).report
        return report.backend, report.why

    assert set(away(inner, cases.numbered(4))) == {("serial", "within a worker no processes are started")}


def test_documents_ahead_are_bounded_by_the_window():
    read, taken = [], 0

    def documents():
        for each in cases.numbered(300):
            read.append(each)
            yield each

    for _ in stream_scores(cases.doubled, documents(), backend="processes", n_jobs=2, window=12, chunk=3):
        taken += 1
        assert len(read) - taken <= 24, "the window, and the block whose scores are being taken"
    assert taken == 300


SCRIPT = """
import os
from pytest_evalcheck.fixes.scoring import score_documents
class Answer:
    def __init__(self, number): self.number = number
def score(document): return document.number, os.getpid() != {pid}
print(score_documents(score, [Answer(1), Answer(2)], backend="processes", n_jobs=2), flush=True)
"""


def test_a_script_without_a_main_guard_can_score_what_it_defines(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(pid=0))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, tmp_path / "script.py"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (run.stdout, run.stderr) == ("[(1, True), (2, True)]\n", "")

from __future__ import annotations

import functools
import math
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import scoring_cases as cases
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evalcheck.fixes.scoring import (
    DocumentError,
    ScoringError,
    SetupError,
    document_seed,
    score_documents,
    stream_scores,
)

LOCAL = ("serial", "threads", "auto")


def recorded(score, documents, **options):
    return score_documents(score, documents, errors="record", **options)


@pytest.mark.parametrize("backend", LOCAL)
def test_scores_come_in_document_order(backend):
    def later_ones_are_faster(document):
        threading.Event().wait(0.02 / (1 + document))
        return document

    assert score_documents(later_ones_are_faster, range(12), backend=backend, n_jobs=3) == list(range(12))


@pytest.mark.parametrize("backend", LOCAL)
@given(count=st.integers(0, 40), jobs=st.integers(1, 5), chunk=st.integers(1, 50), window=st.integers(1, 50))
@settings(max_examples=15, deadline=None)
def test_no_cut_changes_a_score(backend, count, jobs, chunk, window):
    documents = cases.numbered(count)
    plain = recorded(cases.mixed, documents, backend="serial", chunk=1)
    cut = recorded(cases.mixed, iter(documents), backend=backend, n_jobs=jobs, chunk=chunk, window=window)
    assert repr(list(cut)) == repr(list(plain))
    assert len(cut) == count
    assert [error.index for error in cut.errors] == [number for number in range(count) if number % 7 == 6]


@pytest.mark.parametrize("backend", LOCAL)
def test_an_error_names_its_document_and_loses_no_other_score(backend):
    with pytest.raises(ScoringError) as raised:
        score_documents(cases.mixed, cases.numbered(9), backend=backend, n_jobs=2)
    (error,) = raised.value.errors
    assert (error.index, error.document_id, error.kind, error.error) == (6, "d6", "raised", "ValueError")
    assert isinstance(error.__cause__, ValueError)
    assert "document 6 (id 'd6'): ValueError: no 6" in str(raised.value)
    assert 'raise ValueError(f"no {number}")' in str(raised.value), "the trace of the worker is told"
    assert raised.value.scores[:1] + raised.value.scores[7:8] == [0.0, (7, "x")]


def test_a_stream_raises_in_turn_or_records():
    stream = stream_scores(cases.mixed, cases.numbered(9), backend="serial", chunk=4)
    taken = []
    with pytest.raises(DocumentError, match="document 6"):
        taken.extend(stream)
    assert len(taken) == 6
    assert (
        sum(
            isinstance(each, DocumentError)
            for each in stream_scores(cases.mixed, cases.numbered(9), backend="serial", errors="record")
        )
        == 1
    )


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), GeneratorExit(), RecursionError()], ids=repr)
@pytest.mark.parametrize("backend", LOCAL)
def test_whatever_is_raised_is_a_failure_of_its_document(backend, error):
    def score(document):
        if document == 1:
            raise error
        return document

    scores = recorded(score, range(4), backend=backend, n_jobs=2)
    assert [scores[0], *scores[2:]] == [0, 2, 3]
    assert scores.errors[0].error == type(error).__name__


def test_an_interrupt_is_not_a_failure():
    def score(document):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        recorded(score, range(4), backend="serial")


def test_an_exception_without_a_text_is_told():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    def score(document):
        raise Mute

    assert "Mute" in str(recorded(score, [1], backend="serial").errors[0])


@pytest.mark.parametrize("backend", LOCAL)
def test_documents_are_read_once_in_the_thread_that_takes_the_scores(backend):
    readers, read = set(), []

    def documents():
        for number in range(300):
            readers.add(threading.get_ident())
            read.append(number)
            yield number

    assert score_documents(abs, documents(), backend=backend, n_jobs=2, chunk=3) == list(range(300))
    assert read == list(range(300))
    assert readers == {threading.get_ident()}


@pytest.mark.parametrize("backend", ["serial", "threads"])
def test_no_more_than_the_window_is_read_ahead(backend):
    ahead, taken = [], 0

    def documents():
        for number in range(200):
            ahead.append(number - taken)
            yield number

    for _ in stream_scores(abs, documents(), backend=backend, n_jobs=2, window=10, chunk=2):
        taken += 1
    assert taken == 200
    assert max(ahead) <= 12, "the window, and the chunk whose scores are being taken"


def test_an_error_of_the_documents_comes_after_the_scores_before_it():
    def documents():
        yield from (1, 2, 3)
        raise OSError("the file ended")

    taken = []
    with pytest.raises(OSError, match="the file ended"):
        taken.extend(stream_scores(abs, documents(), backend="threads", n_jobs=2))
    for score in stream_scores(abs, iter([1, 2, 3]), backend="threads", n_jobs=2):
        taken.append(score)
    assert taken[-3:] == [1, 2, 3]


@pytest.mark.parametrize("backend", LOCAL)
def test_no_documents_make_no_scores(backend):
    scores = score_documents(cases.doubled, [], backend=backend, n_jobs=3)
    assert (scores, scores.report.documents) == ([], 0)


@pytest.mark.parametrize(
    ("scores", "nan"),
    [
        ([1.0, math.inf, -math.inf], []),
        ([1, math.nan, True], [1]),
        ([math.inf, -math.inf, math.nan], [2]),
        ([10**400, 1.0, math.nan], [2]),
        (["nan", None, math.nan], [2]),
        ([1e308, 1e308, -1e308], []),
        ([], []),
    ],
)
def test_whatever_the_scores_are_nan_is_found(scores: list[Any], nan: list[int]):
    assert score_documents(scores.__getitem__, range(len(scores)), seed=None).nan == nan


def test_nan_is_kept_and_told():
    scores = score_documents(lambda number: {"a": math.nan} if number == 2 else 0 * number, [1.0, math.nan, 2])
    assert scores.nan == [1, 2]
    assert math.isnan(scores[1])


def test_few_small_documents_are_scored_here_and_it_is_said_why():
    report = score_documents(cases.doubled, cases.numbered(2000), n_jobs=2).report
    assert (report.backend, report.computed, report.n_jobs) == ("serial", 2000, 1)
    assert "a document takes" in report.why


@pytest.mark.skipif(
    not Path("/proc/thread-self/schedstat").exists(), reason="it is not counted how long a thread waits"
)
def test_the_load_of_the_machine_is_no_reason_to_start_workers():
    here = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(here)})
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]  # on the same core
    try:
        reports = [score_documents(cases.doubled, cases.numbered(2000), n_jobs=2).report for _ in range(5)]
    finally:
        for process in busy:
            process.kill()
            process.wait()
        os.sched_setaffinity(0, here)
    assert [report.backend for report in reports] == ["serial"] * 5, [report.why for report in reports]


def test_one_slow_document_is_no_reason_to_start_workers():
    seen: list[int] = []

    def imports_at_first(number: int) -> int:
        if not seen:
            time.sleep(0.1)
        seen.append(number)
        return number

    report = score_documents(imports_at_first, range(500), n_jobs=2, seed=None).report
    assert (report.backend, len(seen)) == ("serial", 500)


def test_more_workers_than_documents():
    assert score_documents(cases.doubled, cases.numbered(2), backend="threads", n_jobs=7) == [0, 2]


def test_within_joblib_workers_no_processes_are_started():
    joblib = pytest.importorskip("joblib")

    def inner(_):
        return score_documents(abs, [-1, -2], n_jobs=2).report.backend

    with joblib.parallel_config("loky"):
        assert score_documents(abs, [-1], n_jobs=2) == [1]
    assert joblib.Parallel(2, backend="threading")(joblib.delayed(inner)(each) for each in range(2)) == ["serial"] * 2


# Random numbers


def test_draws_depend_on_the_document_alone():
    documents = cases.numbered(300)
    scores = score_documents(cases.drawing, documents, backend="serial")
    mixed = random.Random(1).sample(documents, len(documents))
    again = score_documents(cases.drawing, mixed, backend="serial", chunk=7)
    assert sorted(again) == list(scores)
    assert len({number for _, number in scores}) == 300
    assert score_documents(cases.drawing, documents[5:6], backend="serial") == scores[5:6]
    assert score_documents(cases.drawing, documents, backend="serial", seed=1) != scores


def test_a_function_that_draws_seldom_is_noticed():
    documents = cases.numbered(1000)
    scores = score_documents(cases.drawing_sometimes, documents, backend="serial")
    alone = score_documents(cases.drawing_sometimes, documents[341:342], backend="serial")
    assert scores[341:342] == alone
    assert len({score for score in scores if isinstance(score, float)}) == 10


@pytest.mark.parametrize("score", [cases.drawing, cases.drawing_sometimes, cases.doubled])
def test_the_generators_are_given_back(score):
    numpy = pytest.importorskip("numpy")
    random.seed(5), numpy.random.seed(5), torch.manual_seed(5)
    expected = random.random(), numpy.random.random(), torch.rand(()).item()
    random.seed(5), numpy.random.seed(5), torch.manual_seed(5)
    for _ in stream_scores(score, cases.numbered(200), backend="serial", chunk=50):
        pass
    assert (random.random(), numpy.random.random(), torch.rand(()).item()) == expected


def test_numpy_and_torch_are_seeded_too():
    numpy = pytest.importorskip("numpy")

    def score(document):
        return float(numpy.random.random()), torch.rand(()).item(), random.random()

    first, second = (score_documents(score, [1, 2], backend="serial") for _ in range(2))
    assert first == second
    assert len({number for each in first for number in each}) == 6


def test_draws_in_threads_are_warned_of():
    with pytest.warns(RuntimeWarning, match="drawn from the global generators"):
        score_documents(cases.drawing, cases.numbered(4), backend="threads", n_jobs=2)
    score_documents(cases.drawing, cases.numbered(4), backend="threads", n_jobs=2, seed=None)


def test_seeds_follow_content():
    assert document_seed(0, {"a": [1, 2]}) == document_seed(0, {"a": [1, 2]}) != document_seed(0, {"a": [2, 1]})
    assert document_seed(0, {"a": {1, 2}, "b": 1j}) == document_seed(0, {"b": 1j, "a": {2, 1}})
    assert isinstance(document_seed(0, threading.Lock()), int)
    assert document_seed(3, "\ud800") != document_seed(4, "\ud800")


# Bad input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "proceses"}, "did you mean 'processes'"),
        ({"backend": "loki"}, "did you mean 'processes'"),
        ({"backend": "threading"}, "did you mean 'threads'"),
        ({"n_jobs": 0}, "-1 for all cores, got 0"),
        ({"n_jobs": 1.5}, "n_jobs: expected a whole number"),
        ({"errors": "ignore"}, "expected one of 'raise', 'record'"),
        ({"chunk": "big"}, '"auto" or a number of documents'),
        ({"chunk": 0}, "chunk: expected .* 1 or more, got 0"),
        ({"window": -1}, "window: expected .* 1 or more, got -1"),
        ({"seed": "x"}, "seed: expected a whole number"),
        ({"timeout": -1}, "above 0"),
        ({"timeout": 1, "backend": "threads"}, "nothing can stop one"),
        ({"timeout": 1, "backend": "serial"}, "nothing can stop one"),
        ({"depends_on": "numpy"}, "a list of functions, .* or a mapping of names to values, got 'numpy'"),
        ({"depends_on": 3}, "a mapping of names to values, got 3"),
        ({"version": ["1"]}, r"version: expected a text or a number, got \['1'\]"),
        ({"version": ""}, "version: expected a text or a number, got ''"),
        ({"version": True}, "version: expected a text or a number, got True"),
        ({"cache": 3}, "a path or a ScoreCache"),
        ({"document_id": 3}, "a key or a function"),
    ],
)
def test_a_wrong_option_is_refused_with_the_right_one(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        score_documents(cases.doubled, cases.numbered(2), **options)


@pytest.mark.parametrize(
    ("score", "documents", "message"),
    [
        ("len", [1], "score: expected a function"),
        (len, "text", "got one str"),
        (len, {"id": 1}, "got one dict"),
        (len, 3, "an iterable of documents, got int"),
    ],
)
def test_wrong_arguments_are_refused(score, documents, message):
    with pytest.raises(TypeError, match=message):
        score_documents(score, documents)


def test_a_function_that_cannot_be_sent_is_told_apart():
    lock = threading.Lock()

    def score(document, *, held):
        return document

    with pytest.raises(
        SetupError, match=r"argument 'held' of the score function \(a lock\) cannot be pickled"
    ) as raised:
        score_documents(functools.partial(score, held=lock), [1, 2], backend="processes", n_jobs=2)
    assert 'backend="threads"' in str(raised.value)
    assert score_documents(functools.partial(score, held=lock), [1, 2], backend="threads", n_jobs=2) == [1, 2]


def test_a_document_that_is_written_into_fails_where_it_is_guarded():
    scores = recorded(cases.writing, cases.numbered(4), backend="serial", guard=True)
    assert [scores[0], scores[1], scores[3]] == [0, 1, 3]
    assert (scores.errors[0].kind, scores.errors[0].message) == (
        "changed",
        "the score function wrote into its document: 'seen'",
    )
    assert recorded(cases.writing, cases.numbered(4), backend="serial") == [0, 1, 2, 3]


def test_progress_is_told():
    told = []
    score_documents(cases.doubled, cases.numbered(50), backend="threads", n_jobs=2, progress=told.append, chunk=7)
    assert sum(told) == 50


def test_a_bar_is_shown(capsys):
    pytest.importorskip("tqdm")
    score_documents(cases.doubled, cases.numbered(5), backend="serial", progress=True)
    assert "scoring: 100%" in capsys.readouterr().err


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pebble", None)
    message = r"pebble is needed for this and is not installed: pip install 'pytest-evalcheck\[scoring\]'"
    with pytest.raises(ModuleNotFoundError, match=message):
        score_documents(cases.doubled, cases.numbered(2), backend="processes", n_jobs=2)
    scores = score_documents(cases.doubled, cases.numbered(2), n_jobs=2)
    assert (scores, scores.report.backend) == ([0, 2], "serial")
    assert "pip install 'pytest-evalcheck[scoring]'" in scores.report.why
    assert score_documents(cases.doubled, cases.numbered(2), backend="threads", n_jobs=2) == [0, 2]

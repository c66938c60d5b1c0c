"""Files of scores that are damaged, of something else, or cannot be written."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
import scoring_cases as cases

from pytest_evalcheck.fixes.scoring import ScoreCache, score_documents
from pytest_evalcheck.fixes.scoring import cache as cache_module

DOCUMENTS = cases.numbered(200)
EXPECTED = [2 * number for number in range(200)]


def scored(path, score=cases.doubled, documents=DOCUMENTS, **keywords):
    return score_documents(score, documents, cache=path, backend="serial", errors="record", **keywords)


def edit(path, *statements):
    file = sqlite3.connect(path)
    with file:
        for statement, *arguments in statements:
            file.execute(statement, *arguments)
    file.close()


@pytest.fixture
def filled(tmp_path):
    path = tmp_path / "scores"
    assert scored(path).report.computed == 200
    return path


def outcome(path):
    """Return 'scored' for the right scores, 'refused' if the file was refused; raise any other error."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*scores are not kept from here on")
            assert list(scored(path)) == EXPECTED
    except ValueError as error:
        if "is not a file of scores, or is damaged" not in str(error):
            raise
        return "refused"
    return "scored"


def test_a_truncated_file_is_a_clear_error_or_scored_again(filled):
    content = filled.read_bytes()
    seen = set()
    for length in (0, 1, 16, 99, 100, 1000, 4096, 5000, 8192, len(content) - 4096, len(content) - 1):
        filled.write_bytes(content[:length])
        seen.add(outcome(filled))
    assert seen == {"scored", "refused"}


def test_flipped_bytes_are_a_clear_error_or_scored_again(filled):
    content = filled.read_bytes()
    for place in range(0, len(content), 331):
        flipped = bytearray(content)
        flipped[place : place + 8] = bytes(each ^ 0xFF for each in flipped[place : place + 8])
        filled.write_bytes(flipped)
        outcome(filled)


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        (["CREATE TABLE users (name TEXT)"], "it holds users of something else"),
        (["CREATE TABLE scores (player TEXT, points INT)"], "it holds scores of something else"),
        (["CREATE TABLE scores (key BLOB PRIMARY KEY, score BLOB, extra)"], "it holds scores of something else"),
        (["CREATE TABLE scores (key BLOB PRIMARY KEY, score BLOB)", "CREATE TABLE a (b)"], "it holds a, scores"),
        (["CREATE VIEW scores AS SELECT 1 AS key, 2 AS score"], "it holds scores of something else"),
        (["PRAGMA user_version = 99"], "a later release"),
    ],
)
def test_a_data_base_of_something_else_is_refused_and_left_alone(statements, words, tmp_path):
    path = tmp_path / "other"
    edit(path, *((each,) for each in statements))
    before = path.read_bytes()
    for use in (lambda: scored(path), lambda: len(ScoreCache(path)), lambda: ScoreCache(path).put({b"k": 1})):
        with pytest.raises(ValueError, match=words):
            use()
    assert path.read_bytes() == before


def test_a_file_of_an_earlier_release_is_used(tmp_path):
    """It has the table and no number; its keys are others, so its scores are not found."""
    path = tmp_path / "scores"
    edit(
        path,
        ("CREATE TABLE scores (key BLOB PRIMARY KEY, score BLOB)",),
        ("INSERT INTO scores VALUES (?, ?)", (b"key", pickle.dumps(7))),
    )
    assert scored(path).report.computed == 200
    assert scored(path).report.computed == 0


def test_a_folder_and_a_path_below_a_file_are_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "scores"):
        with pytest.raises(ValueError, match="is not a file of scores"):
            scored(path)


def test_rows_of_other_types_are_scored_again(filled):
    edit(filled, ("UPDATE scores SET score = 'text'",))
    assert (list(scored(filled)), scored(filled).report.computed) == (EXPECTED, 0)
    edit(filled, ("UPDATE scores SET score = NULL",))
    assert scored(filled).report.computed == 200
    edit(filled, ("UPDATE scores SET score = x''",))
    assert scored(filled).report.computed == 200


def limited(monkeypatch, statement):
    """Connections on which this statement was executed."""
    connect = sqlite3.connect

    def connected(*arguments, **keywords):
        connection = connect(*arguments, **keywords)
        connection.execute(statement)
        return connection

    monkeypatch.setattr(cache_module.sqlite3, "connect", connected)


def test_a_full_disk_costs_no_score(tmp_path, monkeypatch):
    limited(monkeypatch, "PRAGMA max_page_count = 8")
    documents = cases.numbered(5000)
    with pytest.warns(RuntimeWarning, match=r"full.*scores are not kept from here on"):
        scores = scored(tmp_path / "scores", documents=documents)
    assert list(scores) == [2 * number for number in range(5000)]
    monkeypatch.undo()
    again = scored(tmp_path / "scores", documents=documents)
    assert (list(again), again.report.failed) == (list(scores), 0)


def test_a_file_that_cannot_be_written_costs_no_score(filled, monkeypatch):
    limited(monkeypatch, "PRAGMA query_only = 1")
    more = cases.numbered(300)
    with pytest.warns(RuntimeWarning, match=r"not writable.*scores are not kept from here on"):
        scores = scored(filled, documents=more)
    assert list(scores) == [2 * number for number in range(300)]
    assert scores.report.cached == 200


def test_a_score_of_a_class_that_is_gone_is_scored_again(tmp_path, monkeypatch):
    class Gone(str):
        pass

    monkeypatch.setattr(cases, "Gone", Gone, raising=False)
    Gone.__module__, Gone.__qualname__ = "scoring_cases", "Gone"
    with ScoreCache(tmp_path / "scores") as cache:
        cache.put({b"one": Gone("x"), b"two": 2})
        assert cache.get([b"one", b"two"]) == {b"one": "x", b"two": 2}
        monkeypatch.undo()
        assert cache.get([b"one", b"two"]) == {b"two": 2}


def test_a_score_that_cannot_be_pickled_is_given_and_not_kept(tmp_path):
    def locks(document):
        return threading.Lock() if document["n"] == 1 else document["n"]

    for computed in (3, 1):
        scores = scored(tmp_path / "scores", score=locks, documents=cases.numbered(3), version=1)
        assert (scores[0], type(scores[1]).__name__, scores[2]) == (0, "lock", 2)
        assert (scores.report.computed, scores.report.failed) == (computed, 0)


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
import scoring_cases as cases
from pytest_evalcheck.fixes.scoring import score_documents
documents = cases.numbered(2000)[int(sys.argv[3]) :: 2] + cases.numbered(2000)[:500]
scores = score_documents(cases.doubled, documents, cache=sys.argv[2], backend="serial", chunk=20)
assert list(scores) == [2 * each["n"] for each in documents]
"""


def test_two_processes_write_into_one_file(tmp_path):
    path, here = tmp_path / "scores", Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": str(here.parents[1])}
    running = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(here), str(path), part], env=environment, stderr=-1)
        for part in "01"
    ]
    assert [(each.communicate()[1].decode(), each.returncode) for each in running] == [("", 0), ("", 0)]
    again = scored(path, documents=cases.numbered(2000))
    assert (list(again), again.report.computed) == ([2 * number for number in range(2000)], 0)


def test_every_score_in_the_place_of_another_is_scored_again(filled):
    file = sqlite3.connect(filled)
    rows = file.execute("SELECT key, score FROM scores ORDER BY key").fetchall()
    moved = [(score, key) for (key, _), (_, score) in zip(rows, rows[1:] + rows[:1], strict=True)]
    with file:
        file.executemany("UPDATE scores SET score = ? WHERE key = ?", moved)
    file.close()
    again = scored(filled)
    assert (list(again), again.report.computed) == (EXPECTED, 200)

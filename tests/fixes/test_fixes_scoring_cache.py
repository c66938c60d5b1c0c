from __future__ import annotations

import functools
import sqlite3

import pytest
import scoring_cases as cases

from pytest_evalcheck.fixes.scoring import ScoreCache, ScoringError, score_documents, stream_scores
from pytest_evalcheck.fixes.scoring.fingerprint import fingerprint

pytest.importorskip("joblib")


@pytest.fixture
def cache(tmp_path):
    with ScoreCache(tmp_path / "deeper" / "scores") as cache:
        yield cache


def computed(cache, score=cases.doubled, documents=None, **options):
    documents = cases.numbered(10) if documents is None else documents
    return score_documents(score, documents, cache=cache, backend="serial", errors="record", **options).report.computed


def test_what_was_scored_is_not_scored_again(cache):
    plain = score_documents(cases.mixed, cases.numbered(40), backend="serial", errors="record")
    for expected in (40, 5):  # failures are tried again
        again = score_documents(cases.mixed, cases.numbered(40), cache=cache, backend="serial", errors="record")
        assert repr(list(again)) == repr(list(plain))
        assert (again.report.computed, again.report.cached) == (expected, 40 - expected)
    assert len(cache) == 35


def test_order_and_neighbours_do_not_matter(cache):
    documents = cases.numbered(60)
    whole = score_documents(cases.drawing, documents[::2], cache=cache, backend="serial")
    mixed = score_documents(cases.drawing, documents[::-1], cache=cache.path, backend="serial", chunk=7)
    assert list(mixed)[::-1][::2] == list(whole)
    assert mixed.report.cached == 30


def test_scores_of_unseeded_draws_are_not_kept(cache):
    with pytest.warns(RuntimeWarning, match="cannot be seeded"):
        score_documents(cases.drawing, cases.numbered(20), cache=cache, backend="threads", n_jobs=2)
    assert len(cache) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"score": cases.process},
        {"score": functools.partial(cases.doubled)},
        {"depends_on": {"model": "a"}},
        {"depends_on": {"version": 2}},
        {"seed": 1},
        {"documents": [{**each, "resps": ["a"]} for each in cases.numbered(10)]},
        {"documents": [{**each, "resps": ["a", "a"]} for each in cases.numbered(10)]},
        {"documents": [{"id": each["id"], "n": float(each["n"])} for each in cases.numbered(10)]},
    ],
    ids=["function", "partial", "model", "version", "seed", "responses", "repeats", "types"],
)
def test_another_of_anything_is_another_score(cache, options):
    for expected in (10, 0):
        assert computed(cache, **options) == expected
    assert computed(cache) == 10
    assert computed(cache, depends_on={"model": "a", "version": 2}) == 10
    assert computed(cache, **options) == 0


def made(source, **names):
    """A function of a module of its own, whose source cannot be read."""
    space = {"__name__": "made", **names}
    exec(source, space)
    return space["score"]


@pytest.mark.parametrize(
    "other",
    [
        "LIMIT = 3\ndef helper(n): return n + 1\ndef score(d): return helper(d) < LIMIT",
        "LIMIT = 2\ndef helper(n): return n + 2\ndef score(d): return helper(d) < LIMIT",
        "LIMIT = 2\ndef helper(n): return n + 1\ndef score(d): return helper(d) > LIMIT",
        "LIMIT = 2\ndef helper(n, k=1): return n + 1\ndef score(d): return helper(d) < LIMIT",
    ],
)
def test_a_change_of_what_a_function_uses_changes_its_fingerprint(other):
    first = "LIMIT = 2\ndef helper(n): return n + 1\ndef score(d): return helper(d) < LIMIT"
    assert fingerprint(made(first)) == fingerprint(made(first)) != fingerprint(made(other))


def test_arguments_closures_and_attributes_are_in_the_fingerprint():
    def closed(value):
        return lambda document: document + value

    class Scorer:
        def __init__(self, value):
            self.value = value

        def __call__(self, document):
            return self.value

        def method(self, document):
            return self.value

    for make in (closed, Scorer, lambda value: Scorer(value).method, lambda value: functools.partial(max, value)):
        assert fingerprint(make(1)) == fingerprint(make(1)) != fingerprint(make(2))
    with pytest.raises(TypeError, match="cannot be hashed"):
        fingerprint(closed(each for each in ()))


def test_what_was_finished_is_kept_when_a_stream_is_left(cache):
    stream = stream_scores(cases.doubled, cases.numbered(50), cache=cache, backend="serial", chunk=10)
    next(stream)
    stream.close()
    assert computed(cache, documents=cases.numbered(50)) == 40


def test_a_run_that_raises_keeps_the_other_scores(cache):
    with pytest.raises(ScoringError):
        score_documents(cases.mixed, cases.numbered(7), cache=cache, backend="serial")
    assert len(cache) == 6


def test_another_file_is_refused(tmp_path):
    (tmp_path / "text").write_text("not a data base " * 100)
    with pytest.raises(ValueError, match="text is not a file of scores"):
        score_documents(cases.doubled, cases.numbered(2), cache=tmp_path / "text")
    assert (tmp_path / "text").read_text().startswith("not a data base")


def test_a_cache_survives_its_own_release_only(cache, monkeypatch):
    assert (computed(cache), computed(cache)) == (10, 0)
    monkeypatch.setattr("pytest_evalcheck.fixes.scoring.cache.FORMAT", 2)
    assert computed(cache) == 10
    with sqlite3.connect(cache.path) as file:
        assert file.execute("SELECT COUNT(*) FROM scores").fetchone() == (20,)
    file.close()

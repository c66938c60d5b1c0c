from __future__ import annotations

import functools
import importlib.util
import sqlite3
import sys
import tempfile
from pathlib import Path

import pytest
import scoring_cases as cases

from pytest_evalcheck.fixes.scoring import ScoreCache, ScoringError, score_documents, stream_scores
from pytest_evalcheck.fixes.scoring.dependencies import fingerprint

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
        keywords = {"cache": cache, "version": 1, "backend": "serial", "errors": "record"}
        again = score_documents(cases.mixed, cases.numbered(40), **keywords)
        assert repr(list(again)) == repr(list(plain))
        assert (again.report.computed, again.report.cached) == (expected, 40 - expected)
    assert len(cache) == 35


def test_order_and_neighbours_do_not_matter(cache):
    documents = cases.numbered(60)
    whole = score_documents(cases.drawing, documents[::2], cache=cache, version=1, backend="serial")
    mixed = score_documents(cases.drawing, documents[::-1], cache=cache.path, version=1, backend="serial", chunk=7)
    assert list(mixed)[::-1][::2] == list(whole)
    assert mixed.report.cached == 30


def test_scores_of_unseeded_draws_are_not_kept(cache):
    with pytest.warns(RuntimeWarning, match="cannot be seeded"):
        score_documents(cases.drawing, cases.numbered(20), cache=cache, version=1, backend="threads", n_jobs=2)
    assert len(cache) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"score": cases.process, "version": 1},
        {"score": functools.partial(cases.doubled)},
        {"depends_on": {"model": "a"}},
        {"depends_on": {"version": 2}},
        {"version": 2},
        {"version": "2"},
        {"depends_on": ["json"]},
        {"depends_on": [cases.mixed]},
        {"seed": 1},
        {"documents": [{**each, "resps": ["a"]} for each in cases.numbered(10)]},
        {"documents": [{**each, "resps": ["a", "a"]} for each in cases.numbered(10)]},
        {"documents": [{"id": each["id"], "n": float(each["n"])} for each in cases.numbered(10)]},
    ],
    ids=[
        "function",
        "partial",
        "model",
        "value",
        "number",
        "text",
        "module",
        "helper",
        "seed",
        "responses",
        "repeats",
        "types",
    ],
)
def test_another_of_anything_is_another_score(cache, options):
    for expected in (10, 0):
        assert computed(cache, **options) == expected
    assert computed(cache) == 10
    assert computed(cache, depends_on={"model": "a", "version": 2}) == 10
    assert computed(cache, **options) == 0


def made(source, **names):
    """The fingerprint of a function whose source cannot be read, with what it uses declared."""
    space = {"__name__": "made", **names}
    exec(source, space)
    return fingerprint(space["score"], depends_on=[space["helper"], {"limit": space["LIMIT"]}])


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
    assert made(first) == made(first) != made(other)


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
    # An object without content that can be read counts by its class.
    generators = [closed(each for each in values) for values in ((), (1,))]
    assert fingerprint(generators[0]) == fingerprint(generators[1]) != fingerprint(closed(iter([])))


def test_what_was_finished_is_kept_when_a_stream_is_left(cache):
    stream = stream_scores(cases.doubled, cases.numbered(50), cache=cache, backend="serial", chunk=10)
    next(stream)
    stream.close()
    assert computed(cache, documents=cases.numbered(50)) == 40


def test_a_run_that_raises_keeps_the_other_scores(cache):
    with pytest.raises(ScoringError):
        score_documents(cases.mixed, cases.numbered(7), cache=cache, version=1, backend="serial")
    assert len(cache) == 6


def test_another_file_is_refused(tmp_path):
    (tmp_path / "text").write_text("not a data base " * 100)
    with pytest.raises(ValueError, match="text is not a file of scores"):
        score_documents(cases.doubled, cases.numbered(2), cache=tmp_path / "text")
    assert (tmp_path / "text").read_text().startswith("not a data base")


def test_a_cache_survives_its_own_release_only(cache, monkeypatch):
    assert (computed(cache), computed(cache)) == (10, 0)
    monkeypatch.setattr("pytest_evalcheck.fixes.scoring.cache.FORMAT", 99)
    assert computed(cache) == 10
    with sqlite3.connect(cache.path) as file:
        assert file.execute("SELECT COUNT(*) FROM scores").fetchone() == (20,)
    file.close()


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("import re\nWORD = re.compile('a')", "import re\nWORD = re.compile('b')"),
        ("import numpy\nWORD = numpy.array([1])", "import numpy\nWORD = numpy.array([2])"),
        ("class Config:\n    limit = 1\nWORD = Config()", "class Config:\n    limit = 2\nWORD = Config()"),
        (
            "from types import SimpleNamespace\nWORD = SimpleNamespace(a=1)",
            "from types import SimpleNamespace\nWORD = SimpleNamespace(a=2)",
        ),
        ("from os.path import join as WORD", "from os.path import split as WORD"),
    ],
    ids=["regex", "array", "class", "namespace", "import"],
)
def test_declared_values_are_in_the_fingerprint(first, other, tmp_path):
    score = "\ndef score(document):\n    return WORD, document\n"
    modules = [written(tmp_path, each + score) for each in (first, first, other)]
    one, same, changed = (fingerprint(each.score, depends_on={"word": each.WORD}) for each in modules)
    assert one == same != changed


SCORER = """
LIMIT = 1

def helper(document):
    return document + 1

class Helper:
    def help(self, document):
        return document + 2

class Base:
    def inherited(self, document):
        return document + 3

class Scorer(Base):
    def __init__(self):
        self.helper = Helper()

    def __call__(self, document):
        return helper(document) + self.inherited(document) + self.helper.help(document) + LIMIT
"""


@pytest.mark.parametrize("edit", ["+ 1", "+ 2", "+ 3", "LIMIT = 1"])
def test_what_a_callable_object_uses_is_in_the_fingerprint(edit, tmp_path):
    texts = SCORER, SCORER, SCORER.replace(edit, edit[:-1] + "7")
    one, same, changed = (fingerprint(written(tmp_path, each).Scorer(), depends_on=["scorer"]) for each in texts)
    assert one == same != changed


def test_a_value_of_the_module_that_cannot_be_hashed_is_left_out(tmp_path):
    module = written(
        tmp_path, "import threading\nLOCK = threading.Lock()\ndef score(d):\n    with LOCK:\n        return d\n"
    )
    assert fingerprint(module.score, depends_on=[module]) == fingerprint(module.score, depends_on=[module])


def written(folder, source):
    """A module from a file, whose source can be read; a new file each time, as sources are cached by path."""
    place = Path(tempfile.mkdtemp(dir=folder))
    (place / "scorer.py").write_text(source)
    spec = importlib.util.spec_from_file_location("scorer", place / "scorer.py")
    module = sys.modules["scorer"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_score_that_was_changed_or_moved_is_scored_again(cache):
    assert computed(cache) == 10
    cache.close()
    with sqlite3.connect(cache.path) as file:
        (one, first), (two, second) = file.execute("SELECT key, score FROM scores LIMIT 2").fetchall()
        file.executemany("UPDATE scores SET score = ? WHERE key = ?", [(second, one), (first, two)])
        (three,) = file.execute("SELECT key FROM scores WHERE key NOT IN (?, ?)", (one, two)).fetchone()
        file.execute("UPDATE scores SET score = ? WHERE key = ?", (b"\x80\x04K\x07.", three))
    file.close()
    again = score_documents(cases.doubled, cases.numbered(10), cache=cache, backend="serial")
    assert (again, again.report.computed) == ([2 * number for number in range(10)], 3)
    assert computed(cache) == 0


def test_a_damaged_file_is_named(cache):
    assert computed(cache, documents=cases.numbered(3000)) == 3000
    cache.close()
    content = bytearray(cache.path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    cache.path.write_bytes(content)
    for use in (lambda: computed(cache), lambda: len(cache), lambda: cache.put({b"key": 1})):
        with pytest.raises(
            ValueError, match=r"scores is not a file of scores, or is damaged, .*; delete it if it is one, or name"
        ):
            use()

"""Scripts of scorers: a planted library with mended twins."""

from __future__ import annotations

from pathlib import Path

import pytest
from mended_library import made_project, require_script, require_tests

LIBRARY = '''
"""An evaluation that knows nothing of the suite. MENDED=1 takes its faults out."""
import os

MENDED = bool(os.environ.get("MENDED"))
RIGHT, WRONG = 1.0, 0.0  # one object each, whatever it is the score of


def exact(answer, response):
    return RIGHT if response[0] == answer else WRONG


def length(answer, response):
    return float(len(response[0]))


METRICS = {"length": length, "exact": exact}


def logged(names, responses, documents):
    """A sample of every document, with its numbers beside what they are about."""
    samples = []
    for index, (own, document) in enumerate(zip(responses, documents)):
        sample = {"index": index, "document": dict(document)}
        for name in names:
            given = own if MENDED or name == names[0] else ["a response that another metric has changed"]
            sample[name] = METRICS[name](document["answer"], given)
        samples.append(sample)
    return {"samples": samples}


'''
TARGETS = """
import library
import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

def rows(names, responses, documents):
    found = []
    for sample in library.logged(names, responses, documents)["samples"]:
        found.append({**sample})
    by_name = {}
    for sample in found:
        for name in names:
            by_name.setdefault(sample["index"], {})[name] = {name: sample[name]}
    return [by_name[index] for index in sorted(by_name)]

def score(responses, documents):
    return [own["exact"]["exact"] for own in rows(("exact",), responses, documents)]

@ec.scorer(inputs=es.responses())
def planted(device):
    return ec.Scorer(score=score, parts=("length", "exact"), together=rows)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run with both options."""
    return made_project(tmp_path_factory, "scorers", LIBRARY, TARGETS, "--evalcheck-select=EC407")


def test_a_score_beside_other_metrics(made: Path) -> None:
    """The library returns the same two numbers in all its results: each is known by its place."""
    source, printed = require_script(made, "ec407_planted", "logged(")
    assert "[0]['exact']" in source
    assert "1.0" in printed


def test_the_tests_fail_until_the_library_is_mended(made: Path) -> None:
    require_tests(made, 1)

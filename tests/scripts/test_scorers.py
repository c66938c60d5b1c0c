"""Scripts of scorers: a planted library with mended twins, and ranks of lm-evaluation-harness, which are processes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from mended_library import made_project, require_script, require_tests

from pytest_evalcheck.reports.case_codec import encode_case
from pytest_evalcheck.reports.results import Cell, Failure
from pytest_evalcheck.scripts.producing import make

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


def means(functions, responses, documents):
    """The numbers of one function, each over the documents that have it."""
    (function,) = functions
    rows = [function(own, document) for own, document in zip(responses, documents)]
    if MENDED and len({frozenset(row) for row in rows}) > 1:
        raise ValueError("a document lacks a number")
    names = {name: [row[name] for row in rows if name in row] for row in rows for name in row}
    return {"results": names}
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

def numbers(functions, responses, documents):
    (several,) = functions[:1]
    lists = library.means([one.function for one in functions], responses, documents)["results"]
    return {name: several.aggregations[name](values) for name, values in lists.items()}

@ec.scorer(inputs=es.responses())
def planted(device):
    return ec.Scorer(score=score, parts=("length", "exact"), together=rows, numbers=numbers)
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run with both options."""
    return made_project(tmp_path_factory.mktemp("project"), LIBRARY, TARGETS, "--evalcheck-select=EC406,EC407")


def test_a_score_beside_other_metrics(made: Path) -> None:
    """The library returns the same two numbers in all its results: each is known by its place."""
    source, printed = require_script(made, "ec407_planted", "logged(")
    assert "['samples'][0]['exact']" in source
    assert "1.0" in printed


def test_a_number_that_one_document_lacks(made: Path) -> None:
    _, printed = require_script(made, "ec406_planted", "not same(outcome")
    assert "an error, or another result than" in printed


def test_the_tests_fail_until_the_library_is_mended(made: Path) -> None:
    require_tests(made, 2)


ROOT = Path(__file__).resolve().parents[2]
CASE = {
    "samples": [({"question": f"q{i}", "answer": "4"}, ["5", "4", "5"]) for i in range(3)],
    "copies": 1,
}
MENDED = """
import runpy, sys
from lm_eval.api.instance import Instance


class AsMany(list):
    def __init__(self, count):
        super().__init__()
        self.count = count

    def append(self, response):
        if len(self) < self.count:
            super().append(response)

    def __reduce__(self):  # between processes
        return list, (list(self),)


begin = Instance.__post_init__


def begins(request):
    begin(request)
    request.resps = AsMany(request.repeats)


Instance.__post_init__ = begins
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_ranks_of_lm_eval_are_processes_in_a_script(tmp_path: Path) -> None:
    """A rank with fewer documents repeats its last request, and its responses count twice: pass@2 is another number."""
    pytest.importorskip("lm_eval")
    target, name = "fixtures/targets/evalcheck_lm_eval_tasks.py::pass_at_k", "parallel_scores_equal_serial_scores"
    command = f"pytest --evalcheck {shlex.quote(f'{target}::{name}[cpu]')}"
    failure = Failure(
        about="", case=CASE, statement="", reproduce=f"{command} --evalcheck-replay={encode_case('EC403', CASE)}"
    )
    cell = Cell(
        target=target,
        kind="scorer",
        check=name,
        code="EC403",
        device="cpu",
        outcome="failed",
        signature="EC403: by-ranks: another number",
        failure=failure,
    )
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", "--evalcheck-run=in-process"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    made = make([cell], ROOT, [*options, "--runxfail"], environment)
    assert made.script, made.why
    assert "on_ranks(world, 2)" in made.script
    assert "all_gather_object" in made.script
    path, mended = tmp_path / "script.py", tmp_path / "mended.py"
    path.write_text(made.script, encoding="utf-8")
    mended.write_text(MENDED, encoding="utf-8")
    ended = subprocess.run([sys.executable, str(mended), str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr

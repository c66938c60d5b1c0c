"""Traces of two targets: the first step that differs, the documents that flip, and what explains it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.__main__ import main
from pytest_evalcheck.reports import ReportError
from pytest_evalcheck.reports.traces import STEPS, Trace, TraceComparison

DOCUMENT: Mapping[str, Any] = {
    "sample": "q",
    "prompt": "Q: q",
    "ids": [1, 2],
    "parameters": {"max_tokens": 3},
    "logits": [0.5, 1.0],
    "log-probabilities": [-0.5, -0.25, -1.0],
    "tokens": [4, 5, 6],
    "text": "abc",
    "answer": "b",
    "score": 1.0,
}
OTHER: Mapping[str, Any] = {
    "sample": "r",
    "prompt": "Q:  q",
    "ids": [1, 1, 2],
    "parameters": {"max_tokens": 2},
    "logits": [0.5, 1.5],
    "log-probabilities": [-0.5, -0.5, -1.0],
    "tokens": [4, 5, 7],
    "text": "abd",
    "answer": "d",
    "score": 0.0,
}
TARGETS = """
import pytest_evalcheck as ec
from fixtures.gallery.engines_correct import Tiny

class Rounded(Tiny):
    def logits(self, ids, running):
        return [round(logit * 8) / 8 for logit in super().logits(ids, running)]

class Short(Tiny):
    def limit(self, running):
        return 2

def target(kind):
    @ec.target("engine", inputs=Tiny.inputs)
    def made():
        return kind().record()
    return made

honest, rounded, short = map(target, (Tiny, Rounded, Short))

@ec.target("engine", inputs=Tiny.inputs)
def dtyped():
    return ec.Engine(Tiny().complete, facts={"dtype": "bfloat16"})

@ec.target("engine", inputs=Tiny.inputs, requires=("no-such-engine>=1",))
def absent():
    return Tiny().record()

@ec.target("engine", inputs=Tiny.inputs)
def broken():
    raise RuntimeError("no such weights")

@ec.metric(inputs=ec.strategies.regression())
def metric():
    ...
"""


def traced(*documents: Mapping[str, Any], **facts: str) -> Trace:
    return Trace("a target", facts, documents)


@pytest.mark.parametrize("step", STEPS)
def test_the_first_step_that_differs_is_named(step: str) -> None:
    later = STEPS[STEPS.index(step) :]
    other = {**DOCUMENT, **{name: OTHER[name] for name in later}}
    compared = TraceComparison.of(traced(DOCUMENT, DOCUMENT), traced(DOCUMENT, other))
    assert compared.step == step
    assert [(each.index, each.step, each.flips) for each in compared.differences] == [(1, step, True)]
    assert compared.flips == [1]
    assert len({compared.explanation[0]} & {TraceComparison.of(traced(DOCUMENT), traced(OTHER)).explanation[0]}) == (
        step == "sample"
    )


def test_log_probabilities_in_an_answer_may_lie_apart_by_the_tolerance() -> None:
    one, near, far, other = [
        [[number, greedy]] for number, greedy in ((-15.5, False), (-15.5001, False), (-15.6, False), (-15.5, True))
    ]
    answers = [traced({"answer": answer}) for answer in (near, far, other)]
    assert [TraceComparison.of(traced({"answer": one}), answer).step for answer in answers] == ["", "answer", "answer"]
    assert TraceComparison.of(traced({"answer": one}), answers[0]).drift["answer"] == pytest.approx(1e-4)


def test_a_step_that_heals_flips_no_mark() -> None:
    compared = TraceComparison.of(traced(DOCUMENT), traced({**DOCUMENT, "text": "abd"}))
    assert (compared.step, compared.flips) == ("text", [])


def test_numbers_may_drift_within_the_tolerance_and_are_not_compared_after_another_token() -> None:
    near = {**DOCUMENT, "logits": [0.5, 1.0005]}
    compared = TraceComparison.of(traced(DOCUMENT), traced(near))
    assert (compared.step, round(compared.drift["logits"], 6)) == ("", 0.0005)
    after = {**DOCUMENT, "tokens": [4, 9, 6], "log-probabilities": [-0.5, -0.9, -3.0]}
    assert TraceComparison.of(traced(DOCUMENT), traced(after)).step == "tokens"


def test_facts_in_which_targets_differ_are_named() -> None:
    compared = TraceComparison.of(
        traced(DOCUMENT, dtype="float32", torch="2"), traced(OTHER, dtype="bfloat16", torch="2")
    )
    assert compared.explanation[1:] == ["dtype: float32 and bfloat16"]


@pytest.fixture
def targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "evalcheck_two.py"
    path.write_text(TARGETS, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    return "evalcheck_two.py"


def test_two_targets_are_compared_on_the_command_line(targets: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["diff", f"{targets}::honest", f"{targets}::rounded", "--json", "diff.json", "--html", "diff.html"]
    assert main(given) == 1
    printed = capsys.readouterr().out
    assert "first step that differs: log-probabilities, in 15 documents" in printed
    found = json.loads(Path("diff.json").read_text(encoding="utf-8"))
    assert (found["step"], found["documents"]) == ("log-probabilities", 16)
    assert 0 < len(found["flips"]) < 16
    page = Path("diff.html").read_text(encoding="utf-8")
    assert page.count("<tr>") == 1 + len(found["differences"])
    assert "log-probabilities, in 15 documents" in page


def test_the_same_target_twice_has_no_difference(targets: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", f"{targets}::honest", f"{targets}::honest", "--documents", "3"]) == 0
    assert "3 documents\n  no step differs" in capsys.readouterr().out


def test_a_saved_trace_is_compared_later(targets: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", f"{targets}::short", "--save", "short.json", "--documents", "4"]) == 0
    assert main(["diff", f"{targets}::dtyped", "short.json", "--documents", "4"]) == 1
    printed = capsys.readouterr().out
    assert "one answer is the beginning of the other" in printed
    assert "dtype: bfloat16 and none" in printed


@pytest.mark.slow
def test_another_interpreter_makes_a_trace(targets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    names = [f"{targets}::honest", f"{targets}::honest"]
    assert main(["diff", *names, "--documents", "2", "--python", sys.executable]) == 0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["evalcheck_two.py::honst", "evalcheck_two.py::honest"], "has no target 'honst'; expected one of honest, "),
        (["no.py::honest", "evalcheck_two.py::honest"], "no.py is no file; expected file.py::target, or a trace"),
        (["evalcheck_two.py", "evalcheck_two.py::honest"], "evalcheck_two.py is no trace"),
        (["evalcheck_two.py::absent", "evalcheck_two.py::honest"], "is not traced: no-such-engine is not installed"),
        (["evalcheck_two.py::broken", "evalcheck_two.py::honest"], "broken is not traced: the factory raised an error"),
        (["evalcheck_two.py::metric", "evalcheck_two.py::honest"], "metric is a metric, which has no documents"),
        (["evalcheck_two.py::honest"], "diff takes two targets and a number of documents from 1; or one target"),
        (["evalcheck_two.py::honest"] * 2 + ["--python", "no-python"], "no-python cannot be run: No such file"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(
    targets: str, given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", *given, "--documents", "2"]) == 4
    assert said in capsys.readouterr().err


def test_a_trace_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text('{"format": "pytest-evalcheck trace 0"}', encoding="utf-8")
    with pytest.raises(ReportError, match=r"has the format 'pytest-evalcheck trace 0'; expected"):
        Trace.load(path)

"""Functions and classes that no run has called are tried with values of their annotated types; nothing is written."""

from __future__ import annotations

import importlib
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.discovery.candidates import find
from pytest_evalcheck.discovery.proposals import Proposed, propose
from pytest_evalcheck.discovery.requests import Request
from pytest_evalcheck.discovery.target_source import write
from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.kinds.common.process_state import nothing_written
from pytest_evalcheck.learning.annotated import seen_in_annotations
from pytest_evalcheck.strategies.samples import OF_TYPES

SOURCE = """
    from __future__ import annotations

    import enum
    import os
    from collections.abc import Callable, Mapping, Sequence
    from dataclasses import dataclass
    from typing import Literal, NamedTuple, Optional

    import numpy as np
    import torch


    def coverage(y_true: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
        return float(np.mean((y_true >= lower) & (y_true <= upper)))


    def judged_rate(found: torch.Tensor, wanted: torch.Tensor) -> float:
        # The bug: the caller's own tensor is changed.
        return float(found.sub_(wanted).abs().float().mean())


    def reciprocal_rank(found: list[str], wanted: set[str]) -> float:
        return next((1 / place for place, each in enumerate(found, 1) if each in wanted), 0.0)


    class Rank:
        def score_query(self, found: list[str], wanted: list[str]) -> float:
            return next((1 / place for place, each in enumerate(found, 1) if each in wanted), 0.0)


    def score_of_frame(found: list[float], wanted: list[float]) -> bool:
        return bool({*found} & {*wanted})


    class Side(enum.Enum):
        LEFT = "left"
        RIGHT = "right"


    @dataclass
    class Row:
        score: float
        label: int
        side: Side
        words: tuple[str, int]


    class Pair(NamedTuple):
        first: float
        second: float


    def brier(rows: Sequence[Row], scale: Optional[float] = None) -> dict[str, float]:
        return {"brier": sum((each.score - each.label) ** 2 for each in rows) / len(rows)}


    def pairs_error(pairs: list[Pair], mode: Literal["sum", "mean"]) -> float:
        return sum(abs(each.first - each.second) for each in pairs)


    class Overlap:
        def __init__(self, scale: float):
            self.scale = scale

        def label(self) -> str:
            return "overlap"

        def measure(self, said: str, expected: str) -> float:
            return self.scale * len({*said.split()} & {*expected.split()})


    def delete_scores(folder: str, name: str) -> int:
        os.remove(folder + name)
        return 1


    def write_scores(folder: str, name: str) -> int:
        with open(os.path.join(os.path.dirname(__file__), "written"), "w") as file:
            return file.write(name)


    def judge_with(call: Callable[[str], float], text: str) -> float:
        return call(text)


    def name_of_score(text: str, other: str) -> str:
        return text


    def score_of_number(value: float) -> float:
        return value


    def clamp(values: Mapping[str, float], low: str) -> float:
        return max(values.values())
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    (tmp_path / "typed_scores.py").write_text(textwrap.dedent(SOURCE))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    )
    yield importlib.import_module("typed_scores")
    del sys.modules["typed_scores"]


def _proposed(module: Any, name: str) -> Proposed:
    [candidate] = find(Request.parse(f"{module.__name__}:{name}")).candidates
    return propose(candidate)


def test_annotations_of_values_and_numbers_make_candidates(module: Any) -> None:
    names = [each.name for each in find(Request.parse("typed_scores")).candidates]
    wanted = [
        "coverage",
        "judged_rate",
        "reciprocal_rank",
        "brier",
        "pairs_error",
        "Overlap",
        "clamp",
        "Rank",
        "score_of_frame",
    ]
    assert sorted(names) == sorted([*wanted, "delete_scores", "write_scores"])


@pytest.mark.parametrize(
    ("name", "kind", "construction"),
    [
        ("coverage", "metric", "coverage"),
        ("judged_rate", "metric", "judged_rate"),
        ("reciprocal_rank", "scorer", "reciprocal_rank"),
        ("brier", "metric", "brier"),
        ("Rank", "scorer", "Rank()"),
        ("pairs_error", "metric", "pairs_error"),
        ("Overlap", "scorer", "Overlap(scale="),
    ],
)
def test_the_types_tell_the_inputs(module: Any, name: str, kind: str, construction: str) -> None:
    target = _proposed(module, name).targets[0]
    assert (target.kind, target.construction[: len(construction)]) == (kind, construction)


@pytest.mark.parametrize("name", ["delete_scores", "write_scores"])
def test_nothing_is_written(module: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a doga dog").touch()
    before = sorted(tmp_path.rglob("*"))
    assert not _proposed(module, name).targets
    assert sorted(tmp_path.rglob("*")) == before
    with nothing_written("typed_scores"), pytest.raises(PermissionError, match="arguments that were made up"):
        getattr(module, name)("a", "b")
    if name == "write_scores":
        assert module.write_scores("a", "b") == 1


@pytest.mark.parametrize("name", ["judge_with", "name_of_score", "score_of_number"])
def test_what_has_no_known_type_or_number_has_no_calls(module: Any, name: str) -> None:
    assert seen_in_annotations(getattr(module, name)) is None


def test_what_is_written_runs_and_finds_the_bug(module: Any, pytester: pytest.Pytester) -> None:
    targets = [_proposed(module, name).targets[0] for name in ("brier", "judged_rate", "Overlap")]
    pytester.makepyfile(evalcheck_typed=write("Targets.", targets, {}, []))
    ran = pytester.runpytest_subprocess("--evalcheck", "--evalcheck-effort=quick", "-rA", "-p", "no:cacheprovider")
    red = {line.split("::")[1] for line in ran.outlines if line.startswith("FAILED")}
    assert red == {"judged_rate_target"}


def score_of_two(truth: Any, predictions: Any, weights: Any = None) -> float:
    return float(sum(a == b for a, b in zip(truth, predictions, strict=True)))


def score_of_three(truth: Any, predictions: Any, class_names: Any) -> float:
    return float(len(class_names))


@pytest.mark.parametrize(
    ("function", "source", "declared"),
    [(score_of_two, OF_TYPES, True), (score_of_three, OF_TYPES, False), (score_of_three, "your tests use", True)],
)
def test_two_names_do_not_declare_what_a_third_argument_is(function: Any, source: str, declared: bool) -> None:
    """Names of classes are no column, and a guess of types takes them for one (false alarm on a drawn project)."""
    rows = es.rows(*[[0, 1, 2]] * 3, dtypes=[None] * 3).replace(observed=source)

    @ec.metric(inputs=rows)
    def target(device: str) -> Any:
        return function

    factory = TargetFactory(target)
    factory.record({"device": "cpu"})
    assert factory.is_declared == declared

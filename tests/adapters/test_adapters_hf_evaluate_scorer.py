"""Modules of Hugging Face evaluate become scorers of one document at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck import adapters

evaluate = pytest.importorskip("evaluate")
datasets = pytest.importorskip("datasets")


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes a metric that gives the pairs that it was asked for; the user's cache is ``tmp_path``."""
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path)

    def make(name: str = "pairs") -> Any:
        def info(self: Any) -> Any:
            features = datasets.Features({key: datasets.Value("string") for key in ("predictions", "references")})
            return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

        def compute(self: Any, predictions: Any, references: Any) -> Any:
            return {name: [*predictions, *references]}

        return type("Pairs", (evaluate.Metric,), {"_info": info, "_compute": compute})(keep_in_memory=True)

    return make


def test_each_document_is_computed_by_itself(made: Callable[..., Any]) -> None:
    record = adapters.record("scorer", made())
    assert list(record.score([["a", "b"], ["c"]], [{"answer": "d"}, "e"])) == [
        {"pairs": ["a", "d"]},
        {"pairs": ["c", "e"]},
    ]


def test_nothing_is_written_into_the_cache_of_the_user(made: Callable[..., Any], tmp_path: Path) -> None:
    list(adapters.record("scorer", made()).score([["a"]], ["b"]))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_parts_of_a_combination_are_its_modules(made: Callable[..., Any]) -> None:
    record = adapters.record("scorer", evaluate.combine({"a": made("one"), "a_b": made("two")}))
    assert list(record.score([["x"]], ["y"])) == [{"one": ["x", "y"], "two": ["x", "y"]}]
    assert record.parts == ("a", "a_b")
    assert record.together is not None
    (seen,) = record.together(("a_b", "a"), [["x"]], ["y"])
    assert seen == {"a_b": {"a_b_two": ["x", "y"]}, "a": {"a_one": ["x", "y"]}}


def test_a_document_without_an_answer_is_named(made: Callable[..., Any]) -> None:
    record = adapters.record("scorer", made())
    with pytest.raises(KeyError, match=r"target='answer' is no field of a document with \['gold'\]"):
        list(record.score([["a"]], [{"gold": "b"}]))


def test_no_response_is_named(made: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="no response to the document 'b'"):
        list(adapters.record("scorer", made()).score([[]], ["b"]))

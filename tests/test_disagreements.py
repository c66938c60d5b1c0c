"""The table of libraries beside each other: its page is current, its definitions are right, and its notes are true."""

from __future__ import annotations

import importlib
import logging
import math
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fixtures.disagreements import comparison
from fixtures.disagreements.comparison import Comparison, Data, Library, Note, Raised, Result, Undefined, compare
from fixtures.disagreements.table import COMPARISONS

ROOT = Path(__file__).parent.parent
SOURCES = {
    "torchmetrics": ("torchmetrics",),
    "scikit-learn": ("sklearn/metrics",),
    "torcheval": ("torcheval/metrics",),
    "keras": ("keras/src/metrics", "keras/src/losses"),
    "ignite": ("ignite/metrics",),
    "MONAI": ("monai/metrics",),
}
"""Place of each library's documentation in its package."""


@pytest.fixture(scope="module")
def maker() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "docs"))
    yield importlib.import_module("make_disagreements")
    sys.path.remove(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def made(maker: ModuleType) -> dict[str, list[Result]]:
    for name in ("torchmetrics", "sklearn", "torcheval", "keras", "ignite", "monai", "evaluate", "sacrebleu", "nltk"):
        pytest.importorskip(name)
    return dict(maker.results())


@pytest.fixture(scope="module")
def results(made: dict[str, list[Result]]) -> list[Result]:
    return [result for part in made.values() for result in part]


def test_the_page_is_what_the_libraries_answer(maker: ModuleType, made: dict[str, list[Result]]) -> None:
    assert maker.PAGE.read_text(encoding="utf-8") == maker.page(made), "run: python docs/make_disagreements.py"


def test_a_library_agrees_with_the_definition_on_ordinary_samples(results: list[Result]) -> None:
    for result in results:
        first = next(iter(result.comparison.cases))
        sorts = [cell.sort for (case, _), cell in result.cells.items() if case == first]
        assert not isinstance(result.defined[first], Undefined), result.comparison.title
        assert comparison.AGREES in sorts, result.comparison.title


def test_every_metric_has_two_libraries_and_edge_cases(results: list[Result]) -> None:
    assert len(results) >= 40
    assert len({each.title for each in COMPARISONS}) == len(results)
    for result in results:
        assert len(result.comparison.libraries) >= 2, result.comparison.title
        assert any(isinstance(value, Undefined) for value in result.defined.values()), result.comparison.title
        asked = {name for _, name in result.cells}
        assert asked == {*result.comparison.libraries}, result.comparison.title


@cache
def documentation(library: str) -> str:
    """Return the sources of a library without spaces and quotation marks."""
    texts = []
    for folder in SOURCES[library]:
        package, _, rest = folder.partition("/")
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        texts += [path.read_text(encoding="utf-8") for path in sorted((Path(spec.origin).parent / rest).rglob("*.py"))]
    return plain(" ".join(texts))


def plain(text: str) -> str:
    return re.sub(r"[\s`*\"'\\]", "", text)


def test_what_a_note_quotes_is_in_the_documentation_or_was_said(results: list[Result]) -> None:
    quotes = 0
    for result in results:
        said = [text for cell in result.cells.values() for text in (*cell.said, getattr(cell.value, "message", ""))]
        for note in result.comparison.notes:
            for quote in re.findall(r'"([^"]+)"', note.why) if note.sort == comparison.DOCUMENTED else ():
                quotes += 1
                source = documentation(note.library) if note.library in SOURCES else ""
                assert plain(quote) in source or any(plain(quote) in plain(text) for text in said), (note, quote)
    assert quotes > 15


def test_what_is_wrong_has_a_finding() -> None:
    for each in COMPARISONS:
        for note in each.notes:
            assert note.sort in comparison.SORTS
            assert (note.sort == comparison.WRONG) == ("[Finding](findings/" in note.why), note


def shares(data: Data) -> Any:
    return sum(data.rows) / len(data.rows) if data.rows else Undefined("no sample")


CASES = {"ordinary": Data(rows=(1.0, 3.0)), "no sample": Data(rows=())}


def planted(*notes: Note, definition: Any = shares, **calls: Any) -> Result:
    libraries = {name: Library(call=call, name=name) for name, call in calls.items()}
    made = Comparison(
        title="Mean", formula="", source="", definition=definition, cases=CASES, libraries=libraries, notes=notes
    )
    return compare(made)


def test_a_wrong_number_must_be_judged() -> None:
    (problem,) = planted(wrong=lambda data: 3.0).problems
    assert problem == "Mean, ordinary: wrong says [3.0], the definition [2.0]"
    note = Note(library="wrong", cases=("ordinary",), sort=comparison.WRONG, why="it counts 1 for nothing")
    result = planted(note, wrong=lambda data: 3.0)
    assert not result.problems
    assert result.cells["ordinary", "wrong"].sort == comparison.WRONG


def test_an_error_where_the_definition_has_a_value_must_be_judged() -> None:
    def fails(data: Data) -> Any:
        raise ValueError("too few")

    result = planted(fails=fails)
    assert result.cells["ordinary", "fails"].value == Raised("ValueError", "too few")
    assert len(result.problems) == 1
    assert result.cells["no sample", "fails"].sort == comparison.ERROR


def test_a_note_without_a_disagreement_is_a_problem() -> None:
    note = Note(library="right", cases=("ordinary",), sort=comparison.WRONG, why="")
    (problem,) = planted(note, right=lambda data: 2.0).problems
    assert problem == "Mean: the note about right in 'ordinary' has no disagreement"


def warns(data: Data) -> float:
    if not data.rows:
        warnings.warn("nothing to average", stacklevel=2)
    return 2.0


def logs(data: Data) -> float:
    if not data.rows:
        logging.getLogger("some.library").warning("nothing to average")
    return 2.0


def always_warns(data: Data) -> float:
    warnings.warn("all samples are kept in memory", stacklevel=2)
    return 2.0


@pytest.mark.parametrize(
    ("call", "sort"),
    [
        (lambda data: 2.0, comparison.SILENT),
        (lambda data: 2.0 if data.rows else math.nan, comparison.NAN),
        (lambda data: 2.0 if data.rows else -math.inf, comparison.NAN),
        (lambda data: 2.0 if data.rows else [], comparison.NAN),
        (warns, comparison.WARNED),
        (logs, comparison.WARNED),
        (always_warns, comparison.SILENT),
    ],
)
def test_what_has_no_value_is_sorted_by_the_answer(call: Any, sort: str) -> None:
    result = planted(library=call)
    assert not result.problems
    assert result.cells["no sample", "library"].sort == sort


def test_what_a_library_does_not_offer_is_no_cell() -> None:
    library = Library(call=shares, name="mean")
    assert not library.offers(Data(rows=(1.0,), weights=(2.0,)))
    assert not library.offers(Data(rows=(1.0,), ignored=-1))
    assert not library.offers(Data(rows=(1.0,), options={"threshold": 1.0}))
    assert Library(call=shares, name="mean", weights=True, ignores=True, options=("threshold",)).offers(
        Data(rows=(1.0,), weights=(2.0,), ignored=-1, options={"threshold": 1.0})
    )


def test_a_text_is_no_number() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        comparison.numbers("high")
    with pytest.raises(TypeError):
        comparison.numbers(None)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ([1.0], [1.0 + 1e-6], True),
        ([1.0], [1.001], False),
        ([1.0], [1.0, 1.0], False),
        ([math.nan], [math.nan], True),
        ([math.nan], [0.0], False),
        ([math.inf], [math.inf], True),
        ([0.0], [1e-4], False),
    ],
)
def test_numbers_are_equal_up_to_the_rounding_of_float32(one: list[float], other: list[float], same: bool) -> None:
    assert comparison.equal(one, other) == same


def test_the_command_checks_the_page(
    maker: ModuleType,
    made: dict[str, list[Result]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(maker, "results", lambda: made)
    monkeypatch.setattr(maker, "PAGE", tmp_path / "page.md")
    assert maker.main(["--check"]) == 1
    assert maker.main([]) == 0
    assert maker.main(["--check"]) == 0
    maker.PAGE.write_text(maker.PAGE.read_text(encoding="utf-8").replace("0.275", "0.276"), encoding="utf-8")
    capsys.readouterr()
    assert maker.main(["--check"]) == 1
    assert "0.276" in capsys.readouterr().out

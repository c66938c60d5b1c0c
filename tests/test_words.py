"""Docstrings begin with a verb or a noun, and functions are named by more than prepositions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.house import begins_badly, docstrings, functions, is_no_name

ROOT = Path(__file__).parent.parent
FOLDERS = ("pytest_evalcheck", "tests", "fixtures", "benchmarks", "history", "docs")

DOCSTRINGS: dict[str, int] = {
    "pytest_evalcheck": 5,
    "pytest_evalcheck/engine": 41,
    "pytest_evalcheck/reports": 68,
    "pytest_evalcheck/scripts": 87,
    "pytest_evalcheck/targets": 25,
}
NAMES: dict[str, int] = {
    "fixtures": 15,
    "pytest_evalcheck/devices": 2,
    "pytest_evalcheck/engine": 1,
    "pytest_evalcheck/fixes": 5,
    "pytest_evalcheck/guard": 1,
    "pytest_evalcheck/reports": 9,
    "pytest_evalcheck/scripts": 11,
    "pytest_evalcheck/targets": 1,
}
"""By folder, how many are left. A number only shrinks, and goes when it is 0."""


def _folder(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if parts[0] == "pytest_evalcheck" and len(parts) > 2 else parts[0]


def _require(found: list[tuple[Path, str]], left: dict[str, int]) -> None:
    counts = Counter(_folder(path) for path, _ in found)
    over = {folder: count for folder, count in counts.items() if count > left.get(folder, 0)}
    assert not over, "\n".join(f"{path}: {text[:80]}" for path, text in found if _folder(path) in over)


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    _require([(path, text) for path, text in docstrings(ROOT / folder) if begins_badly(text)], DOCSTRINGS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_named_by_more_than_prepositions(folder: str) -> None:
    _require([(path, name) for path, name in functions(ROOT / folder) if is_no_name(name)], NAMES)


def test_what_is_left_names_folders_that_are_there() -> None:
    assert not [name for name in (*DOCSTRINGS, *NAMES) if not (ROOT / name).is_dir()]


@pytest.mark.parametrize(
    ("docstring", "bad"),
    [
        ("What is left.", True),
        ("Those of a batch.", True),
        ("Whether it is.", True),
        ("Return what is left.", False),
        ("Asked questions.", False),
        ("Offsets of rows.", False),
        ("", False),
    ],
)
def test_the_first_word_decides(docstring: str, bad: bool) -> None:
    assert begins_badly(docstring) is bad


@pytest.mark.parametrize("name", ["_of_pair", "of_steps", "where", "_with_the", "before_and_after", "_of", "none"])
def test_prepositions_alone_are_no_name(name: str) -> None:
    assert is_no_name(name)


@pytest.mark.parametrize("name", ["of", "to", "_", "__and__", "with_model_cache", "moved_to", "_pair_of"])
def test_a_verb_a_noun_and_what_is_usual_are_names(name: str) -> None:
    assert not is_no_name(name)

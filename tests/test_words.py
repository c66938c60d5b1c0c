"""Docstrings begin with a verb or a noun, and functions are named by more than prepositions."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.house import begins_badly, docstrings, functions, is_no_name

ROOT = Path(__file__).parent.parent
FOLDERS = ("pytest_evalcheck", "tests", "fixtures", "benchmarks", "history", "docs")


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_begin_with_a_verb_or_a_noun(folder: str) -> None:
    assert not [(path, text) for path, text in docstrings(ROOT / folder) if begins_badly(text)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_functions_are_named_by_more_than_prepositions(folder: str) -> None:
    assert not [(path, name) for path, name in functions(ROOT / folder) if is_no_name(name)]


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

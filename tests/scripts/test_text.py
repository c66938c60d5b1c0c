"""Replacements in the text of a script for what belongs to the run that found the failure."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from pytest_evalcheck.scripts.log import Entry
from pytest_evalcheck.scripts.sources import definitions
from pytest_evalcheck.scripts.text import Names, _with_own_folders


def test_a_folder_of_the_run_becomes_one_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    there, other = f"{tempfile.gettempdir()}/evalcheck-ab_12", f"{tempfile.gettempdir()}/evalcheck-cd"
    text = f"found = ['{there}/responses', \"{there}\", '{other}/calls/1', '/data/evalcheck-ab', 'a text']"
    changed, lines = _with_own_folders(text)
    assert changed == (
        "found = [f\"{FOLDER}/responses\", FOLDER, f\"{FOLDER_2}/calls/1\", '/data/evalcheck-ab', 'a text']"
    )
    names: dict[str, object] = {}
    exec("\n".join(["import os, tempfile", *lines, changed]), names)
    for name in ("FOLDER", "FOLDER_2"):
        assert Path(str(names[name])).is_dir()
    assert names["found"][0] == f"{names['FOLDER']}/responses"  # type: ignore[index]


def test_a_text_without_folders_stays_as_it_is() -> None:
    assert _with_own_folders("print('evalcheck-1')") == ("print('evalcheck-1')", [])


def score() -> float:
    """Stands for a function of a file of targets, which a script defines."""
    return 1.0


def test_a_variable_has_another_name_than_a_function_that_the_script_defines() -> None:
    entries = [
        Entry(0, "Scorer(score)", sources=(score,), hint="score"),
        Entry(1, "<0>.value()", hint="value"),
    ]
    assert Names(entries, "<1>").named("<0>, <1>") == "score_, value"


def test_a_variable_does_not_have_the_name_of_a_builtin() -> None:
    """In a test the helpers stand beside the variables, and would find them."""
    entry = Entry(0, "library.numbers()", hint="dict")
    assert Names([entry], "<0>").lines(entry, [entry]) == ["dict_ = library.numbers()"]


def _scaled_by(called: float):
    def scaled(value: float) -> float:
        return called * value

    return scaled


def test_a_function_may_hold_a_variable_that_is_named_as_that_of_its_own_name() -> None:
    text, _, _ = definitions([_scaled_by(2.0)], lambda module: module == __name__, lambda _: None, None, whole=True)
    names: dict[str, object] = {}
    exec(text[0], names)
    del names["__builtins__"]
    made = next(iter(names.values()))("other", 2.0)  # type: ignore[operator]
    assert (made.__name__, made(3.0)) == ("other", 6.0)

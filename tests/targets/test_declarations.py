"""Declarations "not applicable" of our targets are quotations from the installed release of the library."""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import pytest_evalcheck as ec

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "fixtures" / "targets"
FILES = sorted(path for path in FOLDER.glob("evalcheck_*.py") if "not_applicable" in path.read_text(encoding="utf-8"))
LIBRARIES = ("torchmetrics", "transformers", "sklearn", "ignite", "torcheval", "peft")
ELSEWHERE = (
    "huggingface/transformers#45938",
    "Lightning-AI/torchmetrics#3389",
    "documentation of FNet",
    "documentation of vLLM",
)
"""Sources that are no file of a library: a comment of a maintainer, a page of the documentation."""


def plain(text: str) -> str:
    """A text in one line, without quotes and backticks, and without the signs of a comment."""
    return " ".join(re.sub(r"[`\"']|^ *# ?", "", text, flags=re.MULTILINE).split())


@cache
def texts(library: str) -> str:
    """All sources of an installed library."""
    (folder,) = importlib.util.find_spec(library).submodule_search_locations or ()  # type: ignore[union-attr]
    return " ".join(plain(path.read_text(encoding="utf-8")) for path in sorted(Path(folder).rglob("*.py")))


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    # The marks of targets are those of runs with --evalcheck; this one has no list of marks.
    monkeypatch.setattr(pytest, "mark", pytest.MarkGenerator(_ispytest=True))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, path.stem, module)
    spec.loader.exec_module(module)
    return module


def is_said(quote: str) -> bool:
    """Return whether a quotation is in a library; `[...]` stands for omitted text."""
    parts = [plain(part) for part in quote.split("[...]")]
    return any(all(part in texts(library) for part in parts) for library in LIBRARIES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_declaration_quotes_the_library(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = [value for value in vars(loaded(path, monkeypatch)).values() if isinstance(value, ec.Target)]
    declared = [(target, code, why) for target in targets for code, why in target.not_applicable.items()]
    assert declared
    for target, code, why in declared:
        quotes = re.findall(r'"([^"]+)"', why)
        if not quotes:
            other = re.search(r"EC\d+", why)
            assert other, f"{target.name}: {code} quotes nothing: {why}"
            assert other[0] in target.known_failures
        elif not any(source in why for source in ELSEWHERE):
            assert all(map(is_said, quotes)), f"{target.name}: {code} quotes what no library says: {why}"


def test_a_quotation_that_nobody_said_is_found() -> None:
    assert is_said("The min/max value will be updated each time `.compute` is called")
    assert not is_said("Each query is going to attend no number of random blocks")

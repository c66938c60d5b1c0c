"""The index of findings, their pages and the registry of upstream faults name the same findings."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def _module() -> Any:
    spec = importlib.util.spec_from_file_location("findings", ROOT / "benchmarks" / "findings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["findings"] = module
    spec.loader.exec_module(module)
    return module


PAGES = _module()
FOUND = {each.place: each for each in PAGES.findings()}
ROWS = {row.place: row for row in PAGES.rows()}
LIBRARIES = re.compile(r"^\w+: | \(\w+\)$")
"""The name of a library, which a row of the index has where another page has a finding of the same title."""


def test_the_index_has_every_finding_once() -> None:
    places = [row.place for row in PAGES.rows()]
    assert len(places) == len({*places})
    assert {*places} == {*FOUND}


def test_two_headings_of_a_page_have_different_names() -> None:
    assert len(list(PAGES.findings())) == len(FOUND)


def test_every_finding_of_the_registry_is_in_the_index() -> None:
    missing = {fault: place for fault, place in PAGES.registered().items() if place not in ROWS}
    assert not missing


def test_every_heading_is_a_finding_or_says_what_it_is() -> None:
    others = ("By design", "Seen while writing")
    for page in (ROOT / "docs" / "findings").glob("*.md"):
        headings = re.findall(r"^##+ (.*)$", page.read_text(encoding="utf-8"), re.M)
        unknown = [each for each in headings if f"{page.name}#{PAGES.anchor(each)}" not in FOUND]
        assert all(each.startswith(others) for each in unknown), (page.name, unknown)


@pytest.mark.parametrize("place", FOUND)
def test_a_row_is_whole_and_says_what_its_page_says(place: str) -> None:
    row, finding = ROWS[place], FOUND[place]
    assert len(row.cells) == 3
    assert all(row.cells)
    assert LIBRARIES.sub("", row.title) in (finding.heading, LIBRARIES.sub("", finding.heading))
    assert {*re.findall(r"EC\d{3}", row.cells[1])} == finding.checks
    for opening, closing in ("()", "[]"):
        assert all(cell.count(opening) == cell.count(closing) for cell in row.cells)


@pytest.mark.parametrize("place", FOUND)
def test_a_finding_has_a_script(place: str) -> None:
    finding = FOUND[place]
    script = finding.script
    assert script, "expected a block of Python, or `* Script: [that of ...](#heading)`"
    if re.fullmatch(r"#[\w-]+", script):
        assert "\n" in FOUND[f"{finding.page}{script}"].script
    else:
        assert ast.parse(script).body


def test_what_is_no_finding_is_not_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# Findings\n\n## By design\n\n* Sums\n\n## A bug\n\n* Check: EC201 (quick)\n\n```python\nprint(1)\n```\n"
    (tmp_path / "lib.md").write_text(text, encoding="utf-8")
    monkeypatch.setattr(PAGES, "PAGES", tmp_path)
    (finding,) = PAGES.findings()
    assert (finding.place, finding.checks, finding.script) == ("lib.md#a-bug", {"EC201"}, "print(1)\n")

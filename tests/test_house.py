"""The figures of the house and their budgets."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import house

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib")


def test_a_budget_that_is_passed_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "budgets.toml"
    file.write_text('[lines]\nadapters = 10\n"(root)" = 100000\n')
    assert house.main(["--budgets", str(file)]) == 1
    marked = [line.split() for line in capsys.readouterr().out.splitlines() if line.endswith("above its budget")]
    assert [words[:2] for words in marked] == [["lines,", "adapters"]]


def test_a_budget_of_no_figure_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "budgets.toml"
    file.write_text("[lines]\nadapter = 100000\n")
    assert house.main(["--budgets", str(file)]) == 1
    assert "a budget of 'lines, adapter', which is no figure" in capsys.readouterr().out

"""No line of ours is wider than the terminal, except what is copied as one piece; a log that is no terminal has whole lines."""

from __future__ import annotations

import re

import pytest
from target_files import BROKEN, CORRECT, HEADER

from pytest_evalcheck.reports.text import columns
from pytest_evalcheck.testing import Project

SOURCE = """
class Raises(Mean):
    def update(self, values):
        raise KeyError("a key that is named by a text which is longer than a narrow terminal is wide")

@ec.metric(inputs=numbers)
def raises_whenever_it_is_given_a_batch_of_any_size(device):
    return ec.Metric.of(Raises())

@ec.metric(inputs=numbers, known_failures={"EC201": ec.KnownFailure(reason="a mean of means, " * 12)})
def a_known_mean_of_means(device):
    return ec.Metric.of(MeanOfMeans())
"""
OPTIONS = ("--evalcheck-select=EC201,EC203,EC204,EC205", "--evalcheck-effort=quick", "--evalcheck-device=cpu")
WHOLE = re.compile(r" *(reproduce +)?pytest --evalcheck |FAILED |plugins: |rootdir: |cachedir: |=+ .* =+$")
"""Commands, and lines that are pytest's own."""


def wide(text: str, width: int) -> list[str]:
    """Lines that are wider and could have been folded."""
    lines = [each for each in text.splitlines() if columns(each) > width]
    return [each for each in lines if not WHOLE.match(each) and " " in each.strip()]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.slow(every=3)
def test_no_line_is_wider_than_the_terminal(project: Project, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    project.write(HEADER, BROKEN, CORRECT, SOURCE)
    result = project.spawn("--evalcheck", *OPTIONS, "-k", "not EC205", code=1)
    assert "not selected" in result.text
    assert wide(result.text, width) == []
    assert result.text.splitlines()[-1].startswith("evalcheck: not ok: 2 failed of 2 causes")


def test_a_log_has_whole_lines(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    project.write(HEADER, BROKEN, CORRECT, SOURCE)
    result = project.spawn("--evalcheck", *OPTIONS, code=1)
    result.shows(
        "actual    update raised KeyError: 'a key that is named by a text which is longer than a narrow terminal"
    )
    assert re.search(r"^4 targets, .* not run$", result.text, re.M)

"""The comment of a pull request, and annotations."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from markdown_it import MarkdownIt
from report_samples import cell, failure, reports, small

from pytest_evalcheck.reports import (
    SCREEN,
    ReportError,
    check_paths,
    comment,
    html,
    parse,
    terminal,
    workflow_commands,
    write,
)
from pytest_evalcheck.reports.results import Report
from pytest_evalcheck.testing import Project

TARGET = """
from hypothesis import strategies as st

class Mean:
    def __init__(self): self.values = []
    def update(self, values): self.values.append(sum(values) / max(1, len(values)))
    def compute(self): return sum(self.values) / max(1, len(self.values))

@ec.metric(inputs=es.samples(st.integers(0, 9), collate=lambda rows: (rows,), name="numbers"))
def mean():
    return ec.Metric.of(Mean())
"""


def failed_targets(count: int) -> Report:
    """Failures of as many causes."""
    return Report(
        cell(f"evalcheck_lm.py::f{number}", outcome="failed", reason=f"number {number}", failure=failure())
        for number in range(count)
    )


class TestComment:
    def test_it_begins_with_a_line_that_a_program_finds_and_with_the_counts(self) -> None:
        first, second, *rest = comment.render(small()).splitlines()
        assert (first, second) == ("<!-- pytest-evalcheck -->", "## evalcheck: failures")
        assert "14 checks: 5 passed, 3 failed of 2 causes, 3 known" in rest[1]

    def test_each_failure_is_there_once_and_nothing_that_is_no_failure(self) -> None:
        text = comment.render(small())
        assert text.count("</details>") == 2
        for shown in ("Smallest input:", "samples=[(0, ", "--evalcheck-replay=AAEC", "The value does not depend"):
            assert text.count(shown) == 1, shown
        assert "nltk is not installed" in text  # not run, which fails a run
        assert "a rejected batch is counted" not in text  # known
        assert "| --- |" not in text

    def test_a_run_that_is_not_ok_without_a_failure_says_why(self) -> None:
        report = Report([cell()], problems=["evalcheck-lm is empty"])
        assert "not ok&#58; evalcheck-lm is empty" in comment.render(report)
        assert "not ok" not in comment.render(Report([cell()]))

    @given(reports)
    def test_any_report_fits_and_has_no_markup_of_others(self, report: Report) -> None:
        text = comment.render(report)
        assert len(text) <= comment.LIMIT
        assert text.startswith("<!-- pytest-evalcheck -->\n## evalcheck: ")
        html = MarkdownIt("commonmark").render(text)
        assert set(re.findall(r"<(script|img|!--[^>]*)", html)) <= {"!-- pytest-evalcheck --"}

    def test_what_has_no_room_is_counted(self) -> None:
        text = comment.render(failed_targets(2000))
        assert len(text) <= 65_536
        assert re.search(r"Left out, because GitHub shows at most 65,536 characters: \d+ \w+, \d+ \w+\.", text)

    def test_it_replaces_a_comment_and_nothing_else(self, tmp_path: Path) -> None:
        path = tmp_path / "comment.md"
        for _ in range(2):
            check_paths([("comment", path)])
            write(small(), "comment", path)
        path.write_text("notes")
        with pytest.raises(ReportError, match="not a comment report"):
            check_paths([("comment", path)])


class TestAnnotations:
    def test_one_for_each_cause_at_the_line_of_its_target(self, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        file = tmp_path / "tests" / "evalcheck_lm.py"
        file.parent.mkdir()
        file.touch()
        report = Report([cell(outcome="failed", reason="0.5, not\n25%", file=str(file), line=12, failure=failure())])
        title = "title=EC201 cutting a stream does not change the value"
        message = "evalcheck_lm.py::accuracy on cpu: 0.5, not 25%25"
        assert (
            workflow_commands.render(report, tmp_path)
            == f"::error file=tests/evalcheck_lm.py,line=12,{title}::{message}\n"
        )

    def test_what_is_outside_of_the_repository_has_no_file(self, tmp_path: Path) -> None:
        report = Report([cell("", outcome="failed", reason="x", file="/elsewhere/a.py", line=1)])
        assert workflow_commands.render(report, tmp_path).startswith("::error title=EC201 ")

    def test_no_text_ends_a_command_or_begins_one(self) -> None:
        report = Report([cell(outcome="failed", reason="x", failure=failure(reproduce="a\r\n::warning::b%0A"))])
        (line,) = workflow_commands.render(report).splitlines()
        assert line.endswith("%0Areproduce: a%0A::warning::b%250A")
        (line,) = workflow_commands.render(Report([cell(check="a:b,c%", code="X1", outcome="failed")])).splitlines()
        assert "title=X1 a%3Ab%2Cc%25::" in line

    @given(reports)
    def test_any_report_is_at_most_ten_commands_of_a_type(self, report: Report) -> None:
        lines = workflow_commands.render(report).split("\n")
        assert lines.pop() == ""
        found = [re.match(r"::(error|warning) (?:file=[^,:]*,line=\d+,)?title=[^:,]*::", line) for line in lines]
        levels = [match and match[1] for match in found]
        assert None not in levels
        assert max(map(levels.count, levels), default=0) <= 10
        assert not any("\r" in line for line in lines)

    def test_the_rest_is_counted(self) -> None:
        lines = workflow_commands.render(failed_targets(12)).splitlines()
        assert len(lines) == 10
        assert lines[-1] == "::error title=evalcheck::3 more: GitHub shows 10 annotations of a type; the log has all"
        assert len(workflow_commands.render(failed_targets(10)).splitlines()) == 10

    def test_what_fails_a_run_without_a_failure_is_an_error(self) -> None:
        cells = [
            cell(),
            cell("a.py::b", outcome="not run", reason="no gpu", missing=("cuda",)),
            cell("a.py::c", outcome="not run", reason="no nltk"),
            cell(outcome="incomplete", reason="slow"),
        ]
        report = Report(cells, problems=["a.py was skipped"], optional=["cuda"])
        levels = [(line.split()[0], line.split("::")[-1]) for line in workflow_commands.render(report).splitlines()]
        assert levels == [
            ("::error", "c on cpu: no nltk"),
            ("::error", "a.py was skipped"),
            ("::warning", "accuracy on cpu: slow"),
        ]
        assert workflow_commands.render(Report([cell()])) == ""

    def test_only_annotations_go_to_the_screen(self) -> None:
        assert parse("annotations=-") == ("annotations", SCREEN)
        with pytest.raises(ReportError, match="'json=-' has no path: this format writes a file, such as"):
            parse("json=-")

    @pytest.mark.parametrize("more", [(), ("-q", "--capture=sys")])
    @pytest.mark.slow(every=2)
    def test_a_run_prints_each_once_at_the_beginning_of_a_line(
        self, evalcheck_project: Project, more: tuple[str, ...]
    ) -> None:
        evalcheck_project.write(TARGET)
        option = ("--evalcheck-select=EC201", "--evalcheck-report=annotations=-")
        result = evalcheck_project.spawn("--evalcheck", *option, *more, code=1)
        (line,) = [line for line in result.text.splitlines() if "::error" in line]
        assert line.startswith("::error file=evalcheck_example.py,line=11,title=EC201 splitting a stream")
        assert "%0Asamples=[" in line
        assert line.count("--evalcheck-replay=") == 1


def test_the_versions_are_those_of_an_issue() -> None:
    code = (
        "import sys; from pytest_evalcheck.__main__ import main; main(['versions']);"
        "print('imported:', sorted({'torch', 'transformers'} & {*sys.modules}))"
    )
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    first = r"pytest-evalcheck [\d.]+\nPython 3\.\d+\.\d+ on .+\npytest \d[\d.]*\nhypothesis [\d.]+\ntorch "
    assert re.match(first, text)
    assert "imported: []" in text


@pytest.mark.parametrize(("severity", "written"), [("error", " (error)"), ("cost", " (cost)"), ("number", "")])
def test_each_view_writes_the_severity_that_the_terminal_writes(severity: str, written: str) -> None:
    report = Report([cell(outcome="failed", severity=severity, reason="it fails", failure=failure())])
    headline = f"EC201 cutting a stream does not change the value{written}"
    assert f"✗ {headline}\n" in terminal.text(report)
    assert f"**{headline}**" in comment.render(report)
    assert f"title={headline}::" in workflow_commands.render(report)
    assert f"it fails{written}\n" in html.render(report)

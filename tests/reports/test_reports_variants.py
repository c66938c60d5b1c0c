from __future__ import annotations

import json
import math
import re
from importlib import resources
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest
from report_samples import cell

from pytest_evalcheck.reports import html, terminal
from pytest_evalcheck.reports.json import as_json
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.reports.variants import HEADINGS, comparisons, format_bytes, format_rate, format_ratio


def row(name: str, speedup: float = 1.0, change: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "samples": 64,
        "rounds": 5,
        "speed": 800 * speedup,
        "speedup": speedup,
        "memory": 4096,
        "memory_ratio": 1.0,
        "numbers": {"accuracy": 0.9 + change, "loss": 0.4},
        "drift": abs(change),
        **({"change": change} if more else {}),
        **more,
    }


def judged(change: float, verdict: str) -> dict[str, Any]:
    ends = {"low": change - 0.02, "high": change + 0.02}
    return {"number": "accuracy", **ends, "budget": 0.03, "verdict": verdict}


ROWS = [
    row("plain"),
    row("batches of 64", 2.5),
    row("bf16", 1.25, -0.004, **judged(-0.004, "within")),
    row("int8", 1.5, -0.02, **judged(-0.02, "undecided")),
    row("student", 3.0, -0.09, **judged(-0.09, "beyond")),
]


def measured(rows: Any = ROWS, target: str = "evalcheck_loops.py::encoder", code: str = "EC520") -> Cell:
    return cell(target, code, variants=tuple(rows))


def test_cells_of_one_target_are_one_comparison() -> None:
    (found,) = comparisons(Report([measured(ROWS[:2]), measured([ROWS[0], *ROWS[2:]], code="EC521")]))
    assert [row[0] for row in found.rows] == ["plain", "batches of 64", "bf16", "int8", "student"]
    assert found.samples == "64 samples"
    assert found.verdicts == ("", "", "within", "undecided", "beyond")


def test_a_plain_configuration_alone_is_none() -> None:
    assert comparisons(Report([measured(ROWS[:1]), cell()])) == []


def test_the_terminal_has_a_table() -> None:
    text = terminal.text(Report([measured()]), width=100)
    assert re.search(r"configuration +samples/s +speed-up +memory +of plain", text)
    assert re.search(r"plain +800 +4\.0 KiB\n", text)
    assert re.search(r"batches of 64 +2,000 +2\.50x +4\.0 KiB +1\.00x +the same", text)
    assert "beyond its budget of 0.03: accuracy -0.09 (-0.11 to -0.07)" in text
    assert "undecided about its budget of 0.03: accuracy -0.02" in text


@pytest.mark.parametrize("width", [32, 40, 60, 80, 200])
@pytest.mark.parametrize("unicode", [True, False])
def test_no_line_is_wider_than_the_terminal(width: int, unicode: bool) -> None:
    text = terminal.text(Report([measured()]), width=width, unicode=unicode)
    lines = text.partition("Variants")[2].partition("1 target")[0].splitlines()
    assert len(lines) > 5
    assert max(map(len, lines)) <= width
    assert all(f"{name}" in text for name in ("student", "3.00x", "beyond"))


def test_of_many_targets_the_rest_is_counted() -> None:
    report = Report([measured(target=f"evalcheck_loops.py::t{place}") for place in range(8)])
    assert "and 2 targets more, with -v" in terminal.text(report, width=100)
    assert "t7, 64 samples" not in terminal.text(report, width=100)
    assert "t7, 64 samples" in terminal.text(report, width=100, verbosity=1)


def test_the_page_has_a_table_with_the_verdicts() -> None:
    page = html.render(Report([measured()]))
    (table,) = re.findall(r'<div class="scroll variants".*?</table>', page, re.S)
    root = ElementTree.fromstring(table + "</div>")
    assert [heading.text for heading in root.findall(".//thead//th")] == list(HEADINGS)
    assert [row.text for row in root.findall(".//tbody//th")] == [row["name"] for row in ROWS]
    assert [row[-1].attrib["class"] for row in root.findall(".//tbody/tr")] == ["", "", "passed", "known", "failed"]
    assert root[0][1][4][5].text == "beyond its budget of 0.03: accuracy -0.09 (-0.11 to -0.07)"


def test_a_page_without_variants_says_nothing_of_them() -> None:
    assert "Variants" not in html.render(Report([cell()]))


@pytest.mark.parametrize("bad", [None, math.nan, math.inf, "fast", True, [1]])
def test_figures_that_are_none_leave_a_dash(bad: Any) -> None:
    rows = [row("plain"), row("odd", speedup=1.0) | {"speed": bad, "speedup": bad, "memory": bad, "numbers": bad}]
    report = Report([measured(rows)])
    assert re.search(r"odd +- +- +- ", terminal.text(report, width=100))
    (found,) = comparisons(report)
    assert found.rows[1][:5] == ("odd", "-", "-", "-", "1.00x")
    assert "odd" in html.render(report)


def test_a_name_is_text_and_nothing_else() -> None:
    page = html.render(Report([measured([row("plain"), row("<script>alert(1)</script>"), row("a\x1b[31mb")])]))
    assert "<script>alert" not in page
    assert "\x1b" not in page


def test_rows_are_what_the_schema_says() -> None:
    schema = json.loads(resources.files("pytest_evalcheck.reports").joinpath("schema.json").read_text("utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    validator.validate(as_json(Report([measured()])))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(as_json(Report([measured([row("plain", verdict="maybe")])])))


def test_figures_are_short() -> None:
    assert [format_bytes(count) for count in (None, 12, 2048, 3 * 2**20, 5 * 2**30)] == [
        "-",
        "12 B",
        "2.0 KiB",
        "3.0 MiB",
        "5.0 GiB",
    ]
    assert [format_ratio(ratio) for ratio in (None, 0.5, 1.256, 12.34)] == ["-", "0.50x", "1.26x", "12.3x"]
    assert [format_rate(speed) for speed in (None, 0.1234, 12345.6)] == ["-", "0.123", "12,346"]

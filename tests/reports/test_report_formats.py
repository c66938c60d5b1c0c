"""Formats of reports that other distributions register."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from report_samples import small

from pytest_evalcheck import reports
from pytest_evalcheck.reports import ReportError, check_paths, parse, write
from pytest_evalcheck.testing import Project

CSV = Path(__file__).with_name("csv_format.py").read_text(encoding="utf-8")
TARGET = """
from hypothesis import strategies as st

class Count:
    def __init__(self): self.count = 0
    def update(self, values): self.count += len(values)
    def compute(self): return float(self.count)

numbers = es.samples(st.integers(0, 9), collate=lambda rows: (rows,), name="numbers")

@ec.metric(inputs=numbers)
def counts():
    return ec.Metric.of(Count())

@ec.metric(inputs=numbers, requires=["not-there"])
def not_here():
    return ec.Metric.of(Count())
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed modules and distributions."""
    (tmp_path / "csv_format.py").write_text(CSV, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    reports._entry_points.cache_clear()
    yield tmp_path
    reports._entry_points.cache_clear()


def distribution(folder: Path, entry: str, value: str, *, name: str = "evalcheck-csv") -> None:
    """Lay out a distribution with one entry point, as pip does."""
    info = folder / f"{name.replace('-', '_')}-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[pytest_evalcheck_reports]\n{entry} = {value}\n")


def refused(spec: str) -> str:
    """Return the message about an option."""
    with pytest.raises(ReportError) as error:
        parse(spec)
    return str(error.value)


def test_a_run_writes_the_format_of_a_distribution(evalcheck_project: Project) -> None:
    project = evalcheck_project.write(TARGET).write(CSV, name="csv_format.py", header="")
    project.pytester.syspathinsert()
    distribution(project.path, "csv", "csv_format:CSV")
    result = project.spawn("--evalcheck", "--evalcheck-select=EC201", "--evalcheck-report=csv=out.csv", code=1)
    result.assert_outcomes(passed=1, not_run=1).shows("the csv report leaves out 1 that did not run")
    with (project.path / "out.csv").open(encoding="utf-8", newline="") as file:
        assert [(row["code"], row["outcome"]) for row in csv.DictReader(file)] == [("EC201", "passed")]


def test_a_file_of_another_format_is_not_replaced(installed: Path) -> None:
    distribution(installed, "csv", "csv_format:CSV")
    path = installed / "out.csv"
    assert parse(f"csv={path}") == ("csv", path)
    write(small(), "csv", path)
    check_paths([("csv", path)])
    path.write_text("another table")
    with pytest.raises(
        ReportError, match=r"a file that is not a csv report of this plugin; expected 'reports/evalcheck.csv'"
    ):
        check_paths([("csv", path)])


def test_a_name_that_is_near_is_that_of_a_distribution_too(installed: Path) -> None:
    distribution(installed, "csv", "csv_format:CSV")
    assert refused("cvs=out.csv").endswith("there is no format 'cvs'; did you mean 'csv'?")


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("csv_format:THERE_IS_NONE", "AttributeError: module 'csv_format' has no attribute 'THERE_IS_NONE'"),
        ("csv_formats:CSV", "ModuleNotFoundError: No module named 'csv_formats'"),
        ("csv_format:COLUMNS", "it is ('target', 'code', 'device', 'outcome', 'reason'); expected an ec.ReportFormat"),
    ],
)
def test_an_entry_point_that_is_no_format_is_one_message(installed: Path, value: str, says: str) -> None:
    distribution(installed, "csv", value)
    problem = f"the entry point csv = {value!r} of evalcheck-csv 1.2 is no report format: {says}"
    assert refused("csv=out.csv") == f"--evalcheck-report 'csv=out.csv': {problem}"
    assert parse("json=out.json") == ("json", Path("out.json"))


@pytest.mark.parametrize(("name", "other"), [("html", "pytest-evalcheck"), ("csv", "csv-too 1.2")])
def test_a_name_belongs_to_one_distribution(installed: Path, name: str, other: str) -> None:
    distribution(installed, name, "csv_format:CSV")
    if name == "csv":
        distribution(installed, name, "csv_format:CSV", name="csv-too")
    message = refused(f"{name}=out")
    assert f"the report format {name!r} is registered twice: by " in message
    assert {*message.partition("twice: by ")[2].split(" and by ")} == {other, "evalcheck-csv 1.2"}


def test_an_error_of_a_format_names_it(installed: Path) -> None:
    bad = "import pytest_evalcheck as ec\nBAD = ec.ReportFormat(write=lambda report, path: 1 / 0, file='x')\n"
    (installed / "bad_format.py").write_text(bad)
    distribution(installed, "bad", "bad_format:BAD")
    with pytest.raises(ReportError, match="its format raised ZeroDivisionError: division by zero"):
        write(small(), "bad", installed / "out")

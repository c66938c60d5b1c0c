from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from dataclasses import fields, replace
from importlib import metadata, resources
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from report_samples import cell, failure, reports, small, thorough

from pytest_evalcheck.reports import ReportError
from pytest_evalcheck.reports.json import as_json, load, versions, write
from pytest_evalcheck.reports.results import Cell, Failure, Report

SCHEMA = json.loads(resources.files("pytest_evalcheck.reports").joinpath("schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


def _read(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"), parse_constant=_no_constant)


def _spelt(report: Report) -> Report:
    """The report with every lone surrogate spelt out, as UTF-8 needs it."""

    def fix(value):
        if isinstance(value, str):
            return value.encode("utf-8", "backslashreplace").decode()
        if isinstance(value, dict):
            return {fix(k): fix(v) for k, v in value.items()}
        if isinstance(value, (Cell, Failure)):
            return type(value)(**{f.name: fix(getattr(value, f.name)) for f in fields(value)})
        return type(value)(map(fix, value)) if isinstance(value, (list, tuple)) else value

    return Report(map(fix, report.cells))


def test_the_schema_is_a_schema_and_knows_every_field_of_a_cell():
    VALIDATOR.check_schema(SCHEMA)
    described = SCHEMA["$defs"]["check"]
    written = {field.name for field in fields(Cell)} | {"unreached"}
    assert set(described["properties"]) == set(described["required"]) == written
    described = SCHEMA["$defs"]["failure"]
    assert set(described["properties"]) == set(described["required"]) == {field.name for field in fields(Failure)}
    assert all("description" in about for about in described["properties"].values())
    assert set(SCHEMA["properties"]["summary"]["properties"]) == set(as_json(small())["summary"])


def test_a_report_is_what_the_schema_says(tmp_path):
    write(small(), tmp_path / "out.json")
    data = _read(tmp_path / "out.json")
    VALIDATOR.validate(data)
    assert data["schema"] == "pytest-evalcheck/3"
    assert data["summary"] == {
        "ok": False,
        "why": ["3 failed of 2 causes", "2 not run (nltk is not installed)"],
        "targets": 5,
        "checks": 14,
        "passed": 5,
        "failed": 3,
        "known": 3,
        "not applicable": 1,
        "incomplete": 0,
        "not run": 2,
        "causes": 2,
        "untried": [],
        "problems": [],
        "optional": [],
        "narrowed": False,
        "unchanged": "",
    }
    leak, own = data["causes"]
    assert leak == {
        "headline": "leak: default dtype",
        "checks": [{"check": 9, "why": ""}, {"check": 0, "why": "the same cause: leak: default dtype"}],
    }
    assert own["checks"] == [{"check": 2, "why": ""}]
    assert data["checks"][5]["unreached"] == ["all of size 1"]


@pytest.mark.parametrize(
    "harm",
    [
        {"outcome": "kept"},
        {"seconds": "1"},
        {"conditions": {"empty": -1}},
        {"examples": 1.5},
        {"reason": None},
        {"screen": "text"},
        {"failure": "text"},
        {"failure": {}},
        {"failure": failure().as_json() | {"expected": None}},
        {"failure": failure().as_json() | {"more": ""}},
        {"failure": failure().as_json() | {"case": []}},
        {"failure": failure().as_json() | {"case": {"samples": {"set": []}}}},
        {"failure": failure().as_json() | {"case": {"samples": {"float": "0.5"}}}},
        {"failure": failure().as_json() | {"case": {"samples": {"dict": [[1, 2, 3]]}}}},
        {"failure": failure().as_json() | {"case": {"samples": {"tuple": [], "dict": []}}}},
    ],
)
def test_the_schema_refuses_what_is_not_a_cell(harm):
    data = as_json(small())
    data["checks"][0].update(harm)
    assert not VALIDATOR.is_valid(data)
    del data["checks"][0]
    assert VALIDATOR.is_valid(data)


@pytest.mark.parametrize(
    "harm",
    [
        {"checks": []},
        {"checks": [{"check": 0}]},
        {"checks": [{"check": -1, "why": ""}]},
        {"checks": [{"check": 0, "why": "", "more": 1}]},
        {"headline": None},
        {"more": 1},
    ],
)
def test_the_schema_refuses_what_is_not_a_cause(harm):
    data = as_json(small())
    data["causes"][0].update(harm)
    assert not VALIDATOR.is_valid(data)
    del data["causes"][0]
    assert VALIDATOR.is_valid(data)


def test_versions_are_those_installed_and_nothing_is_imported():
    assert versions()["torch"] == metadata.version("torch")
    assert versions()["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "mosaicml" not in versions()
    code = "import sys; from pytest_evalcheck.reports.json import versions; versions(); print('torch' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out == "False\n"


@thorough
@given(report=reports)
def test_any_report_is_valid_and_reads_back(report, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "any.json"
    write(report, path)
    VALIDATOR.validate(_read(path))
    assert load(path) == _spelt(report)


@thorough
@given(report=reports)
def test_every_broken_cell_is_in_one_cause(report):
    data = as_json(report)
    inside = [member["check"] for cause in data["causes"] for member in cause["checks"]]
    assert sorted(inside) == [i for i, each in enumerate(data["checks"]) if each["outcome"] == "failed"]
    assert len(data["causes"]) == data["summary"]["causes"]
    assert all([member["why"] == "" for member in cause["checks"]].index(True) == 0 for cause in data["causes"])


def test_cells_read_back_in_the_order_they_ran(tmp_path):
    write(small(), tmp_path / "out.json")
    assert load(tmp_path / "out.json") == small()


def test_a_case_keeps_its_types(tmp_path):
    case = {"samples": [(0, b"\x00"), {1: None, "a": ()}], "value": -math.inf, "none": math.nan, "first": True}
    write(Report([cell(outcome="failed", failure=failure(case=case))]), tmp_path / "out.json")
    data = _read(tmp_path / "out.json")
    VALIDATOR.validate(data)
    assert data["checks"][0]["failure"]["case"] == {
        "samples": [{"tuple": [0, {"bytes": "00"}]}, {"dict": [[1, None], ["a", {"tuple": []}]]}],
        "value": {"float": "-inf"},
        "none": {"float": "nan"},
        "first": True,
    }
    (read,) = load(tmp_path / "out.json").cells
    assert repr(read.failure.case) == repr(case)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf])
def test_a_time_that_is_no_number_is_null(seconds, tmp_path):
    write(Report([replace(cell(), seconds=seconds)]), tmp_path / "out.json")
    data = _read(tmp_path / "out.json")
    VALIDATOR.validate(data)
    assert data["checks"][0]["seconds"] is None
    assert load(tmp_path / "out.json") == Report([cell()])


def test_text_is_readable_in_the_file(tmp_path):
    write(Report([cell("evalcheck_ü.py::表")]), tmp_path / "out.json")
    assert '"evalcheck_ü.py::表"' in (tmp_path / "out.json").read_bytes().decode("utf-8")


def test_writing_replaces_the_file_as_a_whole_and_leaves_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "out.json"
    path.write_text("old " * 100_000)
    seen = []

    def replaced(source, target):
        seen.append((path.read_text()[:3], _read(Path(source))["schema"]))
        real(source, target)

    real = os.replace
    monkeypatch.setattr(os, "replace", replaced)
    write(small(), path)
    assert seen == [("old", "pytest-evalcheck/3")]
    assert load(path) == small()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_replaced_is_written_in_place(tmp_path, monkeypatch):
    def busy(source, target):
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(os, "replace", busy)
    write(small(), tmp_path / "out.json")
    assert load(tmp_path / "out.json") == small()
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_link_is_kept_and_others_may_read_the_file(tmp_path):
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    write(small(), tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert load(tmp_path / "real.json") == small()
    assert (tmp_path / "real.json").stat().st_mode == ordinary.stat().st_mode


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe")
def test_a_pipe_is_written_and_stays_a_pipe():
    code = (
        "import pathlib, sys; sys.path.insert(0, sys.argv[1]); from report_samples import small;"
        "from pytest_evalcheck.reports.json import write; write(small(), pathlib.Path('/dev/stdout'))"
    )
    here = str(Path(__file__).parent)
    out = subprocess.run([sys.executable, "-c", code, here], capture_output=True, text=True, check=True).stdout
    VALIDATOR.validate(json.loads(out))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON: Expecting property name"),
        ("[]", "its schema is None, not 'pytest-evalcheck/3'"),
        ('{"schema": "other/1"}', "its schema is 'other/1', not 'pytest-evalcheck/3'"),
        ('{"schema": "pytest-evalcheck/3"}', "has no list of checks"),
        ('{"schema": "pytest-evalcheck/3", "checks": [{"target": "a"}]}', "check 0 of .* missing 5 required"),
        ('{"schema": "pytest-evalcheck/3", "checks": [7]}', "check 0 of .* cannot be read"),
        (
            json.dumps(
                {
                    "schema": "pytest-evalcheck/3",
                    "checks": [cell().as_json() | {"failure": {"about": "", "case": {"a": {"set": []}}}}],
                }
            ),
            "check 0 of .* cannot be read: unknown tag 'set'",
        ),
    ],
)
def test_a_file_that_is_no_report_is_refused_with_its_name(content, message, tmp_path):
    path = tmp_path / "in.json"
    path.write_text(content)
    with pytest.raises(ReportError, match=re.escape(str(path))) as caught:
        load(path)
    assert re.search(message, str(caught.value))


def test_an_outcome_that_does_not_exist_is_refused(tmp_path):
    path = tmp_path / "out.json"
    write(small(), path)
    path.write_text(path.read_text("utf-8").replace('"not run",', '"skipped",'), "utf-8")
    with pytest.raises(ReportError, match=r"check 10 of .* ended 'skipped', not passed or failed or known"):
        load(path)


def test_keys_of_a_newer_version_are_passed_over(tmp_path):
    path = tmp_path / "out.json"
    write(small(), path)
    data = _read(path)
    data["later"] = data["checks"][0]["later"] = 1
    path.write_text(json.dumps(data))
    assert load(path) == small()

"""`pytest -p pytest_evalcheck.devices --simulate=cuda` over a small project: ordinary tests on simulated devices."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from pytest_evalcheck.devices.suite_records import SuiteReport, TestRecord
from pytest_evalcheck.devices.suite_summary import lines
from pytest_evalcheck.testing import Project, Result

SCHEMA = json.loads(resources.files("pytest_evalcheck.devices").joinpath("suite_report.schema.json").read_text("utf-8"))
CONFTEST = """
import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # before any test is collected

@pytest.fixture(scope="module")
def model():
    return torch.nn.Linear(4, 2).to(DEVICE)
"""
TESTS = """
import unittest

import pytest
import torch

ROWS = torch.ones(3, 4).to("cuda" if torch.cuda.is_available() else "cpu")  # a transfer outside of tests
on_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no device")

@on_cuda
def test_reads_a_value(model):
    assert model(ROWS).sum().item() == model(ROWS).sum().item()

@on_cuda
def test_mixes_devices(model):
    model(torch.ones(3, 4))

@on_cuda
@pytest.mark.xfail(raises=RuntimeError)
def test_mixes_devices_as_is_known(model):
    model(torch.ones(3, 4))

def test_compiles(model):
    torch.compile(model)(ROWS)

def test_catches():
    try:
        torch.compile(lambda rows: rows)
    except RuntimeError:
        pass

def test_is_wrong():
    assert ROWS is None

class OldStyle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = torch.nn.Linear(4, 2).cuda()

    def test_is_on_the_device(self):
        self.assertEqual(str(self.model(ROWS).device), "cuda:0")

    def test_compiles(self):
        try:
            torch.compile(self.model)
        except RuntimeError as error:
            raise ValueError("compilation") from error
"""


def written(project: Project) -> Project:
    (project.path / "conftest.py").write_text(CONFTEST)
    return project.write(TESTS, name="test_example.py", header="")


def run(project: Project, *arguments: str, code: int | None = None) -> Result:
    return written(project).run("-p", "pytest_evalcheck.devices", *arguments, evalcheck=False, code=code)


def reported(project: Project) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    report = json.loads((project.path / "out" / "report.json").read_text(encoding="utf-8"))
    jsonschema.validate(report, SCHEMA)
    return {each["nodeid"].rpartition("::")[2]: each for each in report["tests"]}, report


def test_the_tests_run_on_the_device_and_each_has_a_ledger(evalcheck_project: Project) -> None:
    result = run(evalcheck_project, "--simulate=cuda", "--simulate-report=json=out/report.json", code=1)
    assert result.outcomes == {"failed": 4, "passed": 3, "xfailed": 1}
    tests, report = reported(evalcheck_project)
    first = tests["test_reads_a_value"]
    assert [(each["source"], each["target"], each["bytes"]) for each in first["transfers"]] == [("cpu", "cuda:0", 40)]
    (sync,) = first["syncs"]
    assert (sync["call"], sync["count"], Path(sync["file"]).name) == ("item", 2, "test_example.py")
    assert tests["test_is_wrong"]["syncs"] == []  # pytest alone reads the values that it shows
    (outside,) = report["outside"]["transfers"]
    assert (outside["call"], outside["bytes"]) == ("to", 48)
    assert {name: each["cause"] for name, each in tests.items() if each["outcome"] == "failed"} == {
        "test_mixes_devices": "refused by the device",
        "test_is_wrong": "other",
        "test_compiles": "cannot simulate",
    }
    assert tests["test_compiles"]["feature"] == "torch.compile"
    assert (tests["test_catches"]["outcome"], tests["test_catches"]["met"]) == ("passed", ["torch.compile"])
    assert report["totals"]["bytes"] == 48 + 40 + 40  # the rows, the model of the module, that of the class
    result.shows(
        "simulated devices: cuda",
        "8 tests: 4 failed, 3 passed, 1 xfailed",
        "cpu -> cuda:0: 5 transfers, 128 bytes",
        "host synchronisations: 2",
        "cannot be simulated, so not checkable here: 2 tests failed; --simulate-not-checkable=skip skips them",
        "    2  torch.compile: compiled code does not run operator by operator.",
        "refused by the device: 1 test failed",
        "failed for another reason: 1 test",
        "cannot be simulated, which the code caught",
    )


def test_what_is_not_checkable_is_skipped_on_request(evalcheck_project: Project) -> None:
    result = run(evalcheck_project, "--simulate=cuda", "--simulate-not-checkable=skip", "-rs", "-v", code=1)
    assert result.outcomes == {"failed": 2, "passed": 3, "xfailed": 1, "skipped": 2}
    result.shows(
        "not checkable here: torch.compile cannot be simulated",
        "cannot be simulated, so not checkable here: 2 tests skipped",
        "lines of code",
        "test_example.py:12: item: waits for cuda:0",
    )


def test_compiled_code_may_run_as_it_is_written(evalcheck_project: Project) -> None:
    run(evalcheck_project, "--simulate=cuda", "--simulate-compile=eager", "-k", "compiles or catches", code=0)


def test_without_devices_the_plugin_does_nothing(evalcheck_project: Project) -> None:
    result = run(evalcheck_project, "-k", "reads or mixes", code=0)
    assert result.outcomes == {"skipped": 3, "deselected": 5}
    assert "simulated devices" not in result.output


@pytest.mark.slow
def test_workers_of_xdist_simulate_before_their_conftests(evalcheck_project: Project) -> None:
    pytest.importorskip("xdist")
    project = written(evalcheck_project)
    result = project.spawn(
        "-p", "pytest_evalcheck.devices", "-n", "2", "--dist=loadfile", "--simulate=cuda",
        "--simulate-report=json=out/report.json", "-k", "reads or mixes or device", code=1,
    )  # fmt: skip
    assert result.outcomes == {"failed": 1, "passed": 2, "xfailed": 1}
    tests, report = reported(project)
    assert tests["test_mixes_devices"]["cause"] == "refused by the device"
    assert tests["test_reads_a_value"]["syncs"][0]["count"] == 2
    assert report["totals"]["bytes"] == 2 * 48 + 40 + 40  # each worker imports the module


def test_a_module_that_cannot_be_imported_is_told_apart(evalcheck_project: Project) -> None:
    project = evalcheck_project.write(
        "import torch\n\n@torch.compile\ndef double(rows):\n    return 2 * rows\n\ndef test_nothing():\n    pass\n",
        name="test_compiled.py",
        header="",
    )
    result = project.run("-p", "pytest_evalcheck.devices", "--simulate=cuda", evalcheck=False, code=2)
    result.shows("cannot be simulated, so not checkable here: 1 test failed", "test_compiled.py")
    skipped = project.run(
        "-p", "pytest_evalcheck.devices", "--simulate=cuda", "--simulate-not-checkable=skip", evalcheck=False
    )
    assert skipped.outcomes == {"skipped": 1}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--simulate=gpu"], ["--simulate=gpu", "did you mean 'cuda'"]),
        (["--simulate=cpu"], ["the CPU is always there"]),
        (["--simulate=cuda:x"], ["expected an index 0 to 63"]),
        (["--simulate="], ["Known are 'cuda' and 'mps'"]),
        (["--simulate=cuda", "--simulate=mps"], ["given 2 times", "--simulate=cuda,mps"]),
        (["--simulate-report=json=x"], ["--simulate-report does nothing without --simulate", "--simulate=cuda"]),
        (["--simulate-compile=eager"], ["--simulate-compile does nothing without --simulate"]),
        (["--simulate=cuda", "--simulate-report=html=x"], ["--simulate-report=html=x: expected json=PATH"]),
        (["--simulate=cuda", "--simulate-report=json=."], ["that is a folder"]),
        (["--simulate=cuda", "--evalcheck"], ["--evalcheck-device=sim:cuda,sim:mps"]),
    ],
)
@pytest.mark.slow(every=4)
def test_bad_input_is_one_usage_error(evalcheck_project: Project, arguments: list[str], words: list[str]) -> None:
    result = run(evalcheck_project, *arguments, code=pytest.ExitCode.USAGE_ERROR)
    (error,) = [line for line in result.errors.splitlines() if line.startswith("ERROR: ")]
    assert all(word in error for word in words), error


def test_the_option_alone_names_its_plugin(evalcheck_project: Project) -> None:
    result = written(evalcheck_project).run("--simulate=cuda", evalcheck=False, code=pytest.ExitCode.USAGE_ERROR)
    assert "pytest -p pytest_evalcheck.devices --simulate=cuda" in result.errors


def test_a_device_that_is_there_is_not_simulated_unless_told(evalcheck_project: Project, monkeypatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    result = run(evalcheck_project, "--simulate=cuda", code=pytest.ExitCode.USAGE_ERROR)
    assert "run the tests on it, without --simulate, or add --simulate-even-if-real" in result.errors
    run(evalcheck_project, "--simulate=cuda", "--simulate-even-if-real", "-k", "reads", code=0)


def test_the_package_imports_neither_torch_nor_pytest() -> None:
    code = "import pytest_evalcheck.devices, sys; sys.exit('torch' in sys.modules or 'pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "import pytest, sys; pytest.main(['-p', 'pytest_evalcheck.devices', '--version']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


def test_the_summary_of_a_large_run_stays_short() -> None:
    report = SuiteReport("cuda")
    for number in range(500):
        record = report.record(f"tests/test_large.py::test_{number:03}" + "x" * 200)
        record.outcome, record.cause = "failed", ("cannot simulate", "refused by the device", "other")[number % 3]
        record.feature = f"feature {number}" if number % 3 == 0 else ""
        record.error, record.met = f"RuntimeError: {number} " + "y" * 300, [f"caught {number}"]
        record.transfers = [
            {
                "source": "cpu",
                "target": "cuda:0",
                "call": "to",
                "file": "a.py",
                "line": number,
                "count": number,
                "bytes": 4,
            }
        ]
    short = lines(report)
    assert len(short) <= 35
    assert max(map(len, short)) <= 120
    everything = lines(report, everything=True)
    shown = "\n".join(everything)
    assert all(record.nodeid in shown for record in report.tests.values())


def test_an_error_of_a_group_is_told_by_its_parts() -> None:
    from pytest_evalcheck.devices import CannotSimulate
    from pytest_evalcheck.devices.suite_records import why_it_failed

    inner = CannotSimulate("streams", "wait")
    outer = ValueError("outer")
    outer.__cause__ = inner
    assert why_it_failed(outer, "/nowhere")["feature"] == "streams"
    if sys.version_info >= (3, 11):
        assert why_it_failed(ExceptionGroup("several", [KeyError("x"), inner]), "/nowhere")["feature"] == "streams"  # noqa: F821
    assert why_it_failed(KeyError("x"), "/nowhere") == {"cause": "other", "error": "KeyError: 'x'"}
    assert TestRecord("a").total("bytes") == 0

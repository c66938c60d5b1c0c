"""Collection of targets as items: what is collected, from where, and what stays out."""

from __future__ import annotations

import importlib.util

import pytest
from target_files import BROKEN, CORRECT

from pytest_evalcheck.testing import Project

ONE = "--evalcheck-select=EC201"


def test_ids_read_file_target_check_device(project: Project) -> None:
    result = project.write(CORRECT).run("--collect-only", "-q", code=0)
    result.shows("evalcheck_example.py::mean::reset_restores_the_initial_state[cpu]")


def test_without_the_option_target_files_are_left_alone(project: Project) -> None:
    project.write("raise RuntimeError('this file was imported')")
    (project.pytester.path / "test_ordinary.py").write_text("def test_one(): pass")
    assert project.run(evalcheck=False, code=0).outcomes == {"passed": 1}


def test_ordinary_tests_stay_out_unless_asked_for(project: Project) -> None:
    project.write(CORRECT, "def test_in_a_target_file(): assert __import__('sys').argv is None, 'RuntimeError'")
    (project.pytester.path / "test_ordinary.py").write_text("raise RuntimeError('imported')")
    project.run(code=0).lacks("RuntimeError")
    project.write(CORRECT, "def test_in_a_target_file(): pass")
    (project.pytester.path / "test_ordinary.py").write_text("def test_one(): pass")
    alone = project.run("--evalcheck-select=EC201", code=0).outcomes
    beside = project.run("--evalcheck-select=EC201", "--evalcheck-with-tests", code=0).outcomes
    assert alone == {"passed": 1, "deselected": 1}
    assert beside == {"passed": 3}


@pytest.mark.parametrize("name", ["evalcheck_example.py", "odd_name.py"])
def test_a_file_named_on_the_command_line_is_collected_once(project: Project, name: str) -> None:
    project.write(CORRECT, name=name)
    assert project.run(name, "--evalcheck-select=EC201", code=0).outcomes["passed"] == 1


def test_a_file_that_also_matches_python_files_is_collected_once(project: Project) -> None:
    project.pytester.makeini("[pytest]\npython_files = evalcheck_*.py test_*.py")
    project.write(CORRECT)
    assert project.run("--evalcheck-select=EC201", code=0).outcomes["passed"] == 1


def test_the_ini_says_what_target_files_are_called(project: Project) -> None:
    project.pytester.makeini("[pytest]\nevalcheck_files = *_targets.py")
    project.write(CORRECT, name="our_targets.py").write(BROKEN, name="evalcheck_other.py")
    project.run("--evalcheck-select=EC201", code=0).shows(
        "our_targets.py", "not collected: targets in evalcheck_other.py; no pattern of evalcheck_files matches"
    ).lacks("evalcheck_other.py::")


def test_keywords_and_node_ids_select(project: Project) -> None:
    project.write(CORRECT, BROKEN)
    assert project.run("-k", "mean_of_means and splitting", code=1).outcomes["failed"] == 1
    node = "evalcheck_example.py::mean::splitting_a_stream_does_not_change_the_value[cpu]"
    assert project.run(node, code=0).outcomes == {"passed": 1}


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        (["--evalcheck-select=EC201,reset"], {"EC201", "EC204"}),
        (
            ["--evalcheck-select=EC20", "--evalcheck-ignore=EC203,EC204"],
            {"EC201", "EC202", "EC205", "EC206", "EC207", "EC208", "EC209"},
        ),
    ],
)
def test_checks_are_selected_by_code_name_and_prefix(project: Project, options: list[str], codes: set[str]) -> None:
    from pytest_evalcheck.kinds.registry import shipped

    names = {made.name for made in shipped() if made.code in codes}
    text = project.write(CORRECT).run("--collect-only", "-q", *options, code=0).text
    assert {line.split("::")[2].split("[")[0] for line in text.splitlines() if "::" in line} == names


def test_selection_has_a_twin_in_the_ini(project: Project) -> None:
    project.pytester.makeini("[pytest]\nevalcheck_select = EC201\nevalcheck_effort = quick")
    assert project.write(CORRECT).run(code=0).outcomes == {"passed": 1}


def test_marks_of_the_factory_reach_its_cells(project: Project) -> None:
    project.pytester.makeini("[pytest]\nmarkers = slow")
    project.write(
        """
        import pytest
        @ec.metric(inputs=numbers)
        @pytest.mark.slow
        def inside(device): return ec.Metric.of(Mean())

        @pytest.mark.slow
        @ec.metric(inputs=numbers)
        def outside(device): return ec.Metric.of(Mean())
        """,
        CORRECT,
    )
    result = project.run("-m", "slow", "--evalcheck-select=EC201", "-v", code=0)
    assert result.outcomes == {"passed": 2, "deselected": 1}


def test_devices_are_marks_and_part_of_the_id(project: Project) -> None:
    project.write(CORRECT)
    result = project.run("--evalcheck-device=cpu,cuda:7", "--evalcheck-select=EC201", "-v", code=1)
    result.shows("[cuda:7]", "CUDA devices", "evalcheck: not ok: 1 not run (this machine has ")
    assert project.run("--evalcheck-device=cpu,cuda:7", "--evalcheck-select=EC201", "-m", "cpu").outcomes["passed"] == 1


def test_a_target_may_ask_for_fixtures_and_keeps_to_its_devices(project: Project) -> None:
    project.write(
        """
        import pytest
        @pytest.fixture
        def start(tmp_path): return 0.0

        @ec.metric(inputs=numbers, devices=["cpu"])
        def started(device, start):
            metric = Mean()
            metric.total = start
            return ec.Metric.of(metric)
        """
    )
    result = project.run("--evalcheck-device=cpu,mps", "--evalcheck-select=EC201", code=0)
    assert result.outcomes == {"passed": 1}


def test_a_fixture_that_fails_is_an_error_and_the_cell_did_not_run(project: Project) -> None:
    project.write(
        """
        import pytest
        @pytest.fixture
        def start(): raise OSError("no disk")

        @ec.metric(inputs=numbers)
        def started(device, start): return ec.Metric.of(Mean())
        """,
        CORRECT,
    )
    result = project.run("--evalcheck-select=EC201", code=1)
    result.shows("no disk", "2 targets, 2 checks: 1 passed, 1 not run")


def test_collecting_imports_neither_torch_nor_the_target_library(project: Project) -> None:
    project.write(CORRECT, "import sys\nassert 'torch' not in sys.modules\n")
    project.spawn("--evalcheck", "--collect-only", "-q", code=0)


def test_the_failing_location_is_the_line_of_the_factory(project: Project) -> None:
    project.write(BROKEN)
    line = (project.pytester.path / "evalcheck_example.py").read_text().splitlines().index(
        "@ec.metric(inputs=numbers)"
    ) + 1
    project.run("--evalcheck-select=EC201", code=1).shows(f"evalcheck_example.py:{line}")


@pytest.mark.slow
def test_tests_can_be_run_again_and_spread_and_shuffled(project: Project) -> None:
    pytest.importorskip("pytest_randomly")
    project.write(CORRECT, BROKEN)
    arguments = ("--evalcheck", "--evalcheck-select=EC201,EC204,EC205")
    spread = project.spawn(*arguments, "-n", "2", code=1)
    shuffled = project._result(project.pytester.runpytest_subprocess(*arguments, "-p", "randomly"), 1)
    again = project.spawn(*arguments, "--lf", code=1)
    for result in (spread, shuffled):
        result.shows("2 targets, 6 checks: 5 passed, 1 failed")
    assert again.outcomes["failed"] == 1
    assert "passed" not in again.outcomes


def test_a_run_in_this_process_leaves_the_finder_of_plugins(project: Project) -> None:
    if importlib.util.find_spec("importlib_metadata") is None:  # importing it here would hide what is looked for
        pytest.skip("importlib_metadata is not installed")
    project.write("import importlib_metadata", CORRECT).run("--evalcheck-select=EC201", code=0)
    project.run("--evalcheck-select=EC201", code=0)


SECOND_COLLECTOR = """
import importlib.util
import pytest

class SecondCollector(pytest.Module):
    def collect(self):
        spec = importlib.util.spec_from_file_location("again", self.path)
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
        return []

@pytest.hookimpl(tryfirst={first}, trylast=not {first})
def pytest_collect_file(file_path, parent):
    if file_path.name.startswith("evalcheck_"):
        return SecondCollector.from_parent(parent, path=file_path)
"""
DOCTEST = '''
def twice(number):
    """
    >>> twice(2)
    4
    """
    return 2 * number
'''


@pytest.mark.parametrize("first", [True, False])
def test_a_plugin_that_imports_files_of_targets_too_changes_nothing(project: Project, first: bool) -> None:
    (project.path / "conftest.py").write_text(SECOND_COLLECTOR.format(first=first), encoding="utf-8")
    project.write(CORRECT).run(ONE, code=0).shows("evalcheck: ok: 1 passed")
    project.write(CORRECT, "lost = [mean]\ndel mean")
    project.run(ONE, code=1).shows("target mean is not collected: it is held in lost", "1 error while collecting")
    (project.path / "evalcheck_example.py").write_text("import pytest_evalcheck", encoding="utf-8")
    project.run(ONE, code=1).shows("evalcheck_example.py holds no target")


@pytest.mark.parametrize("option", ["--doctest-modules", "--doctest-plus"])
def test_doctests_of_files_of_targets_change_nothing(project: Project, option: str) -> None:
    if option == "--doctest-plus":
        pytest.importorskip("pytest_doctestplus")
    project.write(CORRECT, DOCTEST).run(ONE, option, code=0).shows("evalcheck: ok: 1 passed")

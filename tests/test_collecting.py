"""How targets become items: what is collected, from where, and what stays out."""

from __future__ import annotations

import pytest
from target_files import BROKEN, CORRECT, Suite


def test_ids_read_file_target_check_device(suite: Suite) -> None:
    result = suite.write(CORRECT).run("--collect-only", "-q", code=0)
    result.said("evalcheck_example.py::mean::reset_restores_the_initial_state[cpu]")


def test_without_the_option_target_files_are_left_alone(suite: Suite) -> None:
    suite.write("raise RuntimeError('this file was imported')")
    (suite.pytester.path / "test_ordinary.py").write_text("def test_one(): pass")
    assert suite.run(evalcheck=False, code=0).outcomes == {"passed": 1}


def test_ordinary_tests_stay_out_unless_asked_for(suite: Suite) -> None:
    suite.write(CORRECT, "def test_in_a_target_file(): assert __import__('sys').argv is None, 'RuntimeError'")
    (suite.pytester.path / "test_ordinary.py").write_text("raise RuntimeError('imported')")
    suite.run(code=0).never_said("RuntimeError")
    suite.write(CORRECT, "def test_in_a_target_file(): pass")
    (suite.pytester.path / "test_ordinary.py").write_text("def test_one(): pass")
    alone = suite.run("--evalcheck-select=EC201", code=0).outcomes
    beside = suite.run("--evalcheck-select=EC201", "--evalcheck-with-tests", code=0).outcomes
    assert alone == {"passed": 1, "deselected": 1}
    assert beside == {"passed": 3}


@pytest.mark.parametrize("name", ["evalcheck_example.py", "odd_name.py"])
def test_a_file_named_on_the_command_line_is_collected_once(suite: Suite, name: str) -> None:
    suite.write(CORRECT, name=name)
    assert suite.run(name, "--evalcheck-select=EC201", code=0).outcomes["passed"] == 1


def test_a_file_that_also_matches_python_files_is_collected_once(suite: Suite) -> None:
    suite.pytester.makeini("[pytest]\npython_files = evalcheck_*.py test_*.py")
    suite.write(CORRECT)
    assert suite.run("--evalcheck-select=EC201", code=0).outcomes["passed"] == 1


def test_the_ini_says_what_target_files_are_called(suite: Suite) -> None:
    suite.pytester.makeini("[pytest]\nevalcheck_files = *_targets.py")
    suite.write(CORRECT, name="our_targets.py").write(BROKEN, name="evalcheck_other.py")
    suite.run("--evalcheck-select=EC201", code=0).said("our_targets.py").never_said("evalcheck_other")


def test_keywords_and_node_ids_select(suite: Suite) -> None:
    suite.write(CORRECT, BROKEN)
    assert suite.run("-k", "mean_of_means and cutting", code=1).outcomes["failed"] == 1
    node = "evalcheck_example.py::mean::cutting_the_stream_does_not_change_the_value[cpu]"
    assert suite.run(node, code=0).outcomes == {"passed": 1}


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
def test_checks_are_selected_by_code_name_and_prefix(suite: Suite, options: list[str], codes: set[str]) -> None:
    from pytest_evalcheck.kinds.registry import shipped

    names = {made.name for made in shipped() if made.code in codes}
    text = suite.write(CORRECT).run("--collect-only", "-q", *options, code=0).text
    assert {line.split("::")[2].split("[")[0] for line in text.splitlines() if "::" in line} == names


def test_selection_has_a_twin_in_the_ini(suite: Suite) -> None:
    suite.pytester.makeini("[pytest]\nevalcheck_select = EC201\nevalcheck_effort = quick")
    assert suite.write(CORRECT).run(code=0).outcomes == {"passed": 1}


def test_marks_of_the_factory_reach_its_cells(suite: Suite) -> None:
    suite.pytester.makeini("[pytest]\nmarkers = slow")
    suite.write(
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
    result = suite.run("-m", "slow", "--evalcheck-select=EC201", "-v", code=0)
    assert result.outcomes == {"passed": 2, "deselected": 1}


def test_devices_are_marks_and_part_of_the_id(suite: Suite) -> None:
    suite.write(CORRECT)
    result = suite.run("--evalcheck-device=cpu,cuda:7", "--evalcheck-select=EC201", "-v", code=0)
    result.said("[cuda:7]", "CUDA devices")
    assert suite.run("--evalcheck-device=cpu,cuda:7", "--evalcheck-select=EC201", "-m", "cpu").outcomes["passed"] == 1


def test_a_target_may_ask_for_fixtures_and_keeps_to_its_devices(suite: Suite) -> None:
    suite.write(
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
    result = suite.run("--evalcheck-device=cpu,mps", "--evalcheck-select=EC201", code=0)
    assert result.outcomes == {"passed": 1}


def test_a_fixture_that_fails_is_an_error_and_the_cell_did_not_run(suite: Suite) -> None:
    suite.write(
        """
        import pytest
        @pytest.fixture
        def start(): raise OSError("no disk")

        @ec.metric(inputs=numbers)
        def started(device, start): return ec.Metric.of(Mean())
        """,
        CORRECT,
    )
    result = suite.run("--evalcheck-select=EC201", code=1)
    result.said("no disk", "2 targets, 2 promises: 1 kept, 0 broken, 0 known, 0 not applicable, 1 not run")


def test_collecting_imports_neither_torch_nor_the_target_library(suite: Suite) -> None:
    suite.write(CORRECT, "import sys\nassert 'torch' not in sys.modules\n")
    suite.spawn("--evalcheck", "--collect-only", "-q", code=0)


def test_the_failing_location_is_the_line_of_the_factory(suite: Suite) -> None:
    suite.write(BROKEN)
    line = (suite.pytester.path / "evalcheck_example.py").read_text().splitlines().index(
        "@ec.metric(inputs=numbers)"
    ) + 1
    suite.run("--evalcheck-select=EC201", code=1).said(f"evalcheck_example.py:{line}")


def test_tests_can_be_run_again_and_spread_and_shuffled(suite: Suite) -> None:
    pytest.importorskip("pytest_randomly")
    suite.write(CORRECT, BROKEN)
    arguments = ("--evalcheck", "--evalcheck-select=EC201,EC204,EC205")
    spread = suite.spawn(*arguments, "-n", "2", code=1)
    shuffled = suite._result(suite.pytester.runpytest_subprocess(*arguments, "-p", "randomly"), 1)
    again = suite.spawn(*arguments, "--lf", code=1)
    for result in (spread, shuffled):
        result.said("2 targets, 6 promises: 5 kept, 1 broken")
    assert again.outcomes["failed"] == 1
    assert "passed" not in again.outcomes

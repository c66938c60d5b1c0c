"""A target that hangs, crashes or breaks its process costs its cell, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import interruptible
from target_files import BROKEN, CORRECT

from fixtures.gallery.hostile_process import HOSTILE_PROCESS, session_source
from pytest_evalcheck.testing import Project, Result

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="checks run in forked processes on Linux alone")


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def names() -> list[str]:
    return [target.name for target in HOSTILE_PROCESS]


def between_honest_targets(project: Project, *without: str) -> Project:
    """All hostile targets, with honest ones before, between and after them."""
    return project.write(session_source(*without), header="")


def every_cell_is_judged(result: Result, *without: str) -> None:
    cells = {cell.target.partition("::")[2]: cell for cell in result.report.cells}
    assert set(names()) - set(without) <= set(cells)
    honest = {name: cell.outcome for name, cell in cells.items() if name.startswith("honest_")}
    assert honest == dict.fromkeys(honest, "passed"), result.output
    assert len(honest) > 5
    green = [
        name for name, cell in cells.items() if cell.outcome not in ("failed", "incomplete") and name not in honest
    ]
    assert not green, result.output
    assert {cell.code for cell in cells.values()} == {"EC201"}


@pytest.mark.slow
def test_sixty_hostile_targets_cost_one_cell_each(project: Project) -> None:
    every_cell_is_judged(between_honest_targets(project).spawn("--evalcheck", "--evalcheck-select=EC201", code=1))


def test_an_error_of_pytest_in_the_process_of_a_cell_costs_this_cell(project: Project) -> None:
    """Simulate a target that has limited the memory of its process."""
    project.write(
        """
        import pytest
        def pytest_runtest_protocol(item):
            if "breaks" in item.nodeid:
                raise MemoryError("no memory is left")
        """,
        name="conftest.py",
        header="",
    )
    project.write(*(CORRECT.replace("def mean", f"def {name}") for name in ("before", "breaks", "after")))
    result = project.spawn("--evalcheck", "--evalcheck-select=EC201", code=1)
    outcomes = {cell.target.partition("::")[2]: cell.outcome for cell in result.report.cells}
    assert outcomes == {"before": "passed", "breaks": "failed", "after": "passed"}
    assert "the process of the check failed" in result.text
    assert "MemoryError: no memory is left" in result.text


def test_ranks_that_the_suite_forks_are_no_mistake_of_the_target(project: Project) -> None:
    project.write(
        """
        @ec.metric(inputs=numbers)
        def total(device):
            import torch
            import torch.distributed as dist

            made = Mean()

            def over_all():
                sums = torch.tensor([made.total, float(made.count)])
                dist.all_reduce(sums)
                return float(sums[0] / sums[1])

            return ec.Metric(update=made.update, compute=made.compute, reset=made.reset, synchronised=over_all)
        """
    )
    result = project.spawn("--evalcheck", "--evalcheck-select=EC221", "-m", "distributed", "--evalcheck-effort=quick")
    assert result.report.count("passed") == 1, result.text


@pytest.mark.parametrize("order", ["", "items.reverse()"], ids=["as collected", "reversed"])
def test_the_same_cell_says_that_a_target_is_misdescribed_in_every_order(project: Project, order: str) -> None:
    project.write(f"def pytest_collection_modifyitems(items):\n    {order or 'pass'}\n", name="conftest.py", header="")
    project.write(
        """
        @ec.metric(inputs=numbers, not_applicable={"EC201": "it is declared, so that nothing is tried"})
        def broken(device):
            return ec.Metric(update=lambda *_: 1 / 0, compute=lambda: 0.5)
        """
    )
    result = project.run("--evalcheck-select=EC201,EC202,EC204", code=1)
    outcomes = {cell.code: cell.outcome for cell in result.report.cells}
    assert outcomes == {"EC201": "not applicable", "EC202": "failed", "EC204": "not run"}


@pytest.mark.slow
def test_the_same_in_workers(project: Project) -> None:
    # A worker has other threads, so that it cannot know who interrupted it: such a session ends, and is not green.
    without = "interrupts_its_parent"
    made = between_honest_targets(project, without)
    every_cell_is_judged(made.spawn("--evalcheck", "--evalcheck-select=EC201", "-n", "2", code=1), without)


def test_isolated_cells_are_forked_each(project: Project) -> None:
    project.write(
        CORRECT,
        """
        import os
        @ec.metric(inputs=numbers)
        def process(device):
            print("process", os.getpid())
            raise ValueError
        """,
    )
    result = project.run("--evalcheck-select=EC201,EC202,EC205", "--evalcheck-run=isolated", "-rA", code=1)
    assert result.report.count("passed") == 3
    processes = {line for line in result.text.splitlines() if line.startswith("process ")}
    assert len(processes) >= 1
    assert f"process {os.getpid()}" not in processes


SESSION = """
import os, pathlib, pytest

def note(text):
    with pathlib.Path("notes").open("a") as file:
        file.write(text + "\\n")

@pytest.fixture(scope="session")
def shared():
    note("set up")
    yield 1
    note("torn down")
"""


def notes(project: Project) -> list[str]:
    path = project.path / "notes"
    found = path.read_text().split("\n")[:-1] if path.exists() else []
    path.unlink(missing_ok=True)
    return found


def test_session_fixtures_and_ordinary_tests(project: Project) -> None:
    project.write(SESSION, name="conftest.py", header="")
    project.write(
        """
        import warnings
        def test_passes(shared):
            print("printed by a test")
            warnings.warn("careful", FutureWarning)
        def test_fails(shared):
            print("printed before it failed")
            assert shared == 2
        """,
        name="test_ordinary.py",
        header="",
    )
    project.write(CORRECT, CORRECT.replace("mean(device)", "shares(device, shared)"))
    options = ["--evalcheck-with-tests", "--evalcheck-select=EC201", "--durations=3", "-W", "default"]
    result = project.run(*options, code=1)
    assert result.outcomes == {"passed": 3, "failed": 1, "warnings": 1}
    result.shows("printed before it failed", "FutureWarning: careful", "assert 1 == 2", "slowest 3 durations")
    result.lacks("printed by a test")
    assert notes(project) == ["set up", "torn down"]
    project.spawn("--evalcheck", *options, "-s", code=1).shows("printed by a test")
    notes(project)
    assert project.run(*options, "-x", "test_ordinary.py", code=1).outcomes == {"passed": 1, "failed": 1, "warnings": 1}
    assert notes(project) == ["set up", "torn down"]


def test_a_process_that_dies_sets_up_session_fixtures_again(project: Project) -> None:
    project.write(SESSION, name="conftest.py", header="")
    deadly = """
    import os
    @ec.metric(inputs=numbers)
    def deadly(device, shared):
        os._exit(0)
    """
    project.write(
        CORRECT.replace("mean(device)", "a(device, shared)"),
        deadly,
        CORRECT.replace("mean(device)", "b(device, shared)"),
    )
    result = project.run("--evalcheck-select=EC201", code=1)
    result.assert_outcomes(passed=2, failed=1).shows("the process of the check died", "exit code 0")
    assert notes(project) == ["set up", "set up", "torn down"]


def test_x_and_maxfail_stop_and_lf_runs_what_failed(project: Project) -> None:
    project.write(BROKEN, CORRECT, BROKEN.replace("def mean_of_means", "def again"))
    options = ["--evalcheck-select=EC201", "-p", "cacheprovider"]
    assert project.run(*options, "-x", code=1).outcomes["failed"] == 1
    outcomes = project.run(*options, "--maxfail=2", code=1).outcomes
    assert (outcomes["failed"], outcomes["passed"]) == (2, 1)
    assert project.run(*options, "--lf", code=1).outcomes["failed"] == 2


def test_leaving_while_a_file_is_imported_is_an_error_of_this_file(project: Project) -> None:
    project.write(CORRECT).write("import os; os._exit(0)", name="evalcheck_leaves.py")
    result = project.spawn("--evalcheck", "--evalcheck-select=EC201")
    assert result.code not in (0, 5)
    result.shows("os._exit(0)", "evalcheck_leaves.py")
    result.assert_outcomes(passed=1)


def test_without_a_supervisor_an_exit_still_costs_its_cell_alone(project: Project) -> None:
    leaves = "import os\n@ec.metric(inputs=numbers)\ndef leaves(device): os._exit(0)\n"
    project.write(leaves, CORRECT)
    project.spawn("--evalcheck", "--evalcheck-run=in-process", "--evalcheck-select=EC201", code=1).assert_outcomes(
        passed=1, failed=1
    )


def test_an_interrupt_ends_the_session_once_and_leaves_no_process(project: Project) -> None:
    project.write(
        CORRECT,
        """
        import os, pathlib, time
        @ec.metric(inputs=numbers)
        def waits(device):
            pathlib.Path("process").write_text(str(os.getpid()))
            time.sleep(600)
        """,
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--evalcheck", "--evalcheck-select=EC201"]
    with interruptible(command, project.path) as run:
        noted, until = project.path / "process", time.monotonic() + 120
        while time.monotonic() < until and not (noted.exists() and noted.read_text()):
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        output, _ = run.communicate(timeout=60)
    assert run.returncode == pytest.ExitCode.INTERRUPTED
    assert "KeyboardInterrupt" in output
    assert not Path(f"/proc/{noted.read_text()}").exists()


LIMITS = """
import signal, threading
import pytest

# The threads of OpenBLAS take signals as this one does.
threading.Thread(target=threading.Event().wait, daemon=True).start()

@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    \"\"\"What pytest-timeout does.\"\"\"
    def over(number, frame):
        pytest.fail("Timeout (>4.0s) from pytest-timeout.")
    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, 4.0)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
"""


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
@pytest.mark.slow(every=2)
def test_the_limit_of_another_plugin_costs_its_cell_alone(project: Project, workers: tuple[str, ...]) -> None:
    slow = "import time\n@ec.metric(inputs=numbers)\ndef slow(device): time.sleep(600)\n"
    project.write(slow, CORRECT)
    project.pytester.makeconftest(LIMITS)
    result = project.spawn("--evalcheck", "--evalcheck-select=EC201", "--evalcheck-device=cpu", *workers, code=1)
    assert (result.cell("EC201", "slow").outcome, result.cell("EC201", "mean").outcome) == ("incomplete", "passed")
    result.shows("when another limit ended the check").lacks("INTERNALERROR")


def test_a_failure_is_printed_when_its_cell_has_ended(project: Project) -> None:
    slow = "import time, pathlib\n@ec.metric(inputs=numbers)\ndef slow(device): time.sleep(600)\n"
    project.write(BROKEN, slow)
    command = [sys.executable, "-m", "pytest", "-p", "no:randomly", "--evalcheck", "--evalcheck-select=EC201", "-v"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    run = subprocess.Popen(command, cwd=project.path, stdout=subprocess.PIPE, text=True, env=environment)
    assert run.stdout is not None
    try:
        assert any("mean_of_means" in line and "FAILED" in line for line in run.stdout)
    finally:
        run.kill()
        run.communicate()

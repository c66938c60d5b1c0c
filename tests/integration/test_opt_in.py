"""Markers whose cells run only where somebody asks for them: `full`, `sweep` and `distributed`."""

from __future__ import annotations

import pytest
from target_files import CORRECT

from pytest_evalcheck.testing import Project

SELECT = "--evalcheck-select=EC201,EC221"
MARKED = "pytest.mark.{marker}(mean)\n"


def marked(project: Project, marker: str) -> Project:
    project.write("import pytest\n", CORRECT, MARKED.format(marker=marker), name="evalcheck_marked.py")
    return project.write(CORRECT)


@pytest.mark.parametrize("marker", ["full", "sweep"])
def test_a_marked_target_runs_where_the_expression_names_its_marker(project: Project, marker: str) -> None:
    marked(project, marker)
    short = project.run(SELECT, code=0)
    assert short.outcomes == {"passed": 1}
    short.shows(f"not selected: 2 checks of 1 target in evalcheck_marked.py; -m {marker} runs them")
    rest = project.run(SELECT, "-m", marker, code=0)
    assert rest.outcomes == {"passed": 1, "deselected": 1}
    rest.shows("not selected: 1 check of evalcheck_example.py::mean, which pytest calls deselected")
    assert project.run(SELECT, "-m", f"{marker} or not {marker}", code=0).outcomes == {"passed": 2}


def test_the_markers_of_checks_are_asked_for_in_the_same_way(project: Project) -> None:
    project.write(CORRECT)
    project.run(SELECT, "-v", code=0).shows(
        "not selected: 1 check of 1 target in evalcheck_example.py::mean; -m distributed runs them"
    )
    collected = project.run(SELECT, "-m", "distributed", "--collect-only", "-q", code=0)
    collected.shows("::real_processes_give_the_value_of_the_whole[cpu]").lacks("splitting")


def test_a_module_can_be_marked(project: Project) -> None:
    project.write("import pytest\npytestmark = pytest.mark.full\n", CORRECT, name="evalcheck_marked.py").write(CORRECT)
    assert project.run(SELECT, code=0).outcomes == {"passed": 1}
    assert project.run(SELECT, "-m", "full", code=0).outcomes == {"passed": 1, "deselected": 1}


def test_a_sweep_runs_in_a_file_that_is_not_in_the_short_run(project: Project) -> None:
    """Files that -m names need not be named again; other files stay out."""
    of_module = "import pytest\npytestmark = pytest.mark.full\n"
    project.write(of_module, CORRECT, "pytest.mark.sweep(mean)\n", name="evalcheck_swept.py")
    project.write(of_module, CORRECT, name="evalcheck_marked.py")
    result = project.run(SELECT, "-m", "sweep", code=0)
    assert result.outcomes == {"passed": 1}
    result.shows("evalcheck_marked.py; -m full runs them").lacks("evalcheck_swept.py; -m full")


def test_a_hook_can_mark_items(project: Project) -> None:
    project.pytester.makeconftest(
        "import pytest\n"
        "def pytest_collection_modifyitems(items):\n"
        "    [item.add_marker(pytest.mark.sweep) for item in items if 'splitting' in item.name]\n"
    )
    project.write(CORRECT)
    assert project.run("--evalcheck-select=EC201,EC202", code=0).outcomes == {"passed": 1, "deselected": 1}


@pytest.mark.parametrize("marker", ["full", "sweep"])
@pytest.mark.parametrize("node", ["mean", "mean::splitting_a_stream_does_not_change_the_value[cpu]"])
def test_a_node_that_the_command_line_names_is_asked_for(project: Project, marker: str, node: str) -> None:
    marked(project, marker)
    assert project.run(SELECT, f"evalcheck_marked.py::{node}", code=0).outcomes == {"passed": 1}


def test_a_file_that_the_command_line_names_asks_for_what_is_not_in_the_short_run(project: Project) -> None:
    marked(project, "full")
    assert project.run(SELECT, "evalcheck_marked.py", code=0).outcomes == {"passed": 1}
    marked(project, "sweep")
    project.run(SELECT, "evalcheck_marked.py", code=5).shows("-m sweep runs them", "no target was run")


def test_a_check_that_is_named_runs_without_its_marker(project: Project) -> None:
    project.write(CORRECT)
    node = "evalcheck_example.py::mean::real_processes_give_the_value_of_the_whole[cpu]"
    project.run("--collect-only", "-q", node, code=0).shows(node)


def test_a_misdescribed_target_is_reported_also_where_it_is_left_out(project: Project) -> None:
    project.write(CORRECT.replace("(device)", "(devise)"), "import pytest\npytest.mark.full(mean)\n")
    project.run(code=1).shows("did you mean 'device'?")


def test_all_names_are_shown_where_that_is_asked_for(project: Project) -> None:
    for number in range(5):
        name = f"evalcheck_{number}.py"
        project.write("import pytest\n", CORRECT, MARKED.format(marker="full"), name=name)
    project.write(CORRECT)
    project.run(SELECT, code=0).shows("and 2 more; -m full runs them").lacks("evalcheck_4.py::mean")
    project.run(SELECT, "-v", code=0).shows("evalcheck_3.py::mean, evalcheck_4.py::mean; -m full runs them")


def test_workers_say_it_once(project: Project) -> None:
    result = marked(project, "full").spawn("--evalcheck", SELECT, "-n", "2", code=0)
    assert len(result.report.cells) == 1
    assert result.output.count("2 checks of 1 target in evalcheck_marked.py; -m full runs them") == 1


CONSTANT = """
class Constant(Mean):
    def compute(self):
        return 1.0

@pytest.mark.full
@ec.metric(inputs=numbers, not_applicable={"EC218": "the control, which would say so before the last line"})
def constant(device):
    return Constant()
"""


@pytest.mark.parametrize("expression", ["full", "full or not full"])
@pytest.mark.slow(every=2)
def test_an_expression_that_takes_whole_targets_narrows_no_verdict(project: Project, expression: str) -> None:
    project.write("import pytest\n", CONSTANT, CORRECT)
    result = project.run("-m", expression, code=1)
    result.shows("::constant gave 1.0 in all cases of all checks")
    assert not result.report.narrowed
    project.run("-m", "full and not simulated", "-k", "EC201 or splitting", code=0).lacks("all cases of all checks")

"""One mistake that breaks several checks: one full screen, and the others a few lines each."""

from __future__ import annotations

from pytest_evalcheck.testing import Project

MEAN = """
    import math

    class KeepsTheLastBatch:
        def __init__(self): self.value = math.nan
        def update(self, x): self.value = sum(x) / len(x) if x else self.value
        def compute(self): return self.value

    @ec.metric(inputs=numbers)
    def last(device): return ec.Metric.of(KeepsTheLastBatch())
"""


def test_the_most_basic_failure_is_shown_whole_and_what_follows_from_it_in_a_few_lines(project: Project) -> None:
    result = project.write(MEAN).run("--evalcheck-select=EC201,EC208", code=1)
    result.assert_outcomes(failed=2)
    result.shows(
        "EC208 order_does_not_change_the_value: probably caused by the EC201 failure\n",
        "shown above  EC201 of evalcheck_example.py::last on cpu\n",
        "evalcheck: not ok: 2 failed of 1 cause",
    )
    result.lacks("Failed: ")  # each was shown when it failed
    assert result.text.count("smallest input") == 1
    assert len(result.reproduce) == 2
    whole = "    probably caused by the EC201 failure:\n      EC208 order does not change the value: "
    for option in ("-v", "--tb=no"):
        project.run("--evalcheck-select=EC201,EC208", option, code=1).shows("Failed: 2 checks, 1 cause", whole)


def test_two_mistakes_are_two_screens(project: Project) -> None:
    source = MEAN.replace("def update(self, x): ", "def update(self, x): x.sort(reverse=True); ")
    result = project.write(source).run("--evalcheck-select=EC201,EC206", code=1)
    result.shows("evalcheck: not ok: 2 failed of 2 causes")
    assert result.text.count("smallest input") == 2


def test_the_screen_shows_what_a_plain_call_was_given_and_where_an_error_was_raised(project: Project) -> None:
    source = """
    import torch

    class FailsForOneRow:
        def __init__(self): self.total = 0.0
        def update(self, x): self.total += torch.tensor(x).squeeze().sum(0).item() if len(x) > 1 else x[1]
        def compute(self): return self.total

    @ec.metric(inputs=numbers)
    def squeezed(device): return ec.Metric.of(FailsForOneRow())
    """
    result = project.write(source).run("--evalcheck-select=EC201", code=1)
    result.shows("in an example call\n    ", "raised       IndexError at evalcheck_example.py:")
    assert "(FailsForOneRow.update)" in result.text or "(update)" in result.text  # Python 3.10 has no qualified names


def test_a_failure_is_told_once_and_listed_once(project: Project) -> None:
    result = project.write(MEAN).run("--evalcheck-select=EC201", code=1)
    lines = result.text.splitlines()
    (property,) = {cell.failure.statement.splitlines()[0] for cell in result.report.cells if cell.failure}
    assert sum(property in line for line in lines) == 1
    assert sum(line.startswith("FAILED evalcheck_example.py::last::") for line in lines) == 1
    assert len(result.reproduce) == 1
    result.lacks("Failed: ", "Slowest")


TARGETS = "".join(
    f"""
    @ec.metric(inputs=numbers)
    def mean_{number}(device): return ec.Metric.of(Mean())
"""
    for number in range(10)
)


def test_a_green_run_of_ten_targets_is_at_most_12_lines(project: Project) -> None:
    result = project.write(TARGETS).run("--evalcheck-select=EC201,EC205", code=0)
    assert len(result.text.rstrip().splitlines()) <= 12, result.text
    result.shows("10 targets, 20 checks: 20 passed\n", "evalcheck: ok: 20 passed")
    result.lacks("Slowest", "not selected", " 0 ")
    project.run("--evalcheck-select=EC201,EC205", "-v", "--durations=3", code=0).shows("slowest 3 durations", "mean_9")

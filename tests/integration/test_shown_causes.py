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
        "Failed: 2 checks, 1 cause",
        "    probably caused by the EC201 failure:\n      EC208 order does not change the value: ",
    )
    assert result.text.count("smallest input") == 1
    assert len(result.reproduce) == 2


def test_two_mistakes_are_two_screens(project: Project) -> None:
    source = MEAN.replace("def update(self, x): ", "def update(self, x): x.sort(reverse=True); ")
    result = project.write(source).run("--evalcheck-select=EC201,EC206", code=1)
    result.shows("Failed: 2 checks, 2 causes")
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

"""A call of a subject in another process, where texts have other hash values."""

from __future__ import annotations

import pytest

from pytest_evalcheck.testing import Project

TASKS = """
import pytest_evalcheck as ec

def task(order):
    words = [str(number) for number in range(20)]
    return ec.Task(
        documents=[{"question": word} for word in words],
        requests=lambda documents: [[ec.Request(prompt=" ".join(order(words)))] for _ in documents],
    )

@ec.task()
def in_order():
    return task(lambda words: sorted({*words}))

@ec.task()
def of_a_set(device):
    return task(lambda words: list({*words}))

@ec.task()
def with_a_fixture(tmp_path):
    return task(lambda words: sorted({*words}))
"""
HERE_ALONE = """
import os
assert "EVALCHECK_OTHER_PROCESS" not in os.environ, "this file is imported here alone"
from evalcheck_tasks import ec, task

@ec.task()
def here_alone():
    return task(lambda words: sorted({*words}))
"""


@pytest.mark.slow
def test_what_depends_on_hash_values_is_found_and_what_cannot_be_made_there_is_not_judged(
    evalcheck_project: Project,
) -> None:
    evalcheck_project.write(TASKS, name="evalcheck_tasks.py", header="")
    evalcheck_project.write(HERE_ALONE, name="evalcheck_here.py", header="")
    result = evalcheck_project.run("--evalcheck-select=EC716,EC717", code=1)
    cells = {
        name: result.cell("EC717", f"::{name}") for name in ("in_order", "of_a_set", "with_a_fixture", "here_alone")
    }
    assert {name: cell.outcome for name, cell in cells.items()} == {
        "in_order": "passed",
        "of_a_set": "failed",
        "with_a_fixture": "not applicable",
        "here_alone": "not applicable",
    }
    assert "its factory takes fixtures" in cells["with_a_fixture"].reason
    assert "AssertionError: this file is imported here alone" in cells["here_alone"].reason
    # In one process, all of them give the same requests every time.
    assert {result.cell("EC716", f"::{name}").outcome for name in cells} == {"passed"}

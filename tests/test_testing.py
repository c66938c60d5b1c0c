"""The harness by which checks, kinds and adapters are tested."""

from __future__ import annotations

import builtins
import os
from typing import Any

import pytest
from target_files import BROKEN, CORRECT

from pytest_evalcheck.testing import Project


@pytest.mark.parametrize("run", [Project.run, Project.spawn], ids=["in this process", "in another one"])
def test_a_file_that_is_written_again_is_loaded_again(project: Project, run: Any) -> None:
    for source, name in ((CORRECT, "mean"), (BROKEN, "mean_of_means")):
        project.write(f"{source}# ".ljust(300, "x"))
        # Bytecode is taken to be that of a file with the same time and size; files are often written within a second.
        os.utime(project.path / "evalcheck_example.py", (1e9, 1e9))
        run(project, "--evalcheck", "--collect-only", "-q").shows(f"::{name}::")


LAST = """
import sys

class Last:
    def __del__(self):
        loaded.append("io" in sys.modules)

sys.modules["last"] = Last()
"""


def test_no_module_is_gone_while_those_of_a_run_are_unloaded(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A finaliser that imports `io` while there is none makes a second one, and no tensor can be pickled any more."""
    loaded: list[bool] = []
    monkeypatch.setattr(builtins, "loaded", loaded, raising=False)
    project.write(CORRECT + LAST)
    project.run("--evalcheck-select=EC201", code=0)
    assert loaded == [True]

"""The harness by which checks, kinds and adapters are tested."""

from __future__ import annotations

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

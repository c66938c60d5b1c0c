"""The harness by which checks, kinds and adapters are tested."""

from __future__ import annotations

import os
import sys

from target_files import BROKEN, CORRECT

from pytest_evalcheck.testing import Project


def test_a_file_that_is_written_again_is_loaded_again(project: Project) -> None:
    right, wrong = (f"{text}# ".ljust(300, "x") for text in (CORRECT, BROKEN))
    for source, counts in ((right, {"kept": 1}), (wrong, {"broken": 1})):
        project.write(source)
        # Bytecode is taken to be that of a file with the same time and size; files are often written within a second.
        os.utime(project.path / "evalcheck_example.py", (1e9, 1e9))
        project.run("--evalcheck-select=EC201").assert_outcomes(**counts)


def test_processes_of_a_project_load_its_files_again(project: Project) -> None:
    made = project.pytester.run(sys.executable, "-c", "import sys; print(sys.dont_write_bytecode)")
    assert made.outlines == ["True"]

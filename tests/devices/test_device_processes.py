"""Simulations and processes: spawned ones, what `subprocess` runs, the entry point, and the end of the interpreter."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch

from pytest_evalcheck.devices import SimulationError, simulate
from pytest_evalcheck.devices.patches.processes import VARIABLE


def run(*arguments: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-W", "error", *arguments]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def look(answers: Any) -> None:
    with simulate() as ledger:  # the devices that the environment names, which are there already
        there = torch.ones(2, device="cuda:1").sum()
        answers.put((torch.cuda.device_count(), str(there.device), there.item(), len(ledger.syncs)))


@pytest.mark.slow
def test_a_spawned_process_has_the_same_devices() -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    with simulate("cuda:1"):
        process = context.Process(target=look, args=(answers,))
        process.start()
        assert "run" not in vars(process)
        found = answers.get(timeout=60)
        process.join()
    assert found == (2, "cuda:1", 2.0, 1)
    assert process.exitcode == 0


def test_the_devices_are_named_in_the_environment() -> None:
    assert VARIABLE not in os.environ
    with simulate("cuda:1", "mps"):
        assert os.environ[VARIABLE] == "cuda:0,cuda:1,mps:0"
    assert VARIABLE not in os.environ


def test_the_environment_names_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "cuda:1, mps")
    with simulate():
        assert torch.cuda.device_count() == 2
        assert torch.backends.mps.is_available()
    assert os.environ[VARIABLE] == "cuda:1, mps"
    with simulate("mps"):  # what is given comes first
        assert not torch.cuda.is_available()
    monkeypatch.setenv(VARIABLE, "gpu")
    with pytest.raises(SimulationError, match="did you mean 'cuda'"), simulate():
        pass


@pytest.mark.slow
def test_a_script_runs_on_simulated_devices(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, subprocess, sys
            import torch
            assert __name__ == "__main__" and sys.path[0] == os.path.dirname(__file__)
            look = "import os; print(os.environ['{VARIABLE}'])"
            seen = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True).stdout.strip()
            print(sys.argv[1:], torch.ones(1).cuda().device, seen)
            torch.autocast("cuda").__enter__()  # left open
            torch.set_default_device("cuda")
            sys.exit(3)
            """
        )
    )
    done = run(
        "-m",
        "pytest_evalcheck.devices",
        "--summary",
        "script.py",
        "--epochs",
        "1",
        folder=tmp_path,
        **{VARIABLE: "cuda"},
    )
    assert done.returncode == 3, done.stderr
    assert done.stdout == "['--epochs', '1'] cuda:0 cuda:0\n"
    assert done.returncode == 3
    assert done.stderr.startswith("cpu -> cuda:0: 1 transfer, 4 bytes\n")
    assert "Error" not in done.stderr


@pytest.mark.slow
def test_an_interpreter_that_ends_inside_says_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import atexit
            import torch
            from pytest_evalcheck.devices import simulate

            def rows():
                with simulate("cuda"):
                    yield torch.ones(2, device="cuda")

            generator = rows()
            kept = next(generator)
            open_region = torch.autocast("cuda")
            open_region.__enter__()
            atexit.register(lambda: print(torch.ones(1, device="cuda").device))  # inside still
            """
        )
    )
    done = run("script.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "cuda:0\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["script.py"], "simulate() needs a device"),
        (["--simulate=gpu", "script.py"], "did you mean 'cuda'"),
        (["--simulate=cuda"], "script"),
    ],
)
def test_arguments_that_make_no_sense(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_evalcheck.devices.__main__ import main

    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    os.environ.pop(VARIABLE, None)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err

"""The device axis: what is asked for, where it is tried, and what is written down of it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from target_files import CORRECT

import pytest_evalcheck as ec
from fixtures.gallery.correct import MeanSquaredError
from fixtures.gallery.devices import LooksAtEveryBatch, WorksInDouble
from fixtures.gallery.devices_correct import MovesBatches, OnDevice
from fixtures.gallery.table import target
from pytest_evalcheck import strategies as es
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.reports.failure_text import format_failure
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.testing import Project

ON_DEVICE = """
import torch

@ec.metric(inputs=es.regression())
def squared_error(device):
    from fixtures.gallery.devices_correct import MovesBatches, OnDevice
    return OnDevice().to(device)
"""
SLOW = """
@ec.metric(inputs=es.regression())
def looks(device):
    from fixtures.gallery.devices import LooksAtEveryBatch
    return LooksAtEveryBatch().to(device)
"""


@pytest.fixture(autouse=True)
def _nothing_likely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_spec, "_likely", list)


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("cpu", ("cpu",)),
        ("cpu, sim:mps,cpu", ("cpu", "sim:mps")),
        ("cuda:1,sim:cuda:3", ("cuda:1", "sim:cuda:3")),
        ("auto", ("auto",)),
    ],
)
def test_devices_are_a_list_with_commas(text: str, devices: tuple[str, ...]) -> None:
    assert device_spec.parse(text) == devices


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu", "device 'gpu'; expected cpu, cuda, mps, sim:cuda, sim:mps, auto or an index as in cuda:1"),
        ("sim:mp", "did you mean 'sim:mps'?"),
        ("sim:cpu", "device 'sim:cpu'; expected"),
        ("cuda:x", "device 'cuda:x'; expected"),
        ("cuda:", "device 'cuda:'; expected"),
        (" , ", "no device is given"),
    ],
)
def test_what_is_no_device_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        device_spec.parse(text)
    assert said in str(caught.value)


def test_auto_is_the_cpu_and_the_simulated_ones_for_what_is_about_accelerators() -> None:
    assert device_spec.chosen(["auto"], accelerators_only=False) == ["cpu"]
    assert device_spec.chosen(["auto"], accelerators_only=True) == ["sim:cuda", "sim:mps"]
    assert device_spec.chosen(["cpu", "sim:mps"], accelerators_only=True) == ["sim:mps"]
    assert device_spec.chosen(["cpu", "sim:mps"], accelerators_only=False) == ["cpu", "sim:mps"]


def test_auto_takes_what_the_machine_seems_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_spec, "_likely", lambda: ["cuda"])
    assert device_spec.chosen(["auto"], accelerators_only=False) == ["cpu", "cuda"]
    assert device_spec.chosen(["auto"], accelerators_only=True) == ["sim:cuda", "sim:mps", "cuda"]


def test_a_simulated_device_makes_room_for_a_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert device_spec.absent("sim:cuda") == "this machine has a real cuda: ask for it instead"
    assert device_spec.absent("sim:mps") == ""
    (cell,) = ec.run(target(OnDevice), "sim:cuda", select="EC606").cells
    assert (cell.outcome, cell.reason) == ("not run", "this machine has a real cuda: ask for it instead")


def test_as_many_devices_as_are_needed() -> None:
    with device_spec.placed_on("sim:cuda"):
        assert torch.cuda.device_count() == 1
    with device_spec.placed_on("sim:cuda", count=2):
        assert torch.cuda.device_count() == 2
    with device_spec.placed_on("sim:cuda:2"):
        assert torch.cuda.device_count() == 3
    with device_spec.placed_on("sim:mps", count=2):
        assert torch.ones(1, device="mps").device == torch.device("mps:0")
    with device_spec.placed_on("cpu") as ledger:
        assert ledger is None
    assert not torch.cuda.is_available()


def test_a_run_without_options_tries_accelerators_too(project: Project) -> None:
    project.write(ON_DEVICE)
    result = project.run("--evalcheck-select=EC201,EC606", "-v", code=0)
    result.shows("[cpu]", "[sim:cuda]", "[sim:mps]", "1 target, 3 checks: 3 passed")


def test_every_check_runs_on_every_device_that_is_asked_for(project: Project) -> None:
    project.write(ON_DEVICE)
    result = project.run("--evalcheck-select=EC201,EC606", "--evalcheck-device=cpu,sim:mps", "-v", code=0)
    result.shows("value[cpu]", "value[sim:mps]", "the_value_matches_the_cpu[sim:mps]").lacks("of_the_cpu[cpu]")
    for mark, count in (("mps", 2), ("simulated", 2), ("cpu", 1), ("cuda", 0)):
        options = ["--evalcheck-select=EC201,EC606", "--evalcheck-device=cpu,sim:mps", "-m", mark]
        assert project.run(*options).outcomes.get("passed", 0) == count


def test_a_failure_on_a_device_says_what_crossed_and_how_to_see_it_again(project: Project, tmp_path: Path) -> None:
    project.write(SLOW)
    report = tmp_path / "report.json"
    result = project.run("--evalcheck-select=EC607", f"--evalcheck-report=json={report}", code=1)
    result.shows("[sim:mps]", "1 syncs in update(), 0 are allowed", "between devices", "devices.py")
    cells = json.loads(report.read_text())["checks"]
    assert {cell["device"] for cell in cells} == {"sim:cuda", "sim:mps"}
    for cell in cells:
        assert [sync["call"] for sync in cell["ledger"]["syncs"]]
        assert all(transfer["bytes"] for transfer in cell["ledger"]["transfers"])
    for command in result.reproduce:
        assert "--evalcheck-device" not in command  # auto tries it there
        again = project.run(*command.replace("'", "").split()[2:], code=1)
        again.shows("1 check: 1 failed")


def test_a_kept_promise_says_how_much_crossed() -> None:
    cells = ec.run(target(OnDevice), "auto", select="EC606,EC201").cells
    assert [cell.device for cell in cells] == ["cpu", "sim:cuda", "sim:mps"]
    assert cells[0].ledger == {}
    assert cells[2].ledger["bytes"]["cpu -> mps:0"] > 0


def test_a_target_that_takes_no_device_is_not_judged_on_one() -> None:
    @ec.metric(inputs=es.regression(), known_failures={"EC201": ec.KnownFailure("never tried there")})
    def stays() -> Any:
        return MeanSquaredError()

    cells = ec.run(stays, "sim:mps", select="EC201,EC606").cells
    assert {(cell.outcome, cell.reason) for cell in cells} == {("not applicable", "its factory takes no device")}


def test_inputs_without_tensors_have_nothing_on_a_device(project: Project) -> None:
    project.write(CORRECT)
    project.run("--evalcheck-select=EC6", "-rs").shows("its inputs hold no tensors")


def test_a_known_failure_may_be_about_one_kind_of_device() -> None:
    def made(**more: Any) -> ec.Target:
        entry = {"EC604": ec.KnownFailure("it works in float64", **more)}

        @ec.metric(inputs=es.regression(), known_failures=entry)
        def doubles(device: str) -> Any:
            return WorksInDouble().to(device)

        return doubles

    outcomes = [cell.outcome for cell in ec.run(made(devices=("mps",)), "auto", select="EC604").cells]
    assert outcomes == ["passed", "known"]
    stale, known = ec.run(made(), "auto", select="EC604").cells
    assert (stale.outcome, stale.cause, known.outcome) == ("failed", "stale known failure", "known")
    with pytest.raises(UsageError, match="expected some of"):
        ec.run(made(devices=("metal",)))


def test_a_budget_allows_what_it_names() -> None:
    def made(budget: Any) -> ec.Target:
        @ec.metric(inputs=es.regression(), budget=budget)
        def looks(device: str) -> Any:
            return LooksAtEveryBatch().to(device)

        return looks

    assert [cell.outcome for cell in ec.run(made({"syncs": 1}), "auto", select="EC607").cells] == ["passed", "passed"]
    assert [cell.outcome for cell in ec.run(made(None), "auto", select="EC607").cells] == ["not applicable"] * 2
    assert [cell.outcome for cell in ec.run(made({"transfers": 9}), "auto", select="EC607").cells] == ["failed"] * 2
    for wrong, said in (
        ({"sync": 1}, "budget has 'sync'; expected transfers or syncs; did you mean 'syncs'?"),
        ({"syncs": -1}, "at least 0"),
        ({"syncs": 1.5}, "at least 0"),
        (3, "expected a mapping"),
    ):
        with pytest.raises(UsageError) as caught:
            ec.run(made(wrong))
        assert said in str(caught.value)


def test_what_cannot_be_simulated_is_not_checkable_here() -> None:
    @ec.metric(inputs=es.regression())
    def compiles(device: str) -> Any:
        class Compiled(OnDevice):
            def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
                torch.cuda.CUDAGraph()
                super().update(preds, target)

        return Compiled().to(device)

    (cell,) = ec.run(compiles, "sim:cuda", select="EC603").cells
    assert cell.outcome == "not applicable", format_failure(cell)
    assert "not checkable here" in cell.reason


def test_a_factory_that_cannot_be_simulated_is_not_checkable_here() -> None:
    @ec.metric(inputs=es.regression())
    def graphs(device: str) -> Any:
        torch.cuda.CUDAGraph()
        return OnDevice().to(device)

    cells = ec.run(graphs, "sim:cuda", select="EC20,EC603").cells
    assert {cell.outcome for cell in cells} == {"not applicable"}, format_failure(cells[0])
    assert all("not checkable here" in cell.reason for cell in cells)


def test_what_was_left_half_done_is_no_leak() -> None:
    @ec.metric(inputs=es.regression())
    def prepares(device: str) -> Any:
        os.environ["PREPARED_FOR"] = device
        torch.cuda.CUDAGraph()

    (cell,) = ec.run(prepares, "sim:cuda", select="EC201").cells
    assert cell.reason.startswith("not checkable here"), format_failure(cell)


def test_an_entry_is_not_stale_where_nothing_could_be_checked() -> None:
    def made(graphs: bool) -> ec.Target:
        @ec.metric(inputs=es.regression(), known_failures={"EC201": ec.KnownFailure("seen on a real device")})
        def listed(device: str) -> Any:
            if graphs:
                torch.cuda.CUDAGraph()
            return OnDevice().to(device)

        return listed

    (cell,) = ec.run(made(graphs=True), "sim:cuda", select="EC201").cells
    assert cell.outcome == "not applicable", format_failure(cell)
    (cell,) = ec.run(made(graphs=False), "sim:cuda", select="EC201").cells
    assert (cell.outcome, cell.cause) == ("failed", "stale known failure")


ORDINARY = """
import torch

def test_on_every_device(evalcheck_device):
    made = torch.ones(2, device=evalcheck_device)
    assert str(made.device).partition(":")[0] == evalcheck_device.partition(":")[0]

def test_that_starts_its_own(evalcheck_simulated):
    ledger = evalcheck_simulated("mps")
    torch.ones(2).to("mps")
    assert ledger.bytes("cpu", "mps") == 8

def test_afterwards():
    assert not torch.backends.mps.is_available()
"""


def test_ordinary_tests_run_on_the_devices_of_the_run(project: Project) -> None:
    (project.pytester.path / "test_ordinary.py").write_text(ORDINARY)
    result = project.run("-v", evalcheck=False, code=0)
    result.shows("test_on_every_device[cpu]", "test_on_every_device[sim:cuda]", "test_on_every_device[sim:mps]")
    assert result.outcomes == {"passed": 5}
    assert project.run("--evalcheck-device=sim:mps", evalcheck=False, code=0).outcomes == {"passed": 3}
    assert project.run("-m", "simulated", evalcheck=False, code=0).outcomes == {"passed": 2, "deselected": 3}
    absent = project.run("--evalcheck-device=cuda:7", "-rs", evalcheck=False, code=0)
    absent.shows("not run on cuda:7: this machine has 0 CUDA devices")
    project.run("--evalcheck-device=gpu", evalcheck=False).shows("device 'gpu'; expected")


class RefusesAll(OnDevice):
    """Takes no batch at all, wherever it stands."""

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        raise ValueError("no batch is good enough")


def test_what_the_cpu_refuses_too_is_no_fault_of_a_device() -> None:
    cells = ec.run(target(RefusesAll), "sim:mps", select="EC601,EC603,EC604,EC606").cells
    # The plain call fails: that is one error of the description, and no fault of a device.
    assert [cell.outcome for cell in cells] == ["failed", "not run", "not run", "not run"]
    assert "an ordinary batch raises an error: update raised ValueError" in cells[0].reason


@pytest.mark.parametrize("code", ["EC601", "EC602", "EC603", "EC604", "EC605", "EC606", "EC607"])
def test_a_wrapper_is_built_once_for_each_device_of_a_case(code: str) -> None:
    built: list[str] = []

    @ec.wrapper(inputs=MovesBatches.inputs)
    def counted(device: str) -> Any:
        built.append(device)
        record = MovesBatches().record()
        record.model.to(device)
        return record

    (cell,) = ec.run(counted, "sim:mps", select=code).cells
    assert cell.outcome == "passed"
    # One more for the batch that stands on the CPU as a whole, of which the forward may leave anything behind.
    assert len(built) <= (3 if code == "EC601" else 2) * (cell.examples + 1)  # one plain call before


@pytest.mark.parametrize("frozen", [False, True])
def test_a_gpu_multiplies_in_float32_while_a_check_runs(frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one gave mamba's scores another fifth digit: cuDNN rounds to TF32 by default.

    The tools of torch.testing freeze the flags of torch.backends for whoever imports them.
    """
    from torch.backends import cudnn

    monkeypatch.setattr("torch.backends.__allow_nonbracketed_mutation_flag", not frozen)
    before = cudnn.allow_tf32
    torch._C._set_cudnn_allow_tf32(True)
    try:
        with device_spec.placed_on("cuda"):
            assert not cudnn.allow_tf32
        assert cudnn.allow_tf32
        with device_spec.placed_on("cpu"):
            assert cudnn.allow_tf32
    finally:
        torch._C._set_cudnn_allow_tf32(before)


@pytest.mark.parametrize("count", [1, 2])
def test_a_second_gpu_is_used_where_there_is_one(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with one GPU said of every metric that `.to('cuda:1')` is not possible."""
    from pytest_evalcheck.kinds.device import relocation

    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    monkeypatch.setattr(relocation, "_metric", lambda reference, devices: devices)
    subject = SimpleNamespace(device="cuda", feeds_metrics=False)
    devices: Any = relocation.movable(SimpleNamespace(subject=subject))  # type: ignore[arg-type]
    assert devices == ("cuda", *["cuda:1"] * (count - 1), "cpu")


# A GPU that a kernel's assertion loses in one check, played on the CPU: its random numbers fail from then on, as there.
LOSES_THE_DEVICE = """
import os

import pytest_evalcheck.engine.runner as runner
from pytest_evalcheck.targets import device_spec

lost = []
device_spec.lost = lambda: bool(lost)
plain = runner.isolated_process

def isolated_process(**options):
    require_device()
    return plain(**options)

def require_device():
    if lost:
        raise RuntimeError("CUDA error: device-side assert triggered")

runner.isolated_process = isolated_process

class Asserts(Mean):
    def update(self, values):
        require_device()
        if os.environ["LOST_IN"] in os.environ["PYTEST_CURRENT_TEST"]:
            lost.append(True)
            require_device()
        super().update(values)

@ec.metric(inputs=numbers)
def asserts(device):
    return ec.Metric.of(Asserts())
"""


@pytest.mark.parametrize(
    ("code", "name", "outcome"),
    [("EC205", "compute_is_idempotent", "not applicable"), ("EC222", "ordinary_data", "failed")],
)
@pytest.mark.slow(every=2)
def test_the_checks_after_a_lost_device_run_in_processes_of_their_own(
    project: Project, monkeypatch: pytest.MonkeyPatch, code: str, name: str, outcome: str
) -> None:
    """131 of 188 failures of the first run on a GPU were those of checks after one that had lost it."""
    monkeypatch.setenv("LOST_IN", name)
    project.write(LOSES_THE_DEVICE)
    options = ["--evalcheck-device=cpu", "--evalcheck-run=in-process", "--evalcheck-select=EC201,EC205,EC208,EC222"]
    result = project.spawn("--evalcheck", *options, "-rs")
    outcomes = {cell.code: cell.outcome for cell in result.report.cells}
    assert outcomes == {**dict.fromkeys(("EC201", "EC205", "EC208", "EC222"), "passed"), code: outcome}, result.output
    result.shows("a kernel failed an assertion")

"""Devices that a target declares: tried by default for every kind, chosen by -m, and reported where they are not tried."""

from __future__ import annotations

import os

import pytest
from target_files import CORRECT

from pytest_evalcheck.testing import Project

LOOP = """
@ec.loop(inputs=es.tabular(features=3, classes=4), devices={devices})
def accuracy({parameter}):
    import torch

    model = torch.nn.Linear(3, 4){placed}

    def evaluate(data, batch_size=2):
        hits = 0
        with torch.no_grad():
            for batch in data.loader(batch_size):
                logits = model(batch["x"].to(model.weight.device)).cpu()
                hits += (logits.argmax(-1) == batch["labels"]{labels}).sum().item()
        return {{"hits": hits}}

    return ec.Loop(evaluate=evaluate, model=model)
"""
USERS = """
import pytest

@pytest.mark.slow
def test_slow():
    pass

def test_quick():
    pass
"""
STRICT = """[pytest]
addopts = --strict-markers
markers = slow: of the user
evalcheck_select = EC504, EC610
"""


def loop(project: Project, *, devices: object = ("cpu", "mps"), takes: bool = True, mends: bool = True) -> Project:
    """Write a loop whose labels go to the device, and come back with the outputs where ``mends``."""
    labels = ".to(model.weight.device)" + ".cpu()" * mends
    values = {"parameter": "device" if takes else "", "placed": ".to(device)" * takes, "labels": labels}
    return project.write(LOOP.format(devices=devices, **values))


def devices(project: Project, *arguments: str, code: int = 0) -> list[str]:
    return sorted(cell.device for cell in project.run(*arguments, code=code).report.cells)


def test_labels_that_stay_on_a_declared_device_are_red_by_default(project: Project) -> None:
    result = loop(project, mends=False).run(code=1)
    result.shows("EC610 the_results_match_the_cpu", "accuracy on sim:mps", "1 failed")
    assert [cell.device for cell in result.report.of("failed")] == ["sim:mps"]
    assert devices(loop(project), "--evalcheck-select=EC610") == ["sim:mps"]
    assert devices(loop(project, devices=None), "--evalcheck-select=EC610") == ["sim:cuda", "sim:mps"]


@pytest.mark.parametrize(
    ("expression", "chosen"),
    [
        ("mps", ["sim:mps"]),
        ("cuda", ["sim:cuda"]),
        ("simulated", ["sim:cuda", "sim:mps"]),
        ("not simulated", ["cpu"]),
        ("cpu or mps", ["cpu", "sim:mps"]),
    ],
)
@pytest.mark.slow(every=3)
def test_markers_choose_devices_alone_and_beside_the_tests_of_a_user(
    project: Project, expression: str, chosen: list[str]
) -> None:
    project.pytester.makeini(STRICT)
    loop(project, devices=None)
    assert devices(project, "-m", expression) == chosen
    project.write(USERS, name="test_users.py", header="")
    assert devices(project, "-m", expression) == chosen
    both = project.run("--evalcheck-with-tests", "-m", expression, code=0)
    assert sorted(cell.device for cell in both.report.cells) == chosen
    tests = 2 if expression == "not simulated" else 0
    assert both.outcomes["passed"] == len(chosen) + tests
    alone = project.run("-m", expression, evalcheck=False, code=0 if tests else 5)
    assert alone.outcomes.get("passed", 0) == tests


def test_markers_choose_checks_in_the_tests_of_a_user(project: Project) -> None:
    project.pytester.makeini(STRICT)
    source = """
    @ec.parametrize_with_checks([accuracy], inputs=es.tabular(features=3, classes=4), kind="loop", select="EC504,EC610", device="auto")
    def test_loops(check):
        check()
    """
    source = LOOP.partition("\n")[2].partition("\n")[2].format(
        parameter="device", placed=".to(device)", labels=".cpu()"
    ) + "\n".join(line[4:] for line in source.splitlines())
    project.write(source, name="test_loops_of_a_user.py").write(USERS, name="test_users.py", header="")
    for expression, count in (("mps", 1), ("simulated", 2), ("not simulated", 3), ("slow", 1)):
        result = project.run("-m", expression, evalcheck=False, code=0)
        assert result.outcomes["passed"] == count, expression


def test_a_declared_device_that_the_factory_does_not_take_is_not_run(project: Project) -> None:
    result = loop(project, takes=False).run("--evalcheck-select=EC504,EC610", code=1)
    said = "devices= names mps, but the factory takes no device; write accuracy(device), or take mps out"
    result.shows(f"evalcheck: not ok: 1 not run ({said})", "1 passed")
    project.run("--evalcheck-select=EC504,EC610", "--evalcheck-optional=mps", code=1)  # nothing is missing here
    # Nobody declared a device.
    loop(project, takes=False, devices=None).run("--evalcheck-select=EC504,EC610", code=0).shows("2 not applicable")


def test_everything_is_tried_on_the_device_of_a_target_that_is_not_for_the_cpu(project: Project) -> None:
    loop(project, devices=("cuda",))
    result = project.run("--evalcheck-select=EC504,EC610", code=0)
    assert [(cell.code, cell.device) for cell in result.report.cells] == [("EC504", "sim:cuda"), ("EC610", "sim:cuda")]


def test_what_cannot_be_simulated_on_a_declared_device_is_not_run(project: Project) -> None:
    graphs = """
    @ec.loop(inputs=es.tabular(features=3, classes=4), devices={devices})
    def captures(device):
        import torch
        if device == "cuda":
            torch.cuda.CUDAGraph()
        torch.ones(1).to(device)
        return ec.Loop(evaluate=lambda data, batch_size=2: {{"count": len(data)}})
    """
    select = "--evalcheck-select=EC504,EC610"
    project.write(graphs.format(devices=("cpu", "cuda")))
    project.run(select, code=1).shows("evalcheck: not ok: 1 not run (not checkable here: ")
    project.run(select, "--evalcheck-optional=cuda", code=0).shows("1 not run (optional: not checkable here: ")
    project.write(graphs.format(devices=None)).run(select, code=0).shows("1 not applicable")


VARIABLE = """
@ec.loop(inputs=es.tabular(features=3, classes=4))
def sets(device):
    import os
    import torch
    if device {where}:
        os.environ["OF_THE_LIBRARY"] = "1"
    model = torch.nn.Linear(3, 4).to(device)
    return ec.Loop(evaluate=lambda data, batch_size=2: {{"count": len(data)}}, model=model)
"""


def test_a_variable_that_is_set_where_an_accelerator_is_found_is_no_leak(project: Project) -> None:
    """accelerate sets PYTORCH_ENABLE_MPS_FALLBACK in every process with MPS."""
    select = "--evalcheck-select=EC504,EC610"
    project.write(VARIABLE.format(where="!= 'cpu'")).run(select, code=0)
    assert os.environ.get("OF_THE_LIBRARY") is None
    result = project.write(VARIABLE.format(where="== 'cpu'")).run(select, code=1)
    assert [cell.device for cell in result.report.of("failed")] == ["cpu"]


def test_a_device_that_is_not_used_says_nothing(project: Project) -> None:
    unused = """
    @ec.loop(inputs=es.tabular(features=3, classes=4), devices={devices})
    def counts(device):
        return ec.Loop(evaluate=lambda data, batch_size=2: {{"count": len(data)}})
    """
    select, said = "--evalcheck-select=EC504,EC610", "nothing was on the device"
    project.write(unused.format(devices=None)).run(select, "-rs", code=0).shows("2 not applicable", said)
    project.write(unused.format(devices=("cpu", "mps"))).run(select, code=1).shows("1 not run", said)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("mps", "this machine has no MPS device; sim:mps simulates one"),
        ("cuda:7", "CUDA devices; sim:cuda:7 simulates it"),
    ],
)
def test_a_device_that_the_machine_lacks_is_reported_and_the_rest_runs(
    project: Project, device: str, said: str
) -> None:
    loop(project, devices=("cpu", device.partition(":")[0])).write(CORRECT, name="evalcheck_other.py")
    result = project.run("--evalcheck-select=EC504,EC201,EC610", f"--evalcheck-device=cpu,{device}", code=1)
    result.shows(said, "2 passed")
    assert {cell.device for cell in result.report.of("not run")} == {device}

"""Every public name of PyTorch's modules about devices works as on a device, or says that it cannot be simulated."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import public_names
import pytest
import torch

from pytest_evalcheck.devices import CannotSimulate, simulate

MACHINES = (("cuda",), ("mps",), ("cuda", "mps"))
GROUPS = {
    **{module: (lambda module=module: public_names.expressions(module)) for module in public_names.modules()},
    "other names": lambda: list(public_names.EXPRESSIONS),
    "torch.cuda, deeper": lambda: list(public_names.OF_CUDA),
}


def kind_of(group: str, devices: tuple[str, ...]) -> str:
    """The kind of device that a module is about; the first simulated one for a module about all."""
    return next((kind for kind in ("cuda", "mps") if f".{kind}" in group), devices[0])


COVERED = [(devices, group) for devices in MACHINES for group in GROUPS if kind_of(group, devices) in devices]
ABSENT = [(devices, group) for devices in MACHINES for group in GROUPS if kind_of(group, devices) not in devices]
# A plain machine has no device to ask; on a Mac `torch.cuda.stream` asks torch.mps for its current one, which it lacks.
ASKS_THE_DEVICE = ("torch.cuda.stream(None)",)
EVENTS = ("torch.cuda.Event()", "torch.cuda.streams.Event()", "torch.mps.Event()", "torch.mps.event.Event()")
# PyTorch warns of what is deprecated; objects whose constructor failed warn when they are collected.
pytestmark = pytest.mark.filterwarnings("ignore")


class Outcome(NamedTuple):
    """Result of using a name: a value, or an error."""

    error: str
    text: str
    is_refused: bool = False


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)  # traces and snapshots
    state = torch.random.get_rng_state()
    if vars(torch._GLOBAL_DEVICE_CONTEXT).get("device_context") is None:  # older releases ask None for its device
        vars(torch._GLOBAL_DEVICE_CONTEXT).clear()
    yield
    torch.storage._reset_warn_typed_storage_removal()  # PyTorch warns once, which other tests look for
    torch.random.set_rng_state(state)


def outcome(expression: str, kind: str) -> Outcome:
    try:
        public_names.use(expression, kind)
    except CannotSimulate as error:
        return Outcome("CannotSimulate", str(error), is_refused=bool(error.feature.strip() and error.advice.strip()))
    except Exception as error:
        return Outcome(type(error).__name__, str(error).replace("mps", "cpu"))
    return Outcome("", "")


@pytest.mark.parametrize(("devices", "group"), COVERED, ids=[f"{'+'.join(each)}-{name}" for each, name in COVERED])
def test_a_name_works_or_is_refused(devices: tuple[str, ...], group: str) -> None:
    kind = kind_of(group, devices)
    with simulate(*devices):
        found = {expression: outcome(expression, kind) for expression in GROUPS[group]()}
    raw = {expression: each for expression, each in found.items() if each.error and not each.is_refused}
    if not torch.amp.is_autocast_available(kind):  # nor has an older release for MPS on a Mac
        raw = {expression: each for expression, each in raw.items() if "autocast" not in expression}
    assert raw == {}


@pytest.mark.skipif(torch._C._has_cuda or torch._C._has_mps, reason="the build has the device, and asks its driver")
@pytest.mark.parametrize(("devices", "group"), ABSENT, ids=[f"{each[0]}-{name}" for each, name in ABSENT])
def test_what_is_not_simulated_is_as_on_a_machine_without(devices: tuple[str, ...], group: str) -> None:
    expressions = GROUPS[group]()
    plain = {expression: outcome(expression, "cpu") for expression in expressions}
    with simulate(*devices):
        found = {expression: outcome(expression, devices[0]) for expression in expressions}
    different = {
        expression: (each, plain[expression])
        for expression, each in found.items()
        if bool(each.error) != bool(plain[expression].error)
        and not (each.is_refused or expression in (*EVENTS, *ASKS_THE_DEVICE))
    }
    assert different == {}


def test_common_names_are_not_refused() -> None:
    """A function in C that gets another name in a later release would be refused in silence."""
    works = ("is_available()", "device_count()", "current_device()", "get_device_name()", "synchronize()", "seed()")
    with simulate("cuda"):
        for name in works:
            assert outcome(f"torch.cuda.{name}", "cuda") == Outcome("", ""), name


VALUES: dict[str, Any] = {
    "torch.device(1)": torch.device("cuda:1"),
    "torch.get_device_module()": torch.cuda,
    "torch.get_device_module('cuda')": torch.cuda,
    "torch.backends.cuda.is_built()": True,
    "torch.backends.cudnn.is_available()": True,
    "torch.backends.cuda.cufft_plan_cache.max_size": 4096,
    "torch.cuda.get_sync_debug_mode()": 0,
    "torch.cuda.nvtx.range_push('outer') or torch.cuda.nvtx.range_push('inner')": 1,
    "torch.cuda.FloatTensor([1.0, 2.0]).tolist()": [1.0, 2.0],
    "torch.cuda.FloatTensor(2, 3).shape": (2, 3),
    "isinstance(torch.ones(1).cuda(), torch.cuda.FloatTensor)": True,
    "isinstance(torch.ones(1).cuda(), torch.cuda.LongTensor)": False,
    "isinstance(torch.ones(1), torch.cuda.FloatTensor)": False,
    "torch.UntypedStorage(8, device='cuda:1').device": torch.device("cuda:1"),
    "torch.cuda.default_generators[1].device": torch.device("cuda:1"),
    "torch.cuda.tunable.is_enabled()": False,
    "torch.cuda.cudart().cudaGetErrorString(2)": "out of memory",
    "torch.profiler.supported_activities() == {torch.profiler.ProfilerActivity.CPU}": True,
}
VALUES_OF_NEWER_RELEASES: dict[str, Any] = {
    "torch.cuda.get_allocator_backend()": "native",
    "torch.accelerator.current_accelerator()": torch.device("cuda"),
    "torch.accelerator.current_device_index()": 0,
    "torch.accelerator.get_device_capability()": {"supported_dtypes"},
    "torch.accelerator.get_memory_info()[1]": 16 * 2**30,
}


def value(expression: str) -> Any:
    with simulate("cuda:1", "mps"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The torch.cuda.*DtypeTensor constructors are no longer")
        return eval(expression, {"torch": torch})


@pytest.mark.parametrize("expression", VALUES)
def test_a_value(expression: str) -> None:
    assert value(expression) == VALUES[expression]


@pytest.mark.parametrize("expression", VALUES_OF_NEWER_RELEASES)
def test_a_value_of_a_newer_release(expression: str) -> None:
    try:
        operator.attrgetter(expression.partition("(")[0].removeprefix("torch."))(torch)
    except AttributeError:
        pytest.skip("this release has no such name")
    found = value(expression)
    found = set(found) if isinstance(found, dict) else found
    assert found == VALUES_OF_NEWER_RELEASES[expression]


def test_a_default_type_of_cuda_is_refused() -> None:
    with simulate("cuda"):
        for name in (torch.cuda.FloatTensor, "torch.cuda.FloatTensor"):
            with pytest.raises(CannotSimulate, match="set_default_device"):
                torch.set_default_tensor_type(name)
        torch.set_default_tensor_type(torch.FloatTensor)


def test_the_module_of_the_accelerator_is_not_remembered() -> None:
    with simulate("mps"):
        assert torch.get_device_module() is torch.mps
    with simulate("cuda"):
        assert torch.get_device_module() is torch.cuda
    assert torch.get_device_module() is not torch.cuda


def test_a_refusal_names_what_the_user_called() -> None:
    with simulate("cuda"), pytest.raises(CannotSimulate) as raised:
        torch.cuda.memory_snapshot()
    assert raised.value.feature == "torch.cuda.memory.memory_snapshot"


def test_nothing_of_the_driver_is_left_afterwards() -> None:
    before = {name: value for name, value in vars(torch._C).items() if name.startswith(("_cuda", "_accel", "_mps"))}
    with simulate("cuda", "mps"):
        assert torch._C._cuda_get_sync_debug_mode() == 0
    after = {name: value for name, value in vars(torch._C).items() if name.startswith(("_cuda", "_accel", "_mps"))}
    assert before == after


def test_a_default_device_by_index() -> None:
    with simulate("cuda:1"):
        torch.set_default_device(1)
        assert torch.ones(1).device == torch.device("cuda:1")
        with torch.device(0):
            assert torch.ones(1).device == torch.device("cuda:0")
    assert torch.ones(1).device.type == "cpu"


def test_a_default_device_that_was_set_before() -> None:
    torch.set_default_device("cuda")  # PyTorch accepts it where there is none, until a tensor is created
    try:
        with simulate("cuda"):
            assert torch.ones(1).is_cuda
    finally:
        torch.set_default_device(None)
    assert torch.ones(1).device.type == "cpu"


@pytest.mark.parametrize("export", ["torch.to_dlpack", "torch.utils.dlpack.to_dlpack", "torch.from_dlpack"])
def test_memory_is_not_handed_over(export: str) -> None:
    function = eval(export, {"torch": torch})
    with simulate("cuda"):
        function = eval(export, {"torch": torch})
        with pytest.raises(CannotSimulate, match="handing memory of cuda:0 to another library"):
            function(torch.ones(1, device="cuda"))
        assert function(torch.ones(1)) is not None


def test_a_capsule_of_the_host_is_read_back() -> None:
    with simulate("cuda"):
        assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.arange(3))).tolist() == [0, 1, 2]


def test_the_host_is_profiled() -> None:
    with simulate("cuda"):
        with torch.profiler.profile() as profiled:
            torch.ones(2, device="cuda") + 1
        assert "aten::add" in {event.name for event in profiled.events()}
        both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with pytest.raises(CannotSimulate, match=r"profiling cuda cannot be .* \(activities=\["):
            torch.profiler.profile(activities=both).__enter__()

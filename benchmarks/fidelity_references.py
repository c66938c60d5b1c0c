"""Who is asked whether a call with tensors on several devices is accepted: our simulation, FakeTensor, a device."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch
from fidelity_checks import checked
from fidelity_samples import DEVICE, Call, Placement, seeded, tensors_in
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_evalcheck.devices import CannotSimulate, simulate
from pytest_evalcheck.devices.device_marks import device_of

Tensor = torch.Tensor
Ask = Callable[[Call, Placement], "Verdict"]
ABOUT_DEVICES = re.compile(r"\bdevices?\b|\bcuda\b|\bcpu\b|\bmps\b|\bCUDA", re.IGNORECASE)
# On a build for CPUs a few bindings look for the driver before they ask FakeTensor.
NO_DRIVER = ("not linked with support for", "not compiled with CUDA enabled", "driver version is insufficient")
NO_KERNEL = "from the 'CUDA' backend"
# What these call depends on the device: aten/src/ATen/native/Convolution.cpp
SELECTS_BACKEND = ("aten::convolution", "aten::convolution_backward", "aten::_convolution")


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of a call: `accepted`, `refused` for its devices, or `undecided`; `crashed` is anything else."""

    kind: str
    text: str = ""
    at: str = ""  # the operator of the dispatcher that ran last
    checked: str = ""  # the first operator that PyTorch's generated check of devices refuses
    devices: tuple[str, ...] = ()  # where the results are


UNDECIDED = Verdict("undecided")


class Trail(TorchDispatchMode):  # type: ignore[misc]
    """Sees the operators of the dispatcher go by, and what the check that PyTorch generates says to each."""

    def __init__(self) -> None:
        super().__init__()
        self.last = self.refused = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.last = str(func)
        if not self.refused and checked(func):
            places = {device_of(each) for each in tensors_in((args, kwargs or {}))}
            self.refused = self.last if len(places) > 1 else ""
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def simulated(*devices: str) -> Iterator[Ask]:
    """Ask the simulation. What it is asked inside one block happens in one simulation."""
    with simulate(*devices, even_if_real=True):

        def ask(call: Call, placement: Placement) -> Verdict:
            trail = Trail()
            return dataclasses.replace(_asked(call, placement, moved, trail), checked=trail.refused)

        yield ask


@contextlib.contextmanager
def faked() -> Iterator[Ask]:
    """Ask PyTorch's own FakeTensor, which has no values: what depends on them it cannot decide."""
    logging.getLogger("torch.__trace").handlers.clear()  # writes down a stack for every shape
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)

    def ask(call: Call, placement: Placement) -> Verdict:
        with mode:
            found = _asked(call, placement, lambda tensor, device: mode.from_tensor(tensor).to(device), _Last())
        asked_the_build = NO_KERNEL in found.text
        return dataclasses.replace(found, kind="undecided") if found.kind == "crashed" or asked_the_build else found

    yield ask


class Parts(TorchDispatchMode):  # type: ignore[misc]
    """Runs the C++ of composites operator by operator, and stops where the check that PyTorch generates refuses one.

    FakeTensor looks at a composite as a whole, and takes a CPU tensor without dimensions for every operator. Here a
    composite does what its own source does with the devices of its tensors.
    """

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        self.composites = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.last = str(func)
        apart = len({each.device for each in tensors_in((args, kwargs))}) > 1
        if apart and checked(func):
            raise RuntimeError(f"Expected all tensors to be on the same device (generated check of {func})")
        if apart and composite(func):
            self.composites += 1
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)
        return func(*args, **kwargs)


def composite(func: Any) -> bool:
    """Return whether the only kernel of an operator is made of other operators, whatever the device."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    explicit = has_kernel(func.name(), "CompositeExplicitAutograd") and not has_kernel(func.name(), "CPU")
    return explicit and func._schema.name not in SELECTS_BACKEND


@contextlib.contextmanager
def sourced() -> Iterator[Ask]:
    """Ask PyTorch's own code of composites, over FakeTensor. What has no composite in it is undecided."""
    logging.getLogger("torch.__trace").handlers.clear()
    mode = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)

    def ask(call: Call, placement: Placement) -> Verdict:
        trail = Parts()
        with mode:
            found = _asked(call, placement, lambda tensor, device: mode.from_tensor(tensor).to(device), trail)
        decided = trail.composites and found.kind in ("accepted", "refused") and NO_KERNEL not in found.text
        return found if decided else dataclasses.replace(found, kind="undecided")

    yield ask


@contextlib.contextmanager
def real(device: str = "cuda") -> Iterator[Ask]:
    """Ask the device itself."""
    module = getattr(torch, device)
    there = {f"{device}:{number}" for number in range(module.device_count())} | {"cpu"}

    def ask(call: Call, placement: Placement) -> Verdict:
        if not {placement.device, DEVICE} <= there:
            return Verdict("undecided", f"there is no {placement.device}")
        return _asked(call, placement, moved, _Last(), after=module.synchronize)

    yield ask


class _Last(TorchDispatchMode):  # type: ignore[misc]
    last = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.last = str(func)
        return func(*args, **(kwargs or {}))


def moved(tensor: Tensor, device: str) -> Tensor:
    """A copy of a tensor on a device."""
    return tensor.clone() if device == "cpu" else tensor.to(device)


def _asked(
    call: Call,
    placement: Placement,
    move: Callable[[Tensor, str], Tensor],
    trail: Any,
    after: Callable[[], None] = lambda: None,
) -> Verdict:
    try:
        first, rest, named = call.with_leaves(
            lambda name, tensor: move(tensor, placement.of(name)), lambda _: torch.device(DEVICE)
        )
    except CannotSimulate as error:
        return Verdict("undecided", line(error))
    except Exception as error:
        return Verdict("crashed", f"cannot be put there: {line(error)}")
    seeded(1)
    try:
        with trail:
            result = call.function(first, *rest, **named)
        after()
        devices = tuple(str(each.device) for each in tensors_in(result))
    except CannotSimulate as error:
        return Verdict("undecided", line(error), trail.last)
    except Exception as error:
        return Verdict(_kind(error), line(error), trail.last)
    return Verdict("accepted", at=trail.last, devices=devices)


def _kind(error: Exception) -> str:
    text = str(error)
    if any(each in text for each in NO_DRIVER):
        return "undecided"
    if isinstance(error, (RuntimeError, TypeError, ValueError, IndexError)) and ABOUT_DEVICES.search(text):
        return "refused"
    return "crashed"


def line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"

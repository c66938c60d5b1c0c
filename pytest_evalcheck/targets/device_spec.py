"""The device axis: which devices a run asks for, what their cells are called, and being on one of them.

A device is written as PyTorch writes it, and with ``sim:`` before it where it is simulated: ``cuda:1``, ``sim:mps``.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from pytest_evalcheck.errors import UsageError, nearest

KINDS = ("cpu", "cuda", "mps")
AUTO = "auto"
SIMULATED = ("sim:cuda", "sim:mps")
_KNOWN = (*KINDS, *SIMULATED, AUTO)


def parse(text: str) -> tuple[str, ...]:
    """The devices in a list with commas.

    Raises:
        UsageError: when one of them is no device.
    """
    devices = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for device in devices:
        _require(device)
    if not devices:
        raise UsageError(f"no device is given; expected {', '.join(_KNOWN)}")
    return devices


def _require(device: str) -> None:
    name, _, index = torch_name(device).partition(":")
    indexed = ":" in torch_name(device)
    if device == AUTO:
        return
    if name not in KINDS or (simulated(device) and name == "cpu") or (indexed and not index.isdigit()):
        near = nearest_kind(device, _KNOWN)
        raise UsageError(f"device {device!r}; expected {', '.join(_KNOWN)} or an index as in cuda:1{near}")


def nearest_kind(text: str, known: Sequence[str] = KINDS) -> str:
    """``; did you mean 'cuda'?`` for what is no device, or nothing when no device is near."""
    word = text.strip().lower()
    plain = word.removeprefix("sim:").partition(":")[0]
    for candidate in (word, _OTHER_NAMES.get(word, ""), plain, _OTHER_NAMES.get(plain, "")):
        if candidate in known:
            return f"; did you mean {candidate!r}?"
    return nearest(word, known) or nearest(plain, known)


_OTHER_NAMES = {"gpu": "cuda", "nvidia": "cuda", "rocm": "cuda", "hip": "cuda", "metal": "mps", "host": "cpu"}


def kind(device: str) -> str:
    """``cpu``, ``cuda`` or ``mps``."""
    return torch_name(device).partition(":")[0]


def torch_name(device: str) -> str:
    """Return the name of PyTorch: ``cuda:1`` for ``sim:cuda:1``."""
    return device.removeprefix("sim:")


def simulated(device: str) -> bool:
    """Return whether a device is simulated."""
    return device.startswith("sim:")


def marks(device: str) -> tuple[str, ...]:
    """The pytest markers of its cells."""
    return (kind(device), "simulated") if simulated(device) else (kind(device),)


def chosen(asked: Sequence[str], *, accelerators_only: bool) -> list[str]:
    """The devices to try, of those that a run asked for.

    ``auto`` is the CPU, or the simulated accelerators for what is about accelerators; and those of the machine.
    """
    found: list[str] = []
    for device in asked:
        if device == AUTO:
            found += [*(SIMULATED if accelerators_only else ["cpu"]), *_likely()]
        elif not (accelerators_only and device == "cpu"):
            found.append(device)
    return list(dict.fromkeys(found))


@cache
def _likely() -> list[str]:
    """Accelerators that this machine seems to have: torch, which knows, is not imported to collect."""
    cuda = os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/kfd") or bool(os.environ.get("CUDA_PATH"))
    mps = sys.platform == "darwin" and platform.machine() == "arm64"
    return ["cuda"] * cuda + ["mps"] * mps


def absent(device: str) -> str:
    """Return the reason why a device cannot be used here; empty when it can."""
    import torch

    name, _, index = torch_name(device).partition(":")
    if name == "cpu":
        return ""
    if simulated(device):
        there = torch.cuda.is_available() if name == "cuda" else torch.backends.mps.is_available()
        return f"this machine has a real {name}: ask for it instead" if there else ""
    if name == "cuda":
        count = torch.cuda.device_count()
        return "" if count > int(index or 0) else f"this machine has {count} CUDA devices; sim:{device} simulates it"
    return "" if torch.backends.mps.is_available() else "this machine has no MPS device; sim:mps simulates one"


@contextmanager
def placed_on(
    device: str, *, count: int = 1, in_flight: str = "ignore", asserts: str = "at once", check_streams: bool = False
) -> Iterator[Any]:
    """Be where a device is: for a simulated one its simulation, of ``count`` devices where its kind has several.

    Gives the ledger of what crosses, or None where nothing is counted. What is used while a copy is in flight is in the
    ledger, for EC608; with ``in_flight="error"`` it is an error. A kernel complains of values at once, as on the CPU:
    checks give invalid ones on purpose, and a real device would be of no use after the first. With ``check_streams``
    the ledger has the waits between streams that are missing, too. Modules that are imported inside see the devices of
    the machine, so that what they store does not depend on the check that imports them first.
    """
    streams = "check" if check_streams else "trust"
    place: Any = nullcontext()
    if simulated(device):
        place = _simulation(device, count, in_flight, asserts, streams)
    elif kind(device) == "cuda":
        place = _in_float32()
    with place as ledger:
        yield ledger


@contextmanager
def _in_float32() -> Iterator[None]:
    """Let convolutions and recurrent layers of a GPU multiply in float32, as the CPU that they are compared with.

    By default cuDNN rounds their float32 to the ten bits of TF32: another number in the fifth digit. What the code
    under test sets inside is its own.
    """
    from torch import _C  # torch.backends lets nobody set its flags after torch.testing's tools were imported

    try:
        before = _C._get_cudnn_allow_tf32()
        _C._set_cudnn_allow_tf32(False)
    except RuntimeError:  # the process has chosen by PyTorch's newer settings, which do not mix with this one
        yield
        return
    try:
        yield
    finally:
        _C._set_cudnn_allow_tf32(before)


def lost() -> bool:
    """Return whether a GPU that this process uses takes no work any more, as after a kernel whose assertion failed."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return False
    try:
        torch.zeros(1, device="cuda").add(1).item()
    except RuntimeError:
        return True
    return False


@contextmanager
def _simulation(device: str, count: int, in_flight: Any, asserts: Any, streams: Any) -> Iterator[Any]:
    from pytest_evalcheck.devices import simulate
    from pytest_evalcheck.devices.patches.imported_modules import imports_see_the_machine

    name, _, index = torch_name(device).partition(":")
    last = max(int(index or 0), count - 1 if name == "cuda" else 0)
    simulated_name = f"{name}:{last}" if last else name
    place = simulate(simulated_name, in_flight=in_flight, asserts=asserts, streams=streams)
    with place as ledger, imports_see_the_machine():
        yield ledger

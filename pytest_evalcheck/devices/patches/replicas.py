"""`torch.nn.parallel.comm`: parts and copies for several devices are refused, one part for one device is the tensor."""
# ruff: noqa: ARG001  (the parameters are PyTorch's)

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.nn.parallel import _functions, comm

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.bindings import refused_class
from pytest_evalcheck.devices.patches.patches import Patches

_ADVICE = "the simulated device does everything in order, at once; run this on the device itself, or use one device."
_REFUSED = ("broadcast", "broadcast_coalesced", "reduce_add", "reduce_add_coalesced")


def install(patches: Patches) -> None:
    """Patch the functions that `DataParallel` calls: over one device it calls its module, with inputs on the device."""
    refusals = {name: refused_class(f"torch.nn.parallel.comm.{name}", _ADVICE) for name in _REFUSED}
    for owner in (comm, torch.cuda.comm):
        patches.set_existing(owner, scatter=_scatter, gather=_gather, **refusals)
    patches.set_existing(_functions, _streams=None)  # PyTorch stores a stream of each device there


def _scatter(
    tensor: Any, devices: Any = None, chunk_sizes: Any = None, dim: int = 0, streams: Any = None, *, out: Any = None
) -> tuple[Any, ...]:
    """torch/csrc/cuda/comm.cpp, scatter."""
    if out is not None or len(devices) != 1:
        raise CannotSimulate("torch.nn.parallel.comm.scatter", _ADVICE)
    stream = streams[0] if streams else None
    with nullcontext() if stream is None else torch.cuda.stream(stream):
        return (tensor.to(torch.device("cuda", torch.device(devices[0]).index), non_blocking=True),)


def _gather(tensors: Any, dim: int = 0, destination: Any = None, *, out: Any = None) -> Any:
    """torch/csrc/cuda/comm.cpp, gather."""
    if out is not None or len(tensors) != 1:
        raise CannotSimulate("torch.nn.parallel.comm.gather", _ADVICE)
    if destination is None:
        destination = torch.cuda.current_device()
    return tensors[0].to("cpu" if destination == -1 else destination)

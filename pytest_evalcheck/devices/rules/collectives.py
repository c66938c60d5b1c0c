"""Collectives of `torch.distributed` with tensors on a device: which there are, what they copy, what they refuse.

Gloo computes on the host. It copies tensors of CUDA to pinned memory and the results back:
torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, the classes Async...CUDAWork. Where it has no such class it refuses
tensors of a device, or takes their address for one of the host's memory.
"""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of
from pytest_evalcheck.devices.errors import CannotSimulate


@dataclasses.dataclass(frozen=True, slots=True)
class HostCopies:
    """The arguments that gloo copies to the host, and those to which it copies what came."""

    to_host: str
    from_host: str
    same_type: str = ""
    """The name in gloo's error for tensors of several types, where it checks that."""
    from_root_alone: bool = False
    in_chunks: bool = False
    """True where each rank's part of the result is copied on its own."""
    result: str = ""
    """The argument that gets a part of `from_host`, wherever it is."""


_IN_PLACE = HostCopies("tensors", "tensors")
HOST_COPIES = {
    "broadcast_": dataclasses.replace(_IN_PLACE, from_root_alone=True),
    "allreduce_": _IN_PLACE,
    "reduce_": _IN_PLACE,
    "allgather_": HostCopies("input_tensors", "output_tensors", "allgather"),
    "_allgather_base_": HostCopies("input_tensor", "output_tensor", "allgather", in_chunks=True),
    "gather_": HostCopies("input_tensors", "output_tensors", "gather"),
    "scatter_": HostCopies("input_tensors", "output_tensors", "scatter"),
    "alltoall_": HostCopies("input_tensors", "output_tensors"),
    "alltoall_base_": HostCopies("input", "output"),
    # Each reduces a copy of the whole input, of which a part is the result.
    "reduce_scatter_": HostCopies("input_tensors", "input_tensors", result="output_tensors"),
    "_reduce_scatter_base_": HostCopies("input_tensor", "input_tensor", result="output_tensor"),
    "reduce_scatter_tensor_coalesced_": HostCopies("inputs", "inputs", result="outputs"),
}
"""Collectives by operator of the namespace `c10d`."""

# torch/csrc/distributed/c10d/Functional.cpp
FUNCTIONAL = {
    "all_reduce": "allreduce_",
    "all_reduce_": "allreduce_",
    "all_reduce_coalesced": "allreduce_coalesced_",
    "all_reduce_coalesced_": "allreduce_coalesced_",
    "all_gather_into_tensor": "_allgather_base_",
    "all_gather_into_tensor_out": "_allgather_base_",
    "all_gather_into_tensor_coalesced": "allgather_into_tensor_coalesced_",
    "reduce_scatter_tensor": "_reduce_scatter_base_",
    "reduce_scatter_tensor_out": "_reduce_scatter_base_",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced_",
    "all_to_all_single": "alltoall_base_",
    "broadcast": "broadcast_",
    "broadcast_": "broadcast_",
    "isend": "send",
    "irecv": "recv_",
    "batch_p2p_ops": "send",
}
"""The operator of `c10d` that one of `_c10d_functional` calls."""

_TYPES = {
    torch.float32: "float",
    torch.float64: "double",
    torch.float16: "c10::Half",
    torch.bfloat16: "c10::BFloat16",
    torch.int64: "long int",
    torch.int32: "int",
    torch.int16: "short int",
    torch.int8: "signed char",
    torch.uint8: "unsigned char",
}


def require_kernel(name: str, kind: str) -> None:
    """Raise unless `c10d` has an operator for a kind of device. torch/csrc/distributed/c10d/Ops.cpp: none for MPS."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(f"c10d::{name}", kind.upper()):
        raise NotImplementedError(
            f"Could not run 'c10d::{name}' with arguments from the '{kind.upper()}' backend. This could be because the "
            "operator doesn't exist for this backend, or was omitted during the selective/custom build process "
            "(if using custom build)."
        )


def require_gloo_supports(name: str, kind: str) -> None:
    """Raise where gloo does not take tensors of a device for a collective."""
    if name == "allreduce_coalesced_":
        raise RuntimeError(f"ProcessGroupGloo::allreduce_coalesced: unsupported device type {kind}")
    if name in ("send", "recv_", "recv_any_source_"):
        # gloo/transport/tcp/pair.cc: the address is one of the device's memory, which the kernel cannot read or write
        call = "writev" if name == "send" else "Read error"
        raise RuntimeError(
            f"[gloo/transport/tcp/pair.cc] {call}: Bad address (gloo sends and receives tensors on the CPU only)"
        )
    if name in ("allgather_coalesced_", "allgather_into_tensor_coalesced_"):
        raise CannotSimulate(
            f"{name.strip('_')} of tensors on {kind} by gloo",
            "gloo takes their address for one of the host's memory, and the process crashes; "
            "gather one tensor at a time, or tensors on the CPU.",
        )


def require_same_type(name: str, rule: HostCopies, first: Tensor, others: list[Tensor]) -> None:
    """Raise gloo's error where the tensors of one call are on devices of several kinds."""
    for number, other in enumerate(others):
        if device_of(other).type == device_of(first).type:
            continue
        if name.startswith("alltoall"):
            raise RuntimeError("output tensor and input tensor must be on the same type of device")
        if rule.same_type:
            raise RuntimeError(
                f"ProcessGroupGloo::{rule.same_type}: invalid tensor type at index {number} "
                f"(expected {_options(first)}, got {_options(other)})"
            )


def _options(tensor: Tensor) -> str:
    """Return the options of a tensor as C++ prints them. c10/core/TensorOptions.cpp."""
    return (
        f"TensorOptions(dtype={_TYPES.get(tensor.dtype, tensor.dtype)}, device={device_of(tensor)}, layout=Strided, "
        "requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))"
    )

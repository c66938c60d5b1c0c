"""PyTorch's messages for tensors of one call on several devices: they depend on the operator and the device.

TensorIterator names two devices. The wrappers that torchgen generates for CUDA name the argument and themselves; for
MPS it generates no such check (torchgen/gen.py, `device_guard`), so that the kernel says it in its own words.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of
from pytest_evalcheck.devices.ledger import frames
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.devices.rules.native_functions import entry

SAME = "Expected all tensors to be on the same device"
_NAMES_ARGUMENT_FIRST = TORCH_RELEASE >= (2, 9)
_LINEAR_CHECKS = TORCH_RELEASE >= (2, 6)
# aten/src/ATen/native/Convolution.cpp, check_input_same_type_as_parameters
_CONVOLUTIONS = {"aten::convolution", "aten::_convolution"}
# aten/src/ATen/native/cuda/IndexKernel.cpp and mps/operations/Indexing.mm, masked_fill_
_MASKED_FILL = {"aten::masked_fill", "aten::masked_fill_"}
# aten/src/ATen/native/Embedding.cpp: made of another operator, whose check it is.
_MADE_OF = {"aten::embedding": ("index_select", {"weight": "self", "indices": "index"})}
# aten/src/ATen/native/mps/operations: kernels that make a graph of their arguments (OperationUtils.mm, Placeholder).
_PLACEHOLDER = "Placeholder storage has not been allocated on MPS device!"
_GRAPHS_ON_MPS = {
    f"aten::{name}" for name in ("embedding", "index_select", "bmm", "baddbmm", "nll_loss_forward", "native_batch_norm")
}
# aten/src/ATen/native/mps/operations/LinearAlgebra.mm, checkAllSameGPU: the numbers of the arguments.
_CHECKED_ON_MPS = {
    "aten::mm": {"self": (1, "mat1"), "mat2": (2, "mat2")},
    "aten::addmm": {"self": (1, "self"), "mat1": (2, "mat1"), "mat2": (3, "mat2")},
}
# aten/src/ATen/native/mps/operations/Linear.mm; before 2.6 it made a graph of its arguments.
_LINEAR_ARGUMENTS = {"self": "bias", "mat1": "input", "mat2": "weight"}
# torch/csrc/Exceptions.cpp, processErrorMsg: the old names of types, in Python.
_OLD_NAMES = {"Byte", "Char", "Double", "Float", "Int", "Long", "Short"}


class Argument(NamedTuple):
    """A tensor that an operator is given."""

    name: str
    tensor: Tensor
    written: bool
    in_list: bool


def mismatch_text(func: Any, pointwise: bool, arguments: list[Argument], first: Argument, other: Argument) -> str:
    """The message for `other`, which is not on the device of `first`."""
    name = func._schema.name
    device, other_device = device_of(first.tensor), device_of(other.tensor)
    kinds = {device.type, other_device.type}
    if name in _CONVOLUTIONS:
        return _text_of_convolution(arguments[0].tensor, other)
    if name in _MASKED_FILL and other.name == "mask":
        return f"expected self and mask to be on the same device, but got mask on {other_device} and self on {device}"
    text = f"{SAME}, but found at least two devices, {device} and {other_device}!"
    if kinds == {"mps", "cpu"}:
        on_cpu = other if other_device.type == "cpu" else first
        return _text_of_mps(name, on_cpu) or text
    if pointwise or "cuda" not in kinds:
        return text
    base, renamed = _MADE_OF.get(name, (name.removeprefix("aten::"), {}))
    method = _cuda_wrapper(base, func._schema.overload_name if base in name else "")
    if method is None:
        return text
    argument = renamed.get(other.name, other.name)
    if _NAMES_ARGUMENT_FIRST:
        got = f"but got {argument} is on {other_device}, different from other tensors on {device}"
        return f"{SAME}, {got} (when checking argument in method {method})"
    return f"{text} (when checking argument for argument {argument} in method {method})"


def _text_of_convolution(given: Tensor, other: Argument) -> str:
    text = f"Input type ({_type_of(given)}) and {other.name} type ({_type_of(other.tensor)}) should be the same"
    if device_of(given).type != "cpu":
        return text
    if device_of(other.tensor).type == "mps":  # mps/operations/Convolution.mm
        devices = f"input(device='cpu') and {other.name}(device={device_of(other.tensor)}')"
        return f"slow_conv2d_forward_mps: {devices} must be on the same device"
    return f"{text} or input should be a MKLDNN tensor and {other.name} is a dense tensor"


def _text_of_mps(name: str, on_cpu: Argument) -> str | None:
    """Return the message of a kernel of MPS for an argument on the CPU; None where TensorIterator says it."""
    if name in _GRAPHS_ON_MPS:
        return _PLACEHOLDER
    if name not in _CHECKED_ON_MPS:
        return None
    if _is_inside_linear():
        argument = _LINEAR_ARGUMENTS.get(on_cpu.name, on_cpu.name)
        return f"Tensor for argument {argument} is on cpu but expected on mps" if _LINEAR_CHECKS else _PLACEHOLDER
    number, argument = _CHECKED_ON_MPS[name][on_cpu.name]
    operator = name.removeprefix("aten::")
    return (
        f"Tensor for argument #{number} '{argument}' is on CPU, but expected it to be on GPU "
        f"(while checking arguments for {operator})"
    )


def _is_inside_linear() -> bool:
    """Return whether the operator is part of `linear`, which has a kernel of its own on MPS, and none on the CPU."""
    for frame in frames():
        if frame.f_code.co_name == "__torch_function__":
            return getattr(frame.f_locals.get("func"), "__name__", "") == "linear"
    return False


def _type_of(tensor: Tensor) -> str:
    """A tensor's type, as C++ names it and Python translates it."""
    kind = device_of(tensor).type
    with torch._C.DisableTorchFunction():
        name = tensor.type().rpartition(".")[2].removesuffix("Tensor")
    if kind == "cpu" and name in _OLD_NAMES:
        return f"torch.{name}Tensor"
    if kind == "cuda" and name in _OLD_NAMES | {"Half"}:
        return f"torch.cuda.{name}Tensor"
    return f"{kind.upper()}{name}Type"


@functools.cache
def _cuda_wrapper(name: str, overload: str) -> str | None:
    """The name of the wrapper that checks devices for CUDA, or None where there is none.

    torchgen/dest/register_dispatch_key.py: structured kernels, and others, are named in two ways.
    """
    found = entry(f"{name}.{overload}" if overload else name)
    if found is not None and not found.checked:
        return None
    if found is not None and found.structured:
        return f"wrapper_CUDA_{name}" + (f"_{overload}" if overload else "")
    return f"wrapper_CUDA_{overload}_{name}"

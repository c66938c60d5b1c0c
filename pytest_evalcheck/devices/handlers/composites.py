"""Handlers for functions that check devices, or read an argument, in C++, where every tensor is on the CPU."""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import CPU, device_of, mark, simulated_device_of
from pytest_evalcheck.devices.handlers.transfers import transfer
from pytest_evalcheck.devices.rules.mismatch_texts import SAME
from pytest_evalcheck.devices.state import ThreadState, handles


@handles(torch.meshgrid)
def meshgrid(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    if len({device_of(item) for item in tensors if isinstance(item, Tensor)}) > 1:
        raise RuntimeError("meshgrid expects all tensors to have the same device")
    return func(*args, **kwargs)


@handles(torch.linalg.matrix_rank)
def matrix_rank(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    matrix = device_of(args[0] if args else kwargs["input"])
    for name in ("atol", "rtol", "tol"):
        tolerance = kwargs.get(name)
        if isinstance(tolerance, Tensor) and device_of(tolerance) != matrix:
            raise RuntimeError(
                f"torch.linalg.matrix_rank: Expected {name} and input tensors to be on the same device, "
                f"but got {name} on {device_of(tolerance)} and input on {matrix}"
            )
    return func(*args, **kwargs)


@handles(torch.ctc_loss, torch.nn.functional.ctc_loss)
def ctc_loss(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Lengths are read on the host, as PyTorch does where no mode is on, and targets go to the device of the inputs.

    Where a length is on a device, all of it is there: the kernel that takes such lengths checks its arguments.
    aten/src/ATen/native/LossCTC.cpp, ctc_loss
    """
    arguments: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    device = simulated_device_of(arguments[0] if args else arguments["log_probs"])
    lengths = {
        name: given
        for number, name in ((2, "input_lengths"), (3, "target_lengths"))
        if isinstance(given := arguments.get(number, arguments.get(name)), Tensor)
    }
    if any(simulated_device_of(given) is not None for given in lengths.values()):
        for name, given in lengths.items():
            if simulated_device_of(given) is not device:
                raise RuntimeError(
                    f"{SAME}, but got {name} is on {device_of(given)}, different from other tensors on "
                    f"{device or CPU} (when checking argument in method wrapper_CUDA_Tensor__ctc_loss)"
                )
    changed = False
    for name, given in list(arguments.items()):
        if name in (1, "targets") and simulated_device_of(given) is not device:
            arguments[name], changed = transfer(state, given, device), True
        elif name in (2, 3, "input_lengths", "target_lengths") and isinstance(given, Tensor):
            state.record_read(given)
            arguments[name], changed = Tensor.tolist(given), True
    with state.function_mode if changed else nullcontext():  # PyTorch makes tensors on the device of these arguments
        return func(*(arguments[number] for number in range(len(args))), **{name: arguments[name] for name in kwargs})


@handles(torch.inner, Tensor.inner)
def inner(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    first, *others = [device_of(item) for item in (*args, *kwargs.values()) if isinstance(item, Tensor)]
    for other in others:
        if other.type != first.type:
            raise RuntimeError(
                f"Expected tensor to have {first.type} DeviceType, but got tensor with {other.type} DeviceType "
                "(while checking arguments for inner())"
            )
    return func(*args, **kwargs)


@handles(torch.tensor_split, Tensor.tensor_split)
def tensor_split(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    for item in (*args[1:], *kwargs.values()):
        if isinstance(item, Tensor) and (device := simulated_device_of(item)) is not None:
            raise RuntimeError(f"tensor_split expected tensor_indices_or_sections to be on cpu, but it's on {device}")
    return func(*args, **kwargs)


@handles(torch._VF._pack_padded_sequence)
def pack_padded_sequence(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The lengths, and the counts in the result, are on the CPU."""
    lengths = args[1]
    if simulated_device_of(lengths) is not None:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {device_of(lengths)} "
            f"{lengths.type().split('.')[-1].removesuffix('Tensor')} tensor"
        )
    data, counts = func(*args, **kwargs)
    return data, mark(counts, None)


@handles(torch._VF._pad_packed_sequence)
def pad_packed_sequence(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    data, lengths = func(*args, **kwargs)
    return data, mark(lengths, None)


@handles(torch.nn.functional.one_hot)
def one_hot(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Skip the validation of classes, which only the CPU reads for it: aten/src/ATen/native/Onehot.cpp."""
    given: dict[str, Any] = {**dict(zip(("tensor", "num_classes"), args, strict=False)), **kwargs}
    tensor, count = given["tensor"], given.get("num_classes", -1)
    if simulated_device_of(tensor) is None or not tensor.numel() or tensor.dtype != torch.int64:
        return func(*args, **kwargs)
    if count == -1:
        count = int(tensor.max().item()) + 1
    elif count < 1:
        raise RuntimeError("num_classes should be positive")
    return tensor.new_zeros((*tensor.shape, count)).scatter_(-1, tensor.unsqueeze(-1), 1)

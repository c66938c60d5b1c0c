"""The old constructors: of CUDA tensors (`torch.cuda.FloatTensor(2, 3)`), and of storages with `device=`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, UntypedStorage

from pytest_evalcheck.devices.device_marks import device_of, mark, mark_storage
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.bindings import refused
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE, Simulation

# torch/csrc/tensor/python_tensor.cpp, Tensor_new
_OLD = (
    "The torch.cuda.*DtypeTensor constructors are no longer recommended. It's best to use methods such as "
    "torch.tensor(data, dtype=*, device='cuda') to create tensors."
)


class _LegacyType(type):
    """The type of `torch.cuda.FloatTensor`: it is called like a class, and `isinstance` compares dtype and device."""

    dtype: torch.dtype
    constructor: Any

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        state = ACTIVE.state
        if state is None:
            raise TypeError(f"type torch.cuda.{cls.__name__} not available. Torch not compiled with CUDA enabled.")
        wanted = kwargs.pop("device", None)
        device: Any = state.simulation.find("cuda" if wanted is None else wanted)[0]
        if device is None or device.type != "cuda":
            other = "cpu" if device is None else device.type
            raise RuntimeError(f"legacy constructor expects device type: cuda but device type: {other} was passed")
        state.simulation.warn_once("old constructor", _OLD)
        with torch._C.DisableTorchFunction():
            made = mark(cls.constructor(*args, **kwargs), device)
        if args and not all(isinstance(each, int) for each in args) and not isinstance(args[0], torch.Size):
            state.record_upload(made, device)
        return made

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and device_of(instance).type == "cuda"


def install(patches: Patches, simulation: Simulation) -> None:
    """Replace the constructors, those of `torch.cuda` where CUDA is simulated."""
    patches.set(UntypedStorage, "__new__", _untyped_storage(UntypedStorage.__new__))
    if "cuda" not in simulation.kinds:
        return
    patches.set(torch, "set_default_tensor_type", _refuse_cuda_type(torch.set_default_tensor_type))
    for name in [each for each in vars(torch.cuda) if each.endswith("Tensor")]:
        constructor = getattr(torch, name, None)
        if constructor is not None:
            members = {"dtype": constructor.dtype, "constructor": constructor, "__module__": "torch.cuda"}
            patches.set(torch.cuda, name, _LegacyType(name, (), members))
    sparse = torch.cuda.sparse
    for name in [each for each in vars(sparse) if each.endswith("Tensor")]:
        advice = "use torch.sparse_coo_tensor with device=."
        patches.set(sparse, name, type(name, (), {"__new__": refused(f"torch.cuda.sparse.{name}", advice)}))


def _untyped_storage(new: Any) -> Any:
    def new_on_device(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        state = ACTIVE.state
        if device is None or state is None:
            return new(cls, *args, **kwargs) if device is None else new(cls, *args, device=device, **kwargs)
        found, ours = state.simulation.find(device)
        if not ours:
            return new(cls, *args, device=device, **kwargs)
        storage = new(cls, *args, **kwargs)
        if found is not None:
            mark_storage(storage, found)
        return storage

    return new_on_device


def _refuse_cuda_type(set_default: Any) -> Any:
    def checked(t: Any, /) -> None:
        if isinstance(t, _LegacyType) or "cuda" in str(t):
            advice = "call torch.set_default_dtype and torch.set_default_device, which replace it."
            raise CannotSimulate("torch.set_default_tensor_type for CUDA", advice)
        set_default(t)

    return checked

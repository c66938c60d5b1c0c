"""Handlers for gradients, and Python code that autograd calls back, which runs inside the simulation too.

While the function mode handles a function it is off, so hooks, recomputed forwards and packers of saved tensors would
not see the simulation.
"""
# ruff: noqa: ARG001, D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import device_of, simulated_device_of
from pytest_evalcheck.devices.handlers.transfers import transfer
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE, ThreadState, handles


@handles(Tensor.grad.__get__)
def grad(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A gradient is where its tensor is. Autograd itself moves that of a CPU tensor without dimensions."""
    found, device = func(*args), simulated_device_of(args[0])
    if found is not None and found.dim() == 0 and simulated_device_of(found) is not device:
        with torch.no_grad():
            found = transfer(state, found, device)
        Tensor.grad.__set__(args[0], found)
    return found


@handles(Tensor.grad.__set__)
def set_grad(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, value = args
    if isinstance(value, Tensor) and simulated_device_of(value) is not simulated_device_of(tensor):
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{device_of(value).type}' to a tensor with device type "
            f"'{device_of(tensor).type}'. Please ensure that the gradient and the tensor are on the same device"
        )
    return func(*args)


@handles(Tensor.backward)
def backward(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensor, *rest = args
    names = ("gradient", "retain_graph", "create_graph", "inputs")
    options = {**dict(zip(names, rest, strict=False)), **kwargs}
    options["grad_tensors"] = options.pop("gradient", None)
    with state.function_mode:
        torch.autograd.backward(tensor, **options)


def install(patches: Patches) -> None:
    """Patch the ways in which autograd calls back."""
    patches.set(torch.autograd, "_engine_run_backward", _run_inside(torch.autograd._engine_run_backward))
    hooks = torch.autograd.graph.saved_tensors_hooks
    init = hooks.__init__

    def init_inside(self: Any, pack_hook: Any, unpack_hook: Any) -> None:
        init(self, _run_inside(pack_hook), _run_inside(unpack_hook))

    patches.set(hooks, "__init__", init_inside)


def _run_inside(function: Any) -> Any:
    """The same function, run with the function mode of its thread on."""

    def run(*args: Any, **kwargs: Any) -> Any:
        state = ACTIVE.state
        if state is None or state.function_mode in torch.overrides._get_current_function_mode_stack():
            return function(*args, **kwargs)
        with state.function_mode:
            return function(*args, **kwargs)

    return run

"""Shorter way by which PyTorch's functions that are written in Python ask a mode, for our own mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import _tensor, functional, overrides
from torch.nn import functional as nn_functional

from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode
from pytest_evalcheck.devices.patches.patches import Patches

_is_on = torch._C._is_torch_function_mode_enabled


def install(patches: Patches) -> None:
    """Patch the name in the modules that call it most. Most of the time PyTorch's own looks for types of arguments."""
    original, pop, push = overrides.handle_torch_function, overrides._pop_mode, overrides._push_mode

    def handle(public_api: Any, relevant_args: Any, *args: Any, **kwargs: Any) -> Any:
        if _is_on():
            mode = pop()
            try:
                # It takes no types: the function that it calls asks a subclass among the arguments itself.
                if type(mode) is SimulationFunctionMode:
                    return mode.__torch_function__(public_api, (), args, kwargs)
            finally:
                push(mode)
        return original(public_api, relevant_args, *args, **kwargs)

    for module in (functional, nn_functional, _tensor):
        if getattr(module, "handle_torch_function", None) is original:
            patches.set(module, "handle_torch_function", handle)

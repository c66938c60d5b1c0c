"""A default device that is set inside a simulation, for releases that keep it on top of all modes.

There, setting another one takes the mode on top away: that of the simulation, where a default was set before it.
Newer ones keep it below the others: torch/utils/_device.py, DeviceContext.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._device import DeviceContext

from pytest_evalcheck.devices.patches.patches import Patches


def install(patches: Patches) -> None:
    """Patch the context of a default device, where this release has it on top."""
    enter, leave = DeviceContext.__enter__, DeviceContext.__exit__
    if "_pop_mode" in enter.__code__.co_names:
        return

    def enter_below(self: Any) -> Any:
        above = [_pop_mode() for _ in range(torch._C._len_torch_function_stack())]
        result = enter(self)
        for mode in reversed(above):
            _push_mode(mode)
        return result

    def leave_below(self: Any, *failure: Any) -> Any:
        stack = _get_current_function_mode_stack()
        above = [_pop_mode() for _ in stack[stack.index(self) + 1 :]] if self in stack else []
        result = leave(self, *failure)
        for mode in reversed(above):
            _push_mode(mode)
        return result

    patches.set(DeviceContext, "__enter__", enter_below)
    patches.set(DeviceContext, "__exit__", leave_below)

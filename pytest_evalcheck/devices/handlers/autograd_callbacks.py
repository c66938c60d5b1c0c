"""Python that PyTorch calls back runs inside the simulation too.

While a mode handles a function it is off, so hooks, recomputed forwards and packers of saved tensors would not see it.
"""

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.modes.function_mode import ACTIVE
from pytest_evalcheck.devices.patches.patches import Patches


def install(patches: Patches) -> None:
    """Patch the ways in which autograd calls back."""
    patches.set(torch.autograd, "_engine_run_backward", inside(torch.autograd._engine_run_backward))
    hooks = torch.autograd.graph.saved_tensors_hooks
    make = hooks.__init__

    def made(self: Any, pack_hook: Any, unpack_hook: Any) -> None:
        make(self, inside(pack_hook), inside(unpack_hook))

    patches.set(hooks, "__init__", made)


def inside(function: Any) -> Any:
    """The same function, with the mode of its thread on."""

    def run(*args: Any, **kwargs: Any) -> Any:
        mode = getattr(ACTIVE, "function", None)
        if mode is None or mode in torch.overrides._get_current_function_mode_stack():
            return function(*args, **kwargs)
        with mode:
            return function(*args, **kwargs)

    return run

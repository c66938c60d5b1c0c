"""A handler for `torch.device(0)`: an index alone is one of the accelerator, which PyTorch looks for on the machine."""
# ruff: noqa: D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.state import ThreadState, handles


@handles(torch.device)
def device(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    index = args[0] if args else kwargs.get("device")
    if isinstance(index, int) and not isinstance(index, bool) and index >= 0:
        return func(state.simulation.kinds[0], index)
    return func(*args, **kwargs)

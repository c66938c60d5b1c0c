"""Code that does not run operator by operator is refused: compiled, scripted, traced, exported."""

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.device_marks import first_simulated_device
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.patches.patches import Patches

_COMPILE = (
    "compiled code does not run operator by operator. Turn it off in the code under test, "
    'or pass simulate(..., compile="eager") to run the plain function in its place.'
)
_TRACE = "it would take the device of the machine for the simulated one; run the plain code."


def install(patches: Patches, *, compile_runs_eagerly: bool) -> None:
    """Patch the functions that compile, and the calls of scripted code."""
    patches.set(torch, "compile", _eager if compile_runs_eagerly else _refuse("torch.compile", _COMPILE))
    patches.set(torch.jit, "trace", _refuse("torch.jit.trace", _TRACE))
    patches.set(torch.jit, "trace_module", _refuse("torch.jit.trace_module", _TRACE))
    patches.set_existing(torch.export, export=_refuse("torch.export", _TRACE))
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        patches.set(kind, "__call__", _refuse_on_device(kind.__call__))


def _refuse(feature: str, advice: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise CannotSimulate(feature, advice)

    return refuse


def _eager(model: Any = None, **_: Any) -> Any:
    return (lambda function: function) if model is None else model


def _refuse_on_device(call: Any) -> Any:
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(self, "owner", None)
        weights = list(owner.parameters())[:1] if isinstance(owner, torch.nn.Module) else []
        if first_simulated_device((args, kwargs, weights)) is not None:
            raise CannotSimulate(
                f"scripted code ({getattr(self, 'name', 'a script')})",
                "it asks the machine for devices, not the simulation; run the function that was scripted.",
            )
        return call(self, *args, **kwargs)

    return checked

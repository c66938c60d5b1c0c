"""Code that does not run operator by operator is refused: compiled, scripted, traced, exported."""

from __future__ import annotations

from typing import Any

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.modes.dispatch_mode import first_place
from pytest_evalcheck.devices.patches.patches import Patches


def install(patches: Patches, *, compile_runs_eagerly: bool) -> None:
    """Patch the ways in."""
    patches.set(torch, "compile", _eager if compile_runs_eagerly else _refuse_compile)
    patches.set(torch.jit, "trace", _refuse("torch.jit.trace"))
    patches.set(torch.jit, "trace_module", _refuse("torch.jit.trace_module"))
    patches.swap(torch.export, "export", _refuse("torch.export"))
    for kind in (torch._C.ScriptFunction, torch._C.ScriptMethod):
        patches.set(kind, "__call__", _scripted(kind.__call__))


def _refuse(feature: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise CannotSimulate(
            feature, "it would take the device of the machine for the simulated one; run the plain code."
        )

    return refuse


def _refuse_compile(*_: Any, **__: Any) -> Any:
    raise CannotSimulate(
        "torch.compile",
        "compiled code does not run operator by operator. Turn it off in the code under test, "
        'or pass simulate(..., compile="eager") to run the plain function in its place.',
    )


def _eager(model: Any = None, **_: Any) -> Any:
    return (lambda function: function) if model is None else model


def _scripted(call: Any) -> Any:
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(self, "owner", None)
        weights = list(owner.parameters())[:1] if isinstance(owner, torch.nn.Module) else []
        if first_place((args, kwargs, weights)) is not None:
            raise CannotSimulate(
                f"scripted code ({getattr(self, 'name', 'a script')})",
                "it asks the machine for devices, not the simulation; run the function that was scripted.",
            )
        return call(self, *args, **kwargs)

    return checked

"""The functions in C that PyTorch's modules about devices call: ours, and a refusal for every other.

A build without the device lacks them, or they ask its driver: either error would look like a bug of the user's code.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.ledger import frames
from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import Simulation

_PACKAGES = ("torch.cuda", "torch.mps", "torch.accelerator", "torch.backends.cuda", "torch.backends.mps")
_PREFIXES = {"cuda": ("_cuda_", "_gds_", "_nccl_"), "mps": ("_mps_",), "": ("_accelerator_",)}
_ADVICE = "a simulated device has none of what it asks for; run this on the device itself."
_CACHED: Any = functools._lru_cache_wrapper
_used: tuple[int, frozenset[str]] = (0, frozenset())


def install(patches: Patches, simulation: Simulation, **functions: Any) -> None:
    """Replace these functions of `torch._C`; all others about the simulated kinds of device raise `CannotSimulate`.

    A kind that is not simulated keeps PyTorch's own errors, as on a machine without it.
    """
    refusals = _refusals(simulation.kinds, len(sys.modules))
    for name, refusal in refusals.items():
        patches.set(torch._C, name, functions.get(name) or refusal)
    prefixes = _prefixes(simulation.kinds)
    for name in functions.keys() - refusals.keys():
        if not name.startswith(prefixes):
            patches.set_existing(torch._C, **{name: functions[name]})
        elif not isinstance(getattr(torch._C, name, None), type):
            patches.set(torch._C, name, functions[name])


def _prefixes(kinds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(prefix for kind in ("", *kinds) for prefix in _PREFIXES[kind])


@functools.lru_cache(maxsize=4)
def _refusals(kinds: tuple[str, ...], number_of_modules: int) -> dict[str, Any]:  # noqa: ARG001
    """Refusals of the functions about these kinds, by name: found once, as names are found again after imports only.

    To find them takes most of the time of entering a simulation, which a suite does for every case.
    """
    prefixes = _prefixes(kinds)
    return {
        name: _refusal(name)
        for name in sorted(_names())
        if name.startswith(prefixes) and not isinstance(getattr(torch._C, name, None), type)
    }


def refused(feature: str, advice: str = _ADVICE) -> Any:
    """A function, to replace a public one, that raises `CannotSimulate`."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise CannotSimulate(feature, advice)

    return refuse


@functools.cache
def refused_class(feature: str, advice: str = _ADVICE) -> Any:
    """The same as a class, as code may ask `isinstance` of it. It is made once: a class takes long to make."""
    refuse = refused(feature, advice)
    return type(feature.rpartition(".")[2], (), {"__new__": refuse, "__init__": refuse})


def _refusal(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise CannotSimulate(_public_caller() or f"torch._C.{name}", _ADVICE)

    return refuse


def _public_caller() -> str:
    """The function of PyTorch that the user called."""
    found = ""
    for frame in frames():
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith("torch."):
            name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            found = f"{module}.{name}".removesuffix(".__init__")
        elif found and not module.startswith("contextlib"):
            break
    return found


def _names() -> frozenset[str]:
    """Return every name of `torch._C` with those prefixes: what there is, and what the Python code of modules names."""
    global _used
    if _used[0] != len(sys.modules):
        names = {name for module in _MODULES for code in _codes(vars(module).values()) for name in _names_in(code)}
        _used = len(sys.modules), frozenset(names | set(dir(torch._C)))
    prefixes = tuple(prefix for each in _PREFIXES.values() for prefix in each)
    return frozenset(name for name in _used[1] if name.startswith(prefixes))


def _modules() -> Iterator[Any]:
    for name in _PACKAGES:
        if name in sys.modules:
            package = sys.modules[name]
            yield package
            for each in pkgutil.iter_modules(getattr(package, "__path__", ()), f"{name}."):
                if not each.name.rpartition(".")[2].startswith("_"):
                    yield importlib.import_module(each.name)


# Now: one that is imported inside a simulation would keep what it takes from others.
_MODULES = tuple(dict.fromkeys(_modules()))


def _codes(values: Any) -> Iterator[CodeType]:
    for value in list(values):
        if not isinstance(value, (FunctionType, type, _CACHED)) or not value.__module__.startswith("torch."):
            continue
        function = getattr(value, "__wrapped__", value)
        if isinstance(function, FunctionType):
            yield function.__code__
        else:
            for each in vars(value).values():
                method = each.fget if isinstance(each, property) else getattr(each, "__func__", each)
                if isinstance(method, FunctionType):
                    yield method.__code__


def _names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)

"""Lookup of the adapter for an object, by the qualified names of its classes.

An adapter is a module of the folder of its library whose name is a kind, or ends with one: ``torchmetrics/metric.py``,
``transformers/pipeline_loop.py``. It declares ``CLASSES``, the qualified names of classes, and ``record(made)``, which
describes their objects. Nothing lists these modules. Those of a kind are imported when the first object of the kind is
looked up, and they import no library before ``record`` is called.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from pytest_evalcheck.kinds.registry import SHIPPED_KINDS, kind_of, registered_adapters

_PACKAGE = __name__.rpartition(".")[0]


def adapter_of(kind: str, cls: type) -> Callable[[Any], Any] | None:
    """Return the adapter of exactly this class for a kind; None if there is none."""
    name = f"{cls.__module__}.{cls.__qualname__}"
    registered = registered_adapters(kind).get(name)
    if registered is not None:
        return registered.record
    module = kind_of(kind).adapters.get(name)
    found = importlib.import_module(module) if module else _shipped(kind).get(name)
    return found.record if found is not None else None


def adapter_for(kind: str, made: Any) -> Callable[[Any], Any] | None:
    """Return the adapter of this object for a kind: that of the first of its classes that has one."""
    found = (adapter_of(kind, cls) for cls in type(made).__mro__)
    return next((adapt for adapt in found if adapt is not None), None)


def modules_of(kind: str) -> set[str]:
    """Return the names of the modules that decide how a target of a kind is judged, without those of its checks.

    They are those of the record, of the subject and of the adapters.

    Raises:
        UsageError: when there is no such kind.
    """
    spec = kind_of(kind)
    registered = {getattr(adapter.record, "__module__", "") for adapter in registered_adapters(kind).values()}
    own = {spec.record.__module__, spec.subject.__module__, spec.protocols, *spec.adapters.values()}
    if kind in SHIPPED_KINDS:
        own.add(f"{spec.subject.__module__.rpartition('.')[0]}.spec")
    return (own | registered | {*_modules(kind)}) - {""}


@cache
def _shipped(kind: str) -> Mapping[str, ModuleType]:
    """The modules of our own adapters of a kind, by the qualified names of their classes."""
    modules = map(importlib.import_module, _modules(kind))
    return {name: module for module in modules for name in getattr(module, "CLASSES", ())}


def registry_of(module: str) -> str:
    """Return the name of our module that makes the tasks of a library's registry by name; empty for no registry.

    It is a module ``registry`` with ``REGISTRY``, the name that users know, ``names_of(name)``, which gives the tasks
    of a group, and ``task(name)``, which raises a `UsageError` for one that cannot be made.
    """
    for folder in pkgutil.iter_modules([str(Path(__file__).parent)]):
        name = f"{_PACKAGE}.{folder.name}.registry"
        there = Path(__file__).with_name(folder.name).joinpath("registry.py").exists()
        if there and module == importlib.import_module(name).REGISTRY:
            return name
    return ""


def _modules(kind: str) -> Iterator[str]:
    if kind not in SHIPPED_KINDS:
        return
    for folder in pkgutil.iter_modules([str(Path(__file__).parent)]):
        for module in pkgutil.iter_modules([str(Path(__file__).parent / folder.name)]):
            if f"_{module.name}".endswith(f"_{kind}"):
                yield f"{_PACKAGE}.{folder.name}.{module.name}"

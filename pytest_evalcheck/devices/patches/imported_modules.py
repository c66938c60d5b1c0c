"""Memories of imported modules about the devices of the machine: caches of functions, and copies of functions."""

from __future__ import annotations

import functools
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.live_objects import all_objects, live_objects

_ABOUT_DEVICES = {"_get_accelerator", "accelerator", "cuda", "device_count", "is_built", "mps"}
_COPIES_FUNCTIONS = "torch._dynamo"
_number_of_modules = 0
_caches: list[Any] = []


def reset_lru_caches() -> None:
    """Clear every `functools` cache whose function asks for devices. Searches for new ones only after imports."""
    global _number_of_modules, _caches
    if len(sys.modules) != _number_of_modules:
        all_objects()  # what is frozen is not listed
        caches = live_objects(lambda cls: cls is functools._lru_cache_wrapper)
        _caches = [cache for cache in caches if _asks_for_devices(getattr(cache, "__wrapped__", None))]
        _number_of_modules = len(sys.modules)
    for cache in _caches:
        cache.cache_clear()


def _asks_for_devices(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if code is None or str(getattr(function, "__module__", "")).startswith(("torch._inductor", "torch._dynamo")):
        return False
    return not _ABOUT_DEVICES.isdisjoint(code.co_names)


def install(patches: Patches) -> None:
    """Load `torch._dynamo`, if it is imported later, without our patches: it copies functions of other modules."""
    if _COPIES_FUNCTIONS not in sys.modules:
        finder: Any = _Finder(patches)
        sys.meta_path.insert(0, finder)
        patches.on_undo(lambda: sys.meta_path.remove(finder))


class _Finder:
    def __init__(self, patches: Patches) -> None:
        self.patches = patches

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == _COPIES_FUNCTIONS else None
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            exec_module = loader.exec_module

            def exec_without_patches(module: ModuleType) -> None:
                with self.patches.suspended():
                    exec_module(module)

            loader.exec_module = exec_without_patches
        return spec

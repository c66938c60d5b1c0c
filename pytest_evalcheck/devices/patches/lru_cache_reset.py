"""Forget what was remembered about the devices of the machine: libraries keep `is_cuda_available` in caches."""

from __future__ import annotations

import functools
import gc
import sys
from typing import Any

_ABOUT_DEVICES = {"accelerator", "cuda", "device_count", "is_built", "mps"}
_seen_modules = 0
_known: list[Any] = []


def forget() -> None:
    """Clear every function cache whose function asks for devices. Looks for new ones only after imports."""
    global _seen_modules, _known
    if len(sys.modules) != _seen_modules:
        caches = [each for each in gc.get_objects() if type(each) is functools._lru_cache_wrapper]
        _known = [each for each in caches if _asks(getattr(each, "__wrapped__", None))]
        _seen_modules = len(sys.modules)
    for each in _known:
        each.cache_clear()


def _asks(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if code is None or str(getattr(function, "__module__", "")).startswith(("torch._inductor", "torch._dynamo")):
        return False
    return not _ABOUT_DEVICES.isdisjoint(code.co_names)

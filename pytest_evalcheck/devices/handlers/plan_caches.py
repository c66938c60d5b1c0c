"""Handlers for the cache of cuFFT's plans: its limit is a setting, and what is in it is known to the device only."""
# ruff: noqa: D103  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch

from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.state import Simulation, ThreadState, handles

DEFAULT_MAX_SIZE = 4096  # aten/src/ATen/native/cuda/CuFFTPlanCache.h, CUFFT_DEFAULT_CACHE_SIZE
_max_sizes: WeakKeyDictionary[Simulation, dict[int, int]] = WeakKeyDictionary()


@handles(torch._cufft_get_plan_cache_max_size)
def get_max_size(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if "cuda" not in state.simulation.kinds:
        return func(*args, **kwargs)
    return _max_sizes.get(state.simulation, {}).get(args[0], DEFAULT_MAX_SIZE)


@handles(torch._cufft_set_plan_cache_max_size)
def set_max_size(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if "cuda" not in state.simulation.kinds:
        return func(*args, **kwargs)
    return _max_sizes.setdefault(state.simulation, {}).__setitem__(*args)


@handles(torch._cufft_clear_plan_cache)
def clear(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    return None if "cuda" in state.simulation.kinds else func(*args, **kwargs)


@handles(torch._cufft_get_plan_cache_size)
def size(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    if "cuda" not in state.simulation.kinds:
        return func(*args, **kwargs)
    raise CannotSimulate(
        "the size of torch.backends.cuda.cufft_plan_cache", "there is no cuFFT; run this on the device."
    )

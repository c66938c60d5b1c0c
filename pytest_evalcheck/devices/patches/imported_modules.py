"""Memories of imported modules about the devices of the machine: caches, copies of functions, what an import stored."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType
from typing import Any

import torch
from torch.overrides import _pop_mode, _push_mode
from torch.utils._python_dispatch import _disable_current_modes

from pytest_evalcheck.devices.patches.patches import Patches
from pytest_evalcheck.devices.state import ACTIVE
from pytest_evalcheck.live_objects import all_objects, live_objects

_ABOUT_DEVICES = {"_get_accelerator", "accelerator", "cuda", "device_count", "is_built", "mps"}
_COPIES_FUNCTIONS = "torch._dynamo"
_Around = Callable[[ModuleType], AbstractContextManager[None]]
_number_of_modules = 0
_caches: list[Any] = []


def reset_lru_caches() -> None:
    """Clear every `functools` cache whose function asks for devices. Searches for new ones only after imports."""
    global _number_of_modules, _caches
    if len(sys.modules) != _number_of_modules:
        all_objects()  # what is frozen is not listed
        _caches = _about_devices(live_objects(lambda cls: cls is functools._lru_cache_wrapper))
        _number_of_modules = len(sys.modules)
    for cache in _caches:
        cache.cache_clear()


def _about_devices(objects: Iterable[Any]) -> list[Any]:
    caches = (item for item in objects if type(item) is functools._lru_cache_wrapper)
    return [cache for cache in caches if _asks_for_devices(getattr(cache, "__wrapped__", None))]


def _asks_for_devices(function: Any) -> bool:
    code = getattr(function, "__code__", None)
    if code is None or str(getattr(function, "__module__", "")).startswith(("torch._inductor", "torch._dynamo")):
        return False
    return not _ABOUT_DEVICES.isdisjoint(code.co_names)


def install(patches: Patches) -> None:
    """Load `torch._dynamo`, if it is imported later, without our patches: it copies functions of other modules."""
    if _COPIES_FUNCTIONS not in sys.modules:
        finder = _install_finder(lambda _: patches.suspended(), _COPIES_FUNCTIONS)
        patches.on_undo(lambda: sys.meta_path.remove(finder))


@contextmanager
def imports_see_the_machine() -> Iterator[None]:
    """In this block every module is imported without the simulation, as if it had been imported before.

    Some modules store the devices that they see when they are imported. A simulation may be where they are imported
    first, or not: this depends on what ran before in the process.
    """
    with _disable_current_modes():  # it imports modules: while one of these is imported it cannot
        pass
    finder = _install_finder(_machine_itself, "")
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def _machine_itself(module: ModuleType) -> Iterator[None]:
    state = ACTIVE.state
    if state is None:  # a thread that is not part of the simulation, or an import inside another one
        yield
        return
    default, above = dict(vars(torch._GLOBAL_DEVICE_CONTEXT)), _pop_modes()
    vars(torch._GLOBAL_DEVICE_CONTEXT).clear()
    ACTIVE.state = None
    before = {*sys.modules} - {module.__name__}
    for cache in _caches:
        cache.cache_clear()
    try:
        with state.simulation.patches.suspended(), _disable_current_modes():
            yield
    finally:
        ACTIVE.state = state
        _pop_modes()
        for mode in above:
            _push_mode(mode)
        vars(torch._GLOBAL_DEVICE_CONTEXT).clear()
        vars(torch._GLOBAL_DEVICE_CONTEXT).update(default)
        # Going through all objects takes long: the next simulation does so.
        imported = [vars(module) for name, module in list(sys.modules.items()) if name not in before]
        _caches.extend(cache for names in imported for cache in _about_devices(names.values()))
        for cache in _caches:
            cache.cache_clear()


def _pop_modes() -> list[Any]:
    return [_pop_mode() for _ in range(torch._C._len_torch_function_stack())][::-1]


def _install_finder(around: _Around, name: str) -> _Finder:
    finder = _Finder(around, name)
    sys.meta_path.insert(0, finder)
    return finder


class _Finder:
    """Finder that runs modules inside of a context: the one with this name, or all where it is empty."""

    def __init__(self, around: _Around, name: str) -> None:
        self.around, self.name = around, name

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if self.name not in ("", name):
            return None
        for finder in sys.meta_path[sys.meta_path.index(self) + 1 :]:
            find_spec = getattr(finder, "find_spec", None)
            spec = None if find_spec is None else find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader, self.around)
                return spec
        return None


class _Loader:
    """Loader of another finder, whose modules run inside of a context."""

    def __init__(self, loader: Any, around: _Around) -> None:
        self._loader, self._around = loader, around

    def exec_module(self, module: Any) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        with self._around(module):
            self._loader.exec_module(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

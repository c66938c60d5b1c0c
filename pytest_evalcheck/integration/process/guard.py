"""Changes that code under test makes to its process: noticed after a cell, and restored for the next one."""

from __future__ import annotations

import builtins
import os
import signal
import sys
import threading
from types import ModuleType
from typing import Any

from pytest_evalcheck.integration.process.stall_watch import descriptor_identity

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_MODULES = (
    *("builtins", "os", "posixpath", "sys", "time", "json", "io", "signal", "threading", "random", "math", "pickle"),
    *("copy", "re", "tempfile", "subprocess", "inspect", "functools", "itertools", "collections", "traceback"),
    *("types", "gc", "weakref", "select", "hashlib", "pathlib", "contextlib", "dataclasses", "operator", "socket"),
)
"""Modules of the standard library on which everything else is built."""

_HARMLESS = {*sys.stdlib_module_names, "hypothesis", "numpy", "pytest_evalcheck", "torch"}
"""Packages that leave the streams of the process alone when they are imported."""

_MISSING = object()


class ProcessGuard:
    """The process before a cell. Afterwards `restore` says what was changed."""

    def __init__(self, file: str) -> None:
        self.file = file
        """The file of the target: its own code is reported, and not what libraries do when they are imported."""
        self.lasting = False
        """True where something could not be restored, so that other cells need another process."""
        self._builtins = dict(vars(builtins))
        self._loaded = dict(sys.modules)
        self._modules: dict[str, tuple[ModuleType, dict[str, Any]]] = {
            name: (module, {key: value for key, value in vars(module).items() if callable(value)})
            for name in _MODULES
            if (module := sys.modules.get(name)) is not None
        }
        self._streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
        self._recursion = sys.getrecursionlimit()
        self._threads = set(threading.enumerate())
        self._signals = _signals() if threading.current_thread() is threading.main_thread() else {}
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if hasattr(signal, "pthread_sigmask") else set()
        self._limits = _limits()
        self._descriptors = {number: (descriptor_identity(number), _duplicate(number)) for number in (0, 1, 2)}

    def restore(self) -> list[str]:
        """Undo what was changed and name it; empty where the process is as it was."""
        builtins.__dict__.update(self._builtins)  # first: everything below needs them
        # A library may replace the streams while it is imported; what every cell needs does not.
        imported = bool({name.partition(".")[0] for name in sys.modules.keys() - self._loaded.keys()} - _HARMLESS)
        changed: list[str] = []
        removed = self._loaded.keys() - sys.modules.keys()
        if removed & {*_MODULES, "torch"}:
            sys.modules.update({name: self._loaded[name] for name in removed})
            changed.append(f"sys.modules: {len(removed)} modules removed")
        for name, (module, before) in self._modules.items():
            sys.modules[name] = module
            for key, value in before.items():
                now = vars(module).get(key, _MISSING)
                if now is not value and self._is_ours(now):
                    setattr(module, key, value)
                    changed.append(f"{name}.{key}: {'deleted' if now is _MISSING else 'replaced'}")
        for name, stream in self._streams.items():
            if getattr(sys, name, _MISSING) is not stream:
                setattr(sys, name, stream)
                changed += [] if imported else [f"sys.{name}: replaced"]
        changed += self._restore_descriptors()
        changed += self._restore_limits()
        sys.setrecursionlimit(self._recursion)
        for number, handler in self._signals.items():
            if signal.getsignal(number) != handler and handler is not None:
                signal.signal(number, handler)
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        mine = {thread for thread in set(threading.enumerate()) - self._threads if self._is_thread_of_target(thread)}
        # A thread cannot be ended. It is not reported, because many libraries leave one.
        self.lasting |= bool(mine or changed)
        return changed

    def _is_ours(self, value: Any) -> bool:
        if value is _MISSING or not callable(value):
            return True
        code = getattr(value, "__code__", None)
        return code is not None and code.co_filename == self.file

    def _is_thread_of_target(self, thread: threading.Thread) -> bool:
        code = getattr(getattr(thread, "_target", None), "__code__", None)
        return code is not None and code.co_filename == self.file

    def _restore_descriptors(self) -> list[str]:
        changed = []
        for number, (identity, copy) in self._descriptors.items():
            now = descriptor_identity(number)
            if identity is not None and now != identity:
                changed.append(f"the file descriptor {number}: {'closed' if now is None else 'replaced'}")
                if copy is not None and descriptor_identity(copy) == identity:
                    os.dup2(copy, number)
            if copy is not None and descriptor_identity(copy) == identity:
                os.close(copy)
        return changed

    def _restore_limits(self) -> list[str]:
        changed = []
        for name, before in self._limits.items():
            if resource.getrlimit(getattr(resource, name)) != before:
                changed.append(f"the resource limit {name}: changed")
                try:
                    resource.setrlimit(getattr(resource, name), before)
                except (OSError, ValueError):  # a hard limit cannot be raised again
                    self.lasting = True
        return changed


def _signals() -> dict[signal.Signals, Any]:
    # SIGALRM belongs to the limit of the cell.
    numbers = (number for number in signal.Signals if number.name not in ("SIGALRM", "SIGKILL", "SIGSTOP"))
    return {number: signal.getsignal(number) for number in numbers}


def _limits() -> dict[str, tuple[int, int]]:
    if resource is None:
        return {}
    names = ("RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC", "RLIMIT_STACK")
    return {name: resource.getrlimit(getattr(resource, name)) for name in names if hasattr(resource, name)}


def _duplicate(descriptor: int) -> int | None:
    try:
        return os.dup(descriptor)
    except OSError:
        return None

"""A snapshot of the state of metrics and accumulators, and its restoration."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn

from pytest_evalcheck.fixes.eval_mode import restore_tensor


def preserve(accumulators: Iterable[Any]) -> Callable[[], None]:
    """Record the state of these objects, and return a function that restores it.

    The objects are metrics and accumulators (objects with ``update`` and ``compute``), modules, and lists, dicts, sets
    and deques of them or of values. All attributes are recorded with the tensors and NumPy arrays in them, which get
    their values back in place. Not copied: parameters, and the tensors in lists, which metrics append to and do not
    write into (where one did, restoring is a RuntimeError). Other objects in attributes, such as a tokenizer, are
    kept by reference.

    TypeError for an object without state.
    """
    snapshot = _Snapshot()
    for each in accumulators:
        if _is_value(each):
            snapshot.add(each)
        elif not _has_attributes(each):
            raise TypeError(
                "expected metrics, accumulators, tensors, lists or dicts, whose state can be restored, got "
                f"{type(each).__name__}"
            )
        elif id(each) not in snapshot.seen:
            snapshot.add_attributes(each)
    return snapshot.restore


class _Snapshot:
    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}  # The objects themselves, so that no id is used again.
        self._steps: list[Callable[[], None]] = []

    def restore(self) -> None:
        for step in self._steps:
            step()

    def add(self, value: Any) -> None:
        if id(value) in self.seen or value is None or isinstance(value, str | bytes | int | float | nn.Parameter):
            return
        if isinstance(value, tuple):
            for each in value:
                self.add(each)
        elif _is_value(value):
            self.seen[id(value)] = value
            if isinstance(value, dict):
                self._add_dict(value)
            elif isinstance(value, list | deque):
                self._add_list(value)
            elif isinstance(value, set):
                self._steps.append(partial(_refill, value, set(value), value.update))
            elif not isinstance(value, Tensor):
                self._steps.append(partial(value.__setitem__, ..., value.copy()))
            elif not value.is_meta:
                self._steps.append(partial(restore_tensor, value, value.detach().clone()))
        elif isinstance(value, nn.Module) or (hasattr(value, "update") and hasattr(value, "compute")):
            self.add_attributes(value)

    def add_attributes(self, value: Any) -> None:
        self.seen[id(value)] = value
        self.add(vars(value))

    def _add_dict(self, value: dict[Any, Any]) -> None:
        before = dict(value)

        def restore() -> None:
            if list(value) != list(before) or any(value[key] is not each for key, each in before.items()):
                _refill(value, before, value.update)

        self._steps.append(restore)
        for each in before.values():
            self.add(each)

    def _add_list(self, value: Any) -> None:
        before = list(value)
        versions = [_version(each) for each in before]

        def restore() -> None:
            if versions != [_version(each) for each in before]:
                raise RuntimeError(
                    "a tensor in a list was changed, and its old values were not kept: replace it in the list instead, "
                    "or keep it in an attribute or a dict"
                )
            if len(value) != len(before) or any(a is not b for a, b in zip(value, before, strict=True)):
                _refill(value, before, value.extend)

        self._steps.append(restore)
        for each in before:
            if not isinstance(each, Tensor):
                self.add(each)


def _is_value(value: Any) -> bool:
    is_array = type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"
    return is_array or (isinstance(value, Tensor | list | dict | set | deque) and not isinstance(value, nn.Parameter))


def _has_attributes(value: Any) -> bool:
    plain = (type, FunctionType, MethodType, ModuleType, nn.Parameter)
    return hasattr(value, "__dict__") and not isinstance(value, plain)


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def _refill(container: Any, before: Any, fill: Callable[[Any], None]) -> None:
    container.clear()
    fill(before)

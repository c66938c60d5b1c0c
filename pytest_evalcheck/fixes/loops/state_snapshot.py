"""The state of metrics and accumulators, kept aside and put back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn

from pytest_evalcheck.fixes.eval_mode import restored

PutBack = Callable[[], None]


def preserve(accumulators: Iterable[Any]) -> PutBack:
    """Keep the state of these aside, and return what puts it back.

    Metrics and accumulators (objects with ``update`` and ``compute``), modules, and lists, dicts, sets and deques of
    them or of values; attributes, whatever their names, are kept with the tensors and NumPy arrays in them, which get
    their values back in place. Not copied: parameters, and the tensors in lists, which metrics append to and do not
    write into (where one did, putting back is a RuntimeError); other objects that an attribute holds, a tokenizer say,
    are kept by reference.

    TypeError for what has no state that could be kept.
    """
    seen: dict[int, Any] = {}
    back: list[PutBack] = []
    for each in accumulators:
        values = Tensor | list | dict | set | deque
        if (isinstance(each, values) and not isinstance(each, nn.Parameter)) or _is_array(each):
            _keep(each, seen, back)
        elif not _has_attributes(each):
            raise TypeError(
                "expected metrics, accumulators, tensors, lists or dicts, whose state can be put back, got "
                f"{type(each).__name__}"
            )
        elif id(each) not in seen:
            _keep_attributes(each, seen, back)

    def put_back() -> None:
        for step in back:
            step()

    return put_back


def _has_attributes(value: Any) -> bool:
    plain = (type, FunctionType, MethodType, ModuleType, nn.Parameter)
    return hasattr(value, "__dict__") and not isinstance(value, plain)


def _is_array(value: Any) -> bool:
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _keep(value: Any, seen: dict[int, Any], back: list[PutBack]) -> None:
    if id(value) in seen or value is None or isinstance(value, str | bytes | int | float | nn.Parameter):
        return
    if isinstance(value, Tensor):
        seen[id(value)] = value
        if not value.is_meta:
            _keep_tensor(value, back)
    elif isinstance(value, dict):
        _keep_dict(value, seen, back)
    elif isinstance(value, list | deque):
        _keep_list(value, seen, back)
    elif isinstance(value, set):
        seen[id(value)] = value
        back.append(partial(_refill_set, value, set(value)))
    elif isinstance(value, tuple):
        for each in value:
            _keep(each, seen, back)
    elif _is_array(value):
        seen[id(value)] = value
        back.append(partial(value.__setitem__, ..., value.copy()))
    elif isinstance(value, nn.Module) or (hasattr(value, "update") and hasattr(value, "compute")):
        _keep_attributes(value, seen, back)


def _keep_attributes(value: Any, seen: dict[int, Any], back: list[PutBack]) -> None:
    seen[id(value)] = value
    _keep_dict(vars(value), seen, back)


def _version(value: Any) -> int:
    return value._version if isinstance(value, Tensor) and not value.is_inference() else 0


def _keep_dict(value: dict[Any, Any], seen: dict[int, Any], back: list[PutBack]) -> None:
    seen[id(value)] = value
    before = dict(value)

    def put_back() -> None:
        if list(value) != list(before) or any(value[key] is not each for key, each in before.items()):
            value.clear()
            for key, each in before.items():
                value[key] = each

    back.append(put_back)
    for each in before.values():
        _keep(each, seen, back)


def _keep_list(value: Any, seen: dict[int, Any], back: list[PutBack]) -> None:
    seen[id(value)] = value
    before = list(value)
    versions = [_version(each) for each in before]

    def put_back() -> None:
        if versions != [_version(each) for each in before]:
            raise RuntimeError(
                "a tensor in a list was written into, whose values were not kept: replace it in the list instead, or "
                "keep it in an attribute or a dict"
            )
        if len(value) != len(before) or any(a is not b for a, b in zip(value, before, strict=True)):
            value.clear()
            value.extend(before)

    back.append(put_back)
    for each in before:
        if not isinstance(each, Tensor):
            _keep(each, seen, back)


def _keep_tensor(value: Tensor, back: list[PutBack]) -> None:
    before = value.detach().clone()
    back.append(lambda: restored(value, before))


def _refill_set(there: set[Any], before: set[Any]) -> None:
    there.clear()
    there.update(before)

"""Whether code left what it was given as it found it.

`Snapshot` remembers a nest of containers, tensors and arrays: the containers' types, keys and order, the
identity of every leaf, and the layout, version and values of every tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pytest_evalcheck.compare import show


class Snapshot:
    """What an object looked like; `changes` says what is different now."""

    def __init__(self, value: Any, name: str = "batch") -> None:
        self._name = name
        self._root = value
        self._seen = dict(_walk(value, name))

    def changes(self) -> list[str]:
        """One line for every change, with its path and the values: ``batch['labels'][1]: 7 became -100``."""
        now = dict(_walk(self._root, self._name))
        lines = []
        for path, before in self._seen.items():
            if path not in now:
                lines.append(f"{path} is gone")
            elif line := before.change(now[path]):
                lines.append(f"{path}{line}")
        lines += [f"{path} was added" for path in now if path not in self._seen]
        return lines


class _Leaf:
    def __init__(self, value: Any) -> None:
        self.value = value
        self.copy, self.layout = _copy(value)

    def change(self, now: _Leaf) -> str | None:
        if now.value is not self.value and (_is_tensor(self.value) or self.copy != now.copy):
            return f": {show(self.copy)} was replaced by {show(now.value)}"
        if self.layout != now.layout:
            return f": layout {self.layout} became {now.layout}"
        if not _is_tensor(self.value):
            return None if _same(self.copy, now.copy) else f": {show(self.copy)} became {show(now.copy)}"
        before, after = self.copy.reshape(-1).tolist(), now.copy.reshape(-1).tolist()
        for i, (b, a) in enumerate(zip(before, after, strict=True)):
            if not _same(b, a):
                return f"{_index(i, tuple(self.copy.shape))}: {b!r} became {a!r}"
        return None


class _Container(_Leaf):
    def __init__(self, value: Any, keys: list[Any]) -> None:
        self.value, self.keys = value, keys

    def change(self, now: _Leaf) -> str | None:
        if type(now.value) is not type(self.value):
            return f": a {type(self.value).__name__} became a {type(now.value).__name__}"
        if isinstance(now, _Container) and self.keys != now.keys:
            return f": keys {self.keys} became {now.keys}"
        return None


def _walk(value: Any, path: str) -> Iterator[tuple[str, _Leaf]]:
    if isinstance(value, Mapping):
        yield path, _Container(value, list(value))
        for key in value:
            yield from _walk(value[key], f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        yield path, _Container(value, [len(value)])
        for i, item in enumerate(value):
            yield from _walk(item, f"{path}[{i}]")
    else:
        yield path, _Leaf(value)


def _copy(value: Any) -> tuple[Any, Any]:
    if _is_tensor(value):
        if hasattr(value, "detach"):
            layout = (tuple(value.shape), tuple(value.stride()), str(value.dtype), str(value.device))
            return value.detach().clone(), layout
        return value.copy(), (value.shape, value.strides, str(value.dtype))
    return value, None


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "tolist")


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (a != a and b != b)


def _index(flat: int, shape: tuple[int, ...]) -> str:
    place: list[int] = []
    for size in reversed(shape):
        flat, at = divmod(flat, size)
        place.insert(0, at)
    return str(place) if place else ""

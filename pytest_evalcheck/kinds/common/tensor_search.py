"""The tensors that an object holds, in its attributes and containers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DEPTH = 6


def find_tensors(source: Any) -> dict[str, Any]:
    """The tensors in an object's attributes, its containers and the objects in them, by path."""
    return dict(_find(source, "", set(), _DEPTH))


def tensors_not_on(source: Any, device: str) -> list[str]:
    """The paths of tensors that are not on a device, except scalars on the CPU, which mix with any device."""
    import torch

    wanted = torch.empty(0, device=device).device
    return [
        f"{path or 'it'} is on {tensor.device}"
        for path, tensor in find_tensors(source).items()
        if tensor.device != wanted and not (tensor.dim() == 0 and tensor.device.type == "cpu")
    ]


def _find(value: Any, path: str, visited: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if id(value) in visited or depth == 0 or isinstance(value, (str, bytes, int, float, complex, type)):
        return
    visited.add(id(value))
    if isinstance(value, torch.nn.Module):
        yield from _in_modules(value, path, visited)
        return
    if isinstance(value, Mapping):
        inside = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = [(f"{path}[{i}]", item) for i, item in enumerate(value)]
    elif type(value).__module__ != "builtins":
        inside = [(f"{path}.{name}".lstrip("."), item) for name, item in getattr(value, "__dict__", {}).items()]
    else:
        return
    for below, item in inside:
        yield from _find(item, below, visited, depth - 1)


def _in_modules(module: Any, path: str, visited: set[int]) -> Iterator[tuple[str, Any]]:
    """The tensors of a module and of all modules below it, each with as much depth as any object has."""
    for name, part in module.named_modules():
        if part is not module and id(part) in visited:
            continue
        visited.add(id(part))
        own = {key: item for key, item in vars(part).items() if key not in _CONTENTS}
        for key, item in [*part._parameters.items(), *part._buffers.items(), *own.items()]:
            below = ".".join(each for each in (path, name, key) if each)
            yield from _find(item, below, visited, _DEPTH - 1)


_CONTENTS = ("_parameters", "_buffers", "_modules")
"""Attributes in which torch keeps the contents of a module; paths name them as attributes of the module."""

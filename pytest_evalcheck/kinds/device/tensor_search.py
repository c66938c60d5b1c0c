"""The tensors that an object holds, wherever it holds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_DEPTH = 6


def held(source: Any) -> dict[str, Any]:
    """The tensors in an object's attributes, its containers and the objects in them, by path."""
    return dict(_held(source, "", set(), _DEPTH))


def elsewhere(source: Any, device: str) -> list[str]:
    """The paths of tensors that are not on a device. One number on the CPU mixes with any device, so it may stay."""
    import torch

    wanted = torch.empty(0, device=device).device
    return [
        f"{path or 'it'} is on {tensor.device}"
        for path, tensor in held(source).items()
        if tensor.device != wanted and not (tensor.dim() == 0 and tensor.device.type == "cpu")
    ]


def _held(value: Any, path: str, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if id(value) in seen or depth == 0 or isinstance(value, (str, bytes, int, float, complex, type)):
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inside = [(f"{path}[{key!r}]", item) for key, item in value.items()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        inside = [(f"{path}[{place}]", item) for place, item in enumerate(value)]
    elif callable(getattr(value, "named_modules", None)) or type(value).__module__ != "builtins":
        inside = [(f"{path}.{name}".lstrip("."), item) for name, item in getattr(value, "__dict__", {}).items()]
    else:
        return
    for below, item in inside:
        # What torch keeps of a module under a private name is told as the module's own.
        plain = below.replace("_parameters['", "").replace("_buffers['", "").replace("_modules['", "")
        yield from _held(item, plain.replace("']", "") if plain != below else below, seen, depth - 1)

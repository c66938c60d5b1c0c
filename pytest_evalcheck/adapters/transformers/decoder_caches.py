"""The caches of transformers by name, and what can be done with them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass
class Held:
    """The cache of an architecture that makes its own: empty until the model has made one."""

    value: Any = None


CACHES = (
    "dynamic",
    "plain",
    "recording",
    "static",
    "offloaded",
    "offloaded static",
    "fp8",
    "hqq",
    "quanto",
    "encoder-decoder",
    "held",
)
"""What a cache may be called.

Windows, chunks and recurrent states are layers of a dynamic or static cache: the config of a model says which it has.
``plain`` is a dynamic one that was told no config, ``recording`` one that can be cropped beyond its window, as assisted
decoding asks for it; ``fp8``, ``hqq`` and ``quanto`` are quantised, ``held`` is the one that the model makes.
"""


def maker(model: Any, name: str, length: int) -> Callable[[int], Any]:
    """``make_cache`` of a `Decoder`: caches of transformers learn the number of rows from their first batch.

    Raises:
        ValueError: for a name that no cache has.
    """
    if name not in CACHES:
        near = difflib.get_close_matches(name, CACHES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"transformers has no cache {name!r}; expected one of {', '.join(map(repr, CACHES))}{hint}")
    return lambda _rows: _made(model.config, name, length)


def _made(config: Any, name: str, length: int) -> Any:
    from transformers import DynamicCache, EncoderDecoderCache, QuantizedCache, StaticCache

    if name == "held":
        return Held()
    if name == "plain":
        return DynamicCache()
    if name == "encoder-decoder":
        return EncoderDecoderCache(DynamicCache(config=config), DynamicCache(config=config))
    if name in ("fp8", "hqq", "quanto"):
        return QuantizedCache(name, config=config)
    offloading = name.startswith("offloaded")
    if name.endswith("static"):
        return StaticCache(config=config, max_cache_len=length, offloading=offloading)
    made = DynamicCache(config=config, offloading=offloading)
    if name == "recording":
        made.activate_past_recording()
    return made


def capacity(cache: Any) -> int | None:
    """How many tokens of a row this cache holds; None where it grows, or where all its layers forget."""
    layers = getattr(getattr(cache, "self_attention_cache", cache), "layers", [])
    fixed = [layer.max_cache_len for layer in layers if hasattr(layer, "max_cache_len") and not layer.is_sliding]
    return min(fixed, default=None)


def of_fixed_rows(cache: Any) -> bool:
    """Whether a reset keeps tensors of the first batch, so that a batch of another size is refused."""
    layers = getattr(getattr(cache, "self_attention_cache", cache), "layers", [])
    return any(hasattr(layer, "max_cache_len") or hasattr(layer, "recurrent_states") for layer in layers)


def tensors(cache: Any) -> Iterator[Any]:
    """Every tensor of this cache, those of its layers and of their states included."""
    import torch

    waiting, seen = [cache], set()
    while waiting:
        one = waiting.pop()
        if isinstance(one, torch.Tensor):
            yield one
        elif id(one) not in seen:
            seen.add(id(one))
            if isinstance(one, dict):
                waiting.extend(one.values())
            elif isinstance(one, (list, tuple)):
                waiting.extend(one)
            elif hasattr(one, "__dict__") and not isinstance(one, type):
                waiting.extend(vars(one).values())


def _reset(cache: Any) -> None:
    if isinstance(cache, Held):
        cache.value = None  # what starts anew is no cache
    else:
        cache.reset()


def _crop(cache: Any, length: int) -> None:
    held = int(_of(cache).get_seq_length())
    if length < held:
        _of(cache).crop(length - held)


def _of(cache: Any) -> Any:
    return cache.value if isinstance(cache, Held) else cache


OPERATIONS: dict[str, Callable[..., Any]] = {
    "reset": _reset,
    "reorder": lambda cache, order: _of(cache).reorder_cache(order),
    "select": lambda cache, rows: _of(cache).batch_select_indices(rows),
    "repeat": lambda cache, times: _of(cache).batch_repeat_interleave(times),
    "crop": _crop,
}

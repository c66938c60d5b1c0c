"""Effects of operators apart from their results: arguments that they write and resize, and random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# native_functions.yaml does not say that these statistics are written.
_HIDDEN_WRITES = {"aten::native_batch_norm": ("running_mean", "running_var")}
_RESIZES = frozenset(f"aten::{name}" for name in ("resize_", "resize_as_", "set_", "_resize_output_"))


def resizes(schema: Any) -> bool:
    """Return whether an operator may change how much memory an argument has: `resize_` and its like, and `out=`."""
    return schema.name in _RESIZES or any(
        argument.kwarg_only and _is_written(argument) for argument in schema.arguments
    )


def has_effects(func: Any) -> bool:
    """Return whether an operator that allocates memory also writes into an argument, or draws random numbers."""
    schema = func._schema
    allocates = resizes(schema) or any(result.alias_info is None for result in schema.returns)
    writes = schema.name in _HIDDEN_WRITES or any(map(_is_written, schema.arguments))
    return allocates and (writes or torch.Tag.nondeterministic_seeded in func.tags)


def written(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[Tensor]:
    """The tensors with memory that an operator writes."""
    hidden = _HIDDEN_WRITES.get(func._schema.name, ())
    for number, argument in enumerate(func._schema.arguments):
        if _is_written(argument) or argument.name in hidden:
            value = args[number] if number < len(args) else kwargs.get(argument.name)
            for item in value if isinstance(value, (list, tuple)) else (value,):
                if isinstance(item, Tensor) and item.layout is torch.strided:
                    yield item


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)

"""Reads of the forwards of a generation, in ids and below the embedding, and NaN in their logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Forward:
    """One forward of a model."""

    ids: int
    """Number of ids of a row that its first embedding gets."""
    values: int = 0
    """Number of values that enter its projections: the modules with a matrix of weights that is no embedding."""


@contextmanager
def watching_forwards(model: Any) -> Iterator[list[Forward]]:
    """The forwards within this block; each begins at the first embedding of the model. Empty without one.

    Projections are watched because ids may be embedded for their positions alone, and cut off below.
    """
    import torch

    forwards: list[Forward] = []
    modules = list(model.modules()) if hasattr(model, "modules") else []
    tables = [module for module in modules if isinstance(module, torch.nn.Embedding)]

    def begin(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        ids = (*inputs, *named.values())[0]
        forwards.append(Forward(ids.shape[-1] if ids.dim() else 1))

    def count(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        tensors = [item for item in (*inputs, *named.values()) if isinstance(item, torch.Tensor)]
        first = next((tensor for tensor in tensors if tensor.is_floating_point()), None)
        if forwards and first is not None:
            forwards[-1].values += first.numel()

    hooks = [table.register_forward_pre_hook(begin, with_kwargs=True) for table in tables[:1]]
    projections = [module for module in modules if _is_projection(module)] if tables else []
    hooks += [module.register_forward_pre_hook(count, with_kwargs=True) for module in projections]
    try:
        yield forwards
    finally:
        for hook in hooks:
            hook.remove()


def reads_the_prompt_again(forwards: list[Forward], prompt: int) -> bool | None:
    """Return whether the last forward reads all ids of a prompt; None where its layers cannot be watched."""
    first, last = forwards[0], forwards[-1]
    if len(forwards) == 1 or last.ids < prompt:
        return False
    if not first.values or not last.values:
        return None
    return last.values >= first.values


@contextmanager
def watching_nan(model: Any, note: Callable[[], None]) -> Iterator[None]:
    """Call ``note()`` where a forward of the model within this block gives NaN at the last position of a row.

    NaN at other positions may be that of padding, of which nobody reads.
    """

    def see(_: Any, __: Any, outputs: Any) -> None:
        logits = _logits_of(outputs)
        if logits is not None and bool((logits[:, -1] if logits.dim() == 3 else logits).isnan().any()):
            note()

    hook = model.register_forward_hook(see) if hasattr(model, "register_forward_hook") else None
    try:
        yield
    finally:
        if hook is not None:
            hook.remove()


def _logits_of(outputs: Any) -> Any:
    """The logits among what a forward returned: a tensor, the first of a tuple, or what is called ``logits``."""
    import torch

    if isinstance(outputs, (tuple, list)):
        outputs = outputs[0] if outputs else None
    elif not isinstance(outputs, torch.Tensor):
        outputs = getattr(outputs, "logits", outputs.get("logits") if isinstance(outputs, Mapping) else None)
    is_floating = isinstance(outputs, torch.Tensor) and outputs.is_floating_point() and outputs.numel()
    return outputs if is_floating else None


def _is_projection(module: Any) -> bool:
    import torch

    own = module.parameters(recurse=False)
    return not isinstance(module, torch.nn.Embedding) and any(parameter.dim() > 1 for parameter in own)

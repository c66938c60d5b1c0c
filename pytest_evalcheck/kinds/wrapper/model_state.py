"""What an evaluation borrows from a model and from the process, and whether it was given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_evalcheck.kinds.common.process_state import random_streams

EVALUATES = "every submodule evaluates"
STARTS: dict[str, Callable[[int], bool]] = {
    EVALUATES: lambda _: False,
    "every submodule trains": lambda _: True,
    "some submodules are frozen": lambda place: place % 2 == 0,
}
"""By name: whether the submodule at a place of ``model.modules()`` is in training mode before an evaluation."""


class Borrowed:
    """The modes, parameters, gradients and buffers of a model, and where the random generators stand."""

    def __init__(self, model: Any, *, values: bool = True) -> None:
        self._model = model
        self._modes = {name: module.training for name, module in model.named_modules()}
        self._frozen = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
        self._weights = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
        self._grads = {name: _copy(parameter.grad) for name, parameter in model.named_parameters()}
        # In training mode layers count batches and draw dropout masks: that is asked for by who set the mode.
        self._buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()} if values else {}
        self._streams = random_streams() if values else None

    def kept_back(self) -> list[str]:
        """One line for everything that is not as it was."""
        lines = [
            f"{name or 'the model'}.training: {self._modes[name]} became {module.training}"
            for name, module in self._model.named_modules()
            if name in self._modes and module.training != self._modes[name]
        ]
        lines += [
            f"{name}.requires_grad: {self._frozen[name]} became {parameter.requires_grad}"
            for name, parameter in self._model.named_parameters()
            if name in self._frozen and parameter.requires_grad != self._frozen[name]
        ]
        parameters, buffers = dict(self._model.named_parameters()), dict(self._model.named_buffers())
        for kind, earlier, now in (
            ("parameter", self._weights, parameters),
            ("gradient of", self._grads, {name: parameter.grad for name, parameter in parameters.items()}),
            ("buffer", self._buffers, buffers),
        ):
            changed = [name for name, before in earlier.items() if name in now and not _equal(now[name], before)]
            lines += [f"the {kind} {name} was changed" for name in changed]
        if self._streams is not None:
            named = zip(("Python's", "torch's", "numpy's"), self._streams, random_streams(), strict=True)
            lines += [f"{name} random numbers were drawn" for name, before, after in named if not _same(before, after)]
        return lines


def start(model: Any, name: str) -> None:
    """Put every submodule into the mode that it has before an evaluation, with gradients as if between two steps."""
    import torch

    for place, module in enumerate(model.modules()):
        module.training = STARTS[name](place)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)


def _copy(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().clone()


def _equal(now: Any, before: Any) -> bool:
    import torch

    if now is None or before is None or now.dtype != before.dtype:
        return now is before
    return bool(torch.equal(torch.nan_to_num(now), torch.nan_to_num(before)))


def _same(before: Any, after: Any) -> bool:
    if before is None or after is None:  # numpy may have been imported meanwhile
        return True
    if hasattr(before, "equal"):
        return bool(before.equal(after))
    return str(before) == str(after)

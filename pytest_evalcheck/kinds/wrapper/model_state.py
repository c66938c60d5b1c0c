"""The state of a model that an evaluation must restore, and the modes in which a model is before one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evalcheck.kinds.common.process_state import drawn_since, random_states

ALL_EVALUATE = "every submodule evaluates"
INITIAL_MODES: dict[str, Callable[[int], bool]] = {
    ALL_EVALUATE: lambda _: False,
    "every submodule trains": lambda _: True,
    "some submodules are frozen": lambda index: index % 2 == 0,
}
"""Modes by name: True if the submodule at an index of ``model.modules()`` is in training mode before an evaluation."""


STATE_KINDS = ("modes", "requires_grad", "parameters", "gradients", "buffers", "random numbers")


class ModelStateSnapshot:
    """The modes, parameters, gradients and buffers of a model, and the states of the random generators.

    Without ``values`` buffers and generators are not included: in training mode layers count batches and draw dropout
    masks.
    """

    def __init__(self, model: Any, *, values: bool = True) -> None:
        self._model = model
        parameters = dict(model.named_parameters())
        self._modes = {name: module.training for name, module in model.named_modules()}
        self._requires_grad = {name: parameter.requires_grad for name, parameter in parameters.items()}
        self._weights = {name: parameter.detach().clone() for name, parameter in parameters.items()}
        self._grads = {name: _copy(parameter.grad) for name, parameter in parameters.items()}
        self._buffers = {name: buffer.detach().clone() for name, buffer in model.named_buffers()} if values else {}
        self._streams = random_states() if values else None

    def differences(self) -> list[str]:
        """One line for each part of the state that has changed."""
        return [line for lines in self.by_kind().values() for line in lines.values()]

    def by_kind(self) -> dict[str, dict[str, str]]:
        """Return these lines by the kind of state, those of `STATE_KINDS` in their order, and by what has changed."""
        modes = {
            name: f"{name or 'the model'}.training: {self._modes[name]} became {module.training}"
            for name, module in self._model.named_modules()
            if name in self._modes and module.training != self._modes[name]
        }
        parameters, buffers = dict(self._model.named_parameters()), dict(self._model.named_buffers())
        required = {
            name: f"{name}.requires_grad: {self._requires_grad[name]} became {parameter.requires_grad}"
            for name, parameter in parameters.items()
            if name in self._requires_grad and parameter.requires_grad != self._requires_grad[name]
        }
        gradients = {name: parameter.grad for name, parameter in parameters.items()}
        drawn: dict[str, str] = {}
        if self._streams is not None:
            drawn = {name: f"{name}'s random numbers were drawn" for name in drawn_since(self._streams)}
        found = (
            modes,
            required,
            _changed("parameter", self._weights, parameters),
            _changed("gradient of", self._grads, gradients),
            _changed("buffer", self._buffers, buffers),
            drawn,
        )
        return {kind: lines for kind, lines in zip(STATE_KINDS, found, strict=True) if lines}


def set_initial_modes(model: Any, name: str) -> None:
    """Set the mode of every submodule to one of `INITIAL_MODES`, with gradients as between two training steps."""
    import torch

    for index, module in enumerate(model.modules()):
        module.training = INITIAL_MODES[name](index)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.ones_like(parameter)


def _changed(kind: str, earlier: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    changed = [name for name, before in earlier.items() if name in now and not _equal(now[name], before)]
    return {name: f"the {kind} {name} was changed" for name in changed}


def _copy(tensor: Any) -> Any:
    return None if tensor is None else tensor.detach().clone()


def _equal(now: Any, before: Any) -> bool:
    import torch

    if now is None or before is None or now.dtype != before.dtype:
        return now is before
    now = now.to(before.device)  # evaluating may move a model, whose values stay
    return bool(torch.equal(torch.nan_to_num(now), torch.nan_to_num(before)))

"""The state that training goes on with after an evaluation: of a model, its optimiser and the random generators."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.kinds.loop.record import LoopData
from pytest_evalcheck.kinds.loop.subject import LoopRun, LoopSubject
from pytest_evalcheck.kinds.wrapper.model_state import ModelStateSnapshot, set_initial_modes

MODES_KIND = "modes"
_DECLARE = "declare it: ec.Loop(..., resume={}), or train=..."
_REMEDIES = {
    MODES_KIND: f"Where training sets its modes itself before its next step, {_DECLARE.format('model.train')}",
    "gradients": f"Where training clears them itself before its next step, {_DECLARE.format('optimizer.zero_grad')}",
    "random numbers": "The one seed that torch's DataLoader draws is not counted. A sampler that shuffles needs a "
    "generator of its own.",
}
"""Remedies by the kind of state: what to do or to declare."""


class TrainingStateSnapshot:
    """The state of a loop's model, optimiser and random generators, to be compared with a later one."""

    def __init__(self, run: LoopRun) -> None:
        import torch

        self._run, self._noted = run, len(run.changes)
        self._model = ModelStateSnapshot(torch.nn.Module() if run.model is None else run.model)
        self._optimizer = _state(run.record.optimizer)

    def by_kind(self) -> dict[str, dict[str, str]]:
        """Return a line for each part that has changed, by the kind of state and by the part."""
        changed = difference(_state(self._run.record.optimizer), self._optimizer, EXACT, "the optimizer")
        found = {
            **self._model.by_kind(),
            "the optimizer": {"state": str(changed)} if changed else {},
            "the process": {f"setting {i}": line for i, line in enumerate(self._run.changes[self._noted :])},
        }
        return {kind: lines for kind, lines in found.items() if lines}


@dataclass(frozen=True)
class Interruption:
    """An evaluation between two steps of training."""

    result: Any
    """`Evaluated`, or the error."""
    changes: dict[str, dict[str, str]]
    """One line for everything that it left changed, by the kind of state and by the part."""
    all_evaluate: bool
    """True if every submodule is in eval mode after it."""


def interrupt(
    loop: LoopSubject, data: LoopData, modes: str, batch_size: int, metric: Callable[..., float] | None = None
) -> Interruption:
    """Evaluate with a new loop whose model is as between two steps of training.

    What the record's ``resume`` does is done before and after.

    Raises:
        TargetError: where ``resume`` raises an error.
    """
    run = loop.fresh()
    if run.model is not None:
        set_initial_modes(run.model, modes)
    with same_random_numbers():
        _resume(run)
        before = TrainingStateSnapshot(run)
        result = evaluate_in_training(run, data, batch_size, metric)
        submodules = [] if run.model is None else list(run.model.modules())
        all_evaluate = bool(submodules) and not any(module.training for module in submodules)
        _resume(run)
        return Interruption(result, before.by_kind(), all_evaluate)


def evaluate_in_training(
    run: LoopRun, data: LoopData, batch_size: int, metric: Callable[..., float] | None = None
) -> Any:
    """The result, or the error, of an evaluation whose random numbers go on.

    With a metric function the loop must take another one than its own (``scored_with``).
    """
    if metric is None:
        return run.evaluate(data, reseed=False, batch_size=batch_size)
    assert run.record.scored_with is not None
    scored = partial(run.record.scored_with, metric)
    return run.attempt("scored_with()", scored, data, reseed=False, batch_size=batch_size)


def describe_change(kind: str, changes: dict[str, dict[str, str]]) -> str:
    """Describe what else was changed, and what to do or to declare about a kind of state, in a few lines."""
    others = [f"changed too: {first_line(lines)}" for other, lines in changes.items() if other != kind]
    remedy = [_REMEDIES[kind]] if kind in _REMEDIES else []
    return "\n".join([*_first([*changes[kind].values()][1:], 3), *others[:3], *remedy])


def describe_changes(changes: dict[str, dict[str, str]]) -> str:
    """The first lines of each kind of state that an evaluation left changed."""
    first = (line for lines in changes.values() for line in _first([*lines.values()], 1))
    return "\n".join(f"the evaluation left changed: {line}" for line in first)


def first_line(lines: Mapping[str, str]) -> str:
    """Return the line of the part that comes first."""
    return next(iter(lines.values()))


def _first(lines: Sequence[str], count: int) -> list[str]:
    return list(lines[:count]) + ([f"and {len(lines) - count} more"] if len(lines) > count else [])


def _resume(run: LoopRun) -> None:
    if run.record.resume is None:
        return
    result = attempt("resume", run.record.resume)
    if isinstance(result, Raised):
        raise TargetError(
            "resume() raised an error",
            actual=str(result),
            expected="what training does before its next step, such as model.train",
            cause="resume",
        )


def _state(optimizer: Any) -> Any:
    return None if optimizer is None else copy.deepcopy(optimizer.state_dict())

"""Whether training goes on as if there had been no evaluation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.common.process_state import kept, same_random_numbers
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import detached
from pytest_evalcheck.kinds.loop.data import LoopData
from pytest_evalcheck.kinds.loop.subject import LiveLoop, LoopSubject
from pytest_evalcheck.kinds.wrapper.model_state import ModelStateSnapshot, set_initial_modes

Between = Callable[[LiveLoop], Any]


def trained(loop: LoopSubject, rows: Rows, modes: str, between: Between) -> Any:
    """What becomes of training from these modes with something in its middle, or the error.

    Raises:
        TargetError: where ``train`` does not come to its middle once.
    """
    live, times = loop.fresh(), [0]
    assert live.record.train is not None
    if live.record.model is not None:
        set_initial_modes(live.record.model, modes)

    def middle() -> None:
        times[0] += 1
        between(live)

    with kept(), same_random_numbers():
        made = attempt("train", live.record.train, loop.data(rows), middle)
    if not isinstance(made, Raised) and times[0] != 1:
        raise TargetError(
            f"train() called between() {times[0]} times", expected="once, in the middle of training", cause="train"
        )
    return made if isinstance(made, Raised) else detached(made)


def disturbed(loop: LoopSubject, data: LoopData, modes: str, batch_size: int) -> tuple[Any, list[str]]:
    """What an evaluation between two steps of training gives, and one line for everything that it left changed."""
    import torch

    live = loop.fresh()
    model = torch.nn.Module() if live.record.model is None else live.record.model
    set_initial_modes(model, modes)
    with same_random_numbers():
        before, optimizer = ModelStateSnapshot(model), _state(live.record.optimizer)
        made = live.evaluate(data, on_its_own=False, batch_size=batch_size)
        lines = before.differences()
    changed = difference(_state(live.record.optimizer), optimizer, EXACT, "the optimizer")
    return made, [*lines, *([str(changed)] if changed else []), *live.left]


def _state(optimizer: Any) -> Any:
    return None if optimizer is None else copy.deepcopy(optimizer.state_dict())

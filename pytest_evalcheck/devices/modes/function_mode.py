"""Mode at PyTorch's Python API: handlers answer for the simulated device, and translate every request for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pytest_evalcheck.devices.device_memory import is_out_of_memory
from pytest_evalcheck.devices.errors import CannotSimulate
from pytest_evalcheck.devices.modes.dispatch_mode import SimulationDispatchMode
from pytest_evalcheck.devices.rules.device_checks import require_generator
from pytest_evalcheck.devices.state import ACTIVE, HANDLERS, Simulation, ThreadState


class SimulationFunctionMode(TorchFunctionMode):  # type: ignore[misc]
    """The upper mode of a simulation, for one thread."""

    def __init__(self, state: ThreadState) -> None:
        super().__init__()
        self.state = state
        self.autocast: Any = None
        """Object that casts arguments, while autocast is enabled."""
        state.function_mode = self

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.state.simulation.closed:
            raise CannotSimulate("a thread that outlives its simulation", "join it inside the with block.")
        if self.autocast is not None:
            return self.autocast.call(func, types, args, kwargs)
        try:
            handler = HANDLERS[func]
            if handler is not None:
                return handler(self.state, func, args, dict(kwargs) if kwargs else {})
            if kwargs:
                if kwargs.get("device") is not None or kwargs.get("pin_memory"):
                    create: Any = HANDLERS[torch.empty]
                    return create(self.state, func, args, dict(kwargs))
                if kwargs.get("generator") is not None and args and isinstance(args[0], Tensor):
                    require_generator(kwargs["generator"], args[0])
                return func(*args, **kwargs)
            return func(*args)
        except RuntimeError as error:
            if is_out_of_memory(error):  # the frames below hold tensors that a device would free by now
                args = kwargs = None
                error = error.with_traceback(None)
            raise


@contextmanager
def enter_modes(simulation: Simulation) -> Iterator[None]:
    """Run a block of one thread inside a simulation."""
    state = ThreadState(simulation)
    before, ACTIVE.state = ACTIVE.state, state
    try:
        with SimulationFunctionMode(state), SimulationDispatchMode(state):
            try:
                yield
            finally:
                state.close()
    finally:
        ACTIVE.state = before

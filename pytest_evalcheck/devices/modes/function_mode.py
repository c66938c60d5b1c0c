"""At PyTorch's Python API: answer for the mark, and translate every request for a device that is not there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from pytest_evalcheck.devices.device_marks import CPU, SimulatedDevice, simulated_device_of
from pytest_evalcheck.devices.ledger import Ledger
from pytest_evalcheck.devices.modes.dispatch_mode import NO_TARGET

if TYPE_CHECKING:
    from pytest_evalcheck.devices.simulation import Simulation

Handler = Callable[["SimulationFunctionMode", Any, Any, dict[str, Any]], Any]
HANDLERS: dict[Any, Handler] = {}
ACTIVE = threading.local()


def handles(*functions: Any) -> Callable[[Handler], Handler]:
    """Register a handler for PyTorch functions. A getter is a new object every time, but compares and hashes equal."""

    def register(handler: Handler) -> Handler:
        for function in functions:
            HANDLERS[function] = handler
        return handler

    return register


class SimulationFunctionMode(TorchFunctionMode):  # type: ignore[misc]
    """The upper half of a simulation, for one thread."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.simulation = simulation
        self.ledger: Ledger = simulation.ledger
        self.creating = False  # a factory that the user called is running: it is marked when it returns
        self.target: Any = NO_TARGET  # where a running move goes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        handler = HANDLERS.get(func)
        if handler is not None:
            return handler(self, func, args, dict(kwargs) if kwargs else {})
        if kwargs:
            if kwargs.get("device") is not None or kwargs.get("pin_memory"):
                return HANDLERS[torch.empty](self, func, args, dict(kwargs))
            if kwargs.get("generator") is not None and args and isinstance(args[0], Tensor):
                self.simulation.check_generator(kwargs["generator"], simulated_device_of(args[0]))
            return func(*args, **kwargs)
        return func(*args)

    def record_transfer(
        self, tensor: Tensor, source: SimulatedDevice | None, target: SimulatedDevice | None, *, waits: bool
    ) -> None:
        """Write down a transfer, and the wait for it."""
        here = CPU if source is None else source.device
        self.ledger.moved(tensor, here, CPU if target is None else target.device)
        if waits and tensor.numel():
            self.ledger.waited(here)

    def move(
        self,
        tensor: Tensor,
        place: SimulatedDevice | None,
        dtype: torch.dtype | None = None,
        *,
        copy: bool = False,
        **options: Any,
    ) -> Tensor:
        """What `Tensor.to` does, to a place or to the CPU (None)."""
        here = simulated_device_of(tensor)
        dtype = tensor.dtype if dtype is None else dtype
        if here is place:
            if dtype is tensor.dtype and not copy and options.keys() <= {"non_blocking"}:
                return tensor
            return HANDLERS[Tensor.to](self, Tensor.to, (tensor,), {"dtype": dtype, "copy": copy, **options})
        if dtype is not tensor.dtype and tensor.requires_grad and torch.is_grad_enabled():
            # A hook may not change a dtype, so that the gradient is moved and cast in two steps too.
            if here is not None and dtype in here.unsupported_dtypes:
                return Tensor.to(self.move(tensor, place, copy=copy, **options), dtype=dtype)
            return self.move(Tensor.to(tensor, dtype=dtype), place, **options)
        if place is not None and dtype in place.unsupported_dtypes:
            raise TypeError(place.unsupported_dtypes[dtype])
        moved = self._copied(tensor, place, {"dtype": dtype, "copy": True, **options})
        if moved.requires_grad and moved.grad_fn is not None:
            moved.grad_fn.register_prehook(_Back(here))
        self.record_transfer(moved, here, place, waits=place is None and not options.get("non_blocking"))
        return moved

    def _copied(self, tensor: Tensor, place: SimulatedDevice | None, options: dict[str, Any]) -> Tensor:
        before, self.target = self.target, place
        try:
            return Tensor.to(tensor, **options)
        finally:
            self.target = before


class _Back:
    """Takes a gradient back to where the tensor came from. The graph knows no devices that are not there."""

    def __init__(self, place: SimulatedDevice | None) -> None:
        self.place = place

    def __call__(self, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...] | None:
        mode = getattr(ACTIVE, "function", None)
        if mode is None:
            return None
        return tuple(each if each is None else mode.move(each, self.place) for each in gradients)

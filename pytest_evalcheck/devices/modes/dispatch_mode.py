"""Below autograd, at every operator: refuse what the device would refuse, and mark what comes out."""
# ruff: noqa: ARG001  (all handlers have one signature, and are named after what they handle)

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_evalcheck.devices.device_marks import MARK, PLAIN_TENSOR_TYPES, SimulatedDevice, mark, simulated_device_of
from pytest_evalcheck.devices.ledger import frames
from pytest_evalcheck.devices.rules.device_checks import missing_kernel, one_by_one, resolve
from pytest_evalcheck.devices.rules.op_plans import PLANS, Plan, plan_for

if TYPE_CHECKING:
    from pytest_evalcheck.devices.modes.function_mode import SimulationFunctionMode

Parameter = torch.nn.Parameter


class SimulationDispatchMode(TorchDispatchMode):  # type: ignore[misc]
    """The lower half of a simulation, for one thread. `function` is the upper half."""

    def __init__(self, function: SimulationFunctionMode) -> None:
        super().__init__()
        self.function = function
        self.latest: SimulatedDevice | None = None
        """Where the last operator ran that marked something, or that left it on the CPU."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside a simulation; the wrapper that this avoids costs 0.8 us a call

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            if kind not in PLAIN_TENSOR_TYPES and hasattr(kind, "__tensor_flatten__"):
                return NotImplemented  # a wrapper takes itself apart; its parts come back here
        plan = PLANS.get(func) or plan_for(func)
        if plan.special:
            out = SPECIAL[plan.special](self, plan, func, args, kwargs or {})
            if type(out) is Tensor:
                self.latest = simulated_device_of(out)
            return out
        place: SimulatedDevice | None = None
        many = first = False
        try:
            for arg in args:
                kind = type(arg)
                if kind is Tensor or kind is Parameter:
                    here = getattr(arg.untyped_storage(), MARK, None)
                    if not first:
                        first, place = True, here
                    elif here is not place:
                        many = True
                        break
                elif kind is list:
                    for each in arg if arg and isinstance(arg[0], Tensor) else ():
                        here = simulated_device_of(each)
                        if not first:
                            first, place = True, here
                        elif here is not place:
                            many = True
                elif isinstance(arg, Tensor):
                    many = True
        except (RuntimeError, NotImplementedError):  # no storage: sparse
            many = True
        if many or plan.keyword_tensors or (place is not None and not place.open):
            place = resolve(self.function, plan, func, args, kwargs or {})
        try:
            out = func(*args, **kwargs) if kwargs else func(*args)
        except RuntimeError as error:
            missing = None if place is None else missing_kernel(func, error)
            if missing is None:
                raise
            raise missing from error
        self.latest = place
        if place is None or (plan.places and elsewhere(kwargs)):
            return out
        if plan.waits:
            self.function.ledger.waited(place.device)
        return self.mark(plan, out, place)

    def mark(self, plan: Plan, out: Any, place: SimulatedDevice) -> Any:
        """Put what came out of an operator on `place`, or refuse a dtype that `place` unsupported_dtypes."""
        if plan.aliases:
            return out
        kind = type(out)
        if kind is Tensor:
            if place.unsupported_dtypes:
                refuse_dtype(out, place)
            try:
                setattr(out.untyped_storage(), MARK, place)
            except (RuntimeError, NotImplementedError):
                mark(out, place)
        elif kind is tuple or kind is list:
            for each in out:
                if isinstance(each, Tensor):
                    refuse_dtype(each, place)
                    mark(each, place)
        return out


def elsewhere(kwargs: dict[str, Any] | None) -> bool:
    """Whether an operator was told to put its result on a device that is not simulated: meta."""
    device = kwargs.get("device") if kwargs else None
    return device is not None and device.type != "cpu"


def refuse_dtype(tensor: Tensor, place: SimulatedDevice) -> None:
    """Raise what the device raises for a dtype that it unsupported_dtypes."""
    message = place.unsupported_dtypes.get(tensor.dtype)
    if message is not None:
        raise TypeError(message)


def _copy(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    pairs = [args[:2]] if isinstance(args[0], Tensor) else list(zip(args[0], args[1], strict=True))
    out = func(*args, **kwargs)
    for target, source in pairs:
        here, there = simulated_device_of(target), simulated_device_of(source)
        if here is not there:
            mode.function.record_transfer(target, there, here, waits=here is None and not _non_blocking(args, kwargs))
    if not plan.aliases:
        for each, (target, _) in zip([out] if isinstance(out, Tensor) else out, pairs, strict=True):
            mark(each, simulated_device_of(target))
    return out


def _non_blocking(args: Any, kwargs: Any) -> bool:
    return bool(kwargs.get("non_blocking", args[2] if len(args) > 2 else False))


def _cast(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    target = mode.function.target
    out = func(*args, **kwargs)
    if elsewhere(kwargs) or not isinstance(args[0], Tensor):
        return out
    place = simulated_device_of(args[0]) if target is NO_TARGET else target
    if place is not None:
        refuse_dtype(out, place)
        mark(out, place)
    return out


NO_TARGET = object()


def _create(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor out of nothing. One that the user asks for is marked above; one of PyTorch's is where the call is."""
    out = func(*args, **kwargs)
    if mode.function.creating:
        return out
    place = around(mode)
    if place is None or (plan.number and out.dtype in place.unsupported_dtypes):
        return out
    return out if elsewhere(kwargs) else mode.mark(plan, out, place)


def around(mode: SimulationDispatchMode) -> SimulatedDevice | None:
    """Where a tensor is that PyTorch makes out of nothing: with the other arguments of the call.

    What autograd makes is where the gradient is by now, and not where the loss was.
    """
    return mode.latest if torch._C._current_graph_task_id() != -1 else surrounding()


def surrounding() -> SimulatedDevice | None:
    """Where the arguments of the PyTorch function are that is now running."""
    for frame in frames():
        if frame.f_code.co_name == "__torch_function__" and frame.f_globals.get("__name__") == FUNCTION_MODULE:
            seen = frame.f_locals
            return first_place((seen.get("args"), seen.get("kwargs")))
    return None


FUNCTION_MODULE = __name__.rpartition(".")[0] + ".function_mode"


def first_place(value: Any) -> SimulatedDevice | None:
    """Where the first marked tensor in nested containers is."""
    if isinstance(value, Tensor):
        return simulated_device_of(value)
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return None
    for each in value:
        place = first_place(each)
        if place is not None:
            return place
    return None


def _index(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    place = simulated_device_of(args[0])
    stale = place is not None and not place.open
    if stale or len(args) > 2 or not isinstance(args[1], list) or not _at(place, args[1]):
        place = resolve(mode.function, plan, func, args, kwargs)
    if (
        place is not None
        and plan.masks
        and any(isinstance(each, Tensor) and each.dtype in (torch.bool, torch.uint8) for each in args[1])
    ):
        mode.function.ledger.waited(place.device)
    out = func(*args, **kwargs)
    return out if place is None else mode.mark(plan, out, place)


def _at(place: SimulatedDevice | None, indices: list[Tensor | None]) -> bool:
    return all(each is None or simulated_device_of(each) is place for each in indices)


def _compose(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """In inference mode an operator that is made of others arrives whole. Its parts come back here."""
    with mode:
        return func.decompose(*args, **kwargs)


def _lift(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """Data that became a tensor: as with one out of nothing, but the memory is that of the argument."""
    out = func(*args, **kwargs)
    place = None if mode.function.creating or simulated_device_of(out) is not None else around(mode)
    if place is None or (out.dtype in place.unsupported_dtypes and out.dim() == 0):
        return out
    refuse_dtype(out, place)
    return mark(out, place)


def _each(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """A call with lists: each result is where its row is."""
    places = one_by_one(mode.function, plan, func, args, kwargs)
    out = func(*args, **kwargs)
    if isinstance(out, (list, tuple)):
        for each, place in zip(out, places, strict=False):
            if isinstance(each, Tensor) and place is not None:
                mode.mark(plan, each, place)
    return out


def _lacking(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """A call that some kinds of device have no kernel for."""
    place = first_place((args, kwargs))
    if place is not None and place.type in plan.lacking:
        raise NotImplementedError(
            f"Could not run '{func.name()}' with arguments from the '{place.type.upper()}' backend. "
            "This could be because the operator doesn't exist for this backend."
        )
    place = resolve(mode.function, plan, func, args, kwargs)
    out = func(*args, **kwargs)
    return out if place is None else mode.mark(plan, out, place)


SPECIAL = {
    "each": _each,
    "lacking": _lacking,
    "copy": _copy,
    "cast": _cast,
    "create": _create,
    "index": _index,
    "lift": _lift,
    "compose": _compose,
}

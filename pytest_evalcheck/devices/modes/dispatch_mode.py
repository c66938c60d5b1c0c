"""Mode below autograd: at every operator it raises what the device would raise, and marks the results."""
# ruff: noqa: ARG001  (the functions for special plans have one signature)

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_evalcheck.devices.device_marks import (
    MARK,
    PLAIN_TENSOR_TYPES,
    SimulatedDevice,
    first_simulated_device,
    mark,
    simulated_device_of,
)
from pytest_evalcheck.devices.ledger import frames
from pytest_evalcheck.devices.modes.collectives import collective
from pytest_evalcheck.devices.modes.indexing import INDEXING_CALLS, place_written_out, record_indexing
from pytest_evalcheck.devices.modes.kernel_errors import after_error
from pytest_evalcheck.devices.modes.lacking import NOT_SPECIAL, run_lacking
from pytest_evalcheck.devices.modes.out_of_memory import effects_undone, recount_written
from pytest_evalcheck.devices.random_numbers import drawn_on
from pytest_evalcheck.devices.rules.deterministic import require_deterministic
from pytest_evalcheck.devices.rules.device_checks import (
    BY_PARTS,
    common_device,
    require_same_memory,
    row_devices,
)
from pytest_evalcheck.devices.rules.op_plans import PLANS, DeviceRule, Effects, Plan, plan_for
from pytest_evalcheck.devices.rules.results import mark_results
from pytest_evalcheck.devices.rules.unsupported_dtypes import require_dtype
from pytest_evalcheck.devices.state import NO_TARGET, ThreadState

_MIXED: Any = object()
_NONE_YET: Any = object()
_function_mode_is_on = torch._C._is_torch_function_mode_enabled


class SimulationDispatchMode(TorchDispatchMode):  # type: ignore[misc]
    """The lower mode of a simulation, for one thread."""

    def __init__(self, state: ThreadState) -> None:
        super().__init__()
        self.state = state

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled inside a simulation; the wrapper that this avoids costs 0.8 us per call

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for kind in types:
            if kind not in PLAIN_TENSOR_TYPES and hasattr(kind, "__tensor_flatten__"):
                return NotImplemented  # a wrapper calls this again with its parts
        if _function_mode_is_on():  # in a backward pass, for callbacks of the user; here it would see every look
            with torch._C.DisableTorchFunction():
                return self.__torch_dispatch__(func, types, args, kwargs)
        state, kwargs = self.state, kwargs or {}
        plan = PLANS.get(id(func)) or plan_for(func)
        effects = plan.effects
        if effects is not None and effects.is_undone and not state.undoes and state.simulation.is_limited:
            state.undoes = True
            try:
                with effects_undone(func, args, kwargs, state.simulation.generators):
                    return self.__torch_dispatch__(func, types, args, kwargs)
            finally:
                state.undoes = False
        if state.asynchrony.pending:
            state.asynchrony.before_operator(plan.special, state.target, func, args, kwargs)
        if plan.special:
            out = SPECIAL[plan.special](self, plan, func, args, kwargs)
            if type(out) is Tensor:
                state.last_device = simulated_device_of(out)
            if out is not NOT_SPECIAL:
                return out
        device = _MIXED if plan.rule.has_keywords else _device_of_plain(plan.rule, args)
        is_usual = device is not _MIXED
        if not is_usual or (device is not None and not device.available):
            device = common_device(state.simulation, plan, func, args, kwargs)
            if device is BY_PARTS:
                return _run_by_parts(self, func, args, kwargs)
        if plan.alert is not None and device is not None and device.type == "cuda":
            require_deterministic(plan.alert, func, args, kwargs)
        if plan.on_mps is not None and device is not None and device.type == "mps":
            plan.on_mps.examine(args, state.simulation.warn_once)
        try:
            if plan.draws and device is not None and kwargs.get("generator") is None:
                with drawn_on(device):
                    out = plan.call(*args, **kwargs)
            else:
                out = plan.call(*args, **kwargs) if kwargs else plan.call(*args)
        except (RuntimeError, IndexError) as error:
            return after_error(state, plan, device, func, args, kwargs, error)
        state.last_device = device
        results = plan.results
        if device is None or (results.follow_argument and _is_elsewhere(kwargs)):
            return out
        if effects is not None:
            _record(state, effects, func, args, kwargs, device)
        return out if results.alias and is_usual else mark_results(out, device)


def _record(state: ThreadState, effects: Effects, func: Any, args: Any, kwargs: Any, device: SimulatedDevice) -> None:
    if effects.syncs and kwargs.get(effects.syncs_without) is None:
        state.ledger.record_sync(device.torch_device)
    if effects.reads_indices:
        record_indexing(state, func, args, kwargs, device)
    if effects.resizes:
        recount_written(func, args, kwargs)


def _device_of_plain(rule: DeviceRule, args: Any) -> Any:
    """Return the device of all tensors in positional arguments, `_MIXED` where it takes `common_device` to find it.

    Numbers arrive as CPU tensors without dimensions. They may follow the first tensor of a call by the general rule.
    """
    device: Any = _NONE_YET
    try:
        for arg in args:
            kind = type(arg)
            if kind is Tensor or kind is Parameter:
                found = getattr(arg.untyped_storage(), MARK, None)
                if found is not device:
                    if device is _NONE_YET:
                        device = found
                    elif found is not None or not rule.takes_numbers or arg.dim():
                        return _MIXED
            elif kind is list:
                for item in arg:
                    kind = type(item)
                    if kind is Tensor or kind is Parameter:
                        found = getattr(item.untyped_storage(), MARK, None)
                        if device is _NONE_YET:
                            device = found
                        elif found is not device:
                            return _MIXED
                    elif isinstance(item, Tensor):
                        return _MIXED
            elif isinstance(arg, Tensor):
                return _MIXED
    except (RuntimeError, NotImplementedError):  # no storage: sparse
        return _MIXED
    return None if device is _NONE_YET else device


def _is_elsewhere(kwargs: dict[str, Any]) -> bool:
    """Return whether an operator has to put its result on a device that is not simulated, such as meta."""
    device = kwargs.get("device")
    return device is not None and device.type != "cpu"


def _copy(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    pairs = [args[:2]] if isinstance(args[0], Tensor) else list(zip(args[0], args[1], strict=True))
    devices = [  # a number is where it is copied to
        (simulated_device_of(target), simulated_device_of(source if isinstance(source, Tensor) else target))
        for target, source in pairs
    ]
    out = func(*args, **kwargs)
    non_blocking = bool(kwargs.get("non_blocking", args[2] if len(args) > 2 else False))
    for (target, source), (target_device, source_device) in zip(pairs, devices, strict=True):
        if target_device is not source_device:
            in_flight = mode.state.asynchrony.copied(
                source, target, source_device, target_device, non_blocking=non_blocking
            )
            waits = target_device is None and not in_flight
            mode.state.record_transfer(target, source_device, target_device, waits=waits, non_blocking=non_blocking)
    if out is not None and (not plan.results.alias or (isinstance(out, Tensor) and not torch._C._has_storage(out))):
        for item, (target_device, _) in zip([out] if isinstance(out, Tensor) else out, devices, strict=True):
            mark(item, target_device)
    return out


def _cast(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    target = mode.state.target
    out = func(*args, **kwargs)
    if _is_elsewhere(kwargs) or not isinstance(args[0], Tensor):
        return out
    device = simulated_device_of(args[0]) if target is NO_TARGET else target
    require_dtype(out.dtype, device)
    return out if device is None else mark(out, device)


def _create(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor from nothing, or from data. A handler marks one that the user creates; PyTorch's own are marked here."""
    state = mode.state
    if plan.draws and not state.creating and kwargs.get("generator") is None:
        _, device = _creation_place(state, kwargs)
        with nullcontext() if device is None else drawn_on(device):
            out = func(*args, **kwargs)
    else:
        out = func(*args, **kwargs)
    if state.creating or _is_elsewhere(kwargs) or simulated_device_of(out) is not None:
        return out
    function, device = _creation_place(state, kwargs)
    is_number = plan.results.is_host_number and out.dim() == 0
    if device is None or (is_number and out.dtype in device.unsupported_dtypes):
        return out
    require_dtype(out.dtype, device)
    return place_written_out(state, out, device) if function in INDEXING_CALLS else mark(out, device)


def _creation_place(state: ThreadState, kwargs: Any) -> tuple[Any, SimulatedDevice | None]:
    """The PyTorch function that now runs, and the device of a tensor that it makes from nothing."""
    native = state.native_device
    return _surrounding_call(state) if native is None else (None, native if kwargs.get("device") else None)


def _surrounding_call(state: ThreadState) -> tuple[Any, SimulatedDevice | None]:
    """The PyTorch function that now runs, and where it puts a tensor from nothing: with its arguments.

    In a backward pass that is where the gradient is by now, and not where the loss was.
    """
    if torch._C._current_graph_task_id() != -1:
        return None, state.last_device
    for frame in frames():
        if frame.f_code.co_name == "__torch_function__" and frame.f_globals.get("__name__") == _FUNCTION_MODE:
            given = frame.f_locals
            function, args = given.get("func"), given.get("args", ())
            of = args[0] if function in INDEXING_CALLS else (args, given.get("kwargs"))
            return function, first_simulated_device(of)
    return None, None


_FUNCTION_MODE = __name__.replace("dispatch_mode", "function_mode")


def _compose(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """Decompose a composite operator, which arrives whole in inference mode. Its parts arrive here."""
    with mode:
        return func.decompose(*args, **kwargs)


def _run_by_parts(mode: SimulationDispatchMode, func: Any, args: Any, kwargs: Any) -> Any:
    """Run PyTorch's own code of a composite operator, whose parts arrive here."""
    with mode:
        return func._op_dk(torch._C.DispatchKey.CompositeExplicitAutograd, *args, **kwargs)


def _foreach(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """A call with lists: each result is on the device of its row."""
    common = _MIXED if plan.rule.has_keywords else _device_of_plain(plan.rule, args)
    if common is None or (common is not _MIXED and common.available):
        out = plan.call(*args, **kwargs)
        return out if common is None or plan.results.alias or out is None else mark_results(out, common)
    devices = row_devices(mode.state.simulation, plan, func, args, kwargs)
    out = plan.call(*args, **kwargs)
    if isinstance(out, (list, tuple)):
        for item, device in zip(out, devices, strict=False):
            if device is not None and not plan.results.alias:
                mark_results(item, device)
    return out


def _collective(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    return collective(mode.state, func, args, kwargs)


def _set(mode: SimulationDispatchMode, plan: Plan, func: Any, args: Any, kwargs: Any) -> Any:
    """A tensor is given memory, which must be on its device."""
    if len(args) > 1:
        require_same_memory(args[0], args[1])
    return func(*args, **kwargs)


SPECIAL = {
    "lacking": run_lacking,
    "collective": _collective,
    "set": _set,
    "foreach": _foreach,
    "copy": _copy,
    "cast": _cast,
    "create": _create,
    "compose": _compose,
}

"""Functions of PyTorch that are one kernel each: where all tensors are on one device, so are the results.

The mode below autograd finds out nothing else about them, and without it such a call costs half. Which functions these
are follows from the plans of the operators that they call (`rules/op_plans.py`), so that none is listed here. An error
is raised by the other way, which knows what the device says.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.handlers.without_dispatch import (
    NO_TENSOR,
    NOT_CERTAIN,
    common_device_of,
    is_alone,
    nothing_is_derived,
    undispatched,
)
from pytest_evalcheck.devices.rules.op_plans import PLANS, Plan, plan_for
from pytest_evalcheck.devices.rules.results import mark_results
from pytest_evalcheck.devices.state import HANDLERS, Handler, ThreadState, handles

_METHOD, _FUNCTION, _GETTER = type(Tensor.add), type(torch.add), type(Tensor.shape.__get__)
_OWNERS = (torch._C._VariableFunctions, torch._C._nn, torch._C._special, torch._C._linalg)
_CASTS = "bfloat16 bool byte char double float half int long short"
_COMPARISONS = {f"__{name}__": name for name in ("eq", "ne", "lt", "le", "gt", "ge")}


@handles(*(getattr(Tensor, name) for name in _CASTS.split()))
def new_results(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run the kernel without the mode, and mark what it makes."""
    try:
        device = common_device_of(args)
        if kwargs and common_device_of(kwargs.values()) is not NO_TENSOR:  # such as out=
            device = NOT_CERTAIN
    except (RuntimeError, NotImplementedError):  # no storage: sparse, functorch
        device = NOT_CERTAIN
    if (
        device is NOT_CERTAIN
        or device is NO_TENSOR
        or (device is not None and not device.available)
        or not is_alone(state)
        or not nothing_is_derived()
    ):
        return func(*args, **kwargs)
    try:
        out = undispatched(func, args, kwargs)
    except Exception:
        out = NOT_CERTAIN
    if out is NOT_CERTAIN:
        return func(*args, **kwargs)
    state.last_device = device
    return out if device is None else mark_results(out, device)


def new_results_like(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same for a function that may be told where its result is to be, such as `zeros_like`."""
    if kwargs.get("device") is not None or kwargs.get("pin_memory"):
        create: Any = HANDLERS[torch.empty]
        return create(state, func, args, kwargs)
    return new_results(state, func, args, kwargs)


def new_results_except_on_mps(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The same for a function whose kernel on MPS the mode below looks at: `rules/mps_kernels.py`."""
    return func(*args, **kwargs) if "mps" in state.simulation.kinds else new_results(state, func, args, kwargs)


def handler_of(func: Any) -> Handler | None:
    """The handler of a function that has none yet, which is stored for the next call; None where there is no need."""
    if type(func) is _METHOD:
        is_ours = func.__objclass__ is torch._C.TensorBase
    else:
        is_ours = type(func) is _FUNCTION and any(getattr(owner, func.__name__, None) is func for owner in _OWNERS)
    if not is_ours:
        if _stays(func):
            HANDLERS[func] = None
        return None
    name = _COMPARISONS.get(func.__name__, func.__name__)
    if name.startswith("_") and not name.startswith("__"):  # for PyTorch itself
        HANDLERS[func] = None
        return None
    packet = getattr(torch.ops.aten, name, None)
    names = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ()
    overloads = [getattr(packet, each) for each in names]
    # Others belong to TorchScript alone, such as aten::exp.int.
    overloads = [each for each in overloads if torch._C._dispatch_has_kernel(each.name())]
    asked = [each for each in overloads if not _is_asked_by_name(each)]
    found: Handler | None = new_results if asked and all(map(_makes_new_results, asked)) else None
    if found is not None and any(PLANS[id(each)].results.follow_argument for each in asked):
        found = new_results_like
    elif found is not None and any(PLANS[id(each)].on_mps for each in asked):
        found = new_results_except_on_mps
    HANDLERS[func] = found
    return found


def _stays(func: Any) -> bool:
    """Return whether a function is one of PyTorch's own that are there for good: the answer is stored."""
    if type(func) is _GETTER:
        return getattr(func.__self__, "__objclass__", None) is torch._C.TensorBase
    module, name = getattr(func, "__module__", None), getattr(func, "__qualname__", "<locals>")
    return isinstance(module, str) and module.startswith("torch.") and "<locals>" not in name


def _is_asked_by_name(overload: Any) -> bool:
    """Return whether an overload has an argument that makes its handler take the other way: `out=`, a name."""
    return any(
        "Dimname" in str(argument.type) or (argument.kwarg_only and "Tensor" in str(argument.type))
        for argument in overload._schema.arguments
    )


def _makes_new_results(overload: Any) -> bool:
    """Return whether the general rule is all there is to know about an overload, and every result is a new tensor."""
    plan: Plan = PLANS.get(id(overload)) or plan_for(overload)
    returns = overload._schema.returns
    return (
        not (plan.special or plan.effects or plan.alert or plan.draws)
        and not (plan.rule.indexed or plan.rule.mixed or plan.rule.has_keywords)
        and bool(returns)
        and all(str(each.type) == "Tensor" and each.alias_info is None for each in returns)
        and not any(each.alias_info is not None for each in overload._schema.arguments)
    )


HANDLERS.find = handler_of

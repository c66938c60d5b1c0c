"""What has to be known about an operator, worked out once from its schema and the rules."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from pytest_evalcheck.devices.rules import op_overrides


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """How the dispatcher treats one operator."""

    special: str  # the name of the treatment that it needs; empty for the general rule
    aliases: bool  # all that comes out shares its memory with what went in
    keyword_tensors: bool  # tensors may be among the keyword arguments
    waits: bool  # the host waits for the device
    masks: bool  # the host waits where an index is a mask
    strict: bool  # CPU tensors without dimensions are refused too
    anywhere: bool  # tensors of several devices are taken
    pointwise: bool  # the error text is TensorIterator's
    number: bool  # it makes a number of the host's a tensor
    places: bool  # it has an argument that says where the result is to be
    free: frozenset[str]  # arguments that may be anywhere
    lacking: frozenset[str]  # kinds of device that have no kernel


PLANS: dict[Any, Plan] = {}
_FACTORIES_WITH_TENSORS = {"aten::lift_fresh", "aten::lift", "aten::lift_fresh_copy"}


def plan_for(func: Any) -> Plan:
    """The plan of an operator, which is kept."""
    name, full = func._schema.name, f"{func._schema.name}.{func._schema.overload_name}"

    def among(table: set[str]) -> bool:
        return name in table or full in table

    arguments, returns = func._schema.arguments, func._schema.returns
    tensors = [each for each in arguments if "Tensor" in str(each.type)]
    special = ""
    if among(op_overrides.COPIES):
        special = "copy"
    elif among(op_overrides.CASTS):
        special = "cast"
    elif among(op_overrides.INDEXED):
        special = "index"
    elif among(set(op_overrides.LACKING)):
        special = "lacking"
    elif name.startswith(op_overrides.EACH):
        special = "each"
    elif among(_FACTORIES_WITH_TENSORS):
        special = "lift"
    elif torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        special = "compose"
    elif not tensors and any("Tensor" in str(each.type) for each in returns):
        special = "create"
    plan = PLANS[func] = Plan(
        special=special,
        aliases=bool(returns) and all(each.alias_info is not None for each in returns if "Tensor" in str(each.type)),
        keyword_tensors=any(each.kwarg_only for each in tensors),
        waits=among(op_overrides.SYNCS),
        masks=among(op_overrides.MASKED),
        strict=among(op_overrides.STRICT),
        anywhere=among(op_overrides.ANYWHERE),
        pointwise=torch.Tag.pointwise in func.tags or special == "each",
        number=name == "aten::scalar_tensor",
        places=any(each.name == "device" for each in arguments),
        free=frozenset((op_overrides.FREE.get(full) or op_overrides.FREE.get(name) or "").split()),
        lacking=frozenset(op_overrides.LACKING.get(name, ())),
    )
    return plan

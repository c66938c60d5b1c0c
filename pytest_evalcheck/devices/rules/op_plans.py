"""Treatment of an operator by the dispatch mode, derived once from its schema and `op_overrides`."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from pytest_evalcheck.devices.rules import op_overrides
from pytest_evalcheck.devices.rules.deterministic import Alert, alert_for
from pytest_evalcheck.devices.rules.missing_kernels import missing_for
from pytest_evalcheck.devices.rules.mps_kernels import MPSKernel, mps_kernel
from pytest_evalcheck.devices.rules.native_functions import entry
from pytest_evalcheck.devices.rules.op_effects import has_effects, resizes


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRule:
    """Devices on which the tensors of one call may be."""

    has_keywords: bool  # a look at the positional arguments does not determine the device
    takes_numbers: bool  # CPU tensors without dimensions may follow the first tensor
    indexed: bool  # the first tensor is indexed by others
    strict: bool  # CPU tensors without dimensions are refused too,
    scalar: str  # but for this argument
    mixed: bool  # tensors on several devices are accepted
    free: frozenset[str]  # arguments that may be on any device
    first_decides: bool  # a CPU tensor without dimensions may not come first
    by_parts: bool  # made of other operators, which decide about tensors on several devices
    pointwise: bool  # the error text is TensorIterator's


@dataclasses.dataclass(frozen=True, slots=True)
class Effects:
    """Actions of an operator apart from making results."""

    syncs: bool  # the host waits for the device
    syncs_without: str  # an argument; the host does not wait where it is given
    reads_indices: bool  # indices on the CPU are copied, and the host waits for a mask
    resizes: bool  # an argument may have more memory afterwards
    is_undone: bool  # it writes or draws, and allocates: where memory runs out it has not run

    def __bool__(self) -> bool:
        return self.syncs or self.reads_indices or self.resizes or self.is_undone


@dataclasses.dataclass(frozen=True, slots=True)
class Results:
    """Places of the results of an operator."""

    alias: bool  # all share memory with the arguments
    is_host_number: bool  # one without dimensions is a number of the host
    follow_argument: bool  # there is an argument `device`


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Treatment of one operator by the dispatch mode."""

    func: Any  # the operator; while the plan refers to it, its id is not used again
    call: Any  # what calls it with the least Python
    special: str  # the name of the treatment that it needs; empty for the general rule
    rule: DeviceRule
    effects: Effects | None  # None where there are none, as of most operators
    results: Results
    alert: tuple[Alert, str] | None  # CUDA has no deterministic kernel
    draws: bool  # random numbers
    on_mps: MPSKernel | None  # differences of the kernel there
    lacks: dict[str, str]  # dispatch keys without a kernel, and the operator whose kernel that is


PLANS: dict[int, Plan] = {}
"""Plans by the id of an operator: its hash is computed in Python."""


def plan_for(func: Any) -> Plan:
    """Make the plan of an operator, and store it in `PLANS`."""
    name, full = func._schema.name, f"{func._schema.name}.{func._schema.overload_name}"
    arguments = func._schema.arguments
    tensors = [argument for argument in arguments if "Tensor" in str(argument.type)]
    results = [result for result in func._schema.returns if "Tensor" in str(result.type)]
    indexed = name in op_overrides.INDEXED
    lacks = missing_for(func) if tensors else {}
    special = "" if indexed else _special(func, name, bool(tensors), bool(results))
    if not special and not {"CUDA", "MPS"}.isdisjoint(lacks):
        special = "lacking"
    strict, mixed = _is_strict(func, name, full), name in op_overrides.MIXED
    by_parts = special in ("", "lacking") and not (indexed or mixed) and bool(tensors) and _is_composite(func, name)
    free = op_overrides.FREE.get(full) or op_overrides.FREE.get(name) or ""
    effects = Effects(
        syncs=not op_overrides.SYNCS.isdisjoint((name, full)),
        syncs_without=op_overrides.SYNCS_WITHOUT.get(full, ""),
        reads_indices=name in op_overrides.READS_INDICES,
        resizes=resizes(func._schema),
        is_undone=has_effects(func),
    )
    rule = DeviceRule(
        has_keywords=any(argument.kwarg_only for argument in tensors),
        takes_numbers=not (strict or free or indexed or mixed or by_parts)
        and not any(argument.alias_info is not None and argument.alias_info.is_write for argument in arguments[1:]),
        indexed=indexed,
        strict=strict,
        scalar=op_overrides.SCALARS.get(full) or op_overrides.SCALARS.get(name) or "",
        mixed=mixed,
        free=frozenset(free.split()),
        first_decides=name in op_overrides.FIRST_DECIDES,
        by_parts=by_parts,
        pointwise=torch.Tag.pointwise in func.tags or special == "foreach",
    )
    plan = PLANS[id(func)] = Plan(
        func=func,
        call=func._op if type(func) is torch._ops.OpOverload else func,
        special=special,
        rule=rule,
        effects=effects or None,
        results=Results(
            alias=bool(func._schema.returns) and all(result.alias_info is not None for result in results),
            is_host_number=name == "aten::scalar_tensor" or name in op_overrides.SPECIAL["create"],
            follow_argument=any(argument.name == "device" for argument in arguments),
        ),
        alert=alert_for(func),
        draws=torch.Tag.nondeterministic_seeded in func.tags,
        on_mps=mps_kernel(func),
        lacks=lacks,
    )
    return plan


def _special(func: Any, name: str, takes_tensors: bool, gives_tensors: bool) -> str:
    for special, names in op_overrides.SPECIAL.items():
        if name in names:
            return special
    if name.startswith(op_overrides.FOREACH):
        return "foreach"
    if name.startswith(op_overrides.COLLECTIVES):
        return "collective"
    if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
        return "compose"
    return "create" if gives_tensors and not takes_tensors else ""


def _is_strict(func: Any, name: str, full: str) -> bool:
    listed = entry(func.name().removeprefix("aten::")) if name.startswith("aten::") else None
    return (listed is not None and listed.checked) or not op_overrides.STRICT.isdisjoint((name, full))


def _is_composite(func: Any, name: str) -> bool:
    """Return whether its only kernel is one that calls other operators."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return (
        name not in op_overrides.SELECTS_BY_DEVICE
        and has_kernel(func.name(), "CompositeExplicitAutograd")
        and not has_kernel(func.name(), "CPU")
    )

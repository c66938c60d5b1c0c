"""Collectives, as the dispatch mode meets them: the real process group computes on the memory of the CPU.

Results have marks already, as they are written to tensors of the caller. What is left is to refuse what the device or
gloo would, to write the copies through the host into the ledger, and to mark what a functional collective creates.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.devices.device_marks import SimulatedDevice, mark, simulated_device_of
from pytest_evalcheck.devices.rules.collectives import (
    FUNCTIONAL,
    HOST_COPIES,
    HostCopies,
    require_gloo_supports,
    require_kernel,
    require_same_type,
)
from pytest_evalcheck.devices.state import ThreadState


def collective(state: ThreadState, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operator of `c10d` or `_c10d_functional`."""
    tensors = list(_tensors((args, kwargs)))
    device = next((found for each in tensors if (found := simulated_device_of(each)) is not None), None)
    if device is None:
        return func(*args, **kwargs)
    for tensor in tensors:
        state.simulation.require_available(tensor)
    namespace, _, name = func._schema.name.partition("::")
    if name == "wait_tensor":
        state.ledger.record_sync(device.torch_device)
        return func(*args, **kwargs)
    functional = namespace != "c10d"
    name = FUNCTIONAL.get(name, name) if functional else name
    names = (argument.name for argument in func._schema.arguments)
    arguments = {**dict(zip(names, args, strict=False)), **kwargs}
    group, rule = _group(arguments), None
    if group is not None:
        require_kernel(name, device.type)
        # Raises PyTorch's error for a group without a backend for this kind of device.
        if "gloo" in group._get_backend(torch.device(device.type)).name().lower():
            require_gloo_supports(name, device.type)
            rule = HOST_COPIES.get(name)
    if rule is None:
        out = func(*args, **kwargs)
        return _marked(out, device) if functional else out
    sent = tensors if functional else list(_tensors(arguments[rule.to_host]))
    if not functional:
        _require_same_type(name, rule, sent, list(_tensors(arguments[rule.from_host])))
    if not rule.from_root_alone or group.rank() == arguments.get("root_rank", arguments.get("src")):
        _record(state, sent, to_host=True)
    out = func(*args, **kwargs)
    if functional:
        _marked(out, device)
    elif any(tensor.layout is torch.sparse_coo for tensor in tensors):
        _finish_sparse(out, tensors, device)
    received = list(_tensors(out)) if functional and not rule.result else list(_tensors(arguments[rule.from_host]))
    _record(state, _chunks(received, group.size()) if rule.in_chunks else received, to_host=False)
    _record_result(state, rule, arguments, device)
    if _waited_for_by_native_code(state):
        state.ledger.record_sync(device.torch_device)
    return out


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _group(arguments: dict[str, Any]) -> Any:
    from torch.distributed import ProcessGroup

    group = arguments.get("process_group", arguments.get("group_name"))
    if isinstance(group, str):
        return torch._C._distributed_c10d._resolve_process_group(group)
    return ProcessGroup.unbox(group) if isinstance(group, torch.ScriptObject) else group


def _require_same_type(name: str, rule: HostCopies, sent: list[Tensor], received: list[Tensor]) -> None:
    first, others = (received, sent) if name == "scatter_" else (sent, received)  # as gloo compares them
    if first and others:
        require_same_type(name, rule, first[0], others)


def _marked(out: Any, device: SimulatedDevice) -> Any:
    for tensor in _tensors(out):
        mark(tensor, device)
    return out


def _finish_sparse(out: Any, tensors: list[Tensor], device: SimulatedDevice) -> None:
    """A sparse result has new parts, which a thread of gloo sets: they can be marked when it is done."""
    from torch.distributed import Work

    for item in out:
        if isinstance(item, torch.ScriptObject):
            Work.unbox(item).wait()
    _marked(tensors, device)


def _record(state: ThreadState, tensors: list[Tensor], *, to_host: bool) -> None:
    for tensor in tensors:
        device = simulated_device_of(tensor)
        if device is None:
            continue
        parts = [tensor._indices(), tensor._values()] if tensor.layout is torch.sparse_coo else [tensor]
        for part in parts:
            source, target = (device, None) if to_host else (None, device)
            state.record_transfer(part, source, target, waits=False, non_blocking=True)


def _chunks(tensors: list[Tensor], count: int) -> list[Tensor]:
    return [chunk for tensor in tensors for chunk in tensor.chunk(count)]


def _record_result(state: ThreadState, rule: HostCopies, arguments: dict[str, Any], device: SimulatedDevice) -> None:
    """A part of what was reduced is copied to the result, which may be on another device."""
    for tensor in _tensors(arguments.get(rule.result)):
        target = simulated_device_of(tensor)
        if target is not device:
            state.record_transfer(tensor, device, target, waits=target is None)


def _waited_for_by_native_code(state: ThreadState) -> bool:
    """Return whether a wait is that of `DistributedDataParallel`: `Work.wait` records its own."""
    return state.native_device is not None or torch._C._current_graph_task_id() != -1

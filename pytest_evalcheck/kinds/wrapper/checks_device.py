"""EC602, EC609: batches and outputs are moved between devices as a whole."""

from __future__ import annotations

from functools import partial

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.device.relocation import move_error
from pytest_evalcheck.kinds.wrapper.cases import Batch
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject, in_mode, mode_id
from pytest_evalcheck.strategies.samples import MAPPINGS

_FEW = 3


@check("EC602", conditions=("several rows",), examples=_FEW, accelerators=1)
def a_container_is_moved_as_a_whole(wrapper: WrapperSubject, case: Batch) -> None:
    """A container is moved as a whole and keeps its type: dicts, lists, tuples, model outputs, dataclasses, nested.

    Why: a tensor that is left on the CPU fails much later, and a container of another type loses its names.
    Usual cause: only dicts of tensors are handled; other containers come back as a list, or are not moved at all.
    Fix: pytest_evalcheck.fixes.devices.TransferCache.to_device
    """
    move = wrapper.record.move
    if move is None:
        raise NotApplicable("the wrapper names no function that moves its batches")
    declared = (case.container, *wrapper.inputs.containers)
    containers = dict.fromkeys((*declared, *(("nested",) if MAPPINGS & set(declared) else ())))
    for mode in wrapper.modes:
        for container in containers:
            about = f"a batch in a {container}"
            batch, original = (wrapper.batch(case.samples, mode, container=container, onto="cpu") for _ in range(2))
            error = move_error(partial(move, batch, wrapper.device), original, wrapper.device)
            expect(about).holds(
                not error, about=f"{about} is not moved as a whole", id=f"batch-in-{slug(container)}", detail=error
            )


@check("EC609", conditions=("several rows",), examples=_FEW, accelerators=1, after=("EC603",))
def outputs_are_moved_as_a_whole(wrapper: WrapperSubject, case: Batch) -> None:
    """The outputs of a model are moved as a whole, and keep their types, names and values, nested tuples included.

    Tensors are looked for in mappings, lists, tuples and dataclasses. Other objects, such as a cache, stay as they are.

    Why: loops move outputs to the CPU to save memory; a tensor that is left behind keeps the memory of the device.
    Usual cause: a model output comes back as a dict, a named tuple as a tuple, or tuples inside stay behind.
    Fix: pytest_evalcheck.fixes.devices.TransferCache.to_device
    """
    move = wrapper.record.move_outputs
    if move is None:
        raise NotApplicable("the wrapper names no function that moves its outputs")
    for mode in wrapper.modes:
        outputs = wrapper.fresh().forward(wrapper.batch(case.samples, mode))
        if isinstance(outputs, Raised):
            inconclusive("it cannot be scored there; see EC603 and EC604")
            continue
        for device in ("cpu", wrapper.device):
            error = move_error(partial(move, outputs, device), outputs, device, "outputs")
            about = f"outputs are not moved as a whole to {device}{in_mode(mode)}"
            expect(about).holds(not error, about=about, id=f"outputs-to-{slug(device)}{mode_id(mode)}", detail=error)

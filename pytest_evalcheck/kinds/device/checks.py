"""EC601 to EC607: what is scored on an accelerator is what is scored on the CPU, at the cost that it must have."""

from __future__ import annotations

from functools import partial

from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.device.cost import spent
from pytest_evalcheck.kinds.device.cpu_reference import (
    ROUNDING,
    Beside,
    lacks_dtype,
    names_devices,
    telling,
    within,
)
from pytest_evalcheck.kinds.device.placement import placements
from pytest_evalcheck.kinds.device.relocation import exactly, movable, not_moved
from pytest_evalcheck.kinds.device.tensor_search import elsewhere
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.wrapper.cases import Batch
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject

_FEW = 3


@check("EC601", regimes=("several rows",), examples=_FEW, accelerators=1)
def what_stands_apart_is_brought_together(subject: MetricSubject | WrapperSubject, case: Batch) -> None:
    """Batch, outputs, labels and state on different devices are brought together, or refused with a clear message.

    Every placement of them on the device and on the CPU is tried; a refusal is clear when it speaks of devices.

    Why: loops move outputs to the CPU to save memory and leave the labels where they are.
    Usual cause: one of several tensors is moved, or the error is caught and the batch is not counted.
    Fix: pytest_evalcheck.fixes.devices
    """
    beside = Beside(subject, case.samples)
    if isinstance(beside.expected, Raised):
        inconclusive("the CPU refuses it too")
        return
    for where, wanted, score in placements(beside):
        found = score()
        if names_devices(found) or lacks_dtype(found):
            refused(found)
            expect(found).holds(True, about=where)
        elif difference(found, wanted, ROUNDING) is None or beside.alike:
            expect(found).equals(wanted, about=f"what is scored with {where}", tolerance=ROUNDING)
        else:
            inconclusive("it scores something else where all stands on the device; EC603, EC604 and EC606 tell")
            return


@check("EC602", regimes=("several rows",), examples=_FEW, accelerators=1)
def a_container_is_moved_as_a_whole(wrapper: WrapperSubject, case: Batch) -> None:
    """A container is moved as a whole and keeps its type: dicts, lists, tuples, model outputs, dataclasses, nested.

    Why: what is left on the CPU fails much later, and a container of another type loses its names.
    Usual cause: only a dict of tensors is thought of; others come back as a list, or not moved at all.
    Fix: pytest_evalcheck.fixes.devices
    """
    move = wrapper.record.move
    if move is None:
        raise NotApplicable("nothing that moves its batches is known")
    containers = dict.fromkeys((case.container, *wrapper.inputs.containers, "nested"))
    for mode in wrapper.modes:
        for container in containers:
            about = f"a batch in a {container}"
            batch, kept = (wrapper.batch(case.samples, mode, container=container, onto="cpu") for _ in range(2))
            problem = not_moved(partial(move, batch, wrapper.device), kept, wrapper.device)
            expect(about).holds(not problem, about=f"{about} is not moved as a whole", detail=problem)


@check("EC603", regimes=("several rows",), examples=_FEW, accelerators=1)
def it_runs_where_only_this_accelerator_is(subject: MetricSubject | WrapperSubject, case: Batch) -> None:
    """No device is hard-coded: what runs on the CPU runs where everything stands on the only accelerator there is.

    Why: code that was written beside one accelerator is run beside another.
    Usual cause: `.cuda()`, a tensor that is made without `device=`, or a conversion to NumPy.
    Fix: make tensors with `device=` of the tensors that came in, or with `new_zeros` and `zeros_like`.
    """
    beside = Beside(subject, case.samples)
    runs = not isinstance(beside.found, Raised)
    if not runs and (lacks_dtype(beside.found) or isinstance(beside.expected, Raised)):
        inconclusive("the device lacks a dtype: EC604" if lacks_dtype(beside.found) else "the CPU refuses it too")
        return
    about = f"it runs on the CPU and not on {subject.device}"
    expect(beside.found).holds(runs, about=about, detail=str(beside.found))


@check("EC604", regimes=("several rows",), examples=_FEW, accelerators=1)
def no_dtype_is_asked_for_that_the_device_lacks(subject: MetricSubject | WrapperSubject, case: Batch) -> None:
    """Nothing asks a device for a dtype it lacks, such as float64 on MPS.

    Why: everything that accumulates in double precision on the CPU fails on Apple silicon.
    Usual cause: `.double()`, `torch.float64`, or Python floats and NumPy arrays that become float64.
    Fix: pytest_evalcheck.fixes.devices
    """
    beside = Beside(subject, case.samples)
    if isinstance(beside.found, Raised) and isinstance(beside.expected, Raised):
        inconclusive("the CPU refuses it too")
        return
    has = not lacks_dtype(beside.found)
    expect(beside.found).holds(has, about=f"{subject.device} has no such dtype", detail=str(beside.found))


@check("EC605", regimes=("several rows",), examples=_FEW, accelerators=2)
def to_moves_everything(subject: MetricSubject | WrapperSubject, case: Batch) -> None:
    """`.to()` moves everything, and `.device` tells the truth: to the device, to a second one, and back.

    Why: a tensor that stays behind fails in the middle of an evaluation, or drags every batch back to it.
    Usual cause: a tensor is kept as a plain attribute, in a list or in a dict, where `.to()` does not look.
    Fix: `register_buffer(name, tensor, persistent=False)`.
    """
    beside = Beside(subject, case.samples)
    made = movable(beside)
    expected = made.answer("cpu")
    for device in made.journey:
        problem = made.move(device)
        expect(device).holds(not problem, about=f"`.to({device!r})` is not possible", detail=problem)
        left = elsewhere(made.source, device)
        expect(left).holds(not left, about=f"`.to({device!r})` left something behind", detail="\n".join(left[:5]))
        if (said := made.says()) is not None:
            expect(exactly(str(said))).equals(exactly(device), about=f"`.device` after `.to({device!r})`")
        found = made.answer(device)
        if difference(found, expected, ROUNDING) is None or beside.alike:  # else EC603, EC604 and EC606 tell
            expect(found).equals(expected, about=f"what is scored after `.to({device!r})`", tolerance=ROUNDING)


@check("EC606", regimes=("several rows",), examples=_FEW, accelerators=1)
def the_value_is_that_of_the_cpu(subject: MetricSubject | WrapperSubject, case: Batch) -> None:
    """The value on the device is the value on the CPU: within rounding on a simulated one, the tolerance on a real one.

    Why: a score must not depend on where it was computed.
    Usual cause: a branch for one kind of device, or a copy to the CPU that is not waited for.
    Fix: take one path for all devices.
    """
    beside = Beside(subject, case.samples)
    if isinstance(beside.found, Raised):
        refuses = isinstance(beside.expected, Raised)
        inconclusive("the CPU refuses it too" if refuses else "it cannot be scored there; EC603 and EC604 tell")
        return
    about = f"what is scored on {subject.device}"
    expect(beside.found).equals(beside.expected, about=about, tolerance=within(subject))


@check("EC607", regimes=("several rows",), examples=_FEW, accelerators=1)
def scoring_stays_on_the_device(subject: MetricSubject | WrapperSubject, case: Batch) -> None:
    """Device cost is what it must be: where all stands on the device nothing crosses, and the host never waits.

    A target may declare what it is allowed, as ``budget={"syncs": 1}``; numbers are those of one batch.

    Why: one `.item()` a batch empties the queue of the device, and a tensor that crosses waits for it as well.
    Usual cause: a value is looked at to validate it, a shape depends on values, or results are kept on the CPU.
    Fix: pytest_evalcheck.fixes.devices
    """
    rows = telling(subject, case.samples)
    if subject.ledger is None:
        raise NotApplicable("what crosses can be counted on simulated devices only")
    for what, found in spent(subject, rows):
        for name, count in found.items():
            allowed = subject.budget.get(name, 0)
            about = f"{count} {name} in {what}, {allowed} are allowed"
            expect(count).holds(count <= allowed, about=about)

"""EC601 to EC610: scoring on an accelerator gives the result of the CPU, within a declared cost."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.case import FewSamples
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.subject import WholeSubject
from pytest_evalcheck.kinds.device.cost import measured_costs
from pytest_evalcheck.kinds.device.cpu_reference import (
    ROUNDING,
    CpuReference,
    device_tolerance,
    lacking,
    mentions_device,
    results_on_device,
)
from pytest_evalcheck.kinds.device.in_flight import races
from pytest_evalcheck.kinds.device.placement import placements
from pytest_evalcheck.kinds.device.relocation import movable, with_index
from pytest_evalcheck.kinds.device.subject import DeviceSubject
from pytest_evalcheck.kinds.wrapper.cases import Batch

_FEW = 3


@check("EC601", conditions=("several rows",), examples=_FEW, accelerators=1, after=("EC603",))
def mixed_device_inputs_are_handled(subject: DeviceSubject, case: Batch) -> None:
    """Batch, outputs, labels and state on different devices are moved to one, or refused with a clear message.

    Every placement of them on the device and on the CPU is tried; a refusal is clear when it mentions devices.

    Why: loops move outputs to the CPU to save memory and leave the labels where they are.
    Usual cause: one of several tensors is moved, or the error is caught and the batch is not counted.
    Fix: pytest_evalcheck.fixes.devices.DevicePolicy
    """
    reference = CpuReference(subject, case.samples)
    if isinstance(reference.expected, Raised) or reference.cannot_be_built:
        inconclusive("the device lacks what it needs: EC604" if reference.cannot_be_built else "the CPU refuses it too")
        return
    for where, expected, score in placements(reference):
        actual = score()
        if mentions_device(actual) or lacking(actual):
            refused(actual)
            compared()
        elif difference(actual, expected, ROUNDING) is None or reference.same_when_rebuilt:
            expect(actual).equals(
                expected, about=f"the score with {where}", id=f"score-with-{slug(where)}", tolerance=ROUNDING
            )
        else:
            inconclusive("it has another score with everything on the device; see EC603, EC604 and EC606")
            return


@check("EC603", conditions=("several rows",), examples=_FEW, accelerators=1)
def no_device_is_hard_coded(subject: DeviceSubject, case: Batch) -> None:
    """Code that runs on the CPU also runs where everything is on the only accelerator of the machine.

    Why: code that was written on one kind of accelerator is run on another.
    Usual cause: `.cuda()`, a tensor that is created without `device=`, or a conversion to NumPy.
    Fix: create tensors with `device=` of the input tensors, or with `new_zeros` and `zeros_like`.
    """
    reference = CpuReference(subject, case.samples, state=True)
    runs = not isinstance(reference.actual, Raised)
    if not runs and (lacking(reference.actual) or isinstance(reference.expected, Raised)):
        lacks = lacking(reference.actual)
        inconclusive("the device lacks what it needs: EC604" if lacks else "the CPU refuses it too")
        return
    about = f"it runs on the CPU and not on {subject.device}"
    expect(reference.actual).holds(
        runs, about=about, id=f"runs-on-{slug(subject.device)}", detail=str(reference.actual)
    )


@check("EC604", conditions=("several rows",), examples=_FEW, accelerators=1)
def only_what_the_device_has_is_requested(subject: DeviceSubject, case: Batch) -> None:
    """No dtype and no operator is requested that the device does not have, such as float64 or `mode` on MPS.

    Why: everything that accumulates in double precision on the CPU fails on Apple silicon, and so does an operator
    that PyTorch has for the CPU and CUDA alone.
    Usual cause: `.double()`, `torch.float64`, Python floats and NumPy arrays that become float64; eigenvalues, `mode`.
    Fix: pytest_evalcheck.fixes.devices.DevicePolicy('outputs'); compute what the device lacks on the CPU.
    """
    reference = CpuReference(subject, case.samples, state=True)
    if isinstance(reference.actual, Raised) and isinstance(reference.expected, Raised):
        inconclusive("the CPU refuses it too")
        return
    lacks = lacking(reference.actual)
    about = f"{subject.device} has no such {lacks or 'dtype'}"
    expect(reference.actual).holds(
        not lacks, about=about, id=f"missing-{lacks or 'dtype'}-on-{slug(subject.device)}", detail=str(reference.actual)
    )


@check("EC605", conditions=("several rows",), examples=_FEW, accelerators=2, after=("EC603",))
def to_moves_everything(subject: DeviceSubject, case: Batch) -> None:
    """`.to()` moves everything, and `.device` is correct: on the device, on a second one, and back on the CPU.

    A metric that was moved after a batch takes further ones there. Initial values in a table may stay where they are,
    if a reset copies them to the device.

    Why: a tensor that stays behind fails in the middle of an evaluation, or copies every batch back to its device.
    Usual cause: a tensor is kept as a plain attribute, in a list or in a dict, where `.to()` does not look, or is made
    without `device=` for each batch, of texts for instance.
    Fix: `register_buffer(name, tensor, persistent=False)`; `device=self.device`.
    """
    reference = CpuReference(subject, case.samples, state=True)
    target = movable(reference)
    expected = target.score("cpu")
    for device in target.device_sequence:
        # A second device of one kind is named so, whatever its index is.
        error, there = target.move(device), f"{'another-' if ':' in device else ''}{slug(device)}"
        expect(device).holds(not error, about=f"`.to({device!r})` is not possible", id=f"move-to-{there}", detail=error)
        if error:
            return
        left = target.left_behind(device)
        expect(left).holds(
            not left,
            about=f"`.to({device!r})` left something behind",
            id=f"left-behind-on-{there}",
            detail="\n".join(left[:5]),
        )
        if (reported := target.reported_device()) is not None:
            expect(with_index(str(reported))).equals(
                with_index(device), about=f"`.device` after `.to({device!r})`", id=f"device-after-to-{there}"
            )
        actual = expected if left else target.score(device)
        # A score that differs on any device is reported by EC603, EC604 and EC606.
        if difference(actual, expected, ROUNDING) is None or reference.same_when_rebuilt:
            expect(actual).equals(
                expected, about=f"the score after `.to({device!r})`", id=f"score-after-to-{there}", tolerance=ROUNDING
            )


@check("EC606", conditions=("several rows",), examples=_FEW, accelerators=1, after=("EC603", "EC604", "EC605"))
def the_value_matches_the_cpu(subject: DeviceSubject, case: Batch) -> None:
    """The value on the device is the value on the CPU: within rounding on a simulated one, the tolerance on a real one.

    Why: a score must not depend on where it was computed.
    Usual cause: a branch for one kind of device; on a real one also a copy that is read too early, see EC608.
    Fix: take one path for all devices: no `if x.is_cuda:`.
    """
    reference = CpuReference(subject, case.samples, state=True)
    if isinstance(reference.actual, Raised):
        refuses = isinstance(reference.expected, Raised)
        inconclusive("the CPU refuses it too" if refuses else "it cannot be scored there; see EC603 and EC604")
        return
    about = f"the score on {subject.device}"
    expect(reference.actual).equals(
        reference.expected, about=about, id=f"score-on-{slug(subject.device)}", tolerance=device_tolerance(subject)
    )


@check("EC607", conditions=("several rows",), examples=_FEW, accelerators=1, after=("EC603", "EC605"), severity="cost")
def scoring_makes_no_transfers_or_syncs(subject: DeviceSubject, case: Batch) -> None:
    """Scoring makes no transfers and no host synchronisations if everything is on the device.

    A target may declare what one batch is allowed, as ``budget={"syncs": 1}``; with ``budget=None`` there is no limit.

    Why: one `.item()` per batch empties the queue of the device, and a transferred tensor waits for it as well.
    Usual cause: a value is read to validate it, a shape depends on values, or results are kept on the CPU.
    Fix: pytest_evalcheck.fixes.devices.DevicePolicy
    """
    reference = CpuReference(subject, case.samples)
    if subject.ledger is None:
        raise NotApplicable("transfers can be counted on simulated devices only")
    if subject.budget is None:
        raise NotApplicable("the target has no limit of transfers and syncs (budget=None)")
    if reference.cannot_be_built:
        inconclusive("the device lacks what it needs: EC604")
        return
    for part, counts in measured_costs(subject, reference.rows):
        for name, count in counts.items():
            allowed = subject.budget.get(name, 0)
            expect(count).holds(
                count <= allowed, about=f"{count} {name} in {part}, {allowed} are allowed", id=f"{name}-in-{slug(part)}"
            )


@check("EC608", conditions=("several rows",), examples=_FEW, accelerators=1, streams=True, after=("EC603",))
def copies_are_complete_before_they_are_read(subject: DeviceSubject, case: Batch) -> None:
    """An evaluation never reads what is still in flight: it waits for a non-blocking copy before it uses the memory.

    Batches are on the device, and in pinned memory of the host. Values are in flight as long as the host has not waited
    for the device, and work of one stream as long as the stream that uses its result has not waited for it. Memory that
    is overwritten while a device reads it, and a value that `compute` returns too early, count too.

    Why: memory has its old values until the work is complete: the score is wrong now and then, without an error.
    Usual cause: `.to("cpu", non_blocking=True)` without a synchronisation, a buffer that is filled again too early, or
    a stream of its own for a part of the work, without `wait_stream`.
    Fix: leave out `non_blocking` for copies to the host; before a buffer is filled again, wait for an event; let a
    stream wait for the one that made its inputs, and the current one for it.
    """
    reference = CpuReference(subject, case.samples)
    if subject.ledger is None:
        raise NotApplicable("copies in flight can be seen on simulated devices only")
    if reference.cannot_be_built:
        inconclusive("the device lacks a dtype: EC604")
        return
    for part, found in races(subject, reference.rows):
        detail = "\n".join(found[:3])
        expect(part).holds(
            not found,
            about=f"memory is used while work on it is in flight: {part}",
            id=f"in-flight-in-{slug(part)}",
            detail=detail,
        )


@check("EC610", conditions=("several samples",), examples=1, accelerators=1)
def the_results_match_the_cpu(subject: WholeSubject, case: FewSamples) -> None:
    """A loop, a scorer and a decoder return on the device what they return on the CPU, and raise no error there alone.

    Why: numbers must not depend on the machine, and a device that nobody tried fails at its first user.
    Usual cause: outputs are moved to the CPU and labels stay; a cache, a mask or a table is created without `device=`;
    float64, which MPS does not have.
    Fix: pytest_evalcheck.fixes.devices; create tensors with `device=` of the input tensors.
    """
    expected = dict(subject.rebuilt_on("cpu").device_results(case.samples))
    there = slug(subject.device)
    for name, actual in results_on_device(subject, case.samples, list(expected)):
        if isinstance(expected[name], Raised):
            inconclusive("the CPU refuses it too" if isinstance(actual, Raised) else f"the CPU refuses {name}")
            continue
        if isinstance(actual, Raised):
            if lacks := lacking(actual):
                about = f"{subject.device} has no such {lacks}"
                expect(actual).holds(False, about=about, id=f"missing-{lacks}-on-{there}", detail=str(actual))
            about = f"{name} runs on the CPU and not on {subject.device}"
            expect(actual).holds(bool(lacks), about=about, id=f"runs-on-{there}", detail=str(actual))
            continue
        expect(actual).equals(
            expected[name],
            about=f"{name} on {subject.device}",
            id=f"result-on-{there}",
            tolerance=device_tolerance(subject),
        )

"""The score of the same samples on an accelerator and on the CPU."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference
from pytest_evalcheck.expectations.failures import NotApplicable, NotCheckable, TargetError
from pytest_evalcheck.kinds.common.subject import Rows, Subject, WholeSubject
from pytest_evalcheck.kinds.common.tensors import count_tensors
from pytest_evalcheck.kinds.device.subject import DeviceSubject

ROUNDING = Tolerance(rtol=1e-5, atol=1e-6)
"""Allows another order of the same float32 operations: code may take another path, and memory is laid out otherwise."""

_DTYPE = re.compile(
    r"MPS framework doesn't support|(float64|complex128|double|float8\w*)\b.*(MPS|not support)", re.I | re.S
)
_OPERATOR = re.compile(
    r"not currently implemented for the MPS device|Could not run '.*' with arguments from the '\w*(CUDA|MPS)' backend"
)
_DEVICE = re.compile(r"\bdevices?\b|\b(cuda|mps)(:\d+)?\b", re.I)


class CpuReference:
    """The samples of one case, with the subject on the CPU and the scores of both: each computed once, when needed.

    A wrapper is built once per device: other checks find what a forward or a mode leaves behind in it.

    With ``state=True`` the samples may be texts, as long as the state of the metric holds tensors.
    """

    def __init__(self, subject: DeviceSubject, rows: Rows, *, state: bool = False) -> None:
        self.subject = subject
        inputs = subject.tensor_inputs(rows)
        if inputs is not None and not count_tensors(inputs):
            _require_tensors(subject, rows, state=state)
        self.rows = with_perfect_predictions(subject, rows)

    @cached_property
    def on_cpu(self) -> Any:
        """Return the same subject on the CPU."""
        return self.subject.rebuilt_on("cpu")

    @cached_property
    def expected(self) -> Any:
        """Return the score on the CPU; or the error."""
        return score(self.on_cpu, self.rows)

    @cached_property
    def actual(self) -> Any:
        """Return the score where everything is on the device; or the error."""
        return score(self.subject, self.rows)

    @cached_property
    def cannot_be_built(self) -> bool:
        """Return whether the factory asks for a dtype or an operator which the device lacks."""
        try:
            self.subject.built()
        except TargetError as error:
            if _asks_for_what_is_lacking(error) is None:
                raise
            return True
        return False

    @cached_property
    def same_when_rebuilt(self) -> bool:
        """Return whether new subjects score the same with everything on the device and with everything on the CPU."""
        devices = "cpu", self.subject.device
        expected, actual = (score(self.subject.rebuilt_on(device), self.rows) for device in devices)
        equal = difference(actual, expected, device_tolerance(self.subject)) is None
        return equal and not isinstance(expected, Raised)


def lacking(result: Any) -> str:
    """Return `dtype` or `operator` if this error says that the device lacks one, else ''."""
    if not isinstance(result, Raised):
        return ""
    text = str(result.error)
    return "operator" if _OPERATOR.search(text) else "dtype" if _DTYPE.search(text) else ""


def mentions_device(result: Any) -> bool:
    """Return whether this is an error that mentions devices."""
    return isinstance(result, Raised) and bool(_DEVICE.search(str(result.error)))


def with_batches_on(subject: Any, device: str) -> Any:
    """Return the same wrapper, not built again, with batches on another device."""
    other = dataclasses.replace(subject, device=device)
    vars(other)["record"] = subject.record
    return other


def with_perfect_predictions(subject: DeviceSubject, rows: Rows) -> Rows:
    """Return the samples and some perfect predictions: the score of wrong ones alone may be that of an empty metric."""
    right, distinct = subject.inputs.right, subject.inputs.distinct
    return [*rows, *map(right, rows[:2])] if right is not None and distinct is None else rows


def _require_tensors(subject: DeviceSubject, rows: Rows, *, state: bool) -> None:
    """Raise `NotApplicable` for inputs without tensors, unless the check is about the state, and that has some."""
    if not state:
        raise NotApplicable("its inputs hold no tensors")
    live = subject.rebuilt_on("cpu").fresh().update(rows)
    if not any(map(count_tensors, live.record.contents().values())):
        raise NotApplicable("neither its inputs nor its state hold tensors")


def score(subject: DeviceSubject, rows: Rows) -> Any:
    """Return the scores of one batch with everything on the device of the subject; or the first error.

    The error of a factory that asks for a dtype or an operator which the device lacks is one of them.
    """
    try:
        return subject.scored(rows)
    except TargetError as error:
        refused = _asks_for_what_is_lacking(error)
        if refused is None:
            raise
        return refused


def results_on_device(subject: WholeSubject, rows: Rows, names: Sequence[str]) -> list[tuple[str, Any]]:
    """Return the results of these names; where the factory asks for what the device lacks, its error by the first name.

    Raises:
        NotCheckable: where nothing was on the device.
    """
    try:
        # Batches of one are tried where those of two fail, which may be on the device alone.
        results = [(name, result) for name, result in subject.device_results(rows) if name in names]
    except TargetError as error:
        refused = _asks_for_what_is_lacking(error)
        if refused is None:
            raise
        return [(names[0], refused)]
    ledger = subject.ledger
    if ledger is None or ledger.transfers or ledger.syncs or any(isinstance(result, Raised) for _, result in results):
        return results
    raise NotCheckable("nothing was on the device: the factory takes it, and what it returns does not use it")


def _asks_for_what_is_lacking(error: TargetError) -> Raised | None:
    """Return the error of a factory if the device lacks a dtype or an operator for it."""
    raised = Raised(error.__cause__, "the factory") if isinstance(error.__cause__, Exception) else None
    return raised if lacking(raised) else None


def device_tolerance(subject: Subject) -> Tolerance:
    """Return the tolerance between devices: rounding on a simulated device, the target's tolerance on a real one."""
    return ROUNDING if subject.ledger is not None else subject.tolerance

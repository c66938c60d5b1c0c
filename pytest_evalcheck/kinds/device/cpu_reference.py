"""A subject on an accelerator beside the same one on the CPU, and what both score of the same samples."""

from __future__ import annotations

import dataclasses
import re
from functools import cached_property
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import count_tensors
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.wrapper.subject import LiveWrapper, WrapperSubject

Subject = MetricSubject | WrapperSubject

ROUNDING = Tolerance(rtol=1e-5, atol=1e-6)
"""What another order of the same float32 operations explains: code may take another path, and memory lies elsewhere."""

_DTYPE = re.compile(
    r"MPS framework doesn't support|(float64|complex128|double|float8\w*)\b.*(MPS|not support)", re.I | re.S
)
_DEVICE = re.compile(r"\bdevices?\b|\b(cuda|mps)(:\d+)?\b", re.I)


class Beside:
    """One case of a check: everything in it is built, and scored, when it is first asked for, and once.

    A wrapper is built once for each device: what a forward or a mode leaves behind in it is for other checks to tell.
    """

    def __init__(self, subject: Subject, rows: Rows) -> None:
        self.subject = subject
        self.rows = telling(subject, rows)

    @cached_property
    def on_cpu(self) -> Any:
        """The same subject on the CPU."""
        return beside_the_cpu(self.subject)

    @cached_property
    def expected(self) -> Any:
        """What is scored on the CPU; or the error."""
        return answer(self.on_cpu, self.rows)

    @cached_property
    def found(self) -> Any:
        """What is scored where everything stands on the device; or the error."""
        return answer(self.subject, self.rows)

    @cached_property
    def alike(self) -> bool:
        """Whether new ones score the same where everything stands on the device, and where it stands on the CPU."""
        there, here = (beside(self.subject, device) for device in (self.subject.device, "cpu"))
        expected = answer(here, self.rows)
        found = difference(answer(there, self.rows), expected, within(self.subject))
        return not isinstance(expected, Raised) and found is None


def lacks_dtype(answer: Any) -> bool:
    """Whether something was refused because the device has no such dtype."""
    return isinstance(answer, Raised) and bool(_DTYPE.search(str(answer.error)))


def names_devices(answer: Any) -> bool:
    """Whether an error tells that devices are the matter."""
    return isinstance(answer, Raised) and bool(_DEVICE.search(str(answer.error)))


def beside(subject: Subject, device: str) -> Any:
    """A new subject of the same target on a device.

    Raises:
        NotApplicable: where the target cannot be built elsewhere.
    """
    if subject.elsewhere is None:
        raise NotApplicable("its factory takes no device")
    return subject.elsewhere(device)


def beside_the_cpu(subject: Subject) -> Any:
    """A new subject of the same target on the CPU.

    Raises:
        NotApplicable: where the target cannot be built elsewhere.
    """
    return beside(subject, "cpu")


def with_batches_on(subject: WrapperSubject, device: str) -> WrapperSubject:
    """The same wrapper, not built again, with batches on another device."""
    other = dataclasses.replace(subject, device=device)
    vars(other)["record"] = subject.record
    return other


def telling(subject: Subject, rows: Rows) -> Rows:
    """The samples, with some that are predicted perfectly: of wrong ones alone the value may be what nothing gives.

    Raises:
        NotApplicable: where there is nothing in them that stands on a device.
    """
    if isinstance(subject, MetricSubject) and not count_tensors(subject.arguments(rows)):
        raise NotApplicable("its inputs hold no tensors")
    right, distinct = subject.inputs.right, subject.inputs.distinct
    return [*rows, *map(right, rows[:2])] if right is not None and distinct is None else rows


def answer(subject: Subject, rows: Rows) -> Any:
    """All that is scored of one batch where everything stands on the device of the subject; or the error."""
    if isinstance(subject, MetricSubject):
        return subject.value([rows])
    live = LiveWrapper(subject.record, subject.device)
    seen = {mode: live.evaluate(subject.batch(rows, mode)) for mode in subject.modes}
    failed = next((found for found in seen.values() if isinstance(found, Raised)), None)
    inside = (value for found in seen.values() if not isinstance(found, Raised) for value in found.values())
    return failed or next((value for value in inside if isinstance(value, Raised)), None) or seen


def within(subject: Subject) -> Tolerance:
    """How far a score may lie from the CPU's: rounding on a simulated device, the target's tolerance on a real one."""
    return ROUNDING if subject.ledger is not None else subject.tolerance

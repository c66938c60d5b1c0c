"""What is scored of one batch when batch, outputs, labels and state stand on a device, and when they do not."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pytest_evalcheck.compare import Raised, Tolerance, difference
from pytest_evalcheck.strategies.samples import Arguments
from pytest_evalcheck.subjects.metric import MetricSubject
from pytest_evalcheck.subjects.subject import Rows
from pytest_evalcheck.subjects.tensors import count_tensors, each_tensor
from pytest_evalcheck.subjects.wrapper import LiveWrapper, WrapperSubject
from pytest_evalcheck.violation import NotApplicable

Subject = MetricSubject | WrapperSubject
Placement = tuple[str, Any, Callable[[], Any]]
"""Where things stand, what is scored where all is on the CPU, and what asks for what is scored there."""

ROUNDING = Tolerance(rtol=1e-5, atol=1e-6)
"""What another order of the same float32 operations explains: code may take another path, and memory lies elsewhere."""

_DTYPE = re.compile(
    r"MPS framework doesn't support|(float64|complex128|double|float8\w*)\b.*(MPS|not support)", re.I | re.S
)
_DEVICE = re.compile(r"\bdevices?\b|\b(cuda|mps)(:\d+)?\b", re.I)


def lacks_dtype(answer: Any) -> bool:
    """Whether something was refused because the device has no such dtype."""
    return isinstance(answer, Raised) and bool(_DTYPE.search(str(answer.error)))


def names_devices(answer: Any) -> bool:
    """Whether an error tells that devices are the matter."""
    return isinstance(answer, Raised) and bool(_DEVICE.search(str(answer.error)))


def beside_the_cpu(subject: Subject) -> Any:
    """The same subject on the CPU.

    Raises:
        NotApplicable: where the target cannot be built elsewhere.
    """
    if subject.elsewhere is None:
        raise NotApplicable("its factory takes no device")
    return subject.elsewhere("cpu")


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
    seen = {mode: subject.fresh().seen(subject.batch(rows, mode)) for mode in subject.modes}
    failed = next((found for found in seen.values() if isinstance(found, Raised)), None)
    inside = (value for found in seen.values() if not isinstance(found, Raised) for value in found.values())
    return failed or next((value for value in inside if isinstance(value, Raised)), None) or seen


def within(subject: Subject) -> Tolerance:
    """How far a score may lie from the CPU's: rounding on a simulated device, the target's tolerance on a real one."""
    return ROUNDING if subject.ledger is not None else subject.tolerance


def scores_alike(subject: Subject, rows: Rows) -> bool:
    """Whether what is scored where everything stands on the device is what is scored on the CPU."""
    found, expected = answer(subject, rows), answer(beside_the_cpu(subject), rows)
    return not isinstance(expected, Raised) and difference(found, expected, within(subject)) is None


def placements(subject: Subject, rows: Rows) -> Iterator[Placement]:
    """Every other way in which its parts can stand on the device and on the CPU."""
    yield from _of_a_metric(subject, rows) if isinstance(subject, MetricSubject) else _of_a_wrapper(subject, rows)


def _of_a_metric(subject: MetricSubject, rows: Rows) -> Iterator[Placement]:
    on_cpu: MetricSubject = beside_the_cpu(subject)
    expected = on_cpu.value([rows])
    names = _tensors(on_cpu.arguments(rows))
    for state, owner in (("the device", subject), ("the CPU", on_cpu)):
        for there in itertools.product((True, False), repeat=len(names)):
            if all(there) if owner is subject else not any(there):
                continue  # everything in one place
            left = [name for name, on_device in zip(names, there, strict=True) if not on_device]
            where = f"{', '.join(left) or 'nothing'} on the CPU, the state on {state}"
            yield where, expected, _scoring(subject, owner, rows, there)


def _scoring(subject: MetricSubject, owner: MetricSubject, rows: Rows, there: tuple[bool, ...]) -> Callable[[], Any]:
    def score() -> Any:
        places = iter(there)
        given: Arguments = each_tensor(
            beside_the_cpu(subject).arguments(rows), lambda t: t.to(subject.device) if next(places) else t
        )
        live = owner.fresh()
        failed = live.try_update(given)
        return failed or live.compute()

    return score


def _tensors(arguments: Arguments) -> list[str]:
    names: list[str] = []

    def note(name: str) -> Callable[[Any], Any]:
        def see(tensor: Any) -> Any:
            names.append(name)
            return tensor

        return see

    for place, argument in enumerate(arguments.args):
        each_tensor(argument, note(f"argument {place}"))
    for key, argument in arguments.kwargs.items():
        each_tensor(argument, note(key))
    return names


def _of_a_wrapper(subject: WrapperSubject, rows: Rows) -> Iterator[Placement]:
    on_cpu: WrapperSubject = beside_the_cpu(subject)
    if subject.record.update is None:
        raise NotApplicable("the wrapper feeds no metric")
    for mode in subject.modes:
        expected = _fed(on_cpu, rows, mode)
        yield "all of the batch on the CPU", expected, partial(_fed, subject, rows, mode, given=on_cpu)
        for there in itertools.product((True, False), repeat=3):
            if not all(there):
                names = zip(("outputs", "batch", "metric"), there, strict=True)
                left = [name for name, on_device in names if not on_device]
                yield f"{', '.join(left)} on the CPU", expected, partial(_fed, subject, rows, mode, there=there)


def _fed(
    subject: WrapperSubject,
    rows: Rows,
    mode: str,
    *,
    given: WrapperSubject | None = None,
    there: tuple[bool, ...] = (True, True, True),
) -> Any:
    """What metrics are given and make of it, where outputs, batch and metric stay or go to the CPU after the forward.

    The batch that the forward gets is one of ``given``.
    """
    live, batch = subject.fresh(), (given or subject).batch(rows, mode)
    outputs = live.forward(batch)
    if isinstance(outputs, Raised):
        return outputs
    outputs = outputs if there[0] else moved(outputs, "cpu")
    batch = batch if there[1] else moved(batch, "cpu")
    found = LiveWrapper(live.record, subject.device if there[2] else "cpu").fed(batch, outputs)
    return next((value for value in found.values() if isinstance(value, Raised)), found)


def moved(value: Any, device: str) -> Any:
    """A nest on another device, in containers of the same types as far as they can be made again."""
    if hasattr(value, "to") and callable(value.to):
        return value.to(device)
    if isinstance(value, Mapping):
        made = copy.copy(value)
        for key, item in value.items():
            made[key] = moved(item, device)  # type: ignore[index]
        return made
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(moved(item, device) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(moved(item, device) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: moved(getattr(value, field.name), device) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    return value

"""What is scored of one batch when batch, outputs, labels and state stand on a device, and when they do not."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.device.cpu_reference import ROUNDING, Beside, names_devices
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.wrapper.subject import LiveWrapper, WrapperSubject
from pytest_evalcheck.strategies.samples import Arguments

Placement = tuple[str, Any, Callable[[], Any]]
"""Where things stand, what is scored where all is on the CPU, and what asks for what is scored there."""
There = tuple[bool, ...]
"""Whether outputs, batch and metric are on the device."""


def placements(beside: Beside) -> Iterator[Placement]:
    """Every other way in which its parts can stand on the device and on the CPU, once the CPU has scored it."""
    yield from _of_a_metric(beside) if isinstance(beside.subject, MetricSubject) else _of_a_wrapper(beside)


def _of_a_metric(beside: Beside) -> Iterator[Placement]:
    subject: Any = beside.subject
    names = _tensors(beside.on_cpu.arguments(beside.rows))
    for state, owner in (("the device", subject), ("the CPU", beside.on_cpu)):
        for there in itertools.product((True, False), repeat=len(names)):
            if all(there) if owner is subject else not any(there):
                continue  # everything in one place
            left = [name for name, on_device in zip(names, there, strict=True) if not on_device]
            where = f"{', '.join(left) or 'nothing'} on the CPU, the state on {state}"
            yield where, beside.expected, partial(_scored, beside, owner, there)


def _scored(beside: Beside, owner: MetricSubject, there: There) -> Any:
    places, device = iter(there), beside.subject.device
    given: Arguments = each_tensor(
        beside.on_cpu.arguments(beside.rows), lambda tensor: tensor.to(device) if next(places) else tensor
    )
    live = owner.fresh()
    failed = live.try_update(given)
    return failed or live.compute()


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


def _of_a_wrapper(beside: Beside) -> Iterator[Placement]:
    subject: Any = beside.subject
    if subject.record.update is None:
        raise NotApplicable("the wrapper feeds no metric")
    for mode in subject.modes:
        wanted = _without_outputs(beside.expected[mode])
        one = _OneForward(subject, beside.rows, mode)
        for there in itertools.product((True, False), repeat=3):
            if not all(there):
                names = zip(("outputs", "batch", "metric"), there, strict=True)
                left = [name for name, on_device in names if not on_device]
                yield f"{', '.join(left)} on the CPU", wanted, partial(one.fed, there, wanted)
        # The last, since what it leaves behind in the wrapper is that of an error, for most.
        yield "all of the batch on the CPU", wanted, partial(_fed, subject, beside.rows, mode, given="cpu")


class _OneForward:
    """One forward on the device, of which copies are scored in several placements."""

    def __init__(self, subject: WrapperSubject, rows: Rows, mode: str) -> None:
        self.subject, self.rows, self.mode = subject, rows, mode
        self.live = LiveWrapper(subject.record, subject.device)
        batch = subject.batch(rows, mode)
        self.seen = batch, self.live.forward(batch)

    def fed(self, there: There, wanted: Any) -> Any:
        """What metrics make of it. Where that is another value than wanted, what they make of a new one's forward."""
        batch, outputs = self.seen
        if not isinstance(outputs, Raised):
            try:
                batch, outputs = copy.deepcopy(self.seen)
            except Exception:  # an object that cannot be copied is no fault of the wrapper
                return _fed(self.subject, self.rows, self.mode, there=there)
            found = _placed(self.live, self.subject.device, batch, outputs, there)
            if names_devices(found) or difference(found, wanted, ROUNDING) is None:
                return found
        return _fed(self.subject, self.rows, self.mode, there=there)


def _fed(
    subject: WrapperSubject,
    rows: Rows,
    mode: str,
    *,
    given: str = "",
    there: There = (True, True, True),
) -> Any:
    """What metrics make of the outputs of a new wrapper, or the error.

    The batch that the forward gets stands on ``given``.
    """
    live, batch = subject.fresh(), subject.batch(rows, mode, onto=given)
    outputs = live.forward(batch)
    return outputs if isinstance(outputs, Raised) else _placed(live, subject.device, batch, outputs, there)


def _placed(live: LiveWrapper, device: str, batch: Any, outputs: Any, there: There) -> Any:
    """What metrics are given and make of it, where outputs, batch and metric stay or go to the CPU."""
    outputs = outputs if there[0] else moved(outputs, "cpu")
    batch = batch if there[1] else moved(batch, "cpu")
    found = LiveWrapper(live.record, device if there[2] else "cpu").metric_values(batch, outputs)
    return next((value for value in found.values() if isinstance(value, Raised)), _without_outputs(found))


def _without_outputs(seen: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in seen.items() if name != "outputs"}


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

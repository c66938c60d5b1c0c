"""EC601: the score of one batch with its batch, outputs, labels and state on different devices."""

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
from pytest_evalcheck.kinds.common.tensors import count_tensors, each_tensor, named_tuple_like
from pytest_evalcheck.kinds.device.cpu_reference import ROUNDING, CpuReference, mentions_device
from pytest_evalcheck.strategies.samples import Arguments

Placement = tuple[str, Any, Callable[[], Any]]
"""A description, the score with everything on the CPU, and a function that computes the score in this placement."""
OnDevice = tuple[bool, ...]
"""True for each of outputs, batch and metric, or each tensor of the arguments, that is on the device."""


def placements(reference: CpuReference) -> Iterator[Placement]:
    """Return every placement on the device and on the CPU other than everything on one, after the CPU has scored it."""
    yield from (_placed_parts if reference.subject.feeds_metrics else _placed_arguments)(reference)


def _placed_arguments(reference: CpuReference) -> Iterator[Placement]:
    subject: Any = reference.subject
    names = _tensor_names(reference.on_cpu.arguments(reference.rows))
    for state, owner in (("the device", subject), ("the CPU", reference.on_cpu)):
        for on_device in itertools.product((True, False), repeat=len(names)):
            if all(on_device) if owner is subject else not any(on_device):
                continue  # everything on one device
            where = f"{_names_on_cpu(names, on_device) or 'nothing'} on the CPU, the state on {state}"
            yield where, reference.expected, partial(_score_metric, reference, owner, on_device)


def _score_metric(reference: CpuReference, owner: Any, on_device: OnDevice) -> Any:
    moves, device = iter(on_device), reference.subject.device
    arguments: Arguments = each_tensor(
        reference.on_cpu.arguments(reference.rows), lambda tensor: tensor.to(device) if next(moves) else tensor
    )
    live = owner.fresh()
    failed = live.try_update(arguments)
    return failed or live.compute()


def _tensor_names(arguments: Arguments) -> list[str]:
    """Return the name of the argument of every tensor, in the order of `each_tensor`."""
    names: list[str] = []
    named = [*((f"argument {i}", argument) for i, argument in enumerate(arguments.args)), *arguments.kwargs.items()]
    for name, argument in named:
        names += [name] * count_tensors(argument)
    return names


def _names_on_cpu(names: list[str], on_device: OnDevice) -> str:
    return ", ".join(name for name, moved in zip(names, on_device, strict=True) if not moved)


def _placed_parts(reference: CpuReference) -> Iterator[Placement]:
    subject: Any = reference.subject
    if subject.record.update is None:
        raise NotApplicable("the wrapper feeds no metric")
    for mode in subject.modes:
        expected = _without_outputs(reference.expected[mode])
        forward = _SharedForward(subject, reference.rows, mode)
        for on_device in itertools.product((True, False), repeat=3):
            if not all(on_device):
                names = _names_on_cpu(["outputs", "batch", "metric"], on_device)
                yield f"{names} on the CPU", expected, partial(forward.score, on_device, expected)
        # Last, since for most wrappers it ends in an error that may leave something behind in the wrapper.
        yield "all of the batch on the CPU", expected, partial(_score, subject, reference.rows, mode, onto="cpu")


class _SharedForward:
    """One forward on the device; copies of its outputs are scored in several placements."""

    def __init__(self, subject: Any, rows: Rows, mode: str) -> None:
        self.subject, self.rows, self.mode = subject, rows, mode
        self.live = subject.live_on(subject.device)
        batch = subject.batch(rows, mode)
        self.batch_and_outputs = batch, self.live.forward(batch)

    def score(self, on_device: OnDevice, expected: Any) -> Any:
        """Return the values of the metrics. Where they are not as expected, those after a forward of a new wrapper."""
        batch, outputs = self.batch_and_outputs
        if not isinstance(outputs, Raised):
            try:
                batch, outputs = copy.deepcopy(self.batch_and_outputs)
            except Exception:  # an object that cannot be copied is no fault of the wrapper
                return _score(self.subject, self.rows, self.mode, on_device=on_device)
            values = _feed(self.subject, self.live, batch, outputs, on_device)
            if mentions_device(values) or difference(values, expected, ROUNDING) is None:
                return values
        return _score(self.subject, self.rows, self.mode, on_device=on_device)


def _score(subject: Any, rows: Rows, mode: str, *, onto: str = "", on_device: OnDevice = (True, True, True)) -> Any:
    """Return the values of metrics of a new wrapper whose batch is on the device ``onto``, or the error."""
    live, batch = subject.fresh(), subject.batch(rows, mode, onto=onto)
    outputs = live.forward(batch)
    return outputs if isinstance(outputs, Raised) else _feed(subject, live, batch, outputs, on_device)


def _feed(subject: Any, live: Any, batch: Any, outputs: Any, on_device: OnDevice) -> Any:
    """Return the values of metrics with outputs, batch and metric on the device or on the CPU; or the error."""
    outputs = outputs if on_device[0] else move_to(outputs, "cpu")
    batch = batch if on_device[1] else move_to(batch, "cpu")
    values = live.with_metrics_on(subject.device if on_device[2] else "cpu").metric_values(batch, outputs)
    return next((value for value in values.values() if isinstance(value, Raised)), _without_outputs(values))


def _without_outputs(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != "outputs"}


def move_to(value: Any, device: str) -> Any:
    """Return a nested value on another device, in containers of the same types as far as new ones can be created."""
    if hasattr(value, "to") and callable(value.to):
        return value.to(device)
    if isinstance(value, Mapping):
        result = copy.copy(value)
        for key, item in value.items():
            result[key] = move_to(item, device)  # type: ignore[index]
        return result
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return named_tuple_like(value, [move_to(item, device) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)(move_to(item, device) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {field.name: move_to(getattr(value, field.name), device) for field in dataclasses.fields(value)}
        return dataclasses.replace(value, **changes)
    return value

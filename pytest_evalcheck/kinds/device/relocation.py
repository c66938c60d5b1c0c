"""EC602, EC605: a metric in mid-stream, a model in its wrapper or a batch in its container, moved between devices."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.tensor_search import tensors_not_on
from pytest_evalcheck.kinds.device.cpu_reference import CpuReference, with_batches_on


@dataclass(frozen=True)
class Movable:
    """An object that was created and used on the CPU, with what a check does after every move."""

    source: Any
    """The object that holds its tensors."""
    to: Callable[[str], Any]
    reported_device: Callable[[], Any]
    """The device in its ``.device``; None where it has none."""
    score: Callable[[str], Any]
    """Its score on a device that it was moved to; or the error."""
    device_sequence: tuple[str, ...]
    """The devices to move it to, one after the other."""
    states: Callable[[str], Sequence[Mapping[str, Any]]] = lambda device: ()  # noqa: ARG005
    """Its state by name, and that of another one after a move to a device and a reset; empty where it has none."""

    def move(self, device: str) -> str:
        """Move it; returns the error as text, else an empty text."""
        result = attempt("to", self.to, device)
        return str(result) if isinstance(result, Raised) else ""

    def left_behind(self, device: str) -> list[str]:
        """Return the tensors that are not on the device, but for initial values in a table, which a reset copies."""
        left = tensors_not_on(self.source, device)
        states = self.states(device) if left else ()
        moved = [{name for name, each in state.items() if not tensors_not_on(each, device)} for state in states]
        renewed = set.intersection(*moved) if moved else set()
        return [text for text in left if (key := _IN_A_TABLE.match(text)) is None or key[1] not in renewed]


_IN_A_TABLE = re.compile(r".*\['([^']+)'\](\[\d+\])* is on ")
"""A value in a table, by its name, or an item of a list there."""


def movable(reference: CpuReference) -> Movable:
    """Return the metric after a batch, or the model of the wrapper after a forward, on the CPU.

    Raises:
        NotApplicable: where it offers no ``to``.
    """
    import torch

    device = reference.subject.device
    several = device.partition(":")[0] == "cuda" and torch.cuda.device_count() > 1
    second = ["cuda:1"] if several and device != "cuda:1" else []
    create = _model if reference.subject.feeds_metrics else _metric
    return create(reference, (device, *second, "cpu"))


def _metric(reference: CpuReference, devices: tuple[str, ...]) -> Movable:
    on_cpu = reference.on_cpu
    live = on_cpu.fresh().update(reference.rows)
    record = live.record
    if record.to is None:
        raise NotApplicable("the metric offers no `to`")

    def score(device: str) -> Any:
        live.forget()
        there = reference.subject.rebuilt_on(device).arguments(reference.rows)
        moved = [on_cpu.fresh(), on_cpu.fresh().update(reference.rows)]  # one that is new, and one with a batch
        for other in moved:
            if other.record.to is not None:
                attempt("to", other.record.to, device)
            other.update(there)
        return live.compute(), *(other.compute() for other in moved)

    def states(device: str) -> Sequence[Mapping[str, Any]]:
        other = on_cpu.fresh()
        if other.record.to is None or other.record.reset is None:
            return ()
        attempt("to", other.record.to, device)
        other.reset()
        return () if other.failed else (live.state(), other.state())

    return Movable(record.source, record.to, record.device or (lambda: None), score, devices, states)


def _model(reference: CpuReference, devices: tuple[str, ...]) -> Movable:
    on_cpu = reference.on_cpu
    model = on_cpu.record.model
    if model is None:
        raise NotApplicable("the wrapper names no model")

    def score(device: str) -> Any:
        live, subject = on_cpu.live_on(device), with_batches_on(on_cpu, device)
        return {mode: live.evaluate(subject.batch(reference.rows, mode)) for mode in subject.modes}

    return Movable(model, model.to, lambda: getattr(model, "device", None), score, devices)


def with_index(device: str) -> str:
    """Return a device with its index, as a tensor on it reports it: ``mps`` and ``mps:0`` are one device."""
    import torch

    return str(torch.empty(0, device=device).device)


def move_error(move: Callable[[], Any], original: Any, device: str, name: str = "batch") -> str:
    """Return the fault of a batch or outputs that ``move`` moved, compared with equal ones; empty for none."""
    result = attempt("move", move)
    return str(result) if isinstance(result, Raised) else _difference(result, original, with_index(device), name)


def _difference(moved: Any, original: Any, device: str, path: str) -> str:
    if type(moved) is not type(original):
        return f"{path} was a {type(original).__name__} and is a {type(moved).__name__}"
    if hasattr(original, "untyped_storage"):
        if str(moved.device) != device:
            return f"{path} is on {moved.device}, not on {device}"
        found = difference(moved, original, EXACT, path)
        return "" if found is None else str(found)
    parts: list[tuple[str, Any, Any]] = []
    if isinstance(original, Mapping):
        if list(moved) != list(original):
            return f"{path} has the keys {list(moved)}, not {list(original)}"
        parts = [(f"{path}[{key!r}]", moved[key], original[key]) for key in original]
    elif isinstance(original, (list, tuple)):
        if len(moved) != len(original):
            return f"{path} has {len(moved)} entries, not {len(original)}"
        parts = [(f"{path}[{i}]", moved[i], original[i]) for i in range(len(original))]
    if dataclasses.is_dataclass(original):  # a model output is a mapping too, of those fields that are not None
        names = [field.name for field in dataclasses.fields(original)]
        parts += [(f"{path}.{name}", getattr(moved, name), getattr(original, name)) for name in names]
    elif not isinstance(original, (Mapping, list, tuple)):
        if hasattr(original, "__dict__"):  # an object of another kind, such as a cache, which a model places itself
            return ""
        return "" if moved == original else f"{path} was {original!r} and is {moved!r}"
    return next((text for where, a, b in parts if (text := _difference(a, b, device, where))), "")

"""What is moved from device to device: a metric in mid-stream, a model in its wrapper, a batch in its container."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.compare import EXACT, Raised, difference
from pytest_evalcheck.subjects.calling import attempt
from pytest_evalcheck.subjects.metric import MetricSubject
from pytest_evalcheck.subjects.placements import Subject, beside_the_cpu
from pytest_evalcheck.subjects.subject import Rows
from pytest_evalcheck.subjects.wrapper import LiveWrapper, WrapperSubject
from pytest_evalcheck.violation import NotApplicable


@dataclass(frozen=True)
class Movable:
    """An object that was made and used on the CPU, and what is asked of it after every move."""

    source: Any
    """What holds its tensors."""
    to: Callable[[str], Any]
    says: Callable[[], Any]
    """The device that it says it is on; None where it says nothing."""
    answer: Callable[[str], Any]
    """What it scores on a device that it was moved to; or the error."""
    journey: tuple[str, ...]
    """The devices that it is moved to, one after the other."""

    def move(self, device: str) -> str:
        """Move it; gives the error as text."""
        moved = attempt("to", self.to, device)
        return str(moved) if isinstance(moved, Raised) else ""


def movable(subject: Subject, rows: Rows) -> Movable:
    """The metric after a batch, or the model of the wrapper after a forward, on the CPU.

    Raises:
        NotApplicable: where it offers no ``to``.
    """
    kind = subject.device.partition(":")[0]
    journey = (subject.device, *(["cuda:1"] if kind == "cuda" and subject.device != "cuda:1" else []), "cpu")
    return (_metric if isinstance(subject, MetricSubject) else _model)(subject, rows, journey)  # type: ignore[arg-type]


def _metric(subject: MetricSubject, rows: Rows, journey: tuple[str, ...]) -> Movable:
    live = beside_the_cpu(subject).fresh().update(rows)
    record = live.record
    if record.to is None:
        raise NotApplicable("the metric offers no `to`")

    def answer(device: str) -> Any:
        live.forget()
        again = beside_the_cpu(subject).fresh()
        attempt("to", again.record.to, device)
        assert subject.elsewhere is not None
        failed = again.try_update(subject.elsewhere(device).arguments(rows))
        return live.compute(), failed or again.compute()

    return Movable(record.source, record.to, record.device or (lambda: None), answer, journey)


def _model(subject: WrapperSubject, rows: Rows, journey: tuple[str, ...]) -> Movable:
    on_cpu: WrapperSubject = beside_the_cpu(subject)
    live = on_cpu.fresh()
    model = live.record.model
    if model is None:
        raise NotApplicable("the wrapper names no model")
    for mode in on_cpu.modes:
        live.forward(on_cpu.batch(rows, mode))

    def answer(device: str) -> Any:
        assert subject.elsewhere is not None
        there = subject.elsewhere(device)
        return {mode: LiveWrapper(live.record, device).seen(there.batch(rows, mode)) for mode in there.modes}

    return Movable(model, model.to, lambda: getattr(model, "device", None), answer, journey)


def exactly(device: str) -> str:
    """A device with its index, as a tensor on it names it: ``mps`` and ``mps:0`` are one."""
    import torch

    return str(torch.empty(0, device=device).device)


def not_moved(move: Callable[[], Any], kept: Any, device: str) -> str:
    """What is wrong with a batch that was moved, beside one that was not; empty where nothing is."""
    moved = attempt("move", move)
    return str(moved) if isinstance(moved, Raised) else _odd(moved, kept, exactly(device), "batch")


def _odd(moved: Any, kept: Any, device: str, path: str) -> str:
    if type(moved) is not type(kept):
        return f"{path} was a {type(kept).__name__} and is a {type(moved).__name__}"
    if hasattr(kept, "untyped_storage"):
        if str(moved.device) != device:
            return f"{path} is on {moved.device}, not on {device}"
        found = difference(moved, kept, EXACT, path)
        return "" if found is None else str(found)
    if isinstance(kept, Mapping):
        if list(moved) != list(kept):
            return f"{path} has the keys {list(moved)}, not {list(kept)}"
        return next((odd for key in kept if (odd := _odd(moved[key], kept[key], device, f"{path}[{key!r}]"))), "")
    if isinstance(kept, (list, tuple)):
        if len(moved) != len(kept):
            return f"{path} has {len(moved)} entries, not {len(kept)}"
        pairs = enumerate(zip(moved, kept, strict=True))
        return next((odd for place, (a, b) in pairs if (odd := _odd(a, b, device, f"{path}[{place}]"))), "")
    if dataclasses.is_dataclass(kept):
        names = [field.name for field in dataclasses.fields(kept)]
        parts = ((name, getattr(moved, name), getattr(kept, name)) for name in names)
        return next((odd for name, a, b in parts if (odd := _odd(a, b, device, f"{path}.{name}"))), "")
    return "" if moved == kept else f"{path} was {kept!r} and is {moved!r}"

"""What is moved from device to device: a metric in mid-stream, a model in its wrapper, a batch in its container."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.device.cpu_reference import Beside, beside, with_batches_on
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.wrapper.subject import LiveWrapper, WrapperSubject


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


def movable(case: Beside) -> Movable:
    """The metric after a batch, or the model of the wrapper after a forward, on the CPU.

    Raises:
        NotApplicable: where it offers no ``to``.
    """
    device = case.subject.device
    kind = device.partition(":")[0]
    journey = (device, *(["cuda:1"] if kind == "cuda" and device != "cuda:1" else []), "cpu")
    return (_metric if isinstance(case.subject, MetricSubject) else _model)(case, journey)


def _metric(case: Beside, journey: tuple[str, ...]) -> Movable:
    on_cpu: MetricSubject = case.on_cpu
    live = on_cpu.fresh().update(case.rows)
    record = live.record
    if record.to is None:
        raise NotApplicable("the metric offers no `to`")

    def answer(device: str) -> Any:
        live.forget()
        again = on_cpu.fresh()
        if again.record.to is not None:
            attempt("to", again.record.to, device)
        failed = again.try_update(beside(case.subject, device).arguments(case.rows))
        return live.compute(), failed or again.compute()

    return Movable(record.source, record.to, record.device or (lambda: None), answer, journey)


def _model(case: Beside, journey: tuple[str, ...]) -> Movable:
    on_cpu: WrapperSubject = case.on_cpu
    record, model = on_cpu.record, on_cpu.record.model
    if model is None:
        raise NotApplicable("the wrapper names no model")

    def answer(device: str) -> Any:
        live, there = LiveWrapper(record, device), with_batches_on(on_cpu, device)
        return {mode: live.evaluate(there.batch(case.rows, mode)) for mode in there.modes}

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

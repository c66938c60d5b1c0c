"""Outputs, batch and metric on one device: each tensor is transferred at most once, and only if it is read.

    policy = DevicePolicy()
    for batch in loader:
        placed = policy.batch()
        batch = placed.load(batch, "mps")
        outputs = model(batch["input_ids"])
        for metric in metrics:
            placed.update(metric, outputs, batch["labels"])  # for metric.update(outputs, batch["labels"])

`pytest_evalcheck.fixes.composer_devices` does the same for the models of Composer.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.fixes.containers import Reads, replace_tensors, tensors

__all__ = ["BatchPlacement", "DevicePolicy", "TransferCache"]

CPU = torch.device("cpu")
_FOLLOWED = ("metric", "outputs")


@dataclass(frozen=True)
class DevicePolicy:
    """Device on which metrics are updated, decided in one place (EC601 to EC604, EC607).

    ``where`` is one of

    * ``"metric"``: the arguments of ``update`` are moved to the metric, which does not move;
    * ``"outputs"``: the metric and the other arguments are moved to the device of the first tensor;
    * a device: the metric and all arguments are moved there.

    With the last two, the device is the CPU instead where the chosen one lacks a dtype of the metric's state or
    of an argument: float64 on MPS. A metric moves once, with its state.

    All tensors in the arguments of ``update`` are moved, and nothing else. If ``update`` reads little of a large
    container, ``reads`` names the fields it reads: the others stay where they are, and a metric that reads one
    of these fails with torch's error about two devices, not with a wrong number.

    ValueError or TypeError for any other ``where`` and for ``reads`` that are not names.

    >>> placed = DevicePolicy().batch()
    >>> placed.to_device({"labels": torch.tensor([1, 2])}, "cpu")
    {'labels': tensor([1, 2])}

    Symptom: outputs are moved to the CPU, labels are not, and the metric fails on CUDA or MPS alone.

    Before::

        def update(batch, outputs, metric):
            metric.update(outputs.cpu(), batch["labels"])

    After::

        from pytest_evalcheck.fixes.devices import DevicePolicy

        def update(batch, outputs, metric):
            DevicePolicy().batch().update(metric, outputs, batch["labels"])

    Costs: each tensor that a metric reads is moved once for a batch, if one placement serves all metrics.

    Limits: a container that is passed on is moved as a whole, unless ``reads`` names its fields; KV caches stay.

    Target: ec.wrapper(inputs=es.causal_lm(vocab=12)) with on_device(model, update, device)

    Shown by: EC603.
    """

    where: str | torch.device = "metric"
    reads: Collection[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.reads, str) or not all(isinstance(name, str) for name in self.reads or ()):
            raise TypeError(f"reads: expected the names of fields, such as ('logits',), got {self.reads!r}")
        if self.where in _FOLLOWED or isinstance(self.where, torch.device):
            return
        try:
            torch.device(self.where)
        except (RuntimeError, TypeError) as error:
            hint = nearest(str(self.where), _FOLLOWED)
            wanted = f"{', '.join(map(repr, _FOLLOWED))} or a device such as 'cpu'"
            raise ValueError(f"where: expected {wanted}, got {self.where!r}{hint}") from error

    def batch(self) -> BatchPlacement:
        """Begin a batch; its copies are kept as long as their tensors and the returned object exist."""
        return BatchPlacement(self)


class BatchPlacement:
    """A batch under a policy, for any number of metrics."""

    def __init__(self, policy: DevicePolicy) -> None:
        self.policy = policy
        self.transfers = TransferCache()

    def update(self, metric: Any, *args: Any, **kwargs: Any) -> Any:
        """Call ``metric.update`` with the arguments on the device that the policy chooses, and return its result.

        TypeError or RuntimeError as documented at `place` and `to_device`; the metric does not change then.
        """
        return self._call(metric, metric.update, args, kwargs)

    @contextmanager
    def redirect_updates(self, metric: Any) -> Iterator[None]:
        """Do the same for every call of ``metric.update``, or of the metric itself, within the block."""
        own, update = dict(vars(metric)), metric.update

        @functools.wraps(update)
        def redirected(*args: Any, **kwargs: Any) -> Any:
            return self._call(metric, update, args, kwargs)

        metric.update = redirected
        try:
            yield
        finally:
            if "update" in own:
                metric.update = own["update"]
            else:
                del metric.update

    def to_device(self, value: Any, device: torch.device | str | int, *, where: str = "value") -> Any:
        """Return a value, or the fields of it that the policy reads, on a device: see `TransferCache.to_device`."""
        return self.transfers.to_device(value, device, reads=self.policy.reads, where=where)

    def load(self, batch: Any, device: torch.device | str | int) -> Any:
        """Return the whole batch on the device of the model: see `TransferCache.load`."""
        return self.transfers.load(batch, device)

    def place(self, metric: Any, *args: Any) -> torch.device:
        """Return the device on which a metric is updated with these arguments, and move the metric there if needed.

        TypeError where the device of the metric is unknown or it cannot be moved, RuntimeError where it is on
        several devices.
        """
        if self.policy.where == "metric":
            return device_of(metric)
        found = list(tensors(args, self.policy.reads))
        if self.policy.where != "outputs":
            device = resolve_device(self.policy.where)
        else:
            device = found[0].device if found else device_of(metric)
        if not all(supports_dtype(device, each.dtype) for each in (*found, *_state(metric))):
            device = CPU
        if _devices(metric) - {device}:
            if not hasattr(metric, "to"):
                raise TypeError(f"metric: expected a method to(device), to move {type(metric).__name__} to {device}")
            metric.to(device)
        return device

    def _call(self, metric: Any, update: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        values = (*args, *kwargs.values())
        if next(tensors(values, self.policy.reads), None) is None:
            return update(*args, **kwargs)  # for example texts, for a metric that is on no device
        device, about = self.place(metric, *values), f"{type(metric).__name__}.update"
        args = tuple(self.to_device(each, device, where=f"{about}: args[{i}]") for i, each in enumerate(args))
        named = {name: self.to_device(each, device, where=f"{about}: {name}") for name, each in kwargs.items()}
        return update(*args, **named)


class _Copy(NamedTuple):
    source: weakref.ref[Tensor]
    versions: tuple[int | None, ...]
    tensor: Tensor


class TransferCache:
    """Copies of tensors on other devices: a second request for the same tensor and device returns the same copy.

    It belongs to one batch. A copy is dropped with its tensor, and is not used again once either of them was
    written to; only writes into inference tensors, of which torch keeps no count, are not noticed. Two tensors that
    share memory are two tensors. A copied or unpickled cache is empty.
    """

    def __init__(self) -> None:
        self._copies: dict[tuple[int, torch.device], _Copy] = {}

    def to_device(
        self, value: Any, device: torch.device | str | int, *, reads: Reads = None, where: str = "value"
    ) -> Any:
        """Return a tensor, or a container with all its tensors, on a device (EC601, EC602).

        Containers may be mappings, dataclasses, frozen or not, named tuples, tuples and lists, in any nesting; each
        keeps its type, its order and its other content, and does not change. Where nothing has to move the same
        object is returned. Anything else is left alone, ``to`` method or not. ``reads`` names the fields that
        are read of containers with named fields: the others stay where they are.

        Copies wait for the device, as asynchronous ones to the CPU may be read too early. TypeError for a dtype that
        the device lacks, and for a container whose type cannot be called with its content; ``where`` begins the path
        in the text.
        """
        target = resolve_device(device)
        return replace_tensors(value, lambda tensor, path: self._copied(tensor, target, path), where, reads)

    def load(self, value: Any, device: torch.device | str | int, *, where: str = "batch") -> Any:
        """Do what `to_device` does for a batch of the model, and `record_copy` the original of each tensor.

        A tensor that is moved back afterwards is not transferred: the original is returned.
        """
        target, done = resolve_device(device), dict[int, Tensor]()

        def loaded(tensor: Tensor, path: str) -> Tensor:
            if tensor.device == target:
                return tensor
            if id(tensor) not in done:
                done[id(tensor)] = _transfer(tensor, target, path)
                self.record_copy(done[id(tensor)], tensor)
            return done[id(tensor)]

        return replace_tensors(value, loaded, where)

    def record_copy(self, tensor: Tensor, original: Tensor) -> None:
        """Record that a tensor is a copy of one on another device: moved there, it is the original."""
        key = (id(tensor), original.device)
        copies = self._copies  # not self, which a weak reference would keep alive
        source = weakref.ref(tensor, lambda _: copies.pop(key, None))
        copies[key] = _Copy(source, _versions(tensor, original), original)

    def __deepcopy__(self, memo: dict[int, Any]) -> TransferCache:
        return TransferCache()

    def __reduce__(self) -> tuple[Callable[[], TransferCache], tuple[()]]:
        return TransferCache, ()

    def _copied(self, tensor: Tensor, device: torch.device, where: str) -> Tensor:
        if tensor.device == device:
            return tensor
        known = self._copies.get((id(tensor), device))
        if known is not None and known.source() is tensor and known.versions == _versions(tensor, known.tensor):
            return known.tensor
        copy = _transfer(tensor, device, where)
        self.record_copy(tensor, copy)
        return copy


def resolve_device(device: torch.device | str | int) -> torch.device:
    """Return the device as tensors report it: "mps" is mps:0, "cuda" is the current one."""
    found = torch.device(device)
    return found if found.index is not None or found.type in ("cpu", "meta") else torch.empty(0, device=found).device


def supports_dtype(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether a device has tensors of this dtype; MPS, for example, has none of float64."""
    return device.type in ("cpu", "meta") or _supports_dtype(device.type, dtype)


def device_of(metric: Any) -> torch.device:
    """Return the device of a metric: its ``device``, or that of its parts, parameters and tensors.

    TypeError where none of these exist, RuntimeError where they are several devices.
    """
    found = _devices(metric)
    kind = type(metric).__name__
    if not found:
        raise TypeError(
            f"metric: expected {kind} to have a 'device' or tensors, which show where it is; "
            "DevicePolicy('cpu') says it for a metric that has neither"
        )
    if len(found) > 1:
        several = " and ".join(sorted(map(str, found)))
        raise RuntimeError(f"metric: expected {kind} on one device, got {several}; move it to one with its to(device)")
    return found.pop()


def _devices(metric: Any) -> set[torch.device]:
    reported = [getattr(part, "device", None) for part in _parts(metric)]
    found = {resolve_device(each) for each in reported if isinstance(each, torch.device | str)}
    # Tensors outside the state of a metric may be anywhere; a device that it reports is that of the state.
    return found or {each.device for each in _state(metric)}


def _state(metric: Any) -> Iterator[Tensor]:
    for part in _parts(metric):
        yield from tensors(getattr(part, "__dict__", {}))


def _parts(metric: Any) -> list[Any]:
    return list(metric.modules()) if isinstance(metric, nn.Module) else [metric]


@functools.cache
def _supports_dtype(kind: str, dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype, device=kind)
    except (TypeError, RuntimeError):
        return False
    return True


def _transfer(tensor: Tensor, device: torch.device, where: str) -> Tensor:
    if not supports_dtype(device, tensor.dtype):
        raise TypeError(
            f"{where}: {tensor.dtype} does not exist on {device}, where it has to go; use a dtype that does, "
            "or move the metric to it with DevicePolicy('outputs') or DevicePolicy('cpu')"
        )
    return tensor.to(device)


def _versions(*pair: Tensor) -> tuple[int | None, ...]:
    return tuple(None if each.is_inference() else each._version for each in pair)

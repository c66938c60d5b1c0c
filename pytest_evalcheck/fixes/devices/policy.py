"""Where a metric meets what it is fed with: one object that decides, and one that does it for a batch."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from pytest_evalcheck.fixes.devices.containers import tensors
from pytest_evalcheck.fixes.devices.transfers import CPU, TransferCache, resolve_device, supports_dtype

PLACES = ("metric", "outputs")


@dataclass(frozen=True)
class DevicePolicy:
    """The one place that says on which device metrics are updated (EC601 to EC604, EC607).

    ``where`` is one of

    * ``"metric"``: everything comes to the metric, which stays where it is;
    * ``"outputs"``: the metric follows the first tensor that it is given, and so does the rest;
    * a device: the metric and everything else comes there.

    With the last two, which move the metric, it is the CPU instead where that device lacks a dtype of the
    metric's state or of what it is given: float64 on MPS. A metric moves once, with its state.

    Of what ``update`` is given, all crosses; what it is not given does not. Where it is given a container of which it
    reads little, ``reads`` names the fields: the others stay where they are, and a metric that reads one after all
    fails with torch's error about two devices, not with a wrong number.

    ValueError or TypeError for another ``where`` and for ``reads`` that are no names.

    >>> near = DevicePolicy().batch()
    >>> near.to_device({"labels": torch.tensor([1, 2])}, "cpu")
    {'labels': tensor([1, 2])}
    """

    where: str | torch.device = "metric"
    reads: Collection[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.reads, str) or not all(isinstance(name, str) for name in self.reads or ()):
            raise TypeError(f"reads: expected the names of fields, such as ('logits',), got {self.reads!r}")
        if self.where in PLACES or isinstance(self.where, torch.device):
            return
        try:
            torch.device(self.where)
        except (RuntimeError, TypeError) as error:
            close = difflib.get_close_matches(str(self.where), PLACES, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            wanted = f"{', '.join(map(repr, PLACES))} or a device such as 'cpu'"
            raise ValueError(f"where: expected {wanted}, got {self.where!r}{hint}") from error

    def batch(self) -> BatchPlacement:
        """Begin a batch: what was brought for it is kept as long as its tensors and the returned object are."""
        return BatchPlacement(self)


class BatchPlacement:
    """A batch under a policy, for any number of metrics."""

    def __init__(self, policy: DevicePolicy) -> None:
        self.policy = policy
        self.transfers = TransferCache()

    def update(self, metric: Any, *args: Any, **kwargs: Any) -> Any:
        """Call ``metric.update`` with the arguments on the device that the policy says, and return what it returns.

        TypeError or RuntimeError as of `place` and `to_device`; the metric is then as it was.
        """
        return self._fed(metric, metric.update, args, kwargs)

    @contextmanager
    def redirect_updates(self, metric: Any) -> Iterator[None]:
        """Do the same for code that calls ``metric.update``, or the metric itself, in a place out of reach."""
        own, update = dict(vars(metric)), metric.update

        @functools.wraps(update)
        def fed(*args: Any, **kwargs: Any) -> Any:
            return self._fed(metric, update, args, kwargs)

        metric.update = fed
        try:
            yield
        finally:
            if "update" in own:
                metric.update = own["update"]
            else:
                del metric.update

    def to_device(self, value: Any, device: torch.device | str | int, *, where: str = "value") -> Any:
        """Return a value, or what the policy reads of it, on a device, each tensor once: see `TransferCache.to_device`."""
        return self.transfers.to_device(value, device, reads=self.policy.reads, where=where)

    def load(self, batch: Any, device: torch.device | str | int) -> Any:
        """Return a batch on the device of the model, whole; metrics elsewhere may do without a way back.

        See `TransferCache.load`.
        """
        return self.transfers.load(batch, device)

    def place(self, metric: Any, *given: Any) -> torch.device:
        """Return the device on which a metric is to meet what it is given, and move the metric there if need be.

        TypeError where it cannot be told where the metric is or how to move it, RuntimeError where it is on
        several devices.
        """
        if self.policy.where == "metric":
            return device_of(metric)
        found = list(tensors(given, self.policy.reads))
        wanted = self._wanted(metric, found)
        if not all(supports_dtype(wanted, each.dtype) for each in (*found, *_state(metric))):
            wanted = CPU
        if _devices(metric) - {wanted}:
            if not hasattr(metric, "to"):
                raise TypeError(f"metric: expected a method to(device), to bring {type(metric).__name__} to {wanted}")
            metric.to(wanted)
        return wanted

    def _wanted(self, metric: Any, found: list[torch.Tensor]) -> torch.device:
        if self.policy.where != "outputs":
            return resolve_device(self.policy.where)
        return found[0].device if found else device_of(metric)

    def _fed(self, metric: Any, update: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = (*args, *kwargs.values())
        if next(tensors(given, self.policy.reads), None) is None:
            return update(*args, **kwargs)  # texts, say, for a metric that is on no device
        device, about = self.place(metric, *given), f"{type(metric).__name__}.update"
        args = tuple(self.to_device(each, device, where=f"{about}: args[{i}]") for i, each in enumerate(args))
        named = {name: self.to_device(each, device, where=f"{about}: {name}") for name, each in kwargs.items()}
        return update(*args, **named)


def device_of(metric: Any) -> torch.device:
    """Return the device that a metric is on: its ``device``, or where its parts, parameters and tensors are.

    TypeError where nothing says so, RuntimeError where it is on several.
    """
    found = _devices(metric)
    kind = type(metric).__name__
    if not found:
        raise TypeError(
            f"metric: expected {kind} to have a 'device' or tensors, to tell where it is; "
            "DevicePolicy('cpu') says it for a metric that has neither"
        )
    if len(found) > 1:
        several = " and ".join(sorted(map(str, found)))
        raise RuntimeError(f"metric: expected {kind} on one device, got {several}; bring it to one with its to(device)")
    return found.pop()


def _devices(metric: Any) -> set[torch.device]:
    said = [getattr(part, "device", None) for part in _parts(metric)]
    found = {resolve_device(each) for each in said if isinstance(each, torch.device | str)}
    # Tensors that a metric keeps beside its state may be anywhere; where it says its device, that is the state's.
    return found or {each.device for each in _state(metric)}


def _state(metric: Any) -> Iterator[torch.Tensor]:
    for part in _parts(metric):
        yield from tensors(getattr(part, "__dict__", {}))


def _parts(metric: Any) -> list[Any]:
    return list(metric.modules()) if isinstance(metric, nn.Module) else [metric]

"""The part of a subject that the checks of devices call: how a target is scored on a device, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from pytest_evalcheck.kinds.common.subject import Rows, Subject


@dataclass(frozen=True)
class Ending:
    """The last step of scoring a batch: one metric is fed with it, and asked for its value."""

    name: str
    compute: Callable[[], Any]
    feed: Callable[[], Any] | None = None
    """Feeds the metric with the batch once more; None where the steps before have fed it."""


class Scored(Protocol):
    """An object that scores batches."""

    def take(self, batch: Any) -> Any:
        """Return the outputs for a batch, or the error."""

    def endings(self, batch: Any, outputs: Any) -> Iterable[Ending]:
        """Return the steps that come after `take`."""


@dataclass(frozen=True, kw_only=True)
class DeviceRun:
    """One way to score the samples of a case: `take` for every batch, then its endings."""

    name: str
    """The name of `take` in messages."""
    single: str
    several: str
    """The beginning of its name with one batch, and with all of its batches."""
    refused: str
    """The reason why nothing is measured where a batch on the device is refused."""
    start: Callable[[], Scored]
    batch: Callable[[bool], Any]
    """Returns a new batch on the device; with True on the CPU, or None where the target cannot be built there."""
    batches: int = 1
    """Number of batches that are in flight together."""
    plain: Callable[[Any], Any] = lambda batch: batch
    """The batch as a nest of plain containers."""


class DeviceSubject(Subject):
    """A subject that can be scored on an accelerator."""

    kinds: ClassVar[tuple[str, ...]] = ("metric", "wrapper")
    feeds_metrics: ClassVar[bool] = False
    """True if a batch, its outputs and a metric are separate objects, which may be on different devices."""

    def built(self) -> Any:
        """Return the object of the target; a new one where batches change it."""
        raise NotImplementedError

    def scored(self, rows: Rows) -> Any:
        """Return the scores of one batch with everything on the device; or the first error."""
        raise NotImplementedError

    def tensor_inputs(self, rows: Rows) -> Any:
        """Return the part of a batch that must hold tensors for devices to differ; None if none must."""
        del rows

    def device_runs(self, rows: Rows) -> Iterator[DeviceRun]:
        """Return the ways to score these samples on the device."""
        raise NotImplementedError

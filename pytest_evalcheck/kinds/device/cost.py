"""EC607: transfers and host synchronisations while one batch is scored, as the ledger of the device counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import inconclusive
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.device.subject import DeviceSubject

MeasuredCost = tuple[str, dict[str, int]]
"""A part of scoring, and how many ``transfers`` and ``syncs`` it took."""


def measured_costs(subject: DeviceSubject, rows: Rows) -> Iterator[MeasuredCost]:
    """Measure the cost of every part of scoring a batch that is on the device already, after a batch to warm up.

    Where the code under test brings a batch from the CPU to the device, only repeated transfers count: tensors of the
    shapes in the batch, beyond one for each. Parts that raise an error cost nothing.
    """
    for run in subject.device_runs(rows):
        live, batch = run.start(), run.batch(False)
        if isinstance(live.take(run.batch(False)), Raised):
            inconclusive(f"{run.refused}; see EC603 and EC604")
            continue
        with subject.ledger.span() as span:
            outputs = live.take(batch)
        yield run.name, _counts(span)
        for ending in live.endings(batch, outputs):
            if ending.feed is not None:
                ending.feed()
                with subject.ledger.span() as span:
                    ending.feed()
                yield ending.name, _counts(span)
        live, batch = run.start(), run.batch(True)
        if batch is None:
            continue
        with subject.ledger.span() as span:
            outputs = live.take(batch)
        if not isinstance(outputs, Raised):
            yield f"{run.single} a batch on the CPU, of repeated transfers", _repeated(span, run.plain(batch))


def _counts(span: Any) -> dict[str, int]:
    return {"transfers": len(span.transfers), "syncs": len(span.syncs)}


def _repeated(span: Any, batch: Any) -> dict[str, int]:
    own: Counter[tuple[int, ...]] = Counter()
    each_tensor(batch, lambda tensor: own.update([tuple(tensor.shape)]))
    transfers = Counter(transfer.shape for transfer in span.transfers if transfer.shape in own)
    return {"transfers": (transfers - own).total()}

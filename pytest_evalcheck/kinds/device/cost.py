"""EC607: transfers and host synchronisations while one batch is scored, as the ledger of the device counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import inconclusive
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.device.cpu_reference import Subject, rebuild_on
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.wrapper.outputs import plain_copy
from pytest_evalcheck.kinds.wrapper.subject import LiveWrapper

MeasuredCost = tuple[str, dict[str, int]]
"""A part of scoring, and how many ``transfers`` and ``syncs`` it took."""


def measured_costs(subject: Subject, rows: Rows) -> Iterator[MeasuredCost]:
    """The cost of every part of scoring a batch that is on the device already, after a batch to warm up.

    Where the code under test brings a batch from the CPU to the device, only repeated transfers count: tensors of the
    shapes in the batch, beyond one for each. Parts that raise an error cost nothing.
    """
    yield from _of_metric(subject, rows) if isinstance(subject, MetricSubject) else _of_wrapper(subject, rows)


def _of_metric(subject: MetricSubject, rows: Rows) -> Iterator[MeasuredCost]:
    live, first, second = subject.fresh(), subject.arguments(rows), subject.arguments(rows)
    if live.try_update(first):
        inconclusive("the metric cannot be updated there; see EC603 and EC604")
        return
    with subject.ledger.span() as span:
        live.try_update(second)
    yield "update()", _counts(span)
    if subject.on_device is not None:
        live, batch = subject.fresh(), rebuild_on(subject, "cpu").arguments(rows)
        with subject.ledger.span() as span:
            failed = live.try_update(batch)
        if not failed:
            yield "update() with a batch on the CPU, of repeated transfers", _repeated(span, batch)


def _of_wrapper(subject: Any, rows: Rows) -> Iterator[MeasuredCost]:
    live = LiveWrapper(subject.record, subject.device)
    for mode in subject.modes:
        batch = subject.batch(rows, mode)
        if isinstance(live.forward(subject.batch(rows, mode)), Raised):
            inconclusive("the forward is not possible there; see EC603 and EC604")
            continue
        with subject.ledger.span() as span:
            outputs = live.forward(batch)
        yield "a forward", _counts(span)
        for name, metric in live.metrics().items() if live.record.update is not None else ():
            live.feed(batch, outputs, metric)
            with subject.ledger.span() as span:
                live.feed(batch, outputs, metric)
            yield f"feeding {name}", _counts(span)
        batch = subject.batch(rows, mode, onto="cpu")
        with subject.ledger.span() as span:
            outputs = live.forward(batch)
        if not isinstance(outputs, Raised):
            yield "a forward of a batch on the CPU, of repeated transfers", _repeated(span, plain_copy(batch))


def _counts(span: Any) -> dict[str, int]:
    return {"transfers": len(span.transfers), "syncs": len(span.syncs)}


def _repeated(span: Any, batch: Any) -> dict[str, int]:
    own: Counter[tuple[int, ...]] = Counter()
    each_tensor(batch, lambda tensor: own.update([tuple(tensor.shape)]))
    transfers = Counter(transfer.shape for transfer in span.transfers if transfer.shape in own)
    return {"transfers": (transfers - own).total()}

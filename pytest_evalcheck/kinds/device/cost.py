"""What scoring one batch costs on a device: transfers and host synchronisations, as its ledger counts them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor
from pytest_evalcheck.kinds.device.cpu_reference import Subject, beside_the_cpu
from pytest_evalcheck.kinds.metric.subject import LiveMetric, MetricSubject
from pytest_evalcheck.kinds.wrapper.outputs import plain_copy
from pytest_evalcheck.kinds.wrapper.subject import LiveWrapper

Spent = tuple[str, dict[str, int]]
"""What was done, and how many ``transfers`` and ``syncs`` that took."""


def spent(subject: Subject, rows: Rows) -> Iterator[Spent]:
    """The cost of every part of scoring a batch that is on the device already, after one that warmed it up.

    Of a batch that comes on the CPU, and is brought to the device by the code under test, what crosses again: tensors
    of the shapes in the batch, beyond one for each. Parts that raise an error cost nothing.
    """
    yield from _of_a_metric(subject, rows) if isinstance(subject, MetricSubject) else _of_a_wrapper(subject, rows)


def _of_a_metric(subject: MetricSubject, rows: Rows) -> Iterator[Spent]:
    def update(live: LiveMetric, batch: Any) -> Any:
        return live.try_update(batch)

    live, first, second = subject.fresh(), subject.arguments(rows), subject.arguments(rows)
    if update(live, first):
        raise NotApplicable("the metric cannot be updated there; EC603 and EC604 tell")
    with subject.ledger.span() as seen:
        update(live, second)
    yield "update()", _counts(seen)
    if subject.elsewhere is not None:
        live, batch = subject.fresh(), beside_the_cpu(subject).arguments(rows)
        with subject.ledger.span() as seen:
            failed = update(live, batch)
        if not failed:
            yield "update() with a batch on the CPU, of what had crossed already", _again(seen, batch)


def _of_a_wrapper(subject: Any, rows: Rows) -> Iterator[Spent]:
    live = LiveWrapper(subject.record, subject.device)
    for mode in subject.modes:
        batch = subject.batch(rows, mode)
        if isinstance(live.forward(subject.batch(rows, mode)), Raised):
            raise NotApplicable("the forward is not possible there; EC603 and EC604 tell")
        with subject.ledger.span() as seen:
            outputs = live.forward(batch)
        yield "a forward", _counts(seen)
        for name, metric in live.metrics().items() if live.record.update is not None else ():
            live.feed(batch, outputs, metric)
            with subject.ledger.span() as seen:
                live.feed(batch, outputs, metric)
            yield f"feeding {name}", _counts(seen)
        batch = subject.batch(rows, mode, onto="cpu")
        with subject.ledger.span() as seen:
            outputs = live.forward(batch)
        if not isinstance(outputs, Raised):
            yield "a forward of a batch on the CPU, of what had crossed already", _again(seen, plain_copy(batch))


def _counts(seen: Any) -> dict[str, int]:
    return {"transfers": len(seen.transfers), "syncs": len(seen.syncs)}


def _again(seen: Any, batch: Any) -> dict[str, int]:
    own: Counter[tuple[int, ...]] = Counter()
    each_tensor(batch, lambda tensor: own.update([tuple(tensor.shape)]))
    crossed = Counter(one.shape for one in seen.transfers if one.shape in own)
    return {"transfers": (crossed - own).total()}

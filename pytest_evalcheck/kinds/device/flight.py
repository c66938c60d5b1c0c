"""EC608: memory that is used while work on it is in flight, as the ledger of a simulated device lists it."""

from __future__ import annotations

from collections.abc import Iterator
from operator import methodcaller
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import inconclusive
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor, tensors_in
from pytest_evalcheck.kinds.device.cpu_reference import Subject, rebuild_on
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.wrapper.subject import LiveWrapper

Races = tuple[str, list[str]]
"""A part of scoring, and the races in it, as text."""


def races(subject: Subject, rows: Rows) -> Iterator[Races]:
    """The races of every part of scoring two batches, which are on the device, then in pinned memory of the host.

    Parts that raise an error have none. The suite itself waits before it reads.
    """
    yield from _of_metric(subject, rows) if isinstance(subject, MetricSubject) else _of_wrapper(subject, rows)


def _of_metric(subject: Any, rows: Rows) -> Iterator[Races]:
    made = {"on the device": subject.arguments}
    if subject.on_device is not None:
        on_cpu = rebuild_on(subject, "cpu")
        made["in pinned memory"] = lambda rows: pinned(on_cpu.arguments(rows))
    for where, arguments in made.items():
        live, batches = subject.fresh(), [arguments(rows), arguments(rows)]
        with subject.ledger.span() as span:
            failed = [live.try_update(batch) for batch in batches]
        if any(failed):
            if where == "on the device":
                inconclusive("the metric cannot be updated there; see EC603 and EC604")
            continue
        yield f"update() with batches {where}", _texts(span)
        with subject.ledger.span() as span:
            value = attempt("compute", live.record.compute)
            early = unfinished(subject.ledger, value)
        yield "compute()", [*_texts(span), *early]


def _of_wrapper(subject: Any, rows: Rows) -> Iterator[Races]:
    live = LiveWrapper(subject.record, subject.device)
    for mode in subject.modes:
        for where in ("on the device", "in pinned memory"):
            onto = "" if where == "on the device" else "cpu"
            batch = pinned(subject.batch(rows, mode, onto=onto)) if onto else subject.batch(rows, mode)
            with subject.ledger.span() as span:
                outputs = live.forward(batch)
            if isinstance(outputs, Raised):
                if not onto:
                    inconclusive("the forward is not possible there; see EC603 and EC604")
                continue
            yield f"a forward of a batch {where}", _texts(span)
            for name, metric in live.metrics().items() if live.record.update is not None else ():
                with subject.ledger.span() as span:
                    failed = [live.feed(batch, outputs, metric) for _ in range(2)]
                    value = attempt("compute", methodcaller("compute"), metric)
                    early = unfinished(subject.ledger, value)
                if not any(isinstance(result, Raised) for result in failed):
                    yield f"feeding {name} with a batch {where}", [*_texts(span), *early]


def _texts(span: Any) -> list[str]:
    return list(dict.fromkeys(map(str, span.races)))


def pinned(value: Any) -> Any:
    """The same nest, with every tensor of the host in pinned memory."""
    return each_tensor(value, lambda tensor: tensor.pin_memory() if tensor.device.type == "cpu" else tensor)


def unfinished(ledger: Any, value: Any) -> list[str]:
    """What is said of a value whose tensors are in flight when it is returned."""
    found: list[str] = []
    for tensor in tensors_in(value):
        found.extend(
            f"the value is in flight when it is returned: {copy.described} from {copy.device} by {copy.site}"
            for copy in ledger.copies_in_flight(tensor)
        )
        found.extend(
            f"the value is returned, but the current stream does not wait for {use.site} on {use.work[0]}"
            for use in ledger.work_in_flight(tensor)
        )
    return found

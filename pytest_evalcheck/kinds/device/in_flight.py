"""EC608: memory that is used while work on it is in flight, as the ledger of a simulated device lists it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import inconclusive
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.common.tensors import each_tensor, tensors_in
from pytest_evalcheck.kinds.device.subject import DeviceSubject

Races = tuple[str, list[str]]
"""A part of scoring, and the races in it, as text."""


def races(subject: DeviceSubject, rows: Rows) -> Iterator[Races]:
    """Find the races of every part of scoring batches that are on the device, then in pinned memory of the host.

    Parts that raise an error have none. The suite itself waits before it reads.
    """
    for run in subject.device_runs(rows):
        for where, on_cpu in (("on the device", False), ("in pinned memory", True)):
            live, batches = run.start(), [run.batch(on_cpu) for _ in range(run.batches)]
            if batches[0] is None:
                continue
            batches = [pinned(batch) if on_cpu else batch for batch in batches]
            with subject.ledger.span() as span:
                outputs = [live.take(batch) for batch in batches]
            if any(isinstance(each, Raised) for each in outputs):
                if not on_cpu:
                    inconclusive(f"{run.refused}; see EC603 and EC604")
                continue
            yield f"{run.several} {where}", _texts(span)
            for ending in live.endings(batches[-1], outputs[-1]):
                with subject.ledger.span() as span:
                    fed = [ending.feed() for _ in range(2)] if ending.feed is not None else []
                    value = attempt("compute", ending.compute)
                    early = unfinished(subject.ledger, value)
                if not any(isinstance(result, Raised) for result in fed):
                    yield f"{ending.name} with a batch {where}" if fed else ending.name, [*_texts(span), *early]


def _texts(span: Any) -> list[str]:
    return list(dict.fromkeys(map(str, span.races)))


def pinned(value: Any) -> Any:
    """Return the same nest, with every tensor of the host in pinned memory."""
    return each_tensor(value, lambda tensor: tensor.pin_memory() if tensor.device.type == "cpu" else tensor)


def unfinished(ledger: Any, value: Any) -> list[str]:
    """Describe the tensors of a value that are in flight when it is returned."""
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

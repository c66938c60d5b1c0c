"""ignite: one run of an `Engine` over a loader, with the metrics that are attached to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pytest_evalcheck.expectations.comparison import plain
from pytest_evalcheck.kinds.loop.record import OPTIONS, Loop

CLASSES = ("ignite.engine.engine.Engine",)

BUFFERS = 2
"""An engine takes any loader, and reads no batch before the one before it is done."""


def record(engine: Any) -> Loop:
    """The record of an `Engine` that evaluates: its numbers are the metrics of the state after a run."""
    return loop(engine)


def loop(engine: Any, **fields: Any) -> Loop:
    """The record of an `Engine`, which runs once over a loader of the samples.

    Metrics of one number have their own names. Of a vector or a matrix every entry is a number: ``name[0]``.

    Args:
        engine: any `Engine`, with metrics attached.
        fields: of `Loop`, added to those of an engine or instead of them, such as ``model`` and ``exact``, which an
            engine does not know.
    """

    def evaluate(data: Any, batch_size: int = 2, **loading: Any) -> dict[str, float]:
        state = engine.run(data.loader(batch_size, **loading))
        if state is None:
            raise RuntimeError("Engine.run() returned None, and not its state")
        return {key: number for name, value in state.metrics.items() for key, number in _numbers(name, value).items()}

    def scored_with(function: Callable[..., float], data: Any, batch_size: int = 2) -> dict[str, float]:
        from ignite.metrics import EpochMetric

        # With `check_compute_fn` a function is also tried on the first batch, and an error of it is a warning.
        EpochMetric(function, check_compute_fn=False).attach(engine, "scored_with")
        return evaluate(data, batch_size)

    options = {name: OPTIONS[name] for name in ("batch_size", "iterable", "workers")}
    known = {"options": options, "source": engine, "scored_with": scored_with, "buffers": BUFFERS}
    return Loop(evaluate=evaluate, **{**known, **fields})


def _numbers(name: str, value: Any) -> dict[str, float]:
    """A value by its name, an entry of a vector by its name and index; a mapping has its entries beside it already."""
    value = plain(value)
    if isinstance(value, Mapping) or value is None:
        return {}
    if not hasattr(value, "reshape"):
        return {name: value}
    entries = [float(entry) for entry in value.reshape(-1)]
    return {name: entries[0]} if len(entries) == 1 else {f"{name}[{i}]": entry for i, entry in enumerate(entries)}

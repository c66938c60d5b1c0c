"""ignite: one run of an `Engine` over a loader, with the metrics that are attached to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.expectations.comparison import plain
from pytest_evalcheck.kinds.loop.record import OPTIONS, Loop


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

    options = {name: OPTIONS[name] for name in ("batch_size", "iterable", "workers")}
    return Loop(evaluate=evaluate, **{"options": options, "source": engine, **fields})


def _numbers(name: str, value: Any) -> dict[str, float]:
    """A value by its name, an entry of a vector by its name and index; a mapping has its entries beside it already."""
    value = plain(value)
    if isinstance(value, Mapping) or value is None:
        return {}
    if not hasattr(value, "reshape"):
        return {name: value}
    entries = [float(entry) for entry in value.reshape(-1)]
    return {name: entries[0]} if len(entries) == 1 else {f"{name}[{i}]": entry for i, entry in enumerate(entries)}

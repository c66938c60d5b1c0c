"""ignite: a `Metric`, by its methods, and the other documented ways to feed it with the outputs of an engine."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from pytest_evalcheck.adapters.ignite.ranks import synchronise
from pytest_evalcheck.adapters.protocols import metric as protocols
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.metric.record import Metric

CLASSES = ("ignite.metrics.metric.Metric",)

_ATTACHED = (
    "\"On the end of engine's run, `engine.state.metrics` dictionary will contain computed metric's value under "
    'provided name." (ignite.metrics.Metric.attach)'
)
_UPDATE = '"Updates the metric\'s state using the passed batch output." (ignite.metrics.Metric.update)'
_FORMATS = (
    '"The majority of implemented metrics accept the following formats for `engine.state.output`: `(y_pred, y)` or '
    "`{'y_pred': y_pred, 'y': y}`. `y_pred` and `y` can be torch tensors or list of tensors/numbers if applicable.\" "
    "(ignite.metrics.Metric.iteration_completed)"
)
_PAIR = ("y_pred", "y")


def record(metric: Any) -> Metric:
    """Return the record that its methods give, with its conventions, and with the synchronisation of its library."""
    known = replace(
        protocols.record(metric),
        merges={"idist": synchronise},
        collective=frozenset({"idist"}),
        synchronised=metric.compute,
    )
    return protocols.with_conventions(known, record, _conventions(metric, known.update))


def _conventions(metric: Any, update: Callable[..., Any]) -> dict[str, Convention]:
    outputs: list[Any] = []

    def attached() -> Any:
        from ignite.engine import Engine

        engine = Engine(lambda _engine, output: output)
        metric.attach(engine, "value")
        try:
            return engine.run(outputs, max_epochs=1).metrics["value"]
        finally:
            metric.detach(engine)

    def kept(*args: Any, **kwargs: Any) -> None:
        outputs.append(kwargs or (args[0] if len(args) == 1 else args))

    def itself(*args: Any, **kwargs: Any) -> None:
        called(update, **kwargs) if kwargs else called(metric.update, *_one_argument(args))

    ways = {"attached to an engine": Convention(_ATTACHED, update=kept, compute=attached)}
    if _is_default(metric, "output_transform", metric._output_transform):
        ways["update itself"] = Convention(_UPDATE, update=itself)
        if metric.required_output_keys == _PAIR:
            ways["a mapping"] = Convention(
                _FORMATS,
                update=lambda *args: called(update, dict(zip(_PAIR, args, strict=True)) if len(args) == 2 else args),
            )
            if not getattr(metric, "_skip_unrolling", True):
                ways["lists of tensors"] = Convention(_FORMATS, update=lambda *args: called(update, *_in_lists(args)))
    return ways


def _one_argument(args: Sequence[Any]) -> tuple[Any]:
    return (args[0] if len(args) == 1 else tuple(args),)


def _in_lists(args: Sequence[Any]) -> tuple[Any, ...]:
    """Two tensors as lists of their rows; anything else as it is."""
    pair = len(args) == 2 and all(hasattr(each, "unbind") and each.ndim for each in args)
    return tuple(list(each) for each in args) if pair else tuple(args)


def _is_default(metric: Any, name: str, value: Any) -> bool:
    """Return whether an argument of the constructor is the default one."""
    found = (_parameter(base, name) for base in type(metric).__mro__)
    return any(each is not None and each.default is value for each in found)


def _parameter(base: type, name: str) -> inspect.Parameter | None:
    constructor = vars(base).get("__init__")
    return inspect.signature(constructor).parameters.get(name) if inspect.isfunction(constructor) else None

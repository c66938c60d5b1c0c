"""keras: a `Metric`, by its methods, and the other documented ways to feed it and to ask for its value."""

from __future__ import annotations

import re
from typing import Any

from pytest_evalcheck.adapters.protocols import metric as protocols
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.metric.record import Metric

CLASSES = ("keras.src.metrics.metric.Metric",)

_CALLED = '"self.update_state(*args, **kwargs)", then "return self.result()" (keras.Metric.__call__)'
_LISTS = 'The example of its documentation: "{}"'
_STATELESS = (
    '"metric_variables = train_acc_metric.stateless_update_state(metric_variables, y, y_pred)" '
    "(keras.io/guides/writing_a_custom_training_loop_in_jax)"
)


def record(metric: Any) -> Metric:
    """Return the record that its methods give, with its conventions."""
    known = protocols.record(metric)
    return protocols.with_conventions(known, record, _conventions(metric))


def _conventions(metric: Any) -> dict[str, Convention]:
    def lists(*args: Any, **kwargs: Any) -> None:
        called(metric.update_state, *map(_listed, args), **{name: _listed(each) for name, each in kwargs.items()})

    ways = {"called": Convention(_CALLED, update=metric)}
    example = re.search(r"\w+\.update_state\(\s*\[.*", type(metric).__doc__ or "")
    if example:
        ways["lists"] = Convention(_LISTS.format(example.group().strip()), update=lists)
    if metric.variables:  # those that the first update builds are not there before it
        ways["stateless"] = _stateless(metric)
    return ways


def _stateless(metric: Any) -> Convention:
    variables: list[Any] = []

    def update(*args: Any, **kwargs: Any) -> None:
        variables[:] = called(metric.stateless_update_state, variables or _values(metric), *args, **kwargs)

    def compute() -> Any:
        return called(metric.stateless_result, variables or _values(metric))

    return Convention(_STATELESS, update=update, compute=compute)


def _values(metric: Any) -> list[Any]:
    return [each.value for each in metric.variables]


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value

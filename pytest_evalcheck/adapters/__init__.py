"""Objects of libraries we know become records, without importing a library that is not there already."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from pytest_evalcheck.subjects.calling import TargetFault
from pytest_evalcheck.subjects.metric import Metric

_METRICS = {
    "torchmetrics.collections.MetricCollection": "torchmetrics",
    "torchmetrics.metric.Metric": "torchmetrics",
    "evaluate.module.CombinedEvaluations": "hf_evaluate",
    "evaluate.module.EvaluationModule": "hf_evaluate",
}
"""From the qualified name of a class to our module that knows it."""


def metric(made: Any) -> Metric:
    """The record of what the factory of a metric target returned."""
    if isinstance(made, Metric):
        return made
    for cls in type(made).__mro__:
        module = _METRICS.get(f"{cls.__module__}.{cls.__qualname__}")
        if module:
            record: Metric = importlib.import_module(f"pytest_evalcheck.adapters.{module}").record(made)
            return record
    raise TargetFault(
        f"the factory returned {_describe(made)}",
        expected="an ec.Metric, or an object of torchmetrics or Hugging Face evaluate",
        actual=repr(made)[:120],
        detail=_hint(made),
        cause="factory",
    )


def _describe(made: Any) -> str:
    if made is None:
        return "None (does it end without `return`?)"
    if isinstance(made, type):
        return f"the class {made.__name__}, not an instance of it"
    return f"an object of type {type(made).__module__}.{type(made).__qualname__}"


def _hint(made: Any) -> str:
    methods = [name for name in dir(made) if not name.startswith("_")]
    has = [name for name in ("update", "compute") if name in methods]
    if len(has) == 2:
        return "It has update() and compute(): return `ec.Metric.of(it)`."
    near = {name: difflib.get_close_matches(name, methods, n=1) for name in ("update", "compute") if name not in has}
    likely = [f"{found[0]}() for {name}" for name, found in near.items() if found]
    return "Describe it: `ec.Metric(update=..., compute=...)`" + (
        f", perhaps with {', '.join(likely)}." if likely else "."
    )

"""Composer: a `ComposerModel`, driven as its `Trainer` drives it in an evaluation."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.subjects.wrapper import Wrapper


def record(model: Any) -> Wrapper:
    """The record of a Composer model: ``eval_forward``, ``update_metric``, and copies of its evaluation metrics."""

    def metrics() -> dict[str, Any]:
        made = copy.deepcopy(dict(model.get_metrics(is_train=False)))
        for metric in made.values():
            metric.reset()
        return made

    return Wrapper(
        forward=model.eval_forward,
        update=model.update_metric,
        metrics=metrics,
        model=model,
        rows=_rows,
        source=model,
    )


def _rows(outputs: Any) -> Any:
    """The logits of a model's outputs; its other tensors need not have an entry a row."""
    return outputs["logits"] if isinstance(outputs, Mapping) and "logits" in outputs else outputs

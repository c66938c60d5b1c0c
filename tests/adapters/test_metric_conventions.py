"""Metrics of keras, ignite and MONAI are called in the ways that are documented: one that is wrong in one way is red."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

os.environ.setdefault("KERAS_BACKEND", "torch")

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck import strategies as es

CLASSES = 3
SCORES = es.multiclass(classes=CLASSES, of="probabilities")


def ignites() -> tuple[type, es.SampleStrategy]:
    metrics = pytest.importorskip("ignite.metrics")
    return metrics.Accuracy, SCORES


def kerass() -> tuple[type, es.SampleStrategy]:
    keras = pytest.importorskip("keras")
    return keras.metrics.SparseCategoricalAccuracy, SCORES.swapped()


def monais() -> tuple[type, es.SampleStrategy]:
    metrics = pytest.importorskip("monai.metrics")
    return metrics.DiceMetric, es.masks(classes=CLASSES, form="onehot")


def attached(metric: Any) -> None:
    completed = metric.completed
    metric.completed = lambda engine, name: (
        metric.reset(),
        metric.update(engine.state.output),
        completed(engine, name),
    )


def mapped(metric: Any) -> None:
    class Exchanged(type(metric)):  # type: ignore[misc]
        required_output_keys = ("y_pred", "y")

        def iteration_completed(self, engine: Any) -> None:
            if isinstance(engine.state.output, dict):
                engine.state.output["y"] = torch.zeros_like(engine.state.output["y"])
            super().iteration_completed(engine)

    metric.__class__ = Exchanged


def in_lists(metric: Any) -> None:
    update = metric.update
    metric.update = lambda output: update(output) if len(output[1]) != 1 else None


def called(metric: Any) -> None:
    class Twice(type(metric)):  # type: ignore[misc]
        def __call__(self, *args: Any) -> Any:
            self.reset_state()
            return super().__call__(*args)

    metric.__class__ = Twice


def listed(metric: Any) -> None:
    update = metric.update_state
    metric.update_state = lambda y, *more: update(sorted(y) if isinstance(y, list) else y, *more)


def stateless(metric: Any) -> None:
    update = metric.stateless_update_state
    metric.stateless_update_state = lambda _values, *args: update([each.value for each in metric.variables], *args)


def first_alone(metric: Any) -> None:
    several = metric._compute_list
    metric._compute_list = lambda y_pred, y, **more: several(y_pred[:1], y[:1], **more)


WRONG: list[tuple[Callable[[], tuple[type, es.SampleStrategy]], str, Callable[[Any], None]]] = [
    (ignites, "attached to an engine", attached),
    (ignites, "a mapping", mapped),
    (ignites, "lists of tensors", in_lists),
    (kerass, "called", called),
    (kerass, "lists", listed),
    (kerass, "stateless", stateless),
    (monais, "lists of channel-first tensors", first_alone),
]


@pytest.mark.parametrize(("library", "name", "spoil"), WRONG, ids=[f"{f.__name__}-{name}" for f, name, _ in WRONG])
def test_a_metric_that_is_wrong_in_one_way_to_call_it_is_red(
    library: Callable[[], tuple[type, es.SampleStrategy]], name: str, spoil: Callable[[Any], None]
) -> None:
    make, inputs = library()

    def target(*, wrong: bool) -> ec.Target:
        def factory() -> ec.Metric:
            metric = make()
            if wrong:
                spoil(metric)
            record = adapters.record("metric", metric)
            return replace(record, conventions={name: record.conventions[name]})  # type: ignore[no-any-return]

        return ec.metric(inputs=inputs)(factory)

    cells = [ec.run(target(wrong=wrong), select="EC233", effort="quick").cells[0] for wrong in (True, False)]
    assert [cell.outcome for cell in cells] == ["failed", "passed"], cells


def test_an_update_without_its_transform_is_no_way_to_call_a_metric_of_ignite() -> None:
    metrics = pytest.importorskip("ignite.metrics")
    names = [
        {*adapters.record("metric", made).conventions}
        for made in (metrics.Accuracy(), metrics.Accuracy(output_transform=lambda output: output[::-1]))
    ]
    assert names[0] - names[1] == {"update itself", "a mapping", "lists of tensors"}
    assert "attached to an engine" in names[1]


def test_copies_of_these_records_are_called_in_the_same_ways() -> None:
    pytest.importorskip("ignite.metrics")
    made, _ = ignites()
    record = adapters.record("metric", made())
    assert {*record.copies["deepcopy"]().conventions} == {*record.conventions}

"""Composer: a `ComposerModel`, called as its `Trainer` calls it in an evaluation."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pytest_evalcheck.kinds.wrapper.subject import Wrapper

CLASSES = ("composer.models.base.ComposerModel",)


def record(model: Any) -> Wrapper:
    """The record of a Composer model: ``eval_forward``, ``update_metric``, and copies of its evaluation metrics."""

    def metrics() -> dict[str, Any]:
        copies = copy.deepcopy(dict(model.get_metrics(is_train=False)))
        for metric in copies.values():
            metric.reset()
        return copies

    return Wrapper(
        forward=model.eval_forward,
        update=model.update_metric,
        metrics=metrics,
        model=model,
        rows=_rows,
        move=_move,
        source=model,
    )


def _move(batch: Any, device: str) -> Any:
    """Move a batch as its trainer does, with a device object of Composer."""
    from composer.devices import DeviceCPU, DeviceGPU, DeviceMPS

    kind, _, index = device.partition(":")
    composer_device = {"cpu": DeviceCPU, "cuda": lambda: DeviceGPU(device_id=int(index or 0)), "mps": DeviceMPS}[kind]()
    return composer_device.batch_to_device(batch)


def _rows(outputs: Any) -> Any:
    """The logits of the outputs; other tensors need not have one entry per row."""
    return outputs["logits"] if isinstance(outputs, Mapping) and "logits" in outputs else outputs

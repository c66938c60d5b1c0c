"""Lightning: the `validation_step` of a `LightningModule`, and the values that it logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pytest_evalcheck.kinds.wrapper.outputs import plain_copy
from pytest_evalcheck.kinds.wrapper.subject import Wrapper

CLASSES = ("lightning.pytorch.core.module.LightningModule", "pytorch_lightning.core.module.LightningModule")


def record(module: Any) -> Wrapper:
    """The record of a module: its outputs are the result of a step, and the values that the step logs.

    The step feeds a metric that it logs: the value is that of this step only.
    """

    def forward(batch: Any) -> Any:
        with _recorded_logs(module) as logged:
            returned = module.validation_step(batch, 0)
        values = {name: plain_copy(value.compute() if _is_metric(value) else value) for name, value in logged.items()}
        for name, metric in module.named_modules():
            if name and _is_metric(metric):
                metric.reset()  # as the end of an epoch does
        return {"returned": returned, "logged": values}

    return Wrapper(
        forward=forward,
        model=module,
        rows=lambda outputs: outputs["returned"],
        move=_mover(module),
        move_outputs=_move_outputs,
        source=module,
    )


def _mover(module: Any) -> Callable[[Any, str], Any]:
    import torch

    return lambda batch, device: module.transfer_batch_to_device(batch, torch.device(device), 0)


def _move_outputs(outputs: Any, device: str) -> Any:
    """Call it as ``Trainer.predict`` does."""
    import torch
    from lightning.fabric.utilities import move_data_to_device

    return move_data_to_device(outputs, torch.device(device))


@contextmanager
def _recorded_logs(module: Any) -> Iterator[dict[str, Any]]:
    """The values that the module logs: it has no trainer here."""
    logged: dict[str, Any] = {}

    def log(name: str, value: Any, *_: Any, **__: Any) -> None:
        logged[name] = value

    def log_dict(values: Mapping[str, Any], *_: Any, **__: Any) -> None:
        logged.update(values)

    replaced: dict[str, Callable[..., None]] = {"log": log, "log_dict": log_dict}
    own = {name: vars(module)[name] for name in replaced if name in vars(module)}
    vars(module).update(replaced)
    try:
        yield logged
    finally:
        for name in replaced:
            del vars(module)[name]
        vars(module).update(own)


def _is_metric(value: Any) -> bool:
    return any(f"{cls.__module__}.{cls.__qualname__}" == "torchmetrics.metric.Metric" for cls in type(value).__mro__)

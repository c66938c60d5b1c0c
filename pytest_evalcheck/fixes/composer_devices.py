"""Composer's models, evaluated on one device: the one that a `DevicePolicy` names (mosaicml/composer#3094, #2385).

    from pytest_evalcheck.fixes.composer_devices import ComposerClassifier, HuggingFaceModel

are Composer's own classes with `OneDevice` in front, the latter with `CleanEvaluation` too; they are made when they
are first asked for, and Composer is not imported before. Any other ``ComposerModel`` is mended with the mixin::

    class Ours(OneDevice, OurComposerModel): ...

On Apple silicon Composer's Trainer keeps metrics on the CPU and brings outputs and batch there, for every batch and
whole, though the batch came from there; of outputs the outer container only, as a dict or a list. Older releases left
the batch behind: "Encountered different devices in metric calculation". The mixin mends both where the metric is
fed; `OneDevice.on_mps` is for the Trainer, and leaves nothing to bring but what a metric reads::

    trainer = Trainer(model=wrapper, device=wrapper.on_mps())
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import torch

from pytest_evalcheck.fixes.composer import CleanEvaluation
from pytest_evalcheck.fixes.devices import BatchPlacement, DevicePolicy

if TYPE_CHECKING:
    ComposerClassifier: Any
    HuggingFaceModel: Any

__all__ = ["ComposerClassifier", "HuggingFaceModel", "OneDevice"]


class OneDevice:
    """Mixin before any ``ComposerModel``: metrics are fed on one device, whatever is where (EC601, EC602, EC607).

    ``device_policy`` says on which; put another in its place in a subclass or on an instance. What the model's own
    ``update_metric`` hands to ``metric.update`` is brought there, in containers that keep their type, each tensor
    once for all metrics of a batch: labels of the batch, or kept on the module, as much as outputs, and nothing
    that no metric is handed. The wrapped class is free to do as it likes with its batch before.

    Values are those of the CPU, as far as the arithmetic of the device is. Copies go when the batch goes.
    """

    device_policy = DevicePolicy()
    _one_batch: BatchPlacement | None = None
    _moved_ahead = False

    def eval_forward(self, batch: Any, outputs: Any = None) -> Any:
        """Begin a batch, and do what the wrapped class does."""
        if not self._moved_ahead:
            self._begin()
        self._moved_ahead = False
        return super().eval_forward(batch, outputs)  # type: ignore[misc]

    def update_metric(self, batch: Any, outputs: Any, metric: Any) -> Any:
        """Do what the wrapped class does, with the metric and all that it is fed with on one device.

        TypeError or RuntimeError as of `BatchPlacement.update`.
        """
        with self._batch().redirect_updates(metric):
            return super().update_metric(batch, outputs, metric)  # type: ignore[misc]

    def on_mps(self, *, metrics: torch.device | str = "cpu") -> Any:
        """Give the device for ``Trainer(device=...)`` on Apple silicon, for a Trainer with this model.

        With it the Trainer leaves outputs and batch where they are, and metrics are on the device ``metrics``, the
        CPU, as Composer has them, since torchmetrics' arithmetic on MPS has been wrong. A tensor of the batch that
        a metric on the CPU reads is the one that the batch was loaded with, so it crosses once, not there and back.

        It is as Composer's ``DeviceMPS`` in everything else, RuntimeError without MPS included.
        """
        return _device_class()(self, torch.device(metrics))

    def _near(self, labels: Any, outputs: Any, metric: Any) -> Any:
        """For `CleanEvaluation`: the labels where they will be read, before they are shifted for each metric."""
        batch = self._batch()
        return batch.transfers.to_device(labels, batch.place(metric, outputs, labels), where="batch['labels']")

    def _begin(self) -> BatchPlacement:
        self._one_batch = self.device_policy.batch()
        return self._one_batch

    def _batch(self) -> BatchPlacement:
        return self._one_batch or self._begin()

    def _load(self, batch: Any, device: torch.device) -> Any:
        self._moved_ahead = True
        return self._begin().load(batch, device)


def __getattr__(name: str) -> Any:
    if name not in ("ComposerClassifier", "HuggingFaceModel"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    original = getattr(_composer("composer.models", name), name)
    before = (OneDevice, CleanEvaluation) if name == "HuggingFaceModel" else (OneDevice,)
    mixins = " and ".join(f"`{each.__name__}`" for each in before)
    text = f"Composer's ``{name}``, with evaluation as in {mixins}.\n\n{original.__doc__}"
    made = type(original)(name, (*before, original), {"__module__": __name__, "__doc__": text})
    return globals().setdefault(name, made)


def _composer(module: str, wanted: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"{__name__}.{wanted} needs Composer, which could not be imported ({error}): "
            "pip install mosaicml transformers; OneDevice can be had without it"
        ) from error


def _device_class() -> Any:
    devices = _composer("composer.devices", "OneDevice.on_mps")
    torchmetrics = _composer("torchmetrics", "OneDevice.on_mps")
    kinds = torchmetrics.Metric, torchmetrics.MetricCollection

    # Not a subclass of Composer's, by which the Trainer knows that it has to move outputs and batch itself.
    class DeviceMPS(devices.Device):  # type: ignore[misc, name-defined]
        name, dist_backend = devices.DeviceMPS.name, devices.DeviceMPS.dist_backend

        def __init__(self, model: OneDevice, metrics: torch.device) -> None:
            self._model, self._metrics, self._original = model, metrics, devices.DeviceMPS()
            self._device = self._original._device

        def module_to_device(self, module: Any) -> Any:
            metric = isinstance(module, kinds)
            return module.to(self._metrics) if metric else self._original.module_to_device(module)

        def tensor_to_device(self, tensor: torch.Tensor) -> Any:
            return self._original.tensor_to_device(tensor)

        def batch_to_device(self, batch: Any) -> Any:
            return self._model._load(batch, self._device)

    return DeviceMPS

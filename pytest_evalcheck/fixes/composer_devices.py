"""Composer's models, evaluated on one device, chosen by a `DevicePolicy` (mosaicml/composer#3094, #2385).

    from pytest_evalcheck.fixes.composer_devices import ComposerClassifier, HuggingFaceModel

These are Composer's own classes with the mixin `OneDevice`, the second with `CleanEvaluation` too; Composer is
imported when they are first used. For any other ``ComposerModel`` use the mixin::

    class Ours(OneDevice, OurComposerModel): ...

On Apple silicon Composer's Trainer keeps metrics on the CPU and moves outputs and batch there, for every batch and
as a whole, though the batch came from the CPU; of outputs only a dict or a list is searched for tensors. Older
releases did not move the batch: "Encountered different devices in metric calculation". The mixin corrects both where
the metric is updated; with `OneDevice.on_mps` the Trainer moves nothing itself, and only what a metric reads is moved::

    trainer = Trainer(model=wrapper, device=wrapper.on_mps())
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from pytest_evalcheck.fixes.composer import CleanEvaluation, composer_class, import_composer
from pytest_evalcheck.fixes.devices import BatchPlacement, DevicePolicy

if TYPE_CHECKING:
    ComposerClassifier: Any
    HuggingFaceModel: Any

__all__ = ["ComposerClassifier", "HuggingFaceModel", "OneDevice"]


class OneDevice:
    """Mixin before any ``ComposerModel``: metrics are updated on one device (EC601, EC602, EC607).

    ``device_policy`` chooses it; set another policy in a subclass or on an instance. What the model's own
    ``update_metric`` passes to ``metric.update`` is moved there, in containers that keep their type, each tensor
    once for all metrics of a batch: labels of the batch, or kept on the module, as well as outputs. Tensors that no
    metric is called with are not moved.

    Values are those of the CPU, up to the device's rounding. Copies are dropped with the batch.

    ``HuggingFaceModel`` and ``ComposerClassifier`` of this module are Composer's with it.

    Symptom: on MPS Composer moves outputs to the CPU and leaves labels behind, or it moves everything.

    Before::

        from composer.models import ComposerClassifier

    After::

        from pytest_evalcheck.fixes.composer_devices import ComposerClassifier

    Costs: each tensor that a metric reads is moved once for a batch; ``device=wrapper.on_mps()`` moves nothing else.

    Limits: metrics of a ``ComposerClassifier`` are parts of the model, so that one in float64 cannot be moved to MPS.

    Shown by: EC601, EC602, EC607.
    """

    device_policy = DevicePolicy()
    _placement: BatchPlacement | None = None
    _loaded = False

    def eval_forward(self, batch: Any, outputs: Any = None) -> Any:
        """Begin a batch, and do what the wrapped class does."""
        if not self._loaded:
            self._begin()
        self._loaded = False
        return super().eval_forward(batch, outputs)  # type: ignore[misc]

    def update_metric(self, batch: Any, outputs: Any, metric: Any) -> Any:
        """Do what the wrapped class does, with the metric and all arguments of its ``update`` on one device.

        TypeError or RuntimeError as documented at `BatchPlacement.update`.
        """
        with (self._placement or self._begin()).redirect_updates(metric):
            return super().update_metric(batch, outputs, metric)  # type: ignore[misc]

    def on_mps(self, *, metrics: torch.device | str = "cpu") -> Any:
        """Return the device for ``Trainer(device=...)`` on Apple silicon, for a Trainer with this model.

        With it the Trainer does not move outputs and batch, and metrics are on the device ``metrics``: by default the
        CPU, as in Composer, since torchmetrics computes wrong values on MPS. A tensor of the batch that a metric on
        the CPU reads is the one that the batch was loaded with, so it is transferred once, not there and back.

        In everything else it behaves as Composer's ``DeviceMPS``, also in the RuntimeError without MPS.
        """
        return _device_class()(self, torch.device(metrics))

    def _move_labels(self, labels: Any, outputs: Any, metric: Any) -> Any:
        """Move the labels before they are shifted for each metric, for `CleanEvaluation`."""
        placement = self._placement or self._begin()
        device = placement.place(metric, outputs, labels)
        return placement.transfers.to_device(labels, device, where="batch['labels']")

    def _begin(self) -> BatchPlacement:
        self._placement = self.device_policy.batch()
        return self._placement

    def _load(self, batch: Any, device: torch.device) -> Any:
        self._loaded = True
        return self._begin().load(batch, device)


def __getattr__(name: str) -> Any:
    if name not in ("ComposerClassifier", "HuggingFaceModel"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    mixins = (OneDevice, CleanEvaluation) if name == "HuggingFaceModel" else (OneDevice,)
    return globals().setdefault(name, composer_class(__name__, name, *mixins))


def _device_class() -> Any:
    devices, torchmetrics = (
        import_composer(module, f"{__name__}.OneDevice.on_mps", "OneDevice")
        for module in ("composer.devices", "torchmetrics")
    )
    kinds = torchmetrics.Metric, torchmetrics.MetricCollection

    # Not a subclass of Composer's DeviceMPS: for that the Trainer moves outputs and batch itself.
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

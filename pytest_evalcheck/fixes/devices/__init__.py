"""Outputs, batch and metric brought to one device: each tensor at most once, and only those that are read.

    policy = DevicePolicy()
    for batch in loader:
        near = policy.batch()
        batch = near.load(batch, "mps")
        outputs = model(batch["input_ids"])
        for metric in metrics:
            near.update(metric, outputs, batch["labels"])  # for metric.update(outputs, batch["labels"])

`pytest_evalcheck.fixes.composer_devices` has the same for the models of Composer.
"""

from pytest_evalcheck.fixes.devices.policy import BatchPlacement, DevicePolicy
from pytest_evalcheck.fixes.devices.transfers import TransferCache

__all__ = ["BatchPlacement", "DevicePolicy", "TransferCache"]

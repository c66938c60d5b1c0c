"""Transfers between an accelerator and the CPU for each batch of an evaluation, exactly.

    python benchmarks/transfers.py [--smoke]

The model is on a simulated MPS, three metrics are on the CPU, as Composer has them there; batches are loaded from the
CPU. A price is what six batches cost more than three do, divided by three, so that what is done once is not in it. The
numbers come from the ledger of `pytest_evalcheck.devices`; nothing is timed. Every road has to give the CPU's values.

Least is what any loop has to bring back for metrics on the CPU: the outputs that they read, once. Labels came from
there. What Composer sends for its own clock is left out. The loops of Composer's Trainer need its environment
(`nox -s composer` makes one) and are left out elsewhere. `--smoke` runs small batches, without the Trainer, in seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score, MulticlassPrecision

from pytest_evalcheck.devices import Ledger, simulate
from pytest_evalcheck.fixes.devices import DevicePolicy

FEW, MANY = 3, 6
FLOAT32 = 4


@dataclass(frozen=True)
class Setting:
    about: str
    inputs: tuple[int, ...]
    """The shape of one batch, rows first."""
    classes: int


SETTINGS = (
    Setting("images, 64 x 3 x 32 x 32, 10 classes", (64, 3, 32, 32), 10),
    Setting("rows, 256 x 16, 1000 classes", (256, 16), 1000),
)


SMOKE = (Setting("rows, 4 x 3, 2 classes", (4, 3), 2),)


def network(setting: Setting) -> Any:
    torch.manual_seed(0)
    width = int(torch.tensor(setting.inputs[1:]).prod())
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(width, setting.classes))


def batches(setting: Setting, count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    rows = setting.inputs[0]
    return [
        (torch.randn(setting.inputs, generator=generator), torch.arange(rows) % setting.classes) for _ in range(count)
    ]


def metrics(setting: Setting) -> list[Any]:
    kinds = (MulticlassAccuracy, MulticlassF1Score, MulticlassPrecision)
    return [kind(num_classes=setting.classes, average="micro") for kind in kinds]


def looped(feed: Callable[..., None], where: str, setting: Setting, device: str, count: int) -> list[float]:
    model, chosen = network(setting).to(device), metrics(setting)
    policy = DevicePolicy(where)
    with torch.no_grad():
        for batch in batches(setting, count):
            near = policy.batch()
            inputs, labels = near.load(batch, device)
            feed(near, (inputs, labels), model(inputs), chosen)
    return [metric.compute().item() for metric in chosen]


def for_each_metric(_: Any, batch: Any, outputs: Any, chosen: list[Any]) -> None:
    for metric in chosen:
        metric.update(outputs.to(metric.device), batch[1].to(metric.device))


def all_at_once(_: Any, batch: Any, outputs: Any, chosen: list[Any]) -> None:
    (_, labels), outputs = [each.cpu() for each in batch], outputs.cpu()
    for metric in chosen:
        metric.update(outputs, labels)


def ours(near: Any, batch: Any, outputs: Any, chosen: list[Any]) -> None:
    for metric in chosen:
        near.update(metric, outputs, batch[1])


def by_composer(name: str, setting: Setting, device: str, count: int) -> list[float]:
    from composer import DataSpec, Evaluator, Trainer
    from composer import models as originals
    from torchmetrics import MetricCollection

    from pytest_evalcheck.fixes import composer_devices as fixed

    kind = originals.ComposerClassifier if name == "original" else fixed.ComposerClassifier
    model = kind(
        network(setting), setting.classes, val_metrics=MetricCollection(metrics(setting), compute_groups=False)
    )
    fixed_devices = {"on_mps()": "cpu", "on_mps(metrics='mps')": "mps"}
    chosen = model.on_mps(metrics=fixed_devices[name]) if name in fixed_devices and device == "mps" else device
    trainer = Trainer(model=model, device=chosen, progress_bar=False, loggers=[])
    data = DataSpec(batches(setting, count))
    trainer.eval(eval_dataloader=Evaluator(label="x", dataloader=data, device_eval_microbatch_size=setting.inputs[0]))
    values = [metric.compute().item() for metric in trainer.state.eval_metrics["x"].values()]
    trainer.close()
    return values


def totals(ledger: Ledger) -> list[int]:
    there = [each for each in ledger.transfers if each.source == "cpu" and not _is_clock(each)]
    back = [each for each in ledger.transfers if each.target == "cpu" and not _is_clock(each)]
    return [len(there), sum(each.bytes for each in there), len(back), sum(each.bytes for each in back)]


def _is_clock(each: Any) -> bool:
    # Composer adds up samples, tokens and seconds over ranks on the device: two small tensors go and three numbers come
    # back one by one, for each batch, with one process too.
    return each.shape in ((), (1,), (2,))


def price(run: Callable[..., list[float]], setting: Setting) -> list[float]:
    found = []
    for count in (FEW, MANY):
        expected = run(setting, "cpu", count)
        with simulate("mps") as ledger:
            values = run(setting, "mps", count)
        assert values == expected, f"{values} on the device, {expected} on the CPU"
        found.append(totals(ledger))
    return [(many - few) / (MANY - FEW) for few, many in zip(*found, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="small batches, without Composer's Trainer")
    smoke = parser.parse_args().smoke
    warnings.simplefilter("ignore")
    roads: dict[str, Callable[..., list[float]]] = {
        "a loop, moved for each metric": partial(looped, for_each_metric, "metric"),
        "a loop, all moved once": partial(looped, all_at_once, "metric"),
        "a loop, DevicePolicy()": partial(looped, ours, "metric"),
        "a loop, DevicePolicy('outputs')": partial(looped, ours, "outputs"),
    }
    with_composer = importlib.util.find_spec("composer") is not None and not smoke
    if with_composer:
        for name in ("original", "fixed model", "on_mps()", "on_mps(metrics='mps')"):
            roads[f"Composer's Trainer, {name}"] = partial(by_composer, name)
    for setting in SMOKE if smoke else SETTINGS:
        print(setting.about)
        print(f"  {'for each batch':44} {'there':>5} {'bytes':>10} {'back':>5} {'bytes':>10}")
        for name, run in roads.items():
            there, there_bytes, back, back_bytes = price(run, setting)
            print(f"  {name:44} {there:5g} {there_bytes:10,.0f} {back:5g} {back_bytes:10,.0f}")
        print(f"  {'least':44} {'':5} {'':10} {1:5} {setting.inputs[0] * setting.classes * FLOAT32:10,}")
    if not with_composer:
        print("Composer's Trainer was left out: it is not installed here, or --smoke was given")


if __name__ == "__main__":
    main()

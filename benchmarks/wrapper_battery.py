"""Cost of the wrapper checks on one tiny model, beside plain evaluations of the same model.

    python benchmarks/wrapper_battery.py [--turns 3] [--smoke]

A plain evaluation builds the model and runs it once over four rows, as every loop does for one batch. The battery is
EC101 to EC111 at quick and at normal effort. Both are taken in turns; the figure is how many plain evaluations one
battery costs.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "targets"))

import torch
from hypothesis import core

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

SAMPLES = es.causal_lm(vocab=40)
ROWS = [((5, 6, 7), 0), ((8,), 0), ((9, 10, 11, 12), 1), ((13, 14), 0)]
PLAIN = 50


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    ids = {"bos_token_id": 1, "eos_token_id": 2, "loss_type": "ForCausalLM"}
    return GPT2LMHeadModel(GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, **ids)).eval()


@ec.wrapper(inputs=SAMPLES)
def target(device):
    return gpt2().to(device)


def plain() -> None:
    with torch.no_grad():
        gpt2()(**SAMPLES.collate(ROWS))


def cpu(call: Callable[[], object]) -> float:
    started = time.process_time()
    call()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    core.global_force_seed = 1
    plain()  # what is imported on first use is not the battery's cost
    ec.run(target, effort="quick")
    seen: dict[str, list[tuple[float, float]]] = {"quick": []} if asked.smoke else {"quick": [], "normal": []}
    for _ in range(1 if asked.smoke else asked.turns):
        for effort, pairs in seen.items():
            one = cpu(lambda: [plain() for _ in range(PLAIN)]) / PLAIN
            report = []
            seconds = cpu(lambda e=effort, r=report: r.append(ec.run(target, effort=e)))
            assert report[0].ok, report[0].denominator
            pairs.append((seconds, seconds / one))
    print(f"{'effort':8} {'CPU of the battery':>20} {'plain evaluations':>19}")
    for effort, pairs in seen.items():
        seconds, ratio = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"{effort:8} {seconds:18.2f} s {ratio:19.0f}")


if __name__ == "__main__":
    main()

"""The fixed Composer wrapper beside the original, and beside the original on a deep copy of the batch.

    python benchmarks/composer_wrapper.py [--rounds 30] [--smoke]

These are the two roads of mosaicml/composer#3196: copy the batch, or do not write into it. The original alone spoils
its batch; it gets a fresh container with cloned labels each time, made outside of what is measured.

Time is the CPU's, of ``eval_forward`` and of ``update_metric`` for every metric; the three take turns, and ratios are
of one turn. Memory is the peak of what torch's allocator handed out within the same calls, less what it had handed out
before: the running sum of the profiler's memory events, so that deep copies count, which no operator makes.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    try:
        import transformers
        from composer.metrics import LanguageCrossEntropy, LanguagePerplexity, MaskedAccuracy
        from composer.models import HuggingFaceModel as Original
        from transformers.modeling_outputs import CausalLMOutput
    except ImportError as error:
        raise SystemExit(f"this benchmark needs Composer: pip install mosaicml transformers ({error})") from error

    from pytest_evalcheck.fixes.composer import HuggingFaceModel as Fixed

CLASSES = 4
ROADS = ("original", "deep copy", "fixed")


class Table(torch.nn.Module):
    """Logits that are looked up: about the cheapest language model, so that the wrapper shows."""

    def __init__(self) -> None:
        super().__init__()
        self.config = transformers.GPT2Config(vocab_size=CLASSES)
        self.table = torch.nn.Embedding(CLASSES, CLASSES)

    def forward(self, input_ids: Any) -> Any:
        return CausalLMOutput(logits=self.table(input_ids))


class Idle:
    """A metric that does nothing, so that only the wrapper is left."""

    device = torch.device("cpu")

    def update(self, outputs: Any, labels: Any) -> None:
        pass


@dataclass(frozen=True)
class Setting:
    about: str
    model: Callable[[], Any]
    shape: tuple[int, int]
    metrics: Callable[[], list[Any]]
    cached: bool = False
    """True if the outputs are handed in, as after a training step, so that no model runs."""


def gpt2() -> Any:
    sizes = {"n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=CLASSES, **sizes))


def three() -> list[Any]:
    return [LanguageCrossEntropy(), LanguagePerplexity(), MaskedAccuracy()]


SETTINGS = (
    Setting("tiny GPT-2, 4 x 16, 3 metrics", gpt2, (4, 16), three),
    Setting("table, 64 x 2048, 3 metrics", Table, (64, 2048), three),
    Setting("no model, 64 x 2048, 1 idle metric", Table, (64, 2048), lambda: [Idle()], cached=True),
    Setting("no model, 64 x 2048, 3 idle metrics", Table, (64, 2048), lambda: [Idle(), Idle(), Idle()], cached=True),
)


def prepared(setting: Setting) -> dict[str, Callable[[], Callable[[], None]]]:
    """For each road, what makes ready, outside of the measurement, what is then measured."""
    torch.manual_seed(0)
    model = setting.model().eval()
    wrappers = {kind: kind(model, use_logits=True, shift_labels=True).eval() for kind in (Original, Fixed)}
    ids = torch.randint(0, CLASSES, setting.shape)
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    cached = model(ids) if setting.cached else None
    metrics = setting.metrics()

    def evaluate(kind: Any, given: dict[str, Any]) -> None:
        with torch.no_grad():
            outputs = wrappers[kind].eval_forward(given, cached)
            for metric in metrics:
                wrappers[kind].update_metric(given, outputs, metric)

    def original() -> Callable[[], None]:
        fresh = {**batch, "labels": batch["labels"].clone()}
        return lambda: evaluate(Original, fresh)

    return {
        "original": original,
        "deep copy": lambda: lambda: evaluate(Original, copy.deepcopy(batch)),
        "fixed": lambda: lambda: evaluate(Fixed, batch),
    }


def seconds(measured: Callable[[], None]) -> float:
    # Of the processor, since the machine is shared; the threads that torch may use are counted.
    start = time.process_time()
    measured()
    return time.process_time() - start


def peak_bytes(measured: Callable[[], None]) -> int:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        measured()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = sorted((event["ts"], event["args"]["Bytes"]) for event in events if event.get("name") == "[memory]")
    held = peak = 0
    for _, change in changes:
        held += change
        peak = max(peak, held)
    return peak


def timed(roads: dict[str, Callable[[], Callable[[], None]]], rounds: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in roads}
    for turn in range(rounds):
        # Each road leads a third of the turns.
        for name in (*ROADS[turn % 3 :], *ROADS[: turn % 3]):
            taken[name].append(seconds(roads[name]()))
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    asked = parser.parse_args()
    rounds, settings = (3, SETTINGS[:1]) if asked.smoke else (asked.rounds, SETTINGS)
    warnings.simplefilter("ignore")
    print(f"{'':36} {'road':10} {'CPU ms':>10} {'beside the original':>24} {'peak MB':>8}")
    for setting in settings:
        roads = prepared(setting)
        timed(roads, 3)
        gc.disable()
        taken = timed(roads, rounds)
        gc.enable()
        for name in ROADS:
            ratios = [a / b for a, b in zip(taken[name], taken["original"], strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            spread = f"{middle:.2f} ({low:.2f} to {high:.2f})"
            peak = peak_bytes(roads[name]()) / 2**20
            print(
                f"{setting.about:36} {name:10} {1000 * statistics.median(taken[name]):10.3f} {spread:>24} {peak:8.3f}"
            )


if __name__ == "__main__":
    main()

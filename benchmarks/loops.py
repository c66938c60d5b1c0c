"""The cost of the reference loop with all its fixes, compared with a bare loop over the same batches.

    python benchmarks/loops.py [--rounds 15] [--samples 256] [--batch 16] [--smoke]

Both loops evaluate the same small transformer over the batches of a data loader, in turn, so that the load of the
machine is the same for both. The bare loop is the usual one: ``model.eval()``, ``no_grad``, a mean of the losses of the
batches and a list of predictions. `pytest_evalcheck.fixes.loops.evaluate` restores the model's state, retries, adds
sums and items per sample, and joins predictions by id. `ExactLossTrainer` is compared with the plain Trainer where
transformers is installed; its check of the loss runs once per trainer, before the rounds.

Printed are the median of each and the median of the ratios of the rounds, in time and in processor time. On a busy
machine the models' own time varies by more than the goal of 3 %. Therefore both loops also run with a model that
returns logits computed before: their difference is what the fixes add, and its share of the bare loop is the last
figure of each pair.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from pytest_evalcheck.fixes.loops import IdCollator, StepResult, evaluate, sample_losses

TOKENS, VOCABULARY = 64, 1000


class Model(nn.Module):
    """A language model of four layers."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(128, 4, 512, batch_first=True)
        self.embed = nn.Embedding(VOCABULARY, 128)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(128, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embed(tokens)))


class Remembered(nn.Module):
    """Returns logits computed before, so that a loop around it takes the loop's own time."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits, requires_grad=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.logits[: len(tokens)]


def rows(samples: int) -> list[dict[str, Any]]:
    return [{"id": number, "tokens": torch.randint(0, VOCABULARY, (TOKENS,))} for number in range(samples)]


def bare(model: nn.Module, loader: Any) -> tuple[float, torch.Tensor]:
    losses, predictions = [], []
    model.eval()
    with torch.no_grad():
        for batch in loader:
            logits = model(batch["tokens"])
            shifted = logits[:, :-1].reshape(-1, VOCABULARY)
            losses.append(cross_entropy(shifted, batch["tokens"][:, 1:].reshape(-1)).item())
            predictions.append(logits.argmax(-1))
    model.train()
    return statistics.mean(losses), torch.cat(predictions)


def step(model: nn.Module, batch: Any) -> StepResult:
    logits = model(batch["tokens"])
    sums, items = sample_losses(logits, batch["tokens"], shift=True)
    return StepResult(batch["ids"], sums, items, {"predictions": logits.argmax(-1)})


def measured(ways: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for number in range(rounds):
        names = list(ways) if number % 2 else list(ways)[::-1]
        for name in names:
            clock, work = time.perf_counter(), time.process_time()
            ways[name]()
            found[name].append((time.perf_counter() - clock, time.process_time() - work))
    return found


def added(found: dict[str, list[tuple[float, float]]], without: dict[str, list[tuple[float, float]]]) -> None:
    """Print what the fixes add, in processor time of rounds without a model, beside the whole of the bare loop."""
    bare, fixed = (statistics.median(work for _, work in times) for times in without.values())
    whole = statistics.median(work for _, work in next(iter(found.values())))
    print(f"{'added by the fixes':28} {1000 * (fixed - bare):8.2f} ms, {100 * (fixed - bare) / whole:+.2f} %")


def told(found: dict[str, list[tuple[float, float]]]) -> None:
    first = next(iter(found))
    for name, times in found.items():
        middle = [statistics.median(each) for each in zip(*times, strict=True)]
        pairs = zip(times, found[first], strict=True)
        ratios = [[a / b for a, b in zip(mine, theirs, strict=True)] for mine, theirs in pairs]
        clock, work = (statistics.median(each) for each in zip(*ratios, strict=True))
        print(f"{name:28} {middle[0]:8.3f} s {middle[1]:8.3f} s  ratio {clock:.3f}, of processor time {work:.3f}")


def loops(rounds: int, samples: int, batch: int) -> None:
    torch.manual_seed(0)
    data = rows(samples)
    plain = DataLoader(data, batch_size=batch)
    carrying = DataLoader(data, batch_size=batch, collate_fn=IdCollator())

    def ways(model: nn.Module) -> dict[str, Callable[[], Any]]:
        return {
            "bare loop": lambda: bare(model, plain),
            "evaluate, all fixes": lambda: evaluate(model, carrying, step, order=samples),
        }

    model = Model().train()
    assert abs(bare(model, plain)[0] - evaluate(model, carrying, step, order=samples).loss) < 1e-4
    found = measured(ways(model), rounds)
    told(found)
    added(found, measured(ways(Remembered(torch.randn(batch, TOKENS, VOCABULARY)).train()), 4 * rounds))


def trainers(rounds: int, samples: int, batch: int) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
    from transformers.modeling_outputs import CausalLMOutput
    from transformers.utils import logging

    from pytest_evalcheck.fixes.loops import ExactLossTrainer

    logging.set_verbosity_error()
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=128, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4
    )

    class RememberedForCausalLM(LlamaForCausalLM):
        """Looks its logits up, so that only the Trainer takes time."""

        table = torch.randn(VOCABULARY, VOCABULARY)

        def forward(self, input_ids: Any, labels: Any = None, **kwargs: Any) -> CausalLMOutput:
            logits = self.table[input_ids]
            loss = None
            if labels is not None:
                loss = self.loss_function(logits=logits, labels=labels, vocab_size=VOCABULARY, **kwargs)
            return CausalLMOutput(loss=loss, logits=logits)

    data = [{"input_ids": row["tokens"], "labels": row["tokens"]} for row in rows(samples)]

    def made(kind: Any, model: Any) -> Any:
        args = TrainingArguments(
            tempfile.mkdtemp(), report_to=[], use_cpu=True, disable_tqdm=True, per_device_eval_batch_size=batch
        )
        trainer = kind(model=model, args=args, eval_dataset=data)
        trainer.log = lambda *_: None
        return trainer.evaluate

    def ways(model: Any) -> dict[str, Callable[[], Any]]:
        return {"Trainer": made(Trainer, model), "ExactLossTrainer": made(ExactLossTrainer, model)}

    found = measured(ways(LlamaForCausalLM(config)), rounds)
    told(found)
    added(found, measured(ways(RememberedForCausalLM(config)), 4 * rounds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    given = parser.parse_args()
    if given.smoke:
        given.rounds, given.samples, given.batch = 1, 12, 4
    loops(given.rounds, given.samples, given.batch)
    if importlib.util.find_spec("transformers"):
        trainers(given.rounds, given.samples, given.batch)

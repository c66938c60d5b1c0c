"""Scripts of loops, from a library whose faults an environment variable mends: they end with 1, and with 0 without."""

from __future__ import annotations

from pathlib import Path

import pytest
from mended_library import made_project, require_script, require_tests

LIBRARY = '''
"""A library of evaluations that knows nothing of the suite. MENDED=1 takes its faults out."""
import os
from contextlib import contextmanager
import torch

MENDED = bool(os.environ.get("MENDED"))


@contextmanager
def evaluating(model):
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def network():
    return torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 3))


class Evaluator:
    """Sums and counts over all batches; the modes of the model are restored."""

    def __init__(self, model):
        self.model = model

    def losses(self, batch):
        return torch.nn.functional.cross_entropy(self.model(batch["x"]), batch["labels"], reduction="none")

    def finish(self, parts):
        return {"loss": torch.cat(parts).mean().item()}

    def run(self, loader):
        with evaluating(self.model):
            return self.finish([self.losses(batch) for batch in loader])


class MeanOfMeans(Evaluator):
    def finish(self, parts):
        return super().finish(parts if MENDED else [part.mean().reshape(1) for part in parts])


class KeepsBatches(Evaluator):
    """What a run that failed has counted is in the numbers of the next one."""

    def __init__(self, model):
        super().__init__(model)
        self.kept = []

    def losses(self, batch):
        self.kept.append(super().losses(batch))
        return self.kept[-1]

    def finish(self, parts):
        kept, self.kept = self.kept, []
        return super().finish(parts if MENDED else kept)


class LeavesEval(Evaluator):
    """After an error the model stays as it was evaluated."""

    def run(self, loader):
        if MENDED:
            return super().run(loader)
        training = self.model.training
        self.model.eval()
        with torch.no_grad():
            numbers = self.finish([self.losses(batch) for batch in loader])
        self.model.train(training)
        return numbers


class Draws(Evaluator):
    """A random order, drawn from the generator that training uses."""

    def run(self, loader):
        if not MENDED:
            torch.randperm(3)
        return super().run(loader)


class EndsEarly(Evaluator):
    """A StopIteration of a metric is taken for the end of the data."""

    metric = None

    def losses(self, batch):
        if self.metric is not None:
            self.metric(batch["labels"])
        return super().losses(batch)

    def finish(self, parts):
        return super().finish([torch.zeros(1), *parts])

    def run(self, loader):
        if MENDED:
            return super().run(loader)
        parts, batches = [], iter(loader)
        with evaluating(self.model):
            try:
                while True:
                    parts.append(self.losses(next(batches)))
            except StopIteration:
                return self.finish(parts)


class Shards(Evaluator):
    """Each rank reports the mean of its own shard."""

    def gathered(self, parts, rank, ranks):
        if MENDED:
            gathered = [None] * ranks
            torch.distributed.all_gather_object(gathered, torch.cat(parts))
            parts = gathered
        return parts


class Sorts(Evaluator):
    """Predictions are returned in the order of the labels."""

    def predict(self, loader):
        with evaluating(self.model):
            rows = [row for batch in loader for row in zip(batch["labels"].tolist(), self.model(batch["x"]).tolist())]
        return [logits for _, logits in (rows if MENDED else sorted(rows, key=lambda row: row[0]))]
'''
TARGETS = """
import torch
import library
import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

ROWS = es.tabular(features=2, classes=3)
STEPS = 4

def plain(evaluator, **more):
    def evaluate(data, batch_size=2):
        return evaluator.run(data.loader(batch_size))
    return ec.Loop(evaluate=evaluate, model=evaluator.model, **more)

def trained(model):
    def train(data, between):
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
        for step in range(STEPS):
            if step == STEPS // 2:
                between()
            batch = data.collate(list(data))
            loss = torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return {"losses": losses}
    return train

@ec.loop(inputs=ROWS)
def mean_of_means():
    return plain(library.MeanOfMeans(library.network()))

@ec.loop(inputs=ROWS)
def keeps_batches():
    return plain(library.KeepsBatches(library.network()))

@ec.loop(inputs=ROWS)
def leaves_eval():
    evaluator = library.LeavesEval(library.network())
    return plain(evaluator, train=trained(evaluator.model))

@ec.loop(inputs=ROWS)
def draws():
    evaluator = library.Draws(library.network())
    return plain(evaluator, resume=evaluator.model.train)

@ec.loop(inputs=ROWS)
def ends_early():
    evaluator = library.EndsEarly(library.network())
    def scored_with(function, data, batch_size=2):
        evaluator.metric = function
        return evaluator.run(data.loader(batch_size))
    return plain(evaluator, scored_with=scored_with)

@ec.loop(inputs=ROWS)
def shards():
    evaluator = library.Shards(library.network())
    def on_rank(data, batch_size=2):
        rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
        own = [data[i] for i in range(rank, len(data), ranks)]
        with library.evaluating(evaluator.model):
            parts = [evaluator.losses(data.collate(own))] if own else [torch.zeros(0)]
        return evaluator.finish(evaluator.gathered(parts, rank, ranks))
    return plain(evaluator, on_rank=on_rank)

@ec.loop(inputs=ROWS)
def sorts():
    evaluator = library.Sorts(library.network())
    def evaluate(data, batch_size=2):
        rows = evaluator.predict(data.loader(batch_size))
        numbers = {"sum": sum(map(sum, rows))}
        return ec.Evaluated(numbers, [(i, {"logits": row}) for i, row in enumerate(rows)])
    return ec.Loop(evaluate=evaluate, model=evaluator.model)
"""
EXPECTED = {
    "ec501_mean_of_means": "batch_size=2",
    "ec504_keeps_batches": ".failing(",
    "ec505_leaves_eval": "trained(",
    "ec505_draws": "next_random_numbers()",
    "ec513_ends_early": "passed_on(outcome, 'StopIteration')",
    "ec511_shards": "on_ranks(",
    "ec503_sorts": "['records']",
}
"""By script: what stands in it."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run with both options."""
    folder = tmp_path_factory.mktemp("project")
    select = "--evalcheck-select=EC501,EC503,EC504,EC505,EC511,EC513"
    return made_project(folder, LIBRARY, TARGETS, select, "-m", "distributed or not distributed")


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_script_of_a_loop_shows_the_fault_and_ends_well_without_it(made: Path, name: str) -> None:
    require_script(made, name, EXPECTED[name])


def test_the_tests_of_loops_fail_until_the_library_is_mended(made: Path) -> None:
    require_tests(made, len(EXPECTED))


def test_a_script_defines_what_it_needs_and_no_more(made: Path) -> None:
    source = (made / "scripts" / "ec501_mean_of_means.py").read_text(encoding="utf-8")
    assert "def plain(evaluator, **more):" in source
    assert "STEPS" not in source
    assert "def trained" not in source
    assert "stream" not in source

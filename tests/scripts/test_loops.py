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
def plain(evaluator, **more):
    def evaluate(data, batch_size=2):
        return evaluator.run(data.loader(batch_size))
    return ec.Loop(evaluate=evaluate, model=evaluator.model, **more)

@ec.loop(inputs=ROWS)
def mean_of_means():
    return plain(library.MeanOfMeans(library.network()))

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
    "ec503_sorts": "records",
}
"""Text in each script."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project after a run with both options."""
    return made_project(tmp_path_factory, "loops", LIBRARY, TARGETS, "--evalcheck-select=EC501,EC503")


@pytest.mark.parametrize("name", list(EXPECTED))
def test_a_script_of_a_loop_shows_the_fault_and_ends_well_without_it(made: Path, name: str) -> None:
    require_script(made, name, EXPECTED[name])


def test_the_tests_of_loops_fail_until_the_library_is_mended(made: Path) -> None:
    require_tests(made, len(EXPECTED))


def test_a_script_defines_what_it_needs_and_no_more(made: Path) -> None:
    source = (made / "scripts" / "ec501_mean_of_means.py").read_text(encoding="utf-8")
    assert "def plain(evaluator, **more):" in source

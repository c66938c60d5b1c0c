"""Pipelines of transformers: their outputs as plain values, their usual batches, and a target for each of their tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from pytest_evalcheck.adapters.transformers import pipeline_loop

TARGETS = Path(__file__).parents[2] / "fixtures" / "targets"


class Data:
    """Two samples, as the checks give them to a loop."""

    rows = (("a", 1), ("b", 2))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[str, int]:
        return self.rows[index]

    def collate(self, rows: list[tuple[str, int]]) -> tuple[list[str], list[int]]:
        return [row[0] for row in rows], [row[1] for row in rows]


class Pipe:
    """A pipeline that notes how it was called."""

    model = None

    def __call__(self, inputs: Any, **options: Any) -> list[dict[str, Any]]:
        self.inputs, self.options = inputs, options
        return [{"label": inputs[i], "score": 0.5} for i in range(len(inputs))]


def test_values_of_all_kinds_become_plain() -> None:
    output = {"a": torch.tensor([[1.0, 2.0]]), "b": numpy.arange(2), "c": numpy.float32(1), "d": (torch.tensor(3), "e")}
    assert pipeline_loop.plain(output) == {"a": [[1.0, 2.0]], "b": [0, 1], "c": 1.0, "d": [3, "e"]}


def test_one_sample_a_batch_from_a_data_set_is_usual() -> None:
    pipe = Pipe()
    assert pipeline_loop.loop(pipe).evaluate(Data()).numbers == {"hit": 0.0, "score": 0.5}
    assert pipe.options == {"batch_size": 1, "num_workers": 0}
    assert isinstance(pipe.inputs, torch.utils.data.Dataset)


def test_the_first_source_of_a_target_is_its_usual_one() -> None:
    pipe = Pipe()
    pipeline_loop.loop(pipe, options={"batch_size": (1, 2), "source": ("list",)}).evaluate(Data())
    assert pipe.inputs == ["a", "b"]


def test_every_task_has_a_target() -> None:
    pipelines = pytest.importorskip("transformers.pipelines")
    text = "".join(path.read_text("utf-8") for path in TARGETS.glob("evalcheck_loops_pipeline*.py"))
    assert [task for task in pipelines.SUPPORTED_TASKS if f'"{task}"' not in text] == []

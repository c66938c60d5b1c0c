from __future__ import annotations

import pytest
import torch
from loop_data import data, mean_loss, network

pytest.importorskip("accelerate")

from pytest_evalcheck.adapters.accelerate import loop as accelerate_loop


def accelerator():
    from accelerate import Accelerator

    return Accelerator(cpu=True)


def step(model, batch):
    return {"loss": torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"], reduction="none")}


def finish(rows):
    return {"loss": rows["loss"].mean()}


@pytest.mark.parametrize("iterable", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4, 7])
def test_rows_are_gathered_with_their_ids(size, iterable):
    model = network()
    found = accelerate_loop.loop(accelerator, model, step, finish).evaluate(data(), batch_size=size, iterable=iterable)
    assert float(found.numbers["loss"]) == pytest.approx(mean_loss(model), rel=1e-5)
    assert [place for place, _ in found.records] == [0, 1, 2, 3, 4]
    assert [fields["loss"] for _, fields in found.records] == pytest.approx(
        [mean_loss(model, [row]) for row in data()], rel=1e-5
    )

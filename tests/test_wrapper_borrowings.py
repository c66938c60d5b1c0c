"""What an evaluation borrows and has to give back, and the batches that it has to refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from wrapper_subjects import IMAGES, subject

from fixtures.gallery.wrappers_correct import EvaluatesByItself, ScoresLabels
from pytest_evalcheck.kinds.common.malformed import spoiled, without
from pytest_evalcheck.kinds.wrapper.model_state import EVALUATES, STARTS, Borrowed, start


def test_batches_are_spoiled_in_every_field() -> None:
    good = {"x": torch.zeros(3, 2), "labels": torch.tensor([1, 2, 0])}
    made = {(bad.field, bad.fault): bad.batch for bad in spoiled(good, "labels")}
    assert list(made) == [
        ("x", "missing"),
        ("labels", "missing"),
        ("labels", "of another length"),
        ("labels", "of another dtype"),
    ]
    assert list(made["x", "missing"]) == ["labels"]
    assert made["labels", "of another length"]["labels"].tolist() == [1]  # what is broadcast most easily
    assert made["labels", "of another dtype"]["labels"].dtype == torch.float32
    _, short, _ = spoiled({"labels": torch.tensor([1])}, "labels")
    assert short.batch["labels"].shape == (0,)
    assert spoiled((1, 2), "labels") == []
    assert (without({"a": 1}, "b"), without((1,), 0)) == (None, None)


def test_labels_that_are_not_needed_may_be_anything() -> None:
    bare = subject(update=None)
    good = bare.fresh().scores(bare.batch(IMAGES))
    assert {bad.fault for bad in bare.spoiled(IMAGES, "", good)} == {"missing"}
    wrapper = subject(ScoresLabels)
    good = wrapper.fresh().scores(wrapper.batch(IMAGES))
    assert len(wrapper.spoiled(IMAGES, "", good)) == 4


CHANGES = {
    "the model.training: False became True": lambda model: setattr(model, "training", True),
    "3.weight.requires_grad: True became False": lambda model: model[3].weight.requires_grad_(False),
    "the parameter 3.weight was changed": lambda model: model[3].weight.data.mul_(2),
    "the gradient of 3.weight was changed": lambda model: model[3].weight.grad.add_(1),
    "the gradient of 3.bias was changed": lambda model: setattr(model[3].bias, "grad", None),
    "the buffer 1.running_mean was changed": lambda model: model[1].running_mean.add_(1),
    "the buffer 1.running_var was changed": lambda model: setattr(
        model[1], "running_var", model[1].running_var.double()
    ),
    "torch's random numbers were drawn": lambda model: torch.rand(1),
    "Python's random numbers were drawn": lambda model: __import__("random").random(),
    "numpy's random numbers were drawn": lambda model: np.random.rand(),
}


@pytest.mark.parametrize(("line", "change"), CHANGES.items(), ids=CHANGES)
def test_what_is_not_given_back_is_named(line: str, change: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(), nn.Linear(2, 1))
    start(model, EVALUATES)
    before = Borrowed(model)
    assert before.kept_back() == []
    change(model)
    assert before.kept_back() == [line]


def test_what_layers_do_in_training_is_not_held_against_an_evaluation() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())
    start(model, "every submodule trains")
    before = Borrowed(model, values=False)
    model(torch.ones(2, 2))
    assert before.kept_back() == []


@pytest.mark.parametrize(
    ("name", "training"),
    [
        (EVALUATES, [False, False, False]),
        ("every submodule trains", [True, True, True]),
        ("some submodules are frozen", [True, False, True]),
    ],
)
def test_starts_set_every_mode_and_a_gradient(name: str, training: list[bool]) -> None:
    assert name in STARTS
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False))
    start(model, name)
    assert [module.training for module in model.modules()] == training
    assert [parameter.grad is not None for parameter in model.parameters()] == [True, True, False, False]


def test_a_wrapper_that_evaluates_by_itself_gives_everything_back() -> None:
    wrapper = subject(EvaluatesByItself)
    live = wrapper.fresh()
    for name in STARTS:
        start(live.record.model, name)
        before = Borrowed(live.record.model)
        live.record.forward(wrapper.batch(IMAGES))
        assert before.kept_back() == []

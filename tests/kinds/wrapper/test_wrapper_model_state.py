"""The state that an evaluation must restore, and the batches that it must reject."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from wrapper_subjects import IMAGES, subject

from fixtures.gallery.wrappers_correct import EvaluatesByItself, ScoresLabels
from pytest_evalcheck.devices import simulate
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.kinds.wrapper.malformed import malformed_batches, without_field
from pytest_evalcheck.kinds.wrapper.model_state import (
    ALL_EVALUATE,
    INITIAL_MODES,
    ModelStateSnapshot,
    set_initial_modes,
)


def test_every_field_of_a_batch_is_missing_once() -> None:
    good = {"x": torch.zeros(3, 2), "labels": torch.tensor([1, 2, 0])}
    made = {(bad.field, bad.fault): bad.batch for bad in malformed_batches(good, "labels")}
    assert list(made) == [
        ("x", "missing"),
        ("labels", "missing"),
        ("labels", "of another length"),
        ("labels", "of another dtype"),
    ]
    assert list(made["x", "missing"]) == ["labels"]
    assert made["labels", "of another length"]["labels"].tolist() == [1]  # what is broadcast most easily
    assert made["labels", "of another dtype"]["labels"].dtype == torch.float32
    _, short, _ = malformed_batches({"labels": torch.tensor([1])}, "labels")
    assert short.batch["labels"].shape == (0,)
    assert malformed_batches((1, 2), "labels") == []
    assert (without_field({"a": 1}, "b"), without_field((1,), 0)) == (None, None)


def test_labels_that_are_not_needed_may_be_anything() -> None:
    bare = subject(update=None)
    good = bare.fresh().scores(bare.batch(IMAGES))
    assert {bad.fault for bad in bare.malformed(IMAGES, "", good)} == {"missing"}
    wrapper = subject(ScoresLabels)
    good = wrapper.fresh().scores(wrapper.batch(IMAGES))
    assert len(wrapper.malformed(IMAGES, "", good)) == 4


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
def test_every_difference_is_named(line: str, change: Any) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(), nn.Linear(2, 1))
    set_initial_modes(model, ALL_EVALUATE)
    before = ModelStateSnapshot(model)
    assert before.differences() == []
    change(model)
    assert before.differences() == [line]


def test_a_seed_is_seen_though_nothing_was_drawn() -> None:
    with same_random_numbers():
        np.random.seed(3)
        before = ModelStateSnapshot(nn.Linear(2, 2))
        assert before.differences() == []
        np.random.seed(4)
        assert before.differences() == ["numpy's random numbers were drawn"]


def test_changes_of_layers_in_training_mode_are_not_reported() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())
    set_initial_modes(model, "every submodule trains")
    before = ModelStateSnapshot(model, values=False)
    model(torch.ones(2, 2))
    assert before.differences() == []


@pytest.mark.parametrize(
    ("name", "training"),
    [
        (ALL_EVALUATE, [False, False, False]),
        ("every submodule trains", [True, True, True]),
        ("some submodules are frozen", [True, False, True]),
    ],
)
def test_initial_modes_set_every_mode_and_a_gradient(name: str, training: list[bool]) -> None:
    assert name in INITIAL_MODES
    model = nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False))
    set_initial_modes(model, name)
    assert [module.training for module in model.modules()] == training
    assert [parameter.grad is not None for parameter in model.parameters()] == [True, True, False, False]


def test_a_wrapper_that_sets_its_own_mode_restores_everything() -> None:
    wrapper = subject(EvaluatesByItself)
    live = wrapper.fresh()
    for name in INITIAL_MODES:
        set_initial_modes(live.record.model, name)
        before = ModelStateSnapshot(live.record.model)
        live.record.forward(wrapper.batch(IMAGES))
        assert before.differences() == []


def test_a_model_that_evaluating_moves_to_a_device_is_compared_by_its_values() -> None:
    with simulate("cuda"):
        model = nn.BatchNorm1d(2)
        before = ModelStateSnapshot(model)
        model.to("cuda")
        assert before.differences() == []
        with torch.no_grad():
            model.weight.add_(1)
            model.running_mean.add_(1)
        assert before.differences() == ["the parameter weight was changed", "the buffer running_mean was changed"]

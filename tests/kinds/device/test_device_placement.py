"""Moves of outputs and batches for the placements of EC601, and the errors that count as scores."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.devices_wrappers import FeedsAMaskOnTheCPU, FeedsDoubles
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.device.cpu_reference import score
from pytest_evalcheck.kinds.device.placement import move_to
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject


@dataclass
class Numbers:
    device: str = "cpu"

    def to(self, device: str) -> Numbers:
        return Numbers(device)


@dataclass
class Outputs:
    logits: Any = field(default_factory=Numbers)
    name: str = "outputs"


Pair = namedtuple("Pair", ["logits", "labels"])
MOVED = Numbers("mps")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Numbers(), MOVED),
        ([Numbers(), 3], [MOVED, 3]),
        ((Numbers(), "text"), (MOVED, "text")),
        (Pair(Numbers(), [Numbers()]), Pair(MOVED, [MOVED])),
        ({"a": Numbers(), "b": {"c": (Numbers(),)}}, {"a": MOVED, "b": {"c": (MOVED,)}}),
        (OrderedDict(a=[Numbers()]), OrderedDict(a=[MOVED])),
        (Outputs(), Outputs(MOVED)),
        (None, None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_everything_in_a_container_is_moved_and_the_container_keeps_its_type(value: Any, expected: Any) -> None:
    moved = move_to(value, "mps")
    assert moved == expected
    assert type(moved) is type(expected)


def test_the_containers_that_were_given_stay_as_they_were() -> None:
    batch = {"a": [Numbers()]}
    move_to(batch, "mps")
    assert batch == {"a": [Numbers()]}


class Sums:
    """Adds what it is fed; refuses labels below 0."""

    def __init__(self) -> None:
        self.total = 0.0

    def update(self, outputs: Any, labels: Any) -> None:
        if (labels < 0).any():
            raise ValueError("a label is below 0")
        self.total += float(outputs.sum())

    def compute(self) -> float:
        return self.total


def wrapper(inputs: Any, metrics: Mapping[str, Any]) -> WrapperSubject:
    record = ec.Wrapper(
        forward=lambda batch: {"logits": batch["pixel_values"] * 2},
        update=lambda batch, outputs, metric: metric.update(outputs["logits"], batch["labels"]),
        metrics=lambda: {name: made() for name, made in metrics.items()},
    )
    return WrapperSubject(build=lambda: record, inputs=inputs)


def test_an_error_of_a_metric_that_is_fed_is_the_score() -> None:
    inputs = FeedsDoubles.inputs
    subject = wrapper(inputs, {"sums": Sums})
    good, bad = inputs.fixed(2), [(pixels, -1) for pixels, _ in inputs.fixed(2)]
    assert not isinstance(score(subject, good), Raised)
    error = score(subject, bad)
    assert isinstance(error, Raised)
    assert str(error.error) == "a label is below 0"


@pytest.mark.parametrize(("made", "code"), [(FeedsAMaskOnTheCPU, "EC603"), (FeedsDoubles, "EC604")])
def test_a_metric_that_cannot_be_fed_on_a_device_is_told(made: Any, code: str) -> None:
    @ec.wrapper(inputs=made.inputs)
    def target(device: str) -> Any:
        record = made().record()
        record.model.to(device)
        return record

    (cell,) = ec.run(target, "sim:mps", select=code, effort="quick").cells
    assert (cell.outcome, cell.cause) == ("failed", ""), cell.reason


class _Sum:
    """A sum in float64, on the device that its constructor is given."""

    def __init__(self, device: str) -> None:
        self.total = torch.zeros((), dtype=torch.float64, device=device)

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.total += (preds - target).abs().to(self.total).sum()

    def compute(self) -> Tensor:
        return self.total.clone()


def test_a_state_that_cannot_be_created_on_a_device_is_one_fault() -> None:
    @ec.metric(inputs=es.regression())
    def target(device: str) -> Any:
        return _Sum(device)

    codes = ["EC601", "EC603", "EC604", "EC606", "EC607"]
    cells = {cell.code: cell for cell in ec.run(target, "sim:mps", select=",".join(codes), effort="quick").cells}
    assert [code for code in codes if cells[code].outcome == "failed"] == ["EC604"]
    assert cells["EC604"].signature == "EC604: missing-dtype-on-mps: TypeError in test_device_placement:__init__"
    assert all(
        cell.outcome != "failed"
        for cell in ec.run(target, "sim:cuda", select=",".join(codes[:4]), effort="quick").cells
    )


class _Lists:
    """A list of batches, empty at first; the table of initial values stays where it is, and `reset` copies from it."""

    def __init__(self) -> None:
        self.initial = {"values": [torch.empty(0)]}
        self.device = torch.device("cpu")
        self.reset()

    def reset(self) -> None:
        self.values = [each.clone().to(self.device) for each in self.initial["values"]]

    def to(self, device: str) -> _Lists:
        self.device = torch.empty(0, device=device).device
        self.values = [each.to(device) for each in self.values]
        return self

    def state_dict(self) -> dict[str, Any]:
        return {"values": list(self.values)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.values = list(state["values"])

    def update(self, preds: Tensor, target: Tensor) -> None:
        self.values[0] = torch.cat([self.values[0], (preds - target).abs()])

    def compute(self) -> Tensor:
        return torch.cat(self.values).mean()


class _ForgetsThem(_Lists):
    """A reset copies the initial values and leaves them on their device."""

    def reset(self) -> None:
        self.values = [each.clone() for each in self.initial["values"]]


@pytest.mark.parametrize(("made", "outcome"), [(_Lists, "passed"), (_ForgetsThem, "failed")])
def test_initial_values_that_a_reset_moves_may_stay(made: Any, outcome: str) -> None:
    @ec.metric(inputs=es.regression())
    def target(device: str) -> Any:
        return made().to(device)

    assert [cell.outcome for cell in ec.run(target, "sim:cuda", select="EC605", effort="quick").cells] == [outcome]

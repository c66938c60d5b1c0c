"""The parts of the device checks that compare, move and name devices, one by one."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from fixtures.gallery.table import SPECIMENS
from pytest_evalcheck.expectations.comparison import Raised, Tolerance
from pytest_evalcheck.kinds.device import placement, relocation
from pytest_evalcheck.kinds.device.cost import _repeated
from pytest_evalcheck.kinds.device.cpu_reference import ROUNDING, device_tolerance, lacking, mentions_device
from pytest_evalcheck.kinds.device.placement import _without_outputs, move_to
from pytest_evalcheck.kinds.device.relocation import Movable, move_error, with_index
from pytest_evalcheck.kinds.registry import shipped

Pair = namedtuple("Pair", "first second")


@dataclass
class Fields:
    ids: Any
    name: str = "x"


class Unlike(Exception):
    """An error with any text."""


def raised(text: str) -> Raised:
    return Raised(error=Unlike(text), where="update")


class TestMoveTo:
    def test_containers_keep_their_types_and_their_other_contents(self) -> None:
        value = {
            "pair": Pair(torch.ones(1), [torch.ones(2), 3]),
            "ordered": OrderedDict(a=torch.ones(1)),
            "fields": Fields(torch.ones(1)),
            "tuple": (torch.ones(1), "text"),
            "class": Fields,
            "number": 7,
        }
        moved = move_to(value, "meta")
        assert [type(part) for part in moved.values()] == [type(part) for part in value.values()]
        tensors = [moved["pair"].first, moved["pair"].second[0], moved["ordered"]["a"], moved["fields"].ids]
        assert {tensor.device.type for tensor in [*tensors, moved["tuple"][0]]} == {"meta"}
        assert (moved["number"], moved["pair"].second[1], moved["tuple"][1], moved["class"]) == (7, 3, "text", Fields)
        assert value["fields"].ids.device.type == "cpu"

    def test_what_has_no_method_to_stays_itself(self) -> None:
        class WithAttribute:
            to = "not a method"

        value = WithAttribute()
        assert move_to(value, "meta") is value

    def test_outputs_are_no_metric(self) -> None:
        assert _without_outputs({"outputs": 1, "Accuracy": 2}) == {"Accuracy": 2}


class TestErrors:
    @pytest.mark.parametrize(
        ("text", "lacks", "device"),
        [
            (
                "Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.",
                "dtype",
                True,
            ),
            ("complex128 is not supported by MPS", "dtype", True),
            ("float8_e4m3fn: this device does not support it", "dtype", True),
            ("expected all tensors to be on the same device, cuda:0 and cpu", "", True),
            ("it is on cuda:1", "", True),
            ("devices differ", "", True),
            ("The operator 'aten::mode' is not currently implemented for the MPS device. If", "operator", True),
            ("Could not run 'aten::histogram' with arguments from the 'CUDA' backend. This", "operator", True),
            ("Could not run 'aten::mm' with arguments from the 'SparseCsrMPS' backend. This", "operator", False),
            ("Could not run 'aten::mm' with arguments from the 'SparseCPU' backend.", "", False),
            ("the shapes differ", "", False),
            ("deviceless", "", False),
        ],
    )
    def test_are_told_apart_by_their_text(self, text: str, lacks: str, device: bool) -> None:
        assert (lacking(raised(text)), mentions_device(raised(text))) == (lacks, device)

    def test_a_value_is_no_error(self) -> None:
        assert not lacking("float64 MPS")
        assert not mentions_device("cuda")


class TestDifference:
    """Differences between a moved batch and the original."""

    @pytest.mark.parametrize(
        ("moved", "original", "found"),
        [
            ([torch.ones(1)], (torch.ones(1),), "batch was a tuple and is a list"),
            ((torch.ones(1),), [torch.ones(1)], "batch was a list and is a tuple"),
            ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "batch has the keys ['a', 'b'], not ['b', 'a']"),
            ([1, 2], [1], "batch has 2 entries, not 1"),
            ([1, 2], [1, 3], "batch[1] was 3 and is 2"),
            ({"a": [1, 2]}, {"a": [1, 3]}, "batch['a'][1] was 3 and is 2"),
            (Fields(1, "y"), Fields(1, "x"), "batch.name was 'x' and is 'y'"),
            (Fields(1), Fields(1), ""),
            ({"a": [torch.ones(2), "t"]}, {"a": [torch.ones(2), "t"]}, ""),
            (torch.ones(1, device="meta"), torch.ones(1), "batch is on meta, not on cpu"),
        ],
    )
    def test_names_the_place(self, moved: Any, original: Any, found: str) -> None:
        assert move_error(lambda: moved, original, "cpu") == found

    def test_numbers_are_compared_exactly(self) -> None:
        assert move_error(lambda: torch.ones(1), torch.ones(1), "cpu") == ""
        assert "batch" in move_error(lambda: torch.ones(1) + 1e-6, torch.ones(1), "cpu")

    def test_an_error_is_what_is_wrong(self) -> None:
        def move() -> None:
            raise Unlike("it cannot be moved")

        assert "it cannot be moved" in move_error(move, {}, "cpu")
        thing = Movable(None, lambda device: None, lambda: None, lambda device: None, ())
        assert thing.move("cpu") == ""
        refuses = Movable(None, lambda device: move(), lambda: None, lambda device: None, ())
        assert "it cannot be moved" in refuses.move("cpu")

    def test_a_device_has_an_index_where_a_tensor_reports_one(self) -> None:
        assert with_index("cpu") == "cpu"


def test_only_rounding_is_allowed_on_a_simulated_device() -> None:
    class Subject:
        tolerance = Tolerance(rtol=0.1, atol=0.1)
        ledger: Any = object()

    simulated, real = Subject(), Subject()
    real.ledger = None
    assert device_tolerance(simulated) is ROUNDING  # type: ignore[arg-type]
    assert device_tolerance(real) is Subject.tolerance  # type: ignore[arg-type]
    assert (ROUNDING.rtol, ROUNDING.atol) == (1e-5, 1e-6)


class TestRepeatedTransfers:
    """One transfer of every tensor of a batch is what it takes to bring it to the device."""

    @pytest.mark.parametrize(
        ("shapes", "count"), [([], 0), ([(2,)], 0), ([(2,)] * 3, 2), ([(2,), (3,), (3,), (9,)], 1)]
    )
    def test_are_counted_by_their_shapes(self, shapes: list[tuple[int, ...]], count: int) -> None:
        class Transfer:
            def __init__(self, shape: tuple[int, ...]) -> None:
                self.shape = shape

        class Span:
            transfers = [Transfer(shape) for shape in shapes]

        batch = {"a": torch.ones(2), "b": [torch.ones(3)]}
        assert _repeated(Span(), batch) == {"transfers": count}


def test_one_accelerator_is_enough_for_all_checks_but_one() -> None:
    needed = {made.code: made.accelerators for made in shipped() if made.accelerators}
    assert needed == {
        **dict.fromkeys(("EC601", "EC602", "EC603", "EC604", "EC606", "EC607", "EC608", "EC609", "EC610"), 1),
        "EC605": 2,
    }


@pytest.mark.parametrize(
    ("fed", "given"),
    [
        ({"x": 1.0}, {"x": 1.0}),
        ({"x": 2.0}, {"x": 1.0}),
        (Raised(RuntimeError("expected all tensors on cuda:0"), "update"), None),
    ],
)
def test_outputs_that_are_used_again_are_believed_where_they_are_as_expected(
    fed: Any, given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of outputs may score otherwise than the outputs themselves: then a new wrapper decides."""
    monkeypatch.setattr(placement, "_feed", lambda *_: fed)
    monkeypatch.setattr(placement, "_score", lambda *_, **__: {"x": 1.0})
    shared = placement._SharedForward.__new__(placement._SharedForward)
    vars(shared).update(
        subject=SimpleNamespace(device="cpu"), rows=[], mode="eval", live=None, batch_and_outputs=([1], [2])
    )
    assert shared.score((True, False, True), {"x": 1.0}) == (fed if given is None else given)


def test_what_is_elsewhere_is_named_as_it_is() -> None:
    """This bug shows where the metric alone is on the CPU."""
    bug = next(each.bug for each in SPECIMENS if each.bug.name == "LeavesItToAnotherProcess")
    (cell,) = ec.run(bug, select="EC601", effort="quick", device="sim:mps").cells
    assert cell.failure is not None
    assert cell.failure.about.startswith("the score with metric on the CPU, ")


def test_a_forward_that_is_not_possible_costs_nothing() -> None:
    bug = next(each.bug for each in SPECIMENS if each.bug.name == "MasksOnTheCPU")
    (cell,) = ec.run(bug, select="EC607", effort="quick", device="sim:mps").cells
    assert (cell.outcome, cell.reason.partition(";")[0]) == ("not applicable", "the forward is not possible there")


@pytest.mark.parametrize(
    ("device", "devices"),
    [
        ("cuda", ("cuda", "cuda:1", "cpu")),
        ("cuda:0", ("cuda:0", "cuda:1", "cpu")),
        ("cuda:1", ("cuda:1", "cpu")),
        ("mps", ("mps", "cpu")),
    ],
)
def test_what_moves_goes_to_a_second_accelerator_where_there_may_be_one(
    device: str, devices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relocation, "_model", lambda _, found: found)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert relocation.movable(SimpleNamespace(subject=SimpleNamespace(device=device, feeds_metrics=True))) == devices  # type: ignore[arg-type]

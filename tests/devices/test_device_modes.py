"""Devices of results under the modes and transforms of others: forward derivatives, vmap, autocast, saved tensors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_evalcheck.devices import simulate


def with_attribute(tensor: Tensor) -> Tensor:
    tensor.note = torch.ones(1, device="mps") * 2
    return tensor


@pytest.mark.parametrize(
    ("call", "device"),
    [
        (lambda x, host: x + x, "mps:0"),
        (lambda x, host: host + 1, "cpu"),
        (lambda x, host: x[1:, None], "mps:0"),
        (lambda x, host: x.to(torch.float16), "mps:0"),
        (lambda x, host: x.type(torch.long), "mps:0"),
        (lambda x, host: x.cpu(), "cpu"),
        (lambda x, host: host.to("mps"), "mps:0"),
        (lambda x, host: torch.zeros(2, device="mps"), "mps:0"),
        (lambda x, host: torch.tensor([1.0, 2.0], device="mps"), "mps:0"),
        (lambda x, host: torch.tensor([x[0], x[1]], device="mps"), "mps:0"),
        (lambda x, host: torch.full((2,), x[0]), "cpu"),
        (lambda x, host: torch.zeros_like(x), "mps:0"),
        (lambda x, host: copy.deepcopy(x), "mps:0"),
        (lambda x, host: copy.deepcopy(with_attribute(x)).note, "mps:0"),
        (lambda x, host: x.__setitem__(x > 1, 0.0) or x, "mps:0"),
        (lambda x, host: x.unbind()[0], "mps:0"),
        (lambda x, host: x[x > 2], "mps:0"),
        (lambda x, host: x + torch.tensor(1.0), "mps:0"),
        (lambda x, host: x.clone().requires_grad_() + 1, "mps:0"),
        (lambda x, host: torch.add(x, x, out=torch.empty(2, device="mps")), "mps:0"),
    ],
)
def test_a_result_has_a_device(call: Callable[[Tensor, Tensor], Tensor], device: str) -> None:
    with simulate("mps"):
        assert str(call(torch.ones(2, device="mps"), torch.ones(2)).device) == device


def test_an_operation_in_place_writes_once() -> None:
    with simulate("mps"):
        weight = torch.nn.Parameter(torch.ones(2, device="mps"))
        with torch.no_grad():
            weight.sub_(1.0)
        assert weight.tolist() == [0, 0]
        assert weight._version == 1


def test_a_mask_in_an_index_is_waited_for() -> None:
    with simulate("mps") as ledger:
        there = torch.ones(2, device="mps")
        mask = there > 2
        assert not ledger.syncs
        assert there[mask].numel() == 0
        assert [each.call for each in ledger.syncs] == ["__getitem__"]


def test_a_number_that_is_read_is_waited_for_once_and_by_name() -> None:
    with simulate("mps") as ledger:
        there = torch.ones(2, device="mps")
        assert there.sum().item() == 2
        assert bool(there.any())
        assert len(there.unique()) == 1
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            there.item()
    assert [each.call for each in ledger.syncs] == ["item", "__bool__", "unique"]


def test_other_modes_see_everything() -> None:
    functions, operators = [], []

    class Functions(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            functions.append(func.__name__)
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operators.append(func.name())
            return func(*args, **(kwargs or {}))

    with simulate("mps"):
        there = torch.ones(2, device="mps")
        with Functions(), Operators():
            assert str((there + there).device) == "mps:0"
    assert "add" in functions
    assert "aten::add.Tensor" in operators


@pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # PyTorch's own, on first use
def test_forward_derivatives_are_on_the_device() -> None:
    with simulate("mps"), forward_ad.dual_level():
        value, tangent = torch.ones(2, device="mps"), torch.ones(2, device="mps")
        out = forward_ad.unpack_dual(torch.add(forward_ad.make_dual(value, tangent), 1))
        assert str(out.primal.device) == str(out.tangent.device) == "mps:0"


def test_vectorised_calls_are_on_the_device() -> None:
    with simulate("mps"):
        there = torch.ones(3, 2, device="mps")
        assert str(torch.vmap(lambda row: row + there[0])(there).device) == "mps:0"
        assert str(torch.func.grad(lambda row: (row * there[0]).sum())(there[1]).device) == "mps:0"


def test_weights_that_autocast_keeps_stay_on_the_device() -> None:
    with simulate("mps"):
        layer, rows = torch.nn.Linear(2, 2).to("mps"), torch.ones(1, 2, device="mps")
        with torch.autocast("cpu", torch.bfloat16):
            with torch.no_grad():
                layer(rows)
            assert str(layer(rows).device) == "mps:0"


def test_what_autograd_keeps_is_on_the_device() -> None:
    with simulate("mps"):
        rows = torch.ones(2, 3, device="mps", requires_grad=True)
        kept: list[Tensor] = []
        with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each) or each, lambda each: each):
            torch.nn.functional.linear(rows.softmax(-1), torch.ones(3, 3, device="mps")).exp().sum().backward()
        assert {str(each.device) for each in kept} == {"mps:0"}
        assert str(rows.grad.device) == "mps:0"


def test_a_subclass_keeps_its_type() -> None:
    class Own(Tensor):
        pass

    with simulate("mps"):
        own = torch.ones(2, device="mps").as_subclass(Own)
        assert type(own + 1) is Own
        assert str((own + 1).device) == "mps:0"


def test_unsupported_dtypes_and_mixed_devices_are_refused() -> None:
    with simulate("mps"):
        there = torch.ones(2, device="mps")
        for call in (lambda: torch.sum(there, dtype=torch.float64), there.double, lambda: there.to(torch.float64)):
            with pytest.raises(TypeError, match="MPS framework doesn't support float64"):
                call()
        with pytest.raises(RuntimeError, match="found at least two devices, mps:0 and cpu"):
            there + torch.ones(2)

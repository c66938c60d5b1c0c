"""Views run without the mode below autograd: what they are, and that nothing is lost with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from pytest_evalcheck.devices import CannotSimulate, simulate
from pytest_evalcheck.devices.handlers import views
from pytest_evalcheck.devices.state import HANDLERS

CALLS: dict[str, Callable[[Tensor], Any]] = {
    "adjoint": lambda x: x.adjoint(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2)),
    "chunk": lambda x: x.chunk(2),
    "detach": lambda x: x.detach(),
    "diagonal": lambda x: x.diagonal(),
    "expand": lambda x: x[None].expand(3, 4, 4),
    "movedim": lambda x: x.movedim(0, 1),
    "moveaxis": lambda x: x.moveaxis(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "select": lambda x: x.select(0, 1),
    "split": lambda x: x.split(3),
    "split_with_sizes": lambda x: x.split_with_sizes([1, 3]),
    "squeeze": lambda x: x[:1].squeeze(),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "swapdims": lambda x: x.swapdims(0, 1),
    "t": lambda x: x.t(),
    "transpose": lambda x: torch.transpose(x, 0, 1),
    "unbind": lambda x: x.unbind(),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "view": lambda x: x.view(2, -1),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "mH": lambda x: x.mH,
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "reshape": lambda x: x.reshape(2, 8),
    "an index": lambda x: x[0],
    "a slice": lambda x: x[1:, ..., None, ::2],
}


class Seen(TorchDispatchMode):  # type: ignore[misc]
    """Record the operators that another mode sees inside a simulation."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


def test_every_function_of_the_list_is_called_here() -> None:
    listed = {*views._NAMES.split(), *views._ATTRIBUTES.split(), *views._OF_CONTIGUOUS.split()}
    assert listed == {name for name in CALLS if " " not in name}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_views_on_the_device(name: str, grad: bool) -> None:
    with simulate("cuda"):
        x = torch.ones(4, 4, device="cuda", requires_grad=grad)
        out = CALLS[name](x)
        for item in out if isinstance(out, (tuple, list)) else (out,):
            assert item.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            assert item.device == x.device
            assert item.requires_grad is (grad and name != "detach")


def test_a_copy_is_on_the_device() -> None:
    with simulate("cuda"):
        x = torch.ones(4, 4, device="cuda").t()
        copies = [x.reshape(16), x.flatten(), x.ravel(), x[[0, 1]], x[torch.tensor([True, False, True, True])]]
        assert {copy.device.type for copy in copies} == {"cuda"}


@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: x.view(n, 8),
        lambda x, n: x.view((n, 8)),
        lambda x, n: x.reshape(n, 8),
        lambda x, n: x.select(0, n),
        lambda x, n: x[n],
        lambda x, n: x[:n],
        lambda x, n: x[0, n:],
    ],
)
def test_a_size_on_the_device_is_waited_for(call: Callable[[Tensor, Tensor], Tensor]) -> None:
    with simulate("cuda") as ledger:
        call(torch.ones(4, 4, device="cuda"), torch.tensor(2, device="cuda"))
        assert len(ledger.syncs) == 1


@pytest.mark.parametrize("name", ["view", "an index", "flatten", "T"])
def test_a_tensor_of_an_earlier_simulation_is_refused(name: str) -> None:
    with simulate("cuda"):
        x = torch.ones(4, 4, device="cuda")
    with simulate("mps"), pytest.raises(CannotSimulate, match="left by an earlier"):
        CALLS[name](x)


@pytest.mark.parametrize("name", ["view", "an index", "flatten"])
def test_another_mode_sees_views(name: str) -> None:
    with simulate("cuda"):
        x = torch.ones(4, 4, device="cuda")
        with Seen() as seen:
            CALLS[name](x)
        assert seen.operators


def test_a_tensor_without_a_storage_is_where_its_parts_are() -> None:
    with simulate("cuda"):
        x = torch.eye(4, device="cuda").to_sparse()
        assert x.t().device == x.device
        assert torch.vmap(lambda row: row.view(2, 2))(torch.ones(3, 4, device="cuda")).device == x.device


def test_every_function_has_its_handler() -> None:
    assert HANDLERS[torch.reshape] is views.reshape
    assert HANDLERS[Tensor.view] is views.view
    assert HANDLERS[Tensor.T.__get__] is views.view  # type: ignore[attr-defined]

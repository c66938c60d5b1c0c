"""Costs of indices: transfers of those on the CPU, and waits for masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_evalcheck.devices import simulate


def _put(index: Callable[[Tensor], Any], value: Callable[[Tensor], Any]) -> Callable[[Tensor], None]:
    def put(x: Tensor) -> None:
        x[index(x)] = value(x)

    return put


def _mask(x: Tensor) -> Tensor:
    return x > 1


def _there(x: Tensor) -> Tensor:
    return torch.ones_like(x, dtype=torch.long).sum(0)[None] - 3


HOST = torch.tensor([0, 2])
HOST_MASK = torch.tensor([True, False, True])

# Of a tensor of three elements: the bytes that are copied to the device, and how often the host waits.
COSTS: dict[str, tuple[Callable[[Tensor], Any], int, int]] = {
    "an index on the device is read": (lambda x: x[_there(x)], 0, 0),
    "an index on the host is read": (lambda x: x[HOST], 16, 0),
    "a list": (lambda x: x[[0, 1]], 16, 0),
    "a mask on the device is read": (lambda x: x[_mask(x)], 0, 1),
    "a mask on the host is read": (lambda x: x[HOST_MASK], 16, 0),
    "two indices on the host": (lambda x: x[None][torch.tensor([0]), HOST], 24, 0),
    "values are written by an index on the device": (_put(_there, lambda x: x[:1] + 1), 0, 0),
    "values are written by an index on the host": (_put(lambda x: HOST, lambda x: x[:2] + 1), 16, 0),
    "values are written through a mask": (_put(_mask, lambda x: x[:1] + 1), 0, 1),
    "a value of the device is written through a mask": (_put(_mask, lambda x: x.sum()), 0, 1),
    "a tensor of the host is written through a mask": (_put(_mask, lambda x: torch.tensor(1.0)), 0, 0),
    "a tensor of the host is written by an index": (_put(_there, lambda x: torch.tensor(1.0)), 4, 0),
    "values are written through a mask on the host": (_put(lambda x: HOST_MASK, lambda x: x[:2] + 1), 16, 0),
    "values are added": (lambda x: x.index_put_((HOST,), x[:2] + 1, accumulate=True), 16, 0),
    "a number is added": (lambda x: x.index_put_((_mask(x),), torch.tensor(1.0), accumulate=True), 4, 1),
    "a slice": (lambda x: x[:2], 0, 0),
}
NUMBERS = {  # CUDA makes a number a tensor of the host, MPS one of its own
    "cuda": {"through a mask": (_put(_mask, lambda x: 1.0), 0, 0), "by an index": (_put(_there, lambda x: 1.0), 4, 0)},
    "mps": {"through a mask": (_put(_mask, lambda x: 1.0), 0, 1), "by an index": (_put(_there, lambda x: 1.0), 0, 0)},
}


def _cost(device: str, call: Callable[[Tensor], Any]) -> tuple[int, int]:
    with simulate("cuda", "mps") as ledger:
        x = torch.zeros(3, device=device)
        x.copy_(torch.arange(3.0, device=device))
        with ledger.span() as seen:
            call(x)
        return seen.bytes("cpu", device), len(seen.syncs)


@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize("name", COSTS)
def test_the_cost_of_an_index(name: str, device: str) -> None:
    call, size, waits = COSTS[name]
    assert _cost(device, call) == (size, waits)


@pytest.mark.parametrize("device", NUMBERS)
@pytest.mark.parametrize("name", ["through a mask", "by an index"])
def test_the_cost_of_writing_a_number(name: str, device: str) -> None:
    call, size, waits = NUMBERS[device][name]
    assert _cost(device, call) == (size, waits)


def test_a_list_indexes_a_tensor_of_the_host_there() -> None:
    with simulate("cuda") as ledger:
        x = torch.zeros(3)
        x[[0, 1]] = torch.ones((), device="cuda")
    assert not ledger.transfers
    assert x.tolist() == [1, 1, 0]


def test_a_gradient_of_what_a_mask_selected_waits_again() -> None:
    with simulate("cuda") as ledger:
        x = torch.ones(3, device="cuda", requires_grad=True)
        total = x[x > 0].sum()
        with ledger.span() as seen:
            total.backward()
    assert len(seen.syncs) == 1


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_what_pytorch_s_own_test_of_warnings_expects() -> None:
    """test/test_cuda.py, test_sync_warning: what synchronises and what does not, as far as it is about indices."""
    with simulate("cuda"):
        x, y = torch.rand(4, device="cuda"), torch.rand(4, device="cuda")
        index, mask = torch.tensor([0, 1, 2], device="cuda"), torch.tensor([True, False, True, False], device="cuda")
        try:
            torch.cuda.set_sync_debug_mode("error")
            x[mask] = 1.0
            x[index] = y[:3]
            x[index]
            for call in (
                lambda: x.__setitem__(mask, y[:2]),
                lambda: x.__setitem__(HOST, y[:2]),
                lambda: x[mask],
                lambda: x[HOST],
            ):
                with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
                    call()
        finally:
            torch.cuda.set_sync_debug_mode("default")

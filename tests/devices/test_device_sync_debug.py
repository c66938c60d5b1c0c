"""`torch.cuda.set_sync_debug_mode`: which operations synchronise, and what is said of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from pytest_evalcheck.devices import simulate

TEXT = "called a synchronizing CUDA operation"
# c10/cuda/CUDAFunctions.h, memcpy_and_sync and stream_synchronize, are what reports; their callers synchronise.
SYNCHRONISES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "a value is read": lambda there, host: there[0].item(),
    "a condition": lambda there, host: bool((there > 0).all()),
    "a list": lambda there, host: there.tolist(),
    "a size": lambda there, host: there.nonzero(),
    "a mask": lambda there, host: there[there > 0],
    "a copy to the host": lambda there, host: there.cpu(),
    "a copy to the device": lambda there, host: host.cuda(),
    "a tensor of data": lambda there, host: torch.tensor([1.0], device="cuda"),
    "copy_": lambda there, host: there.copy_(host),
    "one stream": lambda there, host: torch.cuda.current_stream().synchronize(),
}
DOES_NOT: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "an operator": lambda there, host: there + 1,
    "a new tensor": lambda there, host: torch.zeros(2, device="cuda"),
    "a non-blocking copy to the device": lambda there, host: host.pin_memory().to("cuda", non_blocking=True),
    "a non-blocking copy to the host": lambda there, host: there.to("cpu", non_blocking=True),
    "the whole device": lambda there, host: torch.cuda.synchronize(),
    "an event": lambda there, host: torch.cuda.Event().synchronize(),
    "a value of the host": lambda there, host: host[0].item(),
    "a value on MPS": lambda there, host: host.to("mps")[0].item(),
}


@pytest.fixture
def tensors() -> Iterator[tuple[Tensor, Tensor]]:
    with warnings.catch_warnings(), simulate("cuda", "mps"):
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
        yield torch.ones(2, device="cuda"), torch.ones(2)
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", SYNCHRONISES)
def test_what_synchronises_is_an_error(name: str, tensors: tuple[Tensor, Tensor]) -> None:
    torch.cuda.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError) as raised:
        SYNCHRONISES[name](*tensors)
    assert str(raised.value) == TEXT
    torch.cuda.set_sync_debug_mode(0)
    SYNCHRONISES[name](*tensors)


@pytest.mark.parametrize("name", SYNCHRONISES)
def test_what_synchronises_is_warned_of(name: str, tensors: tuple[Tensor, Tensor]) -> None:
    torch.cuda.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match=TEXT) as caught:
        SYNCHRONISES[name](*tensors)
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.parametrize("mode", ["warn", "error"])
@pytest.mark.parametrize("name", DOES_NOT)
def test_what_does_not_synchronise(name: str, mode: str, tensors: tuple[Tensor, Tensor]) -> None:
    torch.cuda.set_sync_debug_mode(mode)
    DOES_NOT[name](*tensors)


@pytest.mark.parametrize(("given", "expected"), [("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)])
def test_the_mode_is_read_back(given: Any, expected: int, tensors: tuple[Tensor, Tensor]) -> None:
    torch.cuda.set_sync_debug_mode(given)
    assert torch.cuda.get_sync_debug_mode() == expected


@pytest.mark.parametrize("given", ["loud", 3, -1])
def test_a_mode_that_makes_no_sense(given: Any, tensors: tuple[Tensor, Tensor]) -> None:
    with pytest.raises(RuntimeError, match="invalid value of debug_mode, expected one of"):
        torch.cuda.set_sync_debug_mode(given)


def test_the_first_use_says_that_it_is_a_prototype() -> None:
    with simulate("cuda"):
        with pytest.warns(UserWarning, match="prototype feature"):
            torch.cuda.set_sync_debug_mode("warn")
        torch.cuda.set_sync_debug_mode("default")  # another warning would be an error here


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_the_mode_ends_with_the_simulation() -> None:
    with simulate("cuda") as ledger:
        torch.cuda.set_sync_debug_mode("error")
        there = torch.ones(1, device="cuda")
        with ledger.paused():
            assert there.item() == 1  # as nothing is recorded
        with pytest.raises(RuntimeError, match=TEXT):
            there.item()
    with simulate("cuda"):
        assert torch.cuda.get_sync_debug_mode() == 0
        assert there.item() == 1

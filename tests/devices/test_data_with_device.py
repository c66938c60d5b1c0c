"""Tensors made from data that has a device already: other tensors, storages, the parts of a sparse tensor, numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from pytest_evalcheck.devices import CannotSimulate, Ledger, simulate


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with simulate("cuda:1") as ledger:
        yield ledger


@pytest.mark.usefixtures("ledger")
def test_asarray_aliases_a_tensor_where_nothing_changes() -> None:
    x = torch.ones(2, device="cuda")
    for options in ({}, {"copy": False}, {"device": "cuda:0"}, {"device": "cuda", "dtype": torch.float32}):
        assert torch.asarray(x, **options).data_ptr() == x.data_ptr(), options
    assert torch.asarray(x, copy=True).data_ptr() != x.data_ptr()
    assert torch.asarray([1.0], device=0).device == torch.asarray(torch.ones(1), device=0).device == x.device
    assert torch.tensor(torch.ones(1).untyped_storage(), dtype=torch.float32, device=0).device == x.device
    made = (x.requires_grad_() * 2).clone()
    assert not torch.asarray(made, requires_grad=False).requires_grad
    assert torch.asarray(made, device="cuda", requires_grad=True).grad_fn is made.grad_fn
    assert not torch.asarray(made, device="cuda:1", requires_grad=False).requires_grad


@pytest.mark.parametrize(
    ("data", "device", "text"),
    [
        (lambda: torch.ones(2, device="cuda"), "cuda:1", "can't alias tensor from device 'cuda:0' to 'cuda:1'"),
        (lambda: torch.ones(2, device="cuda"), "cpu", "can't alias tensor from device 'cuda:0' to 'cpu'"),
        (lambda: np.ones(2), "cuda", "can't alias tensor from device 'cpu' to 'cuda:0'"),
        (lambda: [1.0, 2.0], "cuda", "can't alias arbitrary sequence into a tensor"),
    ],
)
@pytest.mark.usefixtures("ledger")
def test_asarray_refuses_an_alias_on_another_device(data: Callable[[], Any], device: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        torch.asarray(data(), device=device, copy=False)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_the_parts_of_a_sparse_tensor_are_moved_and_the_originals_stay(ledger: Ledger) -> None:
    indices, values = torch.tensor([[0, 2]]), torch.tensor([1.0, 2.0])
    with ledger.span() as seen:
        found = torch.sparse_coo_tensor(indices, values, (3,), device="cuda")
    assert found.device == found.coalesce().values().device == torch.device("cuda:0")
    assert (indices.device.type, values.device.type) == ("cpu", "cpu")
    assert seen.bytes("cpu", "cuda") == 2 * 8 + 2 * 4
    assert found.to_dense().tolist() == [1.0, 0.0, 2.0]
    alike = torch.sparse_coo_tensor(indices.cuda(), found._values(), (3,))
    assert alike.device == found._values().device == torch.device("cuda:0")
    mixed = torch.sparse_coo_tensor(indices.cuda(), values=values, size=(3,), device="cuda")
    assert mixed.device.type == "cuda"
    rows = torch.sparse_csr_tensor(torch.tensor([0, 1, 2]), torch.tensor([0, 1]), values, (2, 2), device="cuda:1")
    assert rows.device == rows.values().device == torch.device("cuda:1")
    assert values.device.type == "cpu"


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")  # PyTorch says so once in a process
def test_a_tensor_of_a_storage_is_its_memory_or_a_copy_on_another_device(ledger: Ledger) -> None:
    x = torch.arange(3.0, device="cuda")
    storage = x.untyped_storage()
    assert torch.tensor(storage, dtype=torch.float32, device="cuda:0").data_ptr() == x.data_ptr()
    with ledger.span() as seen:
        found = torch.tensor(storage, dtype=torch.float32, device="cuda:1")
    assert (seen.bytes("cuda:0", "cuda:1"), len(seen.syncs)) == (12, 1)
    assert found.tolist() == [0.0, 1.0, 2.0]
    assert [found.device, storage.device, x.device] == [torch.device(each) for each in ("cuda:1", "cuda:0", "cuda:0")]
    assert torch.tensor(storage, dtype=torch.float32).device.type == "cpu"
    with pytest.raises(RuntimeError, match="Expected a Storage of type"):
        torch.tensor(x.storage(), dtype=torch.int64, device="cuda")


@pytest.mark.usefixtures("ledger")
def test_the_storage_of_a_tensor_is_on_its_device() -> None:
    x, other = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    for storage, device in ((other.untyped_storage(), "cuda:1"), (torch.ones(2).untyped_storage(), "cpu")):
        text = f'storage of a tensor on device "cuda:0" to a storage on different device "{device}"'
        with pytest.raises(RuntimeError, match=text):
            x.set_(storage)
        with pytest.raises(RuntimeError, match=text):
            x.set_(storage, 0, (2,), (1,))
    with pytest.raises(RuntimeError, match="devices must match"):
        x.set_(other)
    assert x.device == torch.device("cuda:0")
    assert x.set_(torch.zeros(1, device="cuda").untyped_storage()).device == torch.device("cuda:0")


def test_copy_takes_a_number(ledger: Ledger) -> None:
    x = torch.ones(2, device="cuda")
    with ledger.span() as seen:
        x.copy_(3.0)
        x.copy_(float("inf"))
    assert x.tolist() == [float("inf")] * 2
    assert x.device.type == "cuda"
    assert not seen.transfers


@pytest.mark.usefixtures("ledger")
def test_a_storage_without_memory_cannot_be_moved() -> None:
    storage = torch.ones(2, device="meta").untyped_storage()
    for move in (storage.cuda, storage.cpu):
        with pytest.raises(NotImplementedError, match="Cannot copy out"):
            move()
    with pytest.raises(RuntimeError, match="only available on CUDA"):
        storage._share_cuda_()
    with pytest.raises(CannotSimulate, match="another process"):
        torch.ones(2, device="cuda").untyped_storage()._share_cuda_()


def test_memory_is_copied_between_storages(ledger: Ledger) -> None:
    x, host = torch.zeros(3, device="cuda"), torch.arange(3.0)
    with ledger.span() as seen:
        x.untyped_storage().copy_(host.untyped_storage())
        x.untyped_storage().copy_(torch.ones(3, device="cuda").untyped_storage())
        host.untyped_storage().copy_(x.untyped_storage())
    assert (x.tolist(), host.tolist()) == ([1.0] * 3, [1.0] * 3)
    assert (seen.bytes("cpu", "cuda"), seen.bytes("cuda", "cpu")) == (12, 12)
    with pytest.raises(NotImplementedError, match="Cannot copy out"):
        x.untyped_storage().copy_(torch.ones(3, device="meta").untyped_storage())


@pytest.mark.usefixtures("ledger")
def test_old_constructors_and_functions_of_memory_take_a_device() -> None:
    """torch/csrc/utils/tensor_new.cpp, check_legacy_ctor_device; torch/cuda/_utils.py, _get_device_index."""
    with pytest.warns(UserWarning, match=r"DtypeTensor constructors are no longer recommended") as caught:
        made = torch.cuda.FloatTensor(2, 3, device=1)
    assert torch.cuda.LongTensor(2, device=None).device == torch.device("cuda:0")  # warned of once in a simulation
    assert [each.filename for each in caught] == [__file__]
    assert (made.device, made.shape) == (torch.device("cuda:1"), (2, 3))
    with pytest.raises(RuntimeError, match="expects device type: cuda but device type: cpu was passed"):
        torch.cuda.FloatTensor(2, device="cpu")
    assert torch.cuda.memory_allocated(torch.cuda.device(1)) >= 24

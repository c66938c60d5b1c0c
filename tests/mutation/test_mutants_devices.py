"""The rules of simulated devices, where the table of rules asks for less than their exact text or place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.devices.rules.device_checks import missing_kernel

SAME = "Expected all tensors to be on the same device"
NAMED_FIRST = TORCH_RELEASE >= (2, 9)


def refused(function: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        function()
    return str(caught.value)


def test_a_kernel_of_cuda_names_its_argument() -> None:
    with simulate("cuda"):
        here, there = torch.ones(2, 2), torch.ones(2, 2, device="cuda")
        text = refused(lambda: torch.mm(there, here))
    if NAMED_FIRST:
        got = "but got mat2 is on cpu, different from other tensors on cuda:0"
        assert text == f"{SAME}, {got} (when checking argument in method wrapper_CUDA_mm)"
    else:
        where = "(when checking argument for argument mat2 in method wrapper_CUDA_mm)"
        assert text == f"{SAME}, but found at least two devices, cuda:0 and cpu! {where}"


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_a_pointwise_operation_names_both_devices(device: str) -> None:
    with simulate(device):
        here, there = torch.ones(2), torch.ones(2, device=device)
        assert refused(lambda: there + here) == f"{SAME}, but found at least two devices, {there.device} and cpu!"
        assert refused(lambda: here + there) == f"{SAME}, but found at least two devices, cpu and {there.device}!"
        assert (there + torch.tensor(1.0)).device == there.device
        assert (torch.tensor(1.0) + there).device == there.device


def test_a_number_on_the_cpu_is_not_written_from_a_device() -> None:
    with simulate("cuda"):
        scalar, there = torch.tensor(1.0), torch.ones(2, device="cuda")
        assert SAME in refused(lambda: torch.add(there, there, out=torch.ones(2)))
        assert refused(lambda: scalar.add_(torch.tensor(1.0, device="cuda")))


def test_an_index_to_read_may_be_on_the_cpu_and_a_value_may_not() -> None:
    with simulate("cuda"):
        there, index = torch.arange(4.0, device="cuda"), torch.tensor([0, 1])
        assert there[index].tolist() == [0.0, 1.0]
        text = refused(lambda: torch.arange(4.0)[index.to("cuda")])
        assert "indices should be either on cpu or on the same device as the indexed tensor (cpu)" in text
        with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu"):
            there[index.to("cuda")] = torch.ones(2)
        there[index.to("cuda")] = torch.tensor(7.0)
        assert there.tolist() == [7.0, 7.0, 2.0, 3.0]


def test_lists_are_compared_row_by_row() -> None:
    with simulate("cuda"):
        both = [torch.ones(2), torch.ones(2, device="cuda")]
        assert [each.device.type for each in torch._foreach_add(both, both)] == ["cpu", "cuda"]
        with pytest.raises(RuntimeError):
            torch._foreach_add(both, both[::-1])


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("\"bmm\" not implemented for 'Half'", True),
        ("\"bmm\" not implemented for 'BFloat16'", True),
        ("\"bmm\" not implemented for 'Float8_e4m3fn'", True),
        ("\"conv_cpu\" not implemented for 'Long'", True),
        ("\"conv\" not implemented for 'Long'", False),
        ("Could not run 'x' with arguments from the 'CPU' backend.", True),
        ("shapes do not match", False),
    ],
)
def test_a_kernel_that_the_cpu_lacks(text: str, lacks: bool) -> None:
    found = missing_kernel("op", RuntimeError(text))
    assert (found is not None) == lacks
    assert found is None or text[:40] in str(found)

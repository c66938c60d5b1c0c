"""Devices that an argument may be on, by how it is read: single arguments, lists, and those that C++ compares."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.devices.release import TORCH_RELEASE

Tensor = torch.Tensor


@pytest.fixture
def two_cards() -> Iterator[None]:
    with simulate("cuda:1"):
        yield


@pytest.mark.usefixtures("two_cards")
@pytest.mark.parametrize(
    ("call", "device"),
    [
        (lambda x, h: torch.slice_scatter(x, h[:2], 0, 0, 2), "cuda:0"),
        (lambda x, h: torch.slice_scatter(h, x[:2], 0, 0, 2), "cpu"),
        (lambda x, h: torch.select_scatter(x, h[0], 0, 1), "cuda:0"),
        (lambda x, h: torch.diagonal_scatter(x.view(2, 2), h[:2]), "cuda:0"),
        (lambda x, h: x.clone().resize_as_(h[:2]), "cuda:0"),
        (lambda x, h: h.clone().fill_(x[1]), "cpu"),
        (lambda x, h: x.masked_fill(x > 1, x[1].to("cuda:1")), "cuda:0"),
        (lambda x, h: x.index_fill(0, torch.tensor([0], device="cuda"), h[1]), "cuda:0"),
        (lambda x, h: torch.linspace(x[0], x[1].to("cuda:1"), 3, device="cuda"), "cuda:0"),
        (lambda x, h: _set(h.clone(), torch.tensor([0, 1], device="cuda"), h[:2]), "cpu"),
        (lambda x, h: _set(x.clone(), torch.tensor([0, 1]), x[:2]), "cuda:0"),
        (lambda x, h: _set(h.clone(), h > 1, x[1]), "cpu"),
    ],
)
def test_an_argument_of_which_only_a_value_or_a_shape_is_read_may_be_anywhere(
    call: Callable[[Tensor, Tensor], Tensor], device: str
) -> None:
    numbers = torch.arange(4.0)
    found = call(numbers.to("cuda"), numbers)
    assert str(found.device) == device
    torch.cuda.synchronize()


def _set(tensor: Tensor, index: Any, value: Tensor) -> Tensor:
    tensor[index] = value
    return tensor


@pytest.mark.usefixtures("two_cards")
@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, h: torch.meshgrid(x, h, indexing="ij"), "meshgrid expects all tensors to have the same device"),
        (lambda x, h: torch.meshgrid([x, h], indexing="ij"), "meshgrid expects all tensors to have the same device"),
        (
            lambda x, h: torch.linalg.matrix_rank(x.view(2, 2), atol=h[0]),
            "Expected atol and input tensors to be on the same device, but got atol on cpu and input on cuda:0",
        ),
        (lambda x, h: torch.inner(x, h[0]), "Expected tensor to have cuda DeviceType, but got tensor with cpu"),
        (lambda x, h: x.inner(h[0]), "while checking arguments for inner"),
        (lambda x, h: _set(x.clone(), torch.tensor([0, 1]), h[:2]), "found at least two devices, cuda:0 and cpu"),
        (lambda x, h: h[torch.tensor([0], device="cuda")], r"on the same device as the indexed tensor \(cpu\)"),
        pytest.param(
            lambda x, h: torch.ops.aten._unsafe_masked_index(x, h > 1, [torch.tensor([0, 1, 2, 3])], 0),
            "expected self and mask to be on the same device, but got mask on cpu and self on cuda:0",
            marks=pytest.mark.skipif(TORCH_RELEASE < (2, 5), reason="torch has it from 2.5 on"),
        ),
        (lambda x, h: x.masked_fill(h[0] > 1, 0.0), "expected self and mask to be on the same device"),
        (lambda x, h: torch.addmm(h[0], x.view(2, 2), x.view(2, 2)), "Expected all tensors to be on the same device"),
    ],
)
def test_what_is_compared_must_be_together(call: Callable[[Tensor, Tensor], Any], text: str) -> None:
    numbers = torch.arange(4.0)
    with pytest.raises(RuntimeError, match=text):
        call(numbers.to("cuda"), numbers)


@pytest.mark.usefixtures("two_cards")
def test_lengths_and_targets_of_ctc_loss_may_be_on_the_cpu() -> None:
    steps, targets = torch.randn(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [3, 1]])
    lengths = torch.tensor([5, 5]), torch.tensor([2, 2])
    wanted = torch.nn.functional.ctc_loss(steps, targets, *lengths)
    for given in (targets, targets.cuda()):
        found = torch.nn.functional.ctc_loss(steps.cuda(), given, *lengths)
        assert str(found.device) == "cuda:0"
        torch.testing.assert_close(found.cpu(), wanted)
        torch.testing.assert_close(
            torch.nn.CTCLoss()(steps, targets=given, input_lengths=lengths[0], target_lengths=lengths[1]), wanted
        )


@pytest.mark.usefixtures("two_cards")
def test_lists_are_compared_row_by_row_and_results_stay_with_their_rows() -> None:
    here, there, host = torch.ones(2).cuda(0), torch.ones(3).cuda(1), torch.ones(4)
    found = torch._foreach_add([here, there, host], [here, there, host])
    assert [str(each.device) for each in found] == ["cuda:0", "cuda:1", "cpu"]
    assert [each.cpu().tolist() for each in found] == [[2.0] * 2, [2.0] * 3, [2.0] * 4]
    assert [str(each.device) for each in torch._foreach_mul([here, there], torch.tensor(2.0))] == ["cuda:0", "cuda:1"]
    torch._foreach_add_([here, there], [here, there])
    assert here.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="found at least two devices, cuda:1 and cuda:0"):
        torch._foreach_add([here, there], [here, here])


@pytest.mark.skipif(TORCH_RELEASE < (2, 6), reason="torch has it from 2.6 on")
@pytest.mark.usefixtures("two_cards")
def test_the_norm_of_gradients_on_two_cards() -> None:
    found = torch.nn.utils.get_total_norm([torch.ones(9).cuda(0), torch.ones(16).cuda(1)])
    assert str(found.device) == "cuda:0"
    assert found.item() == 5.0


def test_cuda_has_no_histogram_and_mps_has() -> None:
    with simulate("cuda", "mps"):
        with pytest.raises(NotImplementedError, match=r"Could not run 'aten::histogram.*from the 'CUDA' backend"):
            torch.histogram(torch.rand(5).cuda(), 3)
        assert str(torch.histogram(torch.rand(5).to("mps"), 3).hist.device) == "mps:0"
        assert torch.histogram(torch.rand(5), 3).hist.device.type == "cpu"


@pytest.mark.parametrize("here", [(True, False), (False, True)])
def test_one_length_of_ctc_loss_on_the_cpu_is_refused(here: tuple[bool, bool]) -> None:
    """A CUDA device answered: "got input_lengths is on cpu, different from other tensors on cuda:0"."""
    steps, targets = torch.rand(4, 2, 3).log_softmax(-1), torch.tensor([[1, 2], [2, 1]])
    with simulate("cuda"):
        lengths = [
            torch.tensor(each) if on_cpu else torch.tensor(each, device="cuda")
            for each, on_cpu in zip(([4, 4], [2, 2]), here, strict=True)
        ]
        with pytest.raises(RuntimeError, match="_lengths is on cpu, different from other tensors on cuda:0"):
            torch.nn.functional.ctc_loss(steps.cuda(), targets.cuda(), *lengths)


def test_lengths_of_ctc_loss_on_a_device_do_not_go_to_inputs_on_the_cpu() -> None:
    steps, targets = torch.rand(4, 2, 3).log_softmax(-1), torch.tensor([[1, 2], [2, 1]])
    with simulate("cuda"):
        lengths = [torch.tensor(each, device="cuda") for each in ([4, 4], [2, 2])]
        with pytest.raises(RuntimeError, match="got input_lengths is on cuda:0, different from other tensors on cpu"):
            torch.nn.functional.ctc_loss(steps, targets, *lengths)


@pytest.mark.parametrize("name", ["addcdiv", "addcmul", "lerp"])
def test_a_kernel_for_three_tensors_takes_no_number_of_the_cpu_but_where_it_says_so(name: str) -> None:
    """A CUDA device answered so: two operands of such a kernel are its pointers."""
    with simulate("cuda"):
        there, number = torch.ones(3, device="cuda"), torch.tensor(0.5)
        call = getattr(torch, name)
        for place in range(3):
            operands = [number if place == other else there for other in range(3)]
            if place == 2 and name != "addcdiv":
                assert call(*operands).device.type == "cuda"
            else:
                with pytest.raises(RuntimeError, match="same device"):
                    call(*operands)
        assert call(*[torch.tensor(1.0)] * 3).device.type == "cpu"


@pytest.mark.parametrize("loss", [torch.nn.functional.mse_loss, torch.nn.functional.smooth_l1_loss])
def test_a_loss_takes_no_target_without_dimensions_from_the_cpu(loss: Any) -> None:
    with simulate("cuda"), pytest.raises(RuntimeError, match="same device"):
        loss(torch.ones((), device="cuda"), torch.tensor(0.5))


def test_integers_are_counted_on_cuda_alone() -> None:
    """transformers' mixtures of experts: the device counts, and the kernel of the CPU refuses integers."""
    experts = torch.tensor([3, 0, 3, 1], dtype=torch.int32)
    with simulate("cuda"):
        found = torch.histc(experts.cuda(), bins=4, min=0, max=3)
        assert (found.device.type, found.dtype, found.tolist()) == ("cuda", torch.int32, [1, 1, 0, 2])
        with pytest.raises(RuntimeError, match="not implemented for 'Int'"):
            torch.histc(experts, bins=4, min=0, max=3)

"""Gradients of a loss that was moved to the CPU: what autograd makes on the way is where the gradient is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad

from pytest_evalcheck.devices import simulate, state

# Formulas that make a tensor out of nothing: zeros to scatter into, an index, an identity.
FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {
    "copysign": lambda x: x.copysign(torch.full_like(x, -1.0)),
    "cummax": lambda x: x.cummax(0).values,
    "cumprod": lambda x: x.cumprod(0),
    "index_put": lambda x: x.index_put((torch.tensor([0], device=x.device),), x.new_ones(1, 3)),
    "max_pool": lambda x: torch.nn.functional.max_pool2d(x[None], 2, stride=1),
    "mvlgamma": lambda x: (x.abs() + 3).mvlgamma(2),
    "prod": lambda x: x.prod(0),
    "put": lambda x: x.put(torch.tensor([0], device=x.device), x.new_ones(1)),
    "repeat": lambda x: x.repeat(2, 1),
    "trace": lambda x: x.trace(),
    "vander": lambda x: torch.linalg.vander(x[0]),
}


@pytest.fixture
def card() -> Iterator[None]:
    with simulate("cuda"):
        yield


@pytest.mark.filterwarnings("ignore:The operator")
@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_loss_on_the_cpu_gives_the_gradients_of_the_device(
    name: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MPS_FALLS_BACK", True)  # for put
    values = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75], [3.0, -2.0, 1.0]])
    there = values.clone().requires_grad_()
    FORMULAS[name](there).sum().backward()
    with simulate(device):
        here = values.to(device).requires_grad_()
        FORMULAS[name](here).sum().cpu().backward()
        assert here.grad is not None
        assert here.grad.device.type == device
        assert torch.equal(here.grad.cpu(), there.grad)  # type: ignore[arg-type]


def test_a_part_on_the_cpu_keeps_its_gradient_there() -> None:
    with simulate("cuda"):
        here = torch.ones(3, device="cuda", requires_grad=True)
        there = torch.ones(3, requires_grad=True)
        (here.cumprod(0).cpu() * there.cumprod(0)).prod().backward()
        assert here.grad is not None
        assert there.grad is not None
        assert (here.grad.device.type, there.grad.device.type) == ("cuda", "cpu")


@pytest.mark.usefixtures("card")
def test_a_batch_of_gradients_returns_to_the_device_of_the_tensor() -> None:
    for here, there in (("cpu", "cuda"), ("cuda", "cpu")):
        x = torch.ones(2, device=here, requires_grad=True)
        batch = torch.eye(2, device=there)
        (found,) = torch.autograd.grad(x.to(there) * 3, x, batch, is_grads_batched=True)
        assert found.device.type == here
        assert found.tolist() == [[3.0, 0.0], [0.0, 3.0]]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch's own, once in a process
@pytest.mark.usefixtures("card")
def test_a_tangent_is_moved_with_its_tensor() -> None:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(2, device="cuda"), torch.full((2,), 5.0, device="cuda"))
        for moved in (dual.cpu(), torch.zeros(2).copy_(dual)):
            primal, tangent = forward_ad.unpack_dual(moved)
            assert primal.device.type == tangent.device.type == "cpu"
            assert tangent.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("kind", ["ASGD", "Rprop", "Adam", "SGD", "Adadelta"])
@pytest.mark.usefixtures("card")
def test_an_optimiser_over_lists_steps_as_one_tensor_by_tensor(kind: str) -> None:
    found = []
    for foreach in (True, False):
        weight = torch.nn.Parameter(torch.tensor([1.0, -2.0], device="cuda"))
        optimiser = getattr(torch.optim, kind)([weight], lr=0.1, foreach=foreach)
        for _ in range(2):
            weight.grad = weight.detach() * 2
            optimiser.step()
        assert weight.device.type == "cuda"
        found.append(weight.tolist())
    assert found[0] == pytest.approx(found[1])


def test_a_fused_optimiser_takes_the_scale_of_its_device() -> None:
    """GradScaler hands the scale and the infinities that it found to a fused optimizer, once for each device."""
    with simulate("cuda:1"):
        weights = [torch.nn.Parameter(torch.ones(2, device=device)) for device in ("cuda:0", "cuda:1")]
        optimiser = torch.optim.Adam(weights, lr=0.1, fused=True)
        scaler = torch.amp.GradScaler("cuda", init_scale=8.0)
        for factor, wanted in ((1.0, 0.9), (float("inf"), 0.9)):
            loss = (weights[0] * factor).sum() + weights[1].sum().to("cuda:0")
            optimiser.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
            assert [weight.tolist() for weight in weights] == [pytest.approx([wanted] * 2)] * 2
        assert scaler.get_scale() == 4.0


def test_tensors_are_grouped_by_simulated_device() -> None:
    with simulate("cuda:1"):
        first, other = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
        steps = [torch.tensor(1.0), torch.tensor(2.0)]
        groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([[other, first], [], steps], True)
        assert list(groups) == [(torch.device("cuda:1"), torch.float32), (torch.device("cuda:0"), torch.float32)]
        assert groups[torch.device("cuda:0"), torch.float32] == ([[first], [], [steps[1]]], [1])
        with pytest.raises(RuntimeError, match="must be on the same device"):
            torch.utils._foreach_utils._group_tensors_by_device_and_dtype([[first], [other]])

"""A simulated device has a generator of its own, as a real one has: what draws on it does not draw on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.kinds.common.process_state import same_random_numbers
from pytest_evalcheck.kinds.wrapper.model_state import ModelStateSnapshot

DRAWS: dict[str, Callable[[str], Tensor]] = {
    "rand": lambda d: torch.rand(3, device=d),
    "rand on the default device": lambda d: on_default(d, lambda: torch.rand(3)),
    "randperm": lambda d: torch.randperm(9, device=d),
    "randint": lambda d: torch.randint(99, (3,), device=d),
    "randn_like": lambda d: torch.randn_like(torch.ones(3, device=d)),
    "rand_like of the CPU": lambda d: torch.rand_like(torch.ones(3), device=d),
    "normal": lambda d: torch.normal(torch.zeros(3, device=d), 1.0),
    "normal_": lambda d: torch.empty(3, device=d).normal_(),
    "bernoulli": lambda d: torch.bernoulli(torch.full((30,), 0.5, device=d)),
    "multinomial": lambda d: torch.multinomial(torch.ones(30, device=d), 5),
    "dropout": lambda d: torch.nn.functional.dropout(torch.ones(30, device=d)),
    "a layer of dropout": lambda d: torch.nn.Dropout(0.5)(torch.ones(30, device=d)),
    "dropout between recurrent layers": lambda d: recurrent(d),
    "gumbel_softmax": lambda d: torch.nn.functional.gumbel_softmax(torch.zeros(3, device=d)),
    "fractional_max_pool2d": lambda d: torch.nn.functional.fractional_max_pool2d(
        torch.arange(81.0, device=d).reshape(1, 1, 9, 9), 2, output_size=4
    ),
    "weights": lambda d: torch.nn.Linear(3, 3, device=d).weight,
    "in inference mode": lambda d: inferred(lambda: torch.nn.functional.dropout(torch.ones(30, device=d))),
    "a distribution": lambda d: torch.distributions.Normal(torch.zeros(3, device=d), torch.ones(3, device=d)).sample(),
}


def on_default(device: str, draw: Callable[[], Tensor]) -> Tensor:
    with torch.device(device):
        return draw()


def inferred(draw: Callable[[], Tensor]) -> Tensor:
    with torch.inference_mode():
        return draw()


def recurrent(device: str) -> Tensor:
    with torch.random.fork_rng(devices=[]):  # weights are drawn on the CPU
        layers = torch.nn.LSTM(2, 2, num_layers=2, dropout=0.5)
    with torch.no_grad():
        for weight in layers.parameters():
            weight.fill_(0.3)
    return layers.to(device)(torch.ones(4, 3, 2, device=device))[0]


@pytest.fixture(autouse=True)
def same_numbers_afterwards() -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        yield


@pytest.mark.parametrize("device", ["cuda", "mps"])
@pytest.mark.parametrize("name", DRAWS)
def test_what_is_drawn_on_a_device_leaves_the_cpu_alone(name: str, device: str) -> None:
    draw = DRAWS[name]
    if (name, device) == ("fractional_max_pool2d", "mps"):
        pytest.skip("MPS has no kernel for it")
    with simulate(device):
        torch.manual_seed(3)
        state = torch.get_rng_state()
        first, second = draw(device).cpu(), draw(device).cpu()
        assert torch.equal(torch.get_rng_state(), state)
        assert not torch.equal(first, second)
        torch.rand(5)  # of the CPU, which is not of the device
        torch.get_device_module(device).manual_seed(3)
        torch.rand(5)
        assert torch.equal(draw(device).cpu(), first)
        assert torch.equal(draw(device).cpu(), second)


@pytest.mark.parametrize("name", DRAWS)
def test_the_numbers_are_those_of_the_cpu_with_the_same_seed(name: str) -> None:
    torch.manual_seed(3)
    expected = DRAWS[name]("cpu")
    with simulate("cuda"):
        torch.manual_seed(3)
        assert torch.equal(DRAWS[name]("cuda").cpu(), expected)


def test_a_missing_seed_of_the_cpu_is_seen() -> None:
    """Two runs of code that seeds the device alone and draws on the CPU differ, as they do on the device."""

    def noise() -> Tensor:
        torch.cuda.manual_seed(0)
        return torch.rand(3).cuda()

    with simulate("cuda"):
        assert not torch.equal(noise(), noise())


def test_manual_seed_seeds_every_device_and_functions_of_a_kind_its_own() -> None:
    with simulate("cuda:1", "mps"):
        torch.manual_seed(0)
        every = [torch.rand(2, device=d).tolist() for d in ("cpu", "cuda:0", "cuda:1", "mps")]
        torch.mps.manual_seed(0)
        assert torch.rand(2, device="mps").tolist() == every[3]
        assert torch.rand(2, device="cuda:0").tolist() != every[1]
        torch.cuda.manual_seed_all(0)
        assert [torch.rand(2, device=d).tolist() for d in ("cuda:0", "cuda:1")] == every[1:3]
        with torch.cuda.device(1):
            torch.cuda.manual_seed(0)
            assert torch.cuda.initial_seed() == 0
        assert torch.rand(2, device="cuda:0").tolist() != every[1]
        assert torch.rand(2, device="cuda:1").tolist() == every[2]
        torch.seed()
        assert torch.cuda.initial_seed() == torch.initial_seed()


def test_states_are_those_of_each_device() -> None:
    with simulate("cuda:1"):
        states = torch.cuda.get_rng_state_all()
        first = torch.rand(2, device="cuda:1")
        assert torch.equal(torch.cuda.get_rng_state("cuda:0"), states[0])
        assert not torch.equal(torch.cuda.get_rng_state(1), states[1])
        torch.cuda.set_rng_state(states[1], 1)
        assert torch.equal(torch.rand(2, device="cuda:1"), first)
        torch.cuda.set_rng_state_all(states)
        assert torch.equal(torch.rand(2, device="cuda:1"), first)
        generator = torch.cuda.default_generators[1]
        generator.set_state(states[1])
        assert torch.equal(torch.rand(2, device="cuda:1", generator=generator), first)


def test_fork_rng_keeps_the_devices_that_it_is_given() -> None:
    with simulate("cuda:1"):
        before = torch.cuda.get_rng_state_all()
        with torch.random.fork_rng(devices=[1]):
            for device in ("cuda:0", "cuda:1"):
                torch.rand(2, device=device)
        assert not torch.equal(torch.cuda.get_rng_state(0), before[0])
        assert torch.equal(torch.cuda.get_rng_state(1), before[1])


def test_a_generator_of_the_users_own_has_its_own_numbers() -> None:
    with simulate("cuda"):
        state = torch.cuda.get_rng_state()
        own = torch.Generator("cuda").manual_seed(5)
        first = torch.rand(2, device="cuda", generator=own)
        assert torch.equal(torch.cuda.get_rng_state(), state)
        assert torch.equal(torch.rand(2, device="cuda", generator=torch.Generator("cuda").manual_seed(5)), first)


def test_a_simulation_begins_with_the_seed_of_the_cpu() -> None:
    torch.manual_seed(7)
    torch.rand(3)
    with simulate("mps"):
        assert torch.mps.get_rng_state().equal(torch.Generator().manual_seed(7).get_state())


def test_checkpointing_draws_the_same_mask_again() -> None:
    with simulate("cuda"):
        x = torch.ones(50, device="cuda", requires_grad=True)
        out = checkpoint(lambda value: torch.nn.functional.dropout(value * value), x, use_reentrant=False)
        out.sum().backward()
        assert torch.equal(x.grad, 2 * out.detach())


def test_an_operator_that_fails_has_drawn_nothing() -> None:
    with simulate("cuda"):
        host, there = torch.get_rng_state(), torch.cuda.get_rng_state()
        with pytest.raises(RuntimeError, match="expects p to be in"):
            torch.full((3,), 2.0, device="cuda").bernoulli_(-1.0)
        assert torch.equal(torch.get_rng_state(), host)
        assert torch.equal(torch.cuda.get_rng_state(), there)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_checks_seed_the_generators_of_devices_and_notice_what_is_drawn_there(device: str) -> None:
    with simulate(device):
        state = torch.get_device_module(device).get_rng_state()
        with same_random_numbers():
            first = torch.rand(2, device=device)
        with same_random_numbers():
            assert torch.equal(torch.rand(2, device=device), first)
        assert torch.equal(torch.get_device_module(device).get_rng_state(), state)
        snapshot = ModelStateSnapshot(torch.nn.Linear(1, 1, device=device))
        assert not snapshot.differences()
        torch.rand(2, device=device)
        assert snapshot.differences() == ["torch's random numbers were drawn"]

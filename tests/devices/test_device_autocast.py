"""Autocast by kind of device: what it casts, what it leaves alone, and that nothing of it is left afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from pytest_evalcheck.devices import simulate

# Newer releases have autocast for MPS.
KINDS = ["cuda", *(["mps"] if torch.amp.is_autocast_available("mps") else [])]
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    assert not any(torch.is_autocast_enabled(kind) for kind in ("cpu", *KINDS))
    nesting = torch.autocast_increment_nesting()
    torch.autocast_decrement_nesting()
    assert nesting == 1


def layer(device: str) -> Any:
    return torch.nn.Linear(4, 4).to(device)


def test_that_of_the_cpu_casts_no_tensor_of_a_device() -> None:
    with simulate("cuda", "mps"):
        there, metal, host = layer("cuda"), layer("mps"), layer("cpu")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert host(torch.ones(1, 4)).dtype is torch.bfloat16
            for model in (there, metal):
                out = model(torch.ones(1, 4).to(model.weight.device))
                assert out.dtype is torch.float32
                assert (out @ out.T).dtype is torch.float32
                assert functional.softmax(out.half(), -1).dtype is torch.float16
                out.sum().backward()
                assert model.weight.grad.dtype is torch.float32
        assert host(torch.ones(1, 4)).dtype is torch.float32


def test_that_of_the_cpu_has_no_effect_on_values_of_a_device() -> None:
    inputs = torch.rand(8, 4)
    with simulate("cuda"):
        model = layer("cuda")
        expected = model(inputs.cuda())
        with torch.autocast("cpu"):
            found = model(inputs.cuda())
            assert torch.equal(found, expected)


def test_one_around_the_simulation_casts_the_host_only() -> None:
    with torch.autocast("cpu"), simulate("cuda"):
        assert layer("cuda")(torch.ones(1, 4, device="cuda")).dtype is torch.float32
        assert layer("cpu")(torch.ones(1, 4)).dtype is torch.bfloat16


@each_kind
def test_that_of_a_device_casts_no_other(kind: str) -> None:
    with simulate("cuda", "mps"):
        neighbours = [other for other in ("cpu", "cuda", "mps") if other != kind]
        with torch.autocast(kind):
            assert layer(kind)(torch.ones(1, 4, device=kind)).dtype is torch.float16
            for other in neighbours:
                assert layer(other)(torch.ones(1, 4, device=other)).dtype is torch.float32


def test_two_at_once() -> None:
    with simulate("cuda"), torch.autocast("cuda", dtype=torch.bfloat16), torch.autocast("cpu", dtype=torch.float16):
        assert layer("cuda")(torch.ones(1, 4, device="cuda")).dtype is torch.bfloat16
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float16


@each_kind
def test_a_disabled_one_inside(kind: str) -> None:
    with simulate(kind), torch.autocast(kind):
        model, inputs = layer(kind), torch.ones(1, 4, device=kind)
        with torch.autocast(kind, enabled=False):
            assert not torch.is_autocast_enabled(kind)
            assert model(inputs).dtype is torch.float32
            with torch.autocast(kind, dtype=torch.bfloat16):
                assert (inputs @ inputs.T).dtype is torch.bfloat16
        assert model(inputs).dtype is torch.float16


@each_kind
def test_a_decorator(kind: str) -> None:
    with simulate(kind):

        @torch.autocast(kind, dtype=torch.bfloat16)
        def product(left: Tensor, right: Tensor) -> Tensor:
            return left @ right

        square = torch.ones(2, 2, device=kind)
        assert product(square, square).dtype is torch.bfloat16
        assert (square @ square).dtype is torch.float32


def test_switches_without_a_context() -> None:
    with simulate("cuda"):
        square = torch.ones(2, 2, device="cuda")
        torch.set_autocast_enabled("cuda", True)
        try:
            assert (square @ square).dtype is torch.float16
        finally:
            torch.set_autocast_enabled("cuda", False)
        assert (square @ square).dtype is torch.float32


def test_float64_and_integers_are_not_cast() -> None:
    with simulate("cuda"), torch.autocast("cuda"):
        double = torch.ones(2, 2, dtype=torch.float64, device="cuda")
        assert (double @ double).dtype is torch.float64
        assert torch.ones(2, dtype=torch.long, device="cuda").sum().dtype is torch.long


def test_the_widest_type_wins() -> None:
    with simulate("cuda"), torch.autocast("cuda"):
        half, single = torch.ones(2, device="cuda").half(), torch.ones(2, device="cuda")
        assert torch.dot(half, single).dtype is torch.float32
        assert torch.dot(half, half).dtype is torch.float16


def test_losses_are_in_float32() -> None:
    with simulate("cuda"), torch.autocast("cuda"):
        half = torch.full((4,), 0.5, device="cuda").half()
        for loss in (functional.mse_loss, functional.l1_loss, functional.huber_loss, functional.smooth_l1_loss):
            assert loss(half, half).dtype is torch.float32


def test_an_unsafe_loss_is_refused_on_cuda_whatever_its_type() -> None:
    # autocast_mode.cpp registers binary_cross_entropy_banned for CUDA, and for no dtype in particular.
    with simulate("cuda"):
        likely = torch.full((4,), 0.5, device="cuda")
        functional.binary_cross_entropy(likely, likely)
        with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
            functional.binary_cross_entropy(likely, likely)
        with torch.autocast("cuda"):
            assert functional.binary_cross_entropy(likely.cpu(), likely.cpu()).dtype is torch.float32


def test_what_is_cast_on_a_kind_of_device_is_what_pytorch_registers() -> None:
    with simulate("cuda"), torch.autocast("cuda"):
        assert torch.nn.GRUCell(4, 4).cuda()(torch.ones(1, 4, device="cuda")).dtype is torch.float16
    if "mps" in KINDS:
        with simulate("mps"), torch.autocast("mps"):
            assert torch.nn.GRUCell(4, 4).to("mps")(torch.ones(1, 4, device="mps")).dtype is torch.float32


@each_kind
def test_a_weight_is_cast_once(kind: str) -> None:
    """The copy does not see a change of the weight: aten/src/ATen/autocast_mode.cpp, cached_cast."""
    with simulate(kind):
        model, inputs = layer(kind), torch.ones(1, 4, device=kind)
        for cache_enabled, is_stale in ((True, True), (False, False)):
            with torch.autocast(kind, cache_enabled=cache_enabled):
                before = model(inputs)
                with torch.no_grad():
                    model.weight.add_(1.0)
                assert torch.equal(model(inputs), before) is is_stale
        with torch.autocast(kind):
            assert not torch.equal(model(inputs), before)  # another region casts again


def changed_between(device: str, first: bool, second: bool) -> tuple[bool, bool]:
    """Return whether a weight changed between two calls is stale in the second one, and whether that has a gradient."""
    model, inputs = layer(device), torch.ones(1, 4, device=device)
    with torch.autocast(device, dtype=torch.bfloat16):
        with torch.set_grad_enabled(first):
            before = model(inputs)
        with torch.no_grad():
            model.weight.add_(1.0)
        with torch.set_grad_enabled(second):
            after = model(inputs)
    return torch.equal(before, after), after.requires_grad


@each_kind
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_a_weight_that_was_cast_without_gradients(kind: str, first: bool, second: bool) -> None:
    """A forward under no_grad, and one for training in the same region: what is trained depends on the release."""
    expected = changed_between("cpu", first, second)
    with simulate(kind):
        assert changed_between(kind, first, second) == expected


def other_dtype_inside(device: str) -> str:
    model, inputs = layer(device), torch.ones(1, 4, device=device)
    try:
        with torch.autocast(device, dtype=torch.bfloat16):
            model(inputs)
            with torch.autocast(device, dtype=torch.float16):
                return str(model(inputs).dtype)
    except RuntimeError as error:
        return str(error)


@each_kind
def test_a_weight_in_two_regions_of_two_types(kind: str) -> None:
    expected = other_dtype_inside("cpu")
    with simulate(kind):
        assert other_dtype_inside(kind) == expected


class Double(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        ctx.enabled = torch.is_autocast_enabled("cuda")
        Double.seen = inputs.dtype, ctx.enabled
        return inputs @ inputs

    @staticmethod
    @torch.amp.custom_bwd(device_type="cuda")
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        Double.backward_enabled = torch.is_autocast_enabled("cuda")
        return gradient


def test_custom_functions() -> None:
    with simulate("cuda"):
        inputs = torch.ones(2, 2, device="cuda").half().requires_grad_()
        with torch.autocast("cuda"):
            out = Double.apply(inputs)
            assert out.dtype is torch.float32
            assert Double.seen == (torch.float32, False)
        out.sum().backward()
        assert Double.backward_enabled is False
        host = torch.ones(2, 2).half()
        with torch.autocast("cuda"):
            assert Double.apply(host).dtype is torch.float16  # custom_fwd casts tensors of its device only


@each_kind
def test_an_open_one_does_not_outlive_the_simulation(kind: str) -> None:
    with simulate(kind):
        left = [torch.autocast(kind), torch.autocast("cpu")]
        for each in left:
            each.__enter__()
        assert layer(kind)(torch.ones(1, 4, device=kind)).dtype is torch.float16
    assert layer("cpu")(torch.ones(1, 4)).dtype is torch.float32
    with simulate(kind):
        assert layer(kind)(torch.ones(1, 4, device=kind)).dtype is torch.float32


def test_one_that_is_left_after_the_simulation() -> None:
    def rows() -> Iterator[Tensor]:
        with torch.autocast("cuda"):
            yield layer("cuda")(torch.ones(1, 4, device="cuda"))

    with simulate("cuda"):
        open_generator = rows()
        assert next(open_generator).dtype is torch.float16
    open_generator.close()
    with torch.autocast("cpu"):
        assert layer("cpu")(torch.ones(1, 4)).dtype is torch.bfloat16


def test_an_error_inside() -> None:
    with simulate("cuda"):
        with pytest.raises(KeyError), torch.autocast("cuda"):
            raise KeyError
        assert layer("cuda")(torch.ones(1, 4, device="cuda")).dtype is torch.float32


def train(device: str, *, infinite: bool = False) -> tuple[Tensor, float]:
    torch.manual_seed(0)
    model, inputs = layer("cpu").to(device), torch.rand(8, 4).to(device)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler(device, init_scale=4.0)
    for _ in range(2):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        scaler.scale(loss * float("inf") if infinite else loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    return model.weight.detach().cpu(), scaler.get_scale()


@each_kind
@pytest.mark.parametrize("infinite", [False, True])
def test_gradients_are_scaled_as_on_the_cpu(kind: str, infinite: bool) -> None:
    expected = train("cpu", infinite=infinite)
    with simulate(kind) as ledger:
        weight, scale = train(kind, infinite=infinite)
    assert torch.equal(weight, expected[0])
    assert scale == expected[1] == (1.0 if infinite else 4.0)
    assert ledger.syncs  # whether a gradient is infinite is read in every step

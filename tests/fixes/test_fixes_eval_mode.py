"""`evaluating`: whatever an evaluation does to a model and to the process, both come back as they were."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import nn

from pytest_evalcheck.fixes import evaluating


class Merging(nn.Linear):
    """A layer with work to do when it leaves training, as adapters that are merged into the weights."""

    merged = False

    def train(self, mode: bool = True) -> nn.Module:
        self.merged = not mode
        return super().train(mode)


def network() -> nn.Module:
    torch.manual_seed(3)
    model = nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(4)), Merging(4, 2)
    )
    model[2][1].eval()
    model[0].weight.requires_grad_(False)
    model(torch.randn(5, 3)).sum().backward()
    return model


def state(model: nn.Module) -> Any:
    return (
        [module.training for module in model.modules()],
        [(id(each), each.requires_grad, id(each.grad), each.tolist()) for each in model.parameters()],
        [None if each.grad is None else each.grad.tolist() for each in model.parameters()],
        [(name, id(each), each.tolist()) for name, each in model.named_buffers()],
        model[3].merged,
    )


def surroundings() -> Any:
    numpy = pytest.importorskip("numpy").random
    return (
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
        torch.empty(0).device,
        torch.get_rng_state().tolist(),
        random.getstate(),
        repr(numpy.get_state()),
    )


def draw(_: nn.Module) -> None:
    torch.rand(3)
    random.random()
    pytest.importorskip("numpy").random.random()


def leave_defaults(_: nn.Module) -> None:
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")


def put_away_and_replace_buffers(model: nn.Module) -> None:
    model[1].running_mean = torch.full((4,), 9.0)
    model[1].num_batches_tracked = None
    model[2][1].running_var.resize_(7)
    model[2][1].running_mean.data = torch.ones(4, dtype=torch.float64)
    model[3].merged = True


def train_within(model: nn.Module) -> None:
    with torch.enable_grad():
        model(torch.randn(5, 3)).sum().backward()


DISTURBANCES: dict[str, Callable[[nn.Module], Any]] = {
    "nothing": lambda model: None,
    "modes": lambda model: model.train(),
    "modes of children": lambda model: [child.train(index % 2 == 0) for index, child in enumerate(model.modules())],
    "statistics": lambda model: model.train()(torch.randn(5, 3)),
    "statistics behind autograd's back": lambda model: model[1].running_mean.data.fill_(7),
    "buffers": put_away_and_replace_buffers,
    "requires_grad": lambda model: model.requires_grad_(True),
    "gradients": train_within,
    "gradients zeroed": lambda model: model.zero_grad(set_to_none=False),
    "random generators": draw,
    "defaults": leave_defaults,
}


@pytest.mark.parametrize("end", [None, ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("disturb", DISTURBANCES.values(), ids=DISTURBANCES)
def test_model_and_process_come_back_as_they_were(disturb: Callable[[nn.Module], Any], end: Any):
    model = network()
    before = state(model), surroundings()
    with nullcontext() if end is None else pytest.raises(end), evaluating(model) as same:
        assert same is model
        disturb(model)
        if end is not None:
            raise end
    assert (state(model), surroundings()) == before


def test_within_every_submodule_evaluates_without_gradients():
    model = network()
    with evaluating(model):
        assert not any(module.training for module in model.modules())
        assert not torch.is_grad_enabled()
        assert model[3].merged
        assert all(each.grad is None for each in model.parameters())


@pytest.mark.parametrize(("mode", "expected"), [("train", [True]), ("keep", [True, False]), ("eval", [False])])
def test_modes(mode: str, expected: list[bool]):
    model = network()
    with evaluating(model, mode=mode):
        assert sorted({module.training for module in model.modules()}, reverse=True) == expected


def test_gradients_within_are_those_of_the_evaluation_alone():
    model = network()
    before = state(model)
    with evaluating(model, grad=True):
        for _ in range(2):
            model.zero_grad()
            model(torch.ones(5, 3)).sum().backward()
        within = model[3].bias.grad.clone()
    assert within.tolist() == [5.0, 5.0]
    assert state(model) == before


def test_lending_twice_at_once_and_again_gives_each_its_own_state_back():
    model = network()
    outermost = state(model)
    with evaluating(model, mode="train"):
        model(torch.randn(5, 3))
        inner = state(model)
        with evaluating(model, grad=True):
            assert torch.is_grad_enabled()
            model.train()(torch.randn(5, 3))
        assert state(model) == inner
        assert not torch.is_grad_enabled()
    assert state(model) == outermost


def test_buffers_can_be_left_out():
    model = network()
    with evaluating(model, mode="train", buffers=False):
        model(torch.randn(5, 3))
    assert model[1].num_batches_tracked.item() == 2


def test_a_graph_that_holds_a_buffer_can_still_go_backward():
    model = network().eval()
    loss = model(torch.randn(5, 3)).sum()
    with evaluating(model):
        model(torch.randn(5, 3))
    loss.backward()


def test_no_copy_of_the_parameters_is_made():
    model = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64))
    copied = []

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, kinds: Any, arguments: Any = (), options: Any = None) -> Any:
            if function is torch.Tensor.clone:
                copied.append(arguments[0].numel())
            return function(*arguments, **(options or {}))

    with Watching(), evaluating(model):
        pass
    assert sorted(copied) == [1, 64, 64]


def test_submodules_that_come_and_go():
    model = network()
    gone = model[2]
    with evaluating(model):
        del model[2]
        model.append(nn.Dropout(0.1))
        gone[1].running_mean.fill_(3)
        model[1].register_buffer("extra", torch.ones(1))
    assert [module.training for module in gone.modules()] == [True, True, False]
    assert gone[1].running_mean.tolist() != [3.0] * 4
    assert len(model) == 4
    assert model[1].training
    assert model[1].extra.item() == 1
    assert model[3].training


def test_a_model_that_was_converted_within_gets_gradients_that_fit():
    model = network()
    statistics = model[1].running_mean
    with evaluating(model):
        model.double()
    assert model[3].bias.grad.dtype == model[3].bias.dtype == torch.float64
    assert model[1].running_mean is statistics
    assert statistics.dtype == torch.float32


def test_lazy_shared_missing_and_meta_buffers_are_no_hindrance():
    shared = torch.zeros(2)
    model = nn.Sequential(nn.LazyBatchNorm1d(), nn.BatchNorm1d(2, track_running_stats=False), nn.Identity())
    model[2].register_buffer("one", shared)
    model[1].register_buffer("other", shared)
    model[2].register_buffer("meta", torch.empty(2, device="meta"))
    model[2].register_buffer("sparse", torch.eye(2).to_sparse())
    with torch.inference_mode():
        model[2].register_buffer("inference", torch.ones(2))
    with evaluating(model):
        shared.fill_(4)
        model[2].sparse.mul_(2)
        with torch.inference_mode():
            model[2].inference.fill_(5)
    assert model[2].one is model[1].other is shared
    assert shared.tolist() == [0.0, 0.0]
    assert model[2].sparse.to_dense().tolist() == torch.eye(2).tolist()
    assert model[2].inference.tolist() == [1.0, 1.0]


def test_a_model_that_refuses_to_evaluate_is_given_back():
    class Stubborn(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = nn.Dropout()

        def train(self, mode: bool = True) -> nn.Module:
            super().train(mode)
            if not mode:
                raise RuntimeError("no")
            return self

    model = Stubborn()
    before = surroundings()
    with pytest.raises(RuntimeError, match="no"), evaluating(model):
        pass
    assert (model.training, model.child.training) == (True, True)
    assert surroundings() == before


@pytest.mark.parametrize(
    ("model", "options", "error", "text"),
    [
        (torch.relu, {}, TypeError, "model: expected a torch.nn.Module, got builtin_function_or_method"),
        (nn.ReLU(), {"mode": "evl"}, ValueError, "mode: expected one of 'eval', .* got 'evl'; did you mean 'eval'?"),
        (nn.ReLU(), {"mode": None}, ValueError, "got None$"),
    ],
)
def test_what_cannot_be_lent_is_refused(model: Any, options: Any, error: type[Exception], text: str):
    with pytest.raises(error, match=text), evaluating(model, **options):
        pass


def test_numpy_is_not_imported_where_it_is_not():
    program = (
        "import sys\n"
        "sys.modules['numpy'] = None\n"
        "import torch, pytest_evalcheck.fixes as fixes\n"
        "with fixes.evaluating(torch.nn.Dropout()): pass\n"
        "print(sys.modules['numpy'])\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "None"), done.stderr


@pytest.mark.parametrize("name", ["cuda", "xpu"])
@pytest.mark.parametrize("started", [True, False])
def test_generators_of_an_accelerator_are_given_back_where_it_is_in_use_and_not_started_where_it_is_not(
    name: str, started: bool, monkeypatch: pytest.MonkeyPatch
):
    states, device = ["before"], getattr(torch, name)
    monkeypatch.setattr(device, "is_available", lambda: True)
    monkeypatch.setattr(device, "is_initialized", lambda: started)
    monkeypatch.setattr(device, "get_rng_state_all", lambda: list(states))
    monkeypatch.setattr(device, "set_rng_state_all", lambda kept: states.__setitem__(slice(None), kept))
    with evaluating(nn.Dropout()):
        states[0] = "within"
    assert states == ["before" if started else "within"]


def test_the_generator_of_mps_is_given_back(monkeypatch: pytest.MonkeyPatch):
    states = ["before"]
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "get_rng_state", lambda: states[0])
    monkeypatch.setattr(torch.mps, "set_rng_state", lambda kept: states.append(kept))
    with evaluating(nn.Dropout()):
        pass
    assert states == ["before", "before"]

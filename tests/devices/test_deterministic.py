"""`torch.use_deterministic_algorithms` on a simulated CUDA device: what its docstring says will throw, throws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.devices.rules import deterministic
from pytest_evalcheck.devices.rules.op_plans import PLANS


@pytest.fixture
def strictly() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def _rand(*shape: int, device: str) -> Tensor:
    return torch.rand(*shape, device=device, requires_grad=True)


def _ctc(device: str) -> Tensor:
    lengths = [4, 4], [2, 2]
    targets = torch.ones(2, 2, dtype=torch.int64, device=device)
    return functional.ctc_loss(_rand(4, 2, 3, device=device), targets, *lengths)


def _bag(device: str, mode: str) -> Tensor:
    bag = nn.EmbeddingBag(4, 3, mode=mode).to(device)
    return torch.as_tensor(bag(torch.tensor([[0, 1]], device=device)))


def _grid(device: str, *shape: int) -> Tensor:
    return functional.grid_sample(
        _rand(1, 1, *shape, device=device), torch.zeros(1, *shape, len(shape), device=device), align_corners=False
    )


def _put(device: str) -> Tensor:
    return torch.zeros(3, device=device).put_(
        torch.tensor([0], device=device), torch.ones(1, device=device), accumulate=True
    )


def _scatter_reduce(device: str, reduce: str) -> Tensor:
    zeros = torch.zeros(2, dtype=torch.int64, device=device)
    return torch.ones(2, device=device).scatter_reduce(0, zeros, torch.ones(2, device=device), reduce)


# By the name in the docstring: what the error names, and calls that raise it, in the forward or in the backward pass.
CALLS: dict[str, dict[str, Callable[[str], Tensor]]] = {
    "torch.nn.AvgPool3d": {"avg_pool3d_backward_cuda": lambda d: nn.AvgPool3d(2)(_rand(1, 2, 2, 2, device=d))},
    "torch.nn.AdaptiveAvgPool2d": {
        "adaptive_avg_pool2d_backward_cuda": lambda d: nn.AdaptiveAvgPool2d(2)(_rand(1, 3, 3, device=d))
    },
    "torch.nn.AdaptiveAvgPool3d": {
        "adaptive_avg_pool3d_backward_cuda": lambda d: nn.AdaptiveAvgPool3d(2)(_rand(1, 3, 3, 3, device=d))
    },
    "torch.nn.AdaptiveMaxPool2d": {
        "adaptive_max_pool2d_backward_cuda": lambda d: nn.AdaptiveMaxPool2d(2)(_rand(1, 3, 3, device=d))
    },
    "torch.nn.FractionalMaxPool2d": {
        "fractional_max_pool2d_backward_cuda": lambda d: nn.FractionalMaxPool2d(2, 2)(_rand(1, 4, 4, device=d))
    },
    "torch.nn.FractionalMaxPool3d": {
        "fractional_max_pool3d_backward_cuda": lambda d: nn.FractionalMaxPool3d(2, 2)(_rand(1, 4, 4, 4, device=d))
    },
    "torch.nn.MaxPool3d": {
        "max_pool3d_with_indices_backward_cuda": lambda d: nn.MaxPool3d(2)(_rand(1, 2, 2, 2, device=d))
    },
    "torch.nn.MaxUnpool1d": {
        "max_unpooling2d_forward_out": lambda d: nn.MaxUnpool1d(2)(
            _rand(1, 2, device=d), torch.zeros(1, 2, dtype=torch.int64, device=d)
        )
    },
    "torch.nn.MaxUnpool2d": {
        "max_unpooling2d_forward_out": lambda d: nn.MaxUnpool2d(2)(
            _rand(1, 2, 2, device=d), torch.zeros(1, 2, 2, dtype=torch.int64, device=d)
        )
    },
    "torch.nn.MaxUnpool3d": {
        "max_unpooling3d_forward_out": lambda d: nn.MaxUnpool3d(2)(
            _rand(1, 2, 2, 2, device=d), torch.zeros(1, 2, 2, 2, dtype=torch.int64, device=d)
        )
    },
    "torch.nn.functional.interpolate": {
        "upsample_linear1d_backward_out_cuda": lambda d: functional.interpolate(
            _rand(1, 2, 4, device=d), size=8, mode="linear"
        ),
        "upsample_bicubic2d_backward_out_cuda": lambda d: functional.interpolate(
            _rand(1, 2, 4, 4, device=d), size=8, mode="bicubic"
        ),
    },
    "torch.nn.ReflectionPad1d": {
        "reflection_pad1d_backward_out_cuda": lambda d: nn.ReflectionPad1d(1)(_rand(1, 3, device=d))
    },
    "torch.nn.ReflectionPad2d": {
        "reflection_pad2d_backward_cuda": lambda d: nn.ReflectionPad2d(1)(_rand(1, 3, 3, device=d))
    },
    "torch.nn.ReflectionPad3d": {
        "reflection_pad3d_backward_out_cuda": lambda d: nn.ReflectionPad3d(1)(_rand(1, 3, 3, 3, device=d))
    },
    "torch.nn.ReplicationPad1d": {
        "replication_pad1d_backward_cuda": lambda d: nn.ReplicationPad1d(1)(_rand(1, 3, device=d))
    },
    "torch.nn.ReplicationPad3d": {
        "replication_pad3d_backward_cuda": lambda d: nn.ReplicationPad3d(1)(_rand(1, 3, 3, 3, device=d))
    },
    "torch.nn.NLLLoss": {
        "nll_loss2d_forward_out_cuda_template": lambda d: nn.NLLLoss()(
            _rand(1, 2, 2, 2, device=d), torch.zeros(1, 2, 2, dtype=torch.int64, device=d)
        )
    },
    "torch.nn.CTCLoss": {"ctc_loss_backward_gpu": _ctc},
    "torch.nn.EmbeddingBag": {"embedding_bag_backward_cuda_max": lambda d: _bag(d, "max")},
    "torch.Tensor.put_": {"put_": _put},
    "torch.histc": {"_histc_cuda": lambda d: torch.rand(4, device=d).histc()},
    "torch.bincount": {
        "_bincount_cuda": lambda d: torch.zeros(2, dtype=torch.int64, device=d).bincount(torch.ones(2, device=d))
    },
    "torch.kthvalue": {"kthvalue CUDA": lambda d: torch.rand(4, device=d).kthvalue(1).values},
    "torch.median": {"median CUDA with indices output": lambda d: torch.rand(4, device=d).median(0).values},
    "torch.nn.functional.grid_sample": {
        "grid_sampler_2d_backward_cuda": lambda d: _grid(d, 2, 2),
        "grid_sampler_3d_backward_cuda": lambda d: _grid(d, 2, 2, 2),
    },
    "torch.Tensor.scatter_reduce": {"scatter_reduce_cuda": lambda d: _scatter_reduce(d, "prod")},
}
NOT_ASKED = {"torch.cumsum", "torch.Tensor.resize_"}  # deterministic in newer releases; quantized tensors
LISTED = deterministic.listed(torch.use_deterministic_algorithms.__doc__ or "")
ASKED = [(name, caller) for name, calls in CALLS.items() for caller in calls if name in LISTED]


def _run(name: str, caller: str, device: str) -> None:
    out = CALLS[name][caller](device)
    if out.requires_grad:
        out.sum().backward()


def test_every_line_of_the_docstring_is_known_and_tried() -> None:
    assert len(LISTED) > 15
    assert set(LISTED) <= set(deterministic._ALERTS)
    assert set(LISTED) - NOT_ASKED <= set(CALLS)


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize(("name", "caller"), ASKED)
def test_what_will_throw_throws(name: str, caller: str) -> None:
    text = f"^{caller}.* does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms"
    with simulate("cuda"), pytest.raises(RuntimeError, match=text):
        _run(name, caller, "cuda")


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize("accumulate", [True, False])
def test_what_is_made_of_it_throws_too(accumulate: bool) -> None:
    with simulate("cuda"):
        x, index = torch.zeros(3, device="cuda"), torch.tensor([0], device="cuda")
        with pytest.raises(RuntimeError, match=r"^put_ does not have a deterministic implementation"):
            torch.put(x, index, x[:1], accumulate=accumulate)


@pytest.mark.parametrize(("name", "caller"), ASKED)
def test_it_warns_with_warn_only(name: str, caller: str) -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with (
            simulate("cuda"),
            pytest.warns(UserWarning, match=rf"^{caller}.* does not have .*warn_only=True\)'\. You can"),
        ):
            _run(name, caller, "cuda")
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(("name", "caller"), ASKED)
def test_nothing_is_said_without_it(name: str, caller: str) -> None:
    with simulate("cuda"):
        _run(name, caller, "cuda")


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize(
    "call",
    [
        lambda d: nn.Conv2d(1, 1, 2).to(d)(_rand(1, 1, 3, 3, device=d)).sum().backward(),
        lambda d: functional.interpolate(_rand(1, 1, 2, 2, device=d), size=4, mode="bilinear").sum().backward(),
        lambda d: functional.interpolate(_rand(1, 1, 2, 2, device=d), size=4).sum().backward(),
        lambda d: nn.NLLLoss()(_rand(2, 2, device=d), torch.zeros(2, dtype=torch.int64, device=d)),
        lambda d: nn.NLLLoss(reduction="none")(
            _rand(1, 2, 2, 2, device=d), torch.zeros(1, 2, 2, dtype=torch.int64, device=d)
        ),
        lambda d: torch.zeros(2, dtype=torch.int64, device=d).bincount(),
        lambda d: torch.rand(4, device=d).median(),
        lambda d: _bag(d, "sum").sum().backward(),
        lambda d: _scatter_reduce(d, "sum"),
        lambda d: torch.ones(3, device=d).index_add(0, torch.tensor([0], device=d), torch.ones(1, device=d)),
        lambda d: _rand(3, device=d).gather(0, torch.tensor([0, 0], device=d)).sum().backward(),
        lambda d: _rand(3, device=d)[[0, 0]].sum().backward(),
    ],
)
def test_what_only_switches_the_implementation_works(call: Callable[[str], Any]) -> None:
    with simulate("cuda"):
        call("cuda")


@pytest.mark.usefixtures("strictly")
def test_the_cpu_and_mps_are_not_asked() -> None:
    with simulate("cuda", "mps"):
        for device in ("cpu", "mps"):
            torch.rand(4, device=device).median(0)
            _run("torch.nn.ReflectionPad1d", "reflection_pad1d_backward_out_cuda", device)


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize(("value", "refused"), [(None, True), (":4096:2", True), (":4096:8", False), (":16:8", False)])
def test_releases_whose_docstring_names_the_variable_of_cublas_want_it(
    value: str | None, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    docstring = (torch.use_deterministic_algorithms.__doc__ or "") + " CUBLAS_WORKSPACE_CONFIG=:4096:8"
    monkeypatch.setattr(torch.use_deterministic_algorithms, "__doc__", docstring)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    if value is not None:
        monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", value)
    deterministic._installed.cache_clear()
    PLANS.clear()
    try:
        with simulate("cuda"):
            layer, x = nn.Linear(2, 2).to("cuda"), torch.ones(1, 2, device="cuda")
            if refused:
                with pytest.raises(RuntimeError, match=r"it uses CuBLAS and you have CUDA >= 10\.2"):
                    layer(x)
            else:
                layer(x)
            layer.cpu()(x.cpu())
    finally:
        deterministic._installed.cache_clear()
        PLANS.clear()


OLD = """
    When enabled, operations will use deterministic algorithms when available, and they will throw a
    :class:`RuntimeError` when called.

    The following normally-nondeterministic operations will throw a
    :class:`RuntimeError` when ``mode=True``:

        * :class:`torch.nn.MaxPool3d` when attempting to differentiate a CUDA tensor
        * :func:`torch.nn.functional.interpolate` when attempting to differentiate a CUDA tensor
          and one of the following modes is used:

          - ``linear``

        * :func:`torch.kthvalue` with called on a CUDA tensor

    In addition, several operations fill uninitialized memory when this setting

        * :func:`torch.empty`
"""


def test_a_docstring_is_read_as_far_as_its_list() -> None:
    found = deterministic.listed(OLD)
    assert list(found) == ["torch.nn.MaxPool3d", "torch.nn.functional.interpolate", "torch.kthvalue"]
    assert deterministic.listed("nothing") == {}


@pytest.mark.usefixtures("strictly")
def test_a_refusal_is_an_error_even_where_warnings_are_ignored() -> None:
    with simulate("cuda"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="median CUDA with indices output"):
            torch.rand(4, device="cuda").median(0)

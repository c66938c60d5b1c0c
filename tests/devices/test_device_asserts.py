"""Asserts of CUDA kernels: an index or a label out of range is an error when the host waits, and from then on."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from pytest_evalcheck.devices import SimulationError, simulate
from pytest_evalcheck.devices.device_asserts import ERROR

X = torch.arange(9.0).view(3, 3)
FAR = torch.tensor([7])
LABELS = torch.tensor([0, 1, 7])


def on_device(*tensors: torch.Tensor) -> Any:
    moved = [tensor.to("cuda", copy=True) for tensor in tensors]
    return moved if len(moved) > 1 else moved[0]


# What is called, and the shape of its result
FAILING: list[tuple[str, Any, tuple[int, ...]]] = [
    ("index", lambda x, i, t: x[i], (1, 3)),
    ("index below", lambda x, i, t: x[i - 11], (1, 3)),
    ("index of two dimensions", lambda x, i, t: x[i - 7, i], (1,)),
    ("index after a mask", lambda x, i, t: x[:, None][x[0] >= 0, :, i.expand(3)], (3, 1)),
    ("index_put", lambda x, i, t: x.index_put((i,), x[:1]), (3, 3)),
    ("setitem", lambda x, i, t: x.__setitem__(i, 1.0), ()),
    ("gather", lambda x, i, t: x.gather(1, i.view(1, 1)), (1, 1)),
    ("gather below", lambda x, i, t: x.gather(1, i.view(1, 1) - 8), (1, 1)),
    ("scatter", lambda x, i, t: x.scatter(0, i.view(1, 1), 1.0), (3, 3)),
    ("scatter_", lambda x, i, t: x.scatter_(0, i.view(1, 1), x.clone()), (3, 3)),
    ("scatter_add", lambda x, i, t: x.scatter_add(0, i.view(1, 1), x), (3, 3)),
    ("scatter_reduce", lambda x, i, t: x.scatter_reduce(0, i.view(1, 1), x, "sum"), (3, 3)),
    ("index_select", lambda x, i, t: x.index_select(0, i), (1, 3)),
    ("index_add", lambda x, i, t: x.index_add(0, i, x[:1]), (3, 3)),
    ("index_copy", lambda x, i, t: x.index_copy(0, i, x[:1]), (3, 3)),
    ("index_fill", lambda x, i, t: x.index_fill(0, i, 1.0), (3, 3)),
    ("take", lambda x, i, t: x.take(i + 9), (1,)),
    ("put_", lambda x, i, t: x.put_(i + 9, x[0, :1].clone()), (3, 3)),
    ("embedding", lambda x, i, t: functional.embedding(i.view(1, 1), x), (1, 1, 3)),
    ("embedding_bag", lambda x, i, t: functional.embedding_bag(i.view(1, 1), x), (1, 3)),
    ("nll_loss", lambda x, i, t: functional.nll_loss(x, t), ()),
    ("nll_loss of pixels", lambda x, i, t: functional.nll_loss(x[None, :, :, None], t.view(1, 3, 1)), ()),
    ("cross_entropy", lambda x, i, t: functional.cross_entropy(x, t, reduction="none"), (3,)),
    ("one_hot", lambda x, i, t: functional.one_hot(t, 3), (3, 3)),
    ("one_hot below", lambda x, i, t: functional.one_hot(t - 8), (3, 0)),
    ("multi_margin_loss", lambda x, i, t: functional.multi_margin_loss(x, t), ()),
    ("binary_cross_entropy", lambda x, i, t: functional.binary_cross_entropy(x, torch.zeros_like(x)), ()),
    ("bernoulli", lambda x, i, t: torch.bernoulli(x), (3, 3)),
    ("multinomial", lambda x, i, t: torch.multinomial(-x, 4, replacement=True), (3, 4)),
    ("multinomial of zeros", lambda x, i, t: torch.multinomial(x * 0, 2, replacement=True), (3, 2)),
    ("_assert_async", lambda x, i, t: torch._assert_async(x[0, 0] > 1), ()),
]
each_failing = pytest.mark.parametrize(
    ("call", "shape"), [each[1:] for each in FAILING], ids=[each[0] for each in FAILING]
)


@each_failing
def test_the_error_comes_when_the_host_waits(call: Any, shape: tuple[int, ...]) -> None:
    with simulate("cuda"):
        x, i, t = on_device(X, FAR, LABELS)
        if shape == (3, 0):  # the number of classes is read before
            with pytest.raises(RuntimeError):
                call(x, i, t)
            return
        result = call(x, i, t)
        if result is not None:
            assert (tuple(result.shape), result.device.type) == (shape, "cuda")
            (result + 1).sum()  # not seen yet
        with pytest.raises(ERROR, match="CUDA error: device-side assert triggered"):
            torch.cuda.synchronize()


@each_failing
def test_the_cpu_raises_at_once(call: Any, shape: tuple[int, ...]) -> None:
    del shape
    with pytest.raises((RuntimeError, IndexError)) as raised:
        call(X.clone(), FAR, LABELS)
    assert "device-side" not in str(raised.value)


def test_the_error_has_the_words_of_pytorch_and_the_line_of_the_cause() -> None:
    with simulate("cuda"):
        x, i = on_device(X, FAR)
        x.gather(0, i.view(1, 1))
        with pytest.raises(RuntimeError) as raised:
            x.sum().item()
    text = str(raised.value)
    assert text.startswith("CUDA error: device-side assert triggered\n")
    assert "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n" in text
    assert "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions." in text
    assert "index out of bounds" in text
    assert "caused by gather at tests/devices/test_device_asserts.py:" in text
    assert isinstance(raised.value, getattr(torch, "AcceleratorError", RuntimeError))


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: x.cpu(),
        lambda x: x[0, 0].item(),
        lambda x: x.tolist(),
        lambda x: repr(x),
        lambda x: x.nonzero(),
        lambda x: torch.ones(1).cuda(),
        lambda x: torch.tensor(1.0, device="cuda"),
        lambda x: torch.cuda.current_stream().synchronize(),
        lambda x: torch.cuda.current_stream().record_event().synchronize(),
        lambda x: torch.cuda.current_stream().query(),
    ],
)
def test_every_wait_shows_it(wait: Any) -> None:
    with simulate("cuda"):
        x, i = on_device(X, FAR)
        x[i]
        with pytest.raises(ERROR, match="device-side assert"):
            wait(x)


def test_a_wait_for_another_stream_or_device_does_not_show_it() -> None:
    with simulate("cuda:1"):
        stream, other = torch.cuda.Stream(), torch.ones(2, device="cuda:1")
        x, i = on_device(X, FAR)
        with torch.cuda.stream(stream):
            x[i]
        x.sum().item()
        other.sum().item()
        with pytest.raises(ERROR):
            stream.synchronize()


def test_the_device_is_of_no_use_afterwards_until_the_simulation_ends() -> None:
    with simulate("cuda:1"):
        other = torch.ones(2, device="cuda:1")
        x, i = on_device(X, FAR)
        x[i]
        uses = [
            torch.cuda.synchronize,
            lambda: x + 1,
            lambda: torch.stack([x, x]),
            lambda: torch.zeros(2, device="cuda"),
            lambda: torch.ones(2).cuda(),
            lambda: x.cpu(),
            lambda: x.add_(1),
        ]
        for use in uses:
            with pytest.raises(ERROR, match="device-side assert"):
                use()
        assert (other + torch.ones(2, device="cuda:1")).device.index == 1
        assert torch.ones(2).sum() == 2
    with simulate("cuda"):
        assert torch.ones(2, device="cuda").sum().item() == 2


def test_valid_values_and_ignored_labels_fail_nowhere() -> None:
    with simulate("cuda") as ledger:
        x, t = on_device(X, torch.tensor([0, -100, 2]))
        losses = functional.cross_entropy(x, t), functional.one_hot(t.clamp(min=0), 3).sum()
        assert ledger.syncs == []  # classes are not read to validate them
        assert losses[0].item() == functional.cross_entropy(X, torch.tensor([0, -100, 2])).item()
        assert functional.one_hot(t.clamp(min=0)).shape == (3, 3)
        assert losses[1].item() == 3
        torch.cuda.synchronize()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, i: x.index_put((i,), x[:1], accumulate=True),
        lambda x, i: torch.multinomial(-x, 1),
        lambda x, i: x.gather(5, i),
        lambda x, i: x[i, i, i],
        lambda x, i: x.select(0, 7),
        lambda x, i: functional.one_hot(i, 0),
        lambda x, i: x.gather(0, i),
        lambda x, i: functional.nll_loss(x, i),
    ],
)
def test_what_the_host_checks_is_an_error_at_once(call: Any) -> None:
    with simulate("cuda"):
        x, i = on_device(X, FAR)
        with pytest.raises((RuntimeError, IndexError, ValueError)) as raised:
            call(x, i)
        assert "device-side" not in str(raised.value)
        torch.cuda.synchronize()


def test_blocking_launches_raise_where_it_is_caused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with simulate("cuda"):
        x, i = on_device(X, FAR)
        with pytest.raises(ERROR, match="device-side assert") as raised:
            x[i]
        assert "asynchronously" not in str(raised.value)


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_the_error_of_the_cpu_can_be_had(device: str) -> None:
    with simulate(device, asserts="at once"):
        x = X.to(device)
        with pytest.raises(IndexError, match="out of bounds"):
            x[FAR.to(device)]
        assert x.sum().item() == 36
    with pytest.raises(SimulationError, match="'deferred' or 'at once'"), simulate(device, asserts="never"):  # type: ignore[arg-type]
        pass


def test_mps_raises_at_once() -> None:
    with simulate("mps"), pytest.raises(IndexError):
        X.to("mps")[FAR.to("mps")]

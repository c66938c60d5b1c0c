from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path

import pytest
import torch

from pytest_evalcheck.devices import Ledger, simulate

HERE = str(Path(__file__))


def line() -> int:
    return sys._getframe(1).f_lineno


def test_a_transfer_has_its_size_its_way_and_its_line() -> None:
    with simulate("mps") as ledger:
        number = line()
        there = torch.ones(3, 2).to("mps")
        there.cpu()
    first, second = ledger.transfers
    assert (first.bytes, first.source, first.target) == (24, "cpu", "mps:0")
    assert (first.dtype, first.shape, first.call) == ("float32", (3, 2), "to")
    assert (first.file, first.line) == (HERE, number + 1)
    assert (second.source, second.target, second.call, second.line) == ("mps:0", "cpu", "cpu", number + 2)


def test_what_arrives_is_what_counts() -> None:
    with simulate("cuda") as ledger:
        torch.ones(4).to("cuda", torch.float16)
    assert ledger.bytes() == 8


@pytest.mark.parametrize(
    "nothing",
    [
        lambda x: x.to("cuda"),
        lambda x: x.cuda(),
        lambda x: x.to(x),
        lambda x: x.half(),
        lambda x: x[:2] + 1,
        lambda x: torch.empty(0).cuda(),
        lambda x: torch.zeros(3, device="cuda"),
        lambda x: torch.ones(2).cpu(),
        lambda x: x.copy_(x + 1),
        lambda x: x.requires_grad_().sum().backward(),
    ],
)
def test_what_stays_or_is_empty_is_no_transfer(nothing) -> None:
    with simulate("cuda") as ledger:
        x = torch.ones(4, device="cuda")
        nothing(x)
    assert ledger.transfers == []
    assert ledger.syncs == []


def test_bytes_are_asked_by_way_and_a_kind_covers_its_indices() -> None:
    with simulate("cuda:1") as ledger:
        x = torch.ones(2).to("cuda:1").to("cuda:0")
        x.cpu()
    assert ledger.bytes("cpu", "cuda") == ledger.bytes("cpu", "cuda:1") == 8
    assert ledger.bytes("cpu", "cuda:0") == 0
    assert ledger.bytes("cuda", "cuda") == 8
    assert ledger.bytes() == 24


def test_a_size_that_is_given_is_not_read() -> None:
    """aten/src/ATen/native/cuda/Repeat.cu."""
    with simulate("cuda") as ledger:
        counts = torch.tensor([1, 2], device="cuda")
        for options, waits in (({}, 1), ({"output_size": 3}, 0)):
            with ledger.span() as seen:
                assert torch.repeat_interleave(counts, **options).shape == (3,)
                torch.repeat_interleave(counts, counts, **options)
            assert len(seen.syncs) == 2 * waits


@pytest.mark.parametrize(
    ("call", "wait"),
    [
        ("item", lambda x: x[0].item()),
        ("__bool__", lambda x: bool(x[0] > 0)),
        ("__int__", lambda x: int(x[0])),
        ("__float__", lambda x: float(x[0])),
        ("tolist", lambda x: x.tolist()),
        ("cpu", lambda x: x.cpu()),
        ("to", lambda x: x.to("cpu")),
        ("nonzero", lambda x: x.nonzero()),
        ("__getitem__", lambda x: x[x > 0]),
        ("masked_select", lambda x: torch.masked_select(x, x > 0)),
        ("unique", lambda x: x.unique()),
        ("equal", lambda x: torch.equal(x, x + 1)),
        ("allclose", lambda x: torch.allclose(x, x + 1)),
        ("synchronize", lambda x: torch.cuda.synchronize()),
        ("synchronize", lambda x: torch.cuda.current_stream().synchronize()),
        (
            "synchronize",
            lambda x: torch.accelerator.synchronize() if hasattr(torch, "accelerator") else torch.cuda.synchronize(),
        ),
        ("__repr__", lambda x: repr(x)),
        ("copy_", lambda x: torch.empty(3).copy_(x)),
        ("__format__", lambda x: f"{x[0]:.1f}"),
    ],
)
def test_the_host_waits(call, wait) -> None:
    with simulate("cuda") as ledger:
        x = torch.arange(3.0, device="cuda")
        wait(x)
    assert [(each.call, each.device) for each in ledger.syncs] == [(call, "cuda:0")]
    assert ledger.syncs[0].file == HERE


@pytest.mark.parametrize(
    "free",
    [
        lambda x: x.argmax(),
        lambda x: x[torch.tensor([0], device="cuda")],
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: x.masked_fill(x > 0, 0.0),
        lambda x: x.topk(2),
        lambda x: x.sum(),
        lambda x: torch.ones(3).cuda(non_blocking=True),
    ],
)
def test_the_host_does_not_wait(free) -> None:
    with simulate("cuda") as ledger:
        free(torch.arange(3.0, device="cuda"))
    assert ledger.syncs == []


def test_a_non_blocking_copy_home_is_a_transfer_and_no_wait() -> None:
    with simulate("cuda") as ledger:
        torch.ones(2, device="cuda").to("cpu", non_blocking=True)
    assert (len(ledger.transfers), len(ledger.syncs)) == (1, 0)


def test_the_cpu_has_no_entries() -> None:
    with simulate("cuda") as ledger:
        x = torch.arange(3.0)
        x.tolist(), x[x > 0], x.sum().item(), x.nonzero()
    assert not ledger.transfers
    assert not ledger.syncs


def test_a_span_counts_its_block_and_the_whole_counts_all() -> None:
    with simulate("mps") as ledger:
        torch.ones(1).to("mps")
        with ledger.span() as seen:
            torch.ones(2).to("mps").sum().item()
        torch.ones(4).to("mps")
    assert (seen.bytes(), ledger.bytes()) == (8, 28)
    assert len(seen.syncs) == len(ledger.syncs) == 1


def test_spans_nest() -> None:
    with simulate("mps") as ledger, ledger.span() as outer:
        torch.ones(1).to("mps")
        with outer.span() as inner:
            torch.ones(2).to("mps")
    assert (inner.bytes(), outer.bytes()) == (8, 12)


def test_nothing_is_written_while_paused() -> None:
    with simulate("mps") as ledger:
        with ledger.paused():
            torch.ones(1).to("mps").item()
        assert not ledger.transfers
        assert not ledger.syncs
        torch.ones(1).to("mps")
    assert ledger.bytes() == 4


def test_the_same_code_gives_the_same_entries() -> None:
    def run() -> dict:
        with simulate("cuda") as ledger:
            model = torch.nn.Linear(3, 2).cuda()
            model(torch.ones(1, 3).cuda()).argmax(-1).tolist()
        return ledger.as_dict()

    assert run() == run()


def test_plain_data_is_json_and_the_text_has_every_line() -> None:
    with simulate("cuda") as ledger:
        number = line()
        x = torch.ones(2).cuda()
        x[0].item()
    assert json.loads(json.dumps(ledger.as_dict()))["transfers"][0]["shape"] == [2]
    text, here = str(ledger), os.path.relpath(HERE)
    assert text == ledger.summary()
    assert text.splitlines()[:2] == ["cpu -> cuda:0: 1 transfer, 8 bytes", "host synchronisations: 1"]
    assert f"{here}:{number + 1}: cuda: cpu -> cuda:0, 1 time, 8 bytes" in text
    assert f"{here}:{number + 2}: item: waits for cuda:0, 1 time" in text
    assert str(Ledger()) == "nothing crossed between devices, and the host never waited"
    assert repr(ledger) == "<Ledger: 1 transfer, 8 bytes, 1 sync>"


def test_a_gradient_that_crosses_back_is_a_transfer() -> None:
    with simulate("cuda") as ledger:
        weight = torch.ones(3, requires_grad=True)
        (weight.cuda() * 2).sum().backward()
    assert [(each.source, each.target, each.call) for each in ledger.transfers] == [
        ("cpu", "cuda:0", "cuda"),
        ("cuda:0", "cpu", "backward"),
    ]


def test_a_nested_simulation_of_the_same_devices_sees_its_own_part() -> None:
    with simulate("mps") as outer:
        torch.ones(1).to("mps")
        with simulate("mps") as inner:
            torch.ones(2).to("mps")
    assert (inner.bytes(), outer.bytes()) == (8, 12)


def test_a_deep_copy_stays_where_it_is() -> None:
    with simulate("cuda", "mps") as ledger:
        made = [torch.ones(2, device=device) for device in ("cuda", "mps")]
        with ledger.span() as seen:
            copies = copy.deepcopy(made)
        assert [each.device for each in copies] == [each.device for each in made]
    assert (seen.transfers, seen.syncs) == ([], [])

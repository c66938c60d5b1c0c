"""Memory of the host that is used before a non-blocking copy to or from it is complete."""

from __future__ import annotations

import copy
import io
import pickle
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pytest_evalcheck.devices import (
    Ledger,
    SimulationError,
    UnsynchronizedAccess,
    UnsynchronizedAccessWarning,
    asynchrony,
    simulate,
)
from pytest_evalcheck.devices.state import ACTIVE

HERE = str(Path(__file__))
DEVICES = pytest.mark.parametrize("device", ["cuda", "mps"])


def home(device: str) -> torch.Tensor:
    """Three numbers in the memory of the host, of which the copy is in flight."""
    return torch.arange(3.0, device=device).to("cpu", non_blocking=True)


def line() -> int:
    return sys._getframe(1).f_lineno


def kinds(ledger: Ledger) -> list[str]:
    return [race.kind for race in ledger.races]


def in_a_thread(x: Any) -> None:
    thread = threading.Thread(target=lambda: x + 1)
    thread.start()
    thread.join()


def in_a_pool(x: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: x.sum()).result()


READS = [
    lambda x: x + 1,
    lambda x: torch.stack([x, x]),
    lambda x: x.sum(),
    lambda x: x[1:].sum(),
    lambda x: x.view(3, 1).clone(),
    lambda x: x.detach().numpy(),
    lambda x: np.asarray(x),
    lambda x: np.array([0.0, *x]),
    lambda x: x.tolist(),
    lambda x: x[0].item(),
    lambda x: bool(x[0]),
    lambda x: f"{x[0]:.1f}",
    lambda x: repr(x),
    lambda x: copy.deepcopy(x),
    lambda x: pickle.dumps(x),
    lambda x: torch.save({"x": x}, io.BytesIO()),
    lambda x: torch.save(torch.nn.Parameter(x), io.BytesIO()),
    lambda x: ForkingPickler.dumps(x),
    lambda x: torch.from_dlpack(x.detach()),
    lambda x: x.map_(torch.ones(3), lambda a, b: a),
    lambda x: x.share_memory_(),
    lambda x: x.add_(1),
    lambda x: torch.empty(3).copy_(x),
    lambda x: torch.ones(3, device="cuda") * x[0],
    lambda x: torch.equal(x, x),
    lambda x: torch.nn.functional.mse_loss(x, torch.ones(3)),
    in_a_thread,
    in_a_pool,
]


@pytest.mark.parametrize("read", READS)
def test_a_read_in_flight_is_seen(read: Any) -> None:
    with simulate("cuda", in_flight="ignore") as ledger:
        x = home("cuda")
        read(x)
    assert len(ledger.races) == 1, ledger.races
    assert ledger.races[0].kind in ("read", "overwritten")


@pytest.mark.parametrize("read", READS)
def test_a_read_after_the_host_waited_is_none(read: Any) -> None:
    with simulate("cuda", in_flight="error") as ledger:
        x = home("cuda")
        torch.cuda.synchronize()
        read(x)
    assert ledger.races == []


@DEVICES
def test_both_places_are_named(device: str) -> None:
    with simulate(device, in_flight="ignore") as ledger:
        there = torch.arange(3.0, device=device)
        number = line()
        x = there.to("cpu", non_blocking=True)
        x.mean()
        assert ledger.is_in_flight(x)
        assert not ledger.is_in_flight(there)
    (race,) = ledger.races
    assert (race.kind, race.device) == ("read", f"{device}:0")
    assert (race.work.call, race.work.file, race.work.line) == ("to", HERE, number + 1)
    assert (race.use.call, race.use.file, race.use.line) == ("mean", HERE, number + 2)
    for part in (
        f"in_flight.py:{number + 1}",
        f"in_flight.py:{number + 2}",
        f"torch.{device}.synchronize()",
        "float32[3]",
    ):
        assert part in str(race)
    assert f"race (read): {race.use}, under way: {race.work}" in ledger.summary()
    assert ledger.as_dict()["races"][0]["use"]["line"] == number + 2


@DEVICES
def test_it_is_a_warning_of_that_line_unless_an_error_is_asked_for(device: str) -> None:
    with simulate(device):
        x = home(device)
        with pytest.warns(UnsynchronizedAccessWarning, match="in flight") as caught:
            x.sum()
        assert caught[0].filename == HERE
        x.sum()  # once for a copy
    with simulate(device, in_flight="error") as ledger:
        x = home(device)
        for _ in range(2):
            with pytest.raises(UnsynchronizedAccess, match="in flight") as raised:
                x.sum()
            assert raised.value.race == ledger.races[0]
        assert pickle.loads(pickle.dumps(raised.value)).race == ledger.races[0]
    assert len(ledger.races) == 1


@pytest.mark.parametrize(
    "wait",
    [
        lambda x: torch.cuda.synchronize(),
        lambda x: torch.cuda.current_stream().synchronize(),
        lambda x: torch.accelerator.synchronize() if hasattr(torch, "accelerator") else x.cpu(),
        lambda x: x[0].item(),
        lambda x: x.cpu(),
        lambda x: x.tolist(),
        lambda x: x.nonzero(),
        lambda x: repr(x),
        lambda x: torch.ones(2).to("cuda"),
        lambda x: torch.ones(2).to("cuda", non_blocking=True),  # not pinned
        lambda x: torch.empty(3).copy_(x, non_blocking=True),  # not pinned
        lambda x: torch.tensor([1.0], device="cuda"),
        lambda x: x.new_tensor([1.0]),
        lambda x: torch.empty(3, device="cuda").copy_(torch.ones(3)),
    ],
)
def test_the_host_has_waited(wait: Any) -> None:
    with simulate("cuda", in_flight="error"):
        there = torch.ones(3, device="cuda")
        x = there.to("cpu", non_blocking=True)
        wait(there)
        assert x.sum() == 3


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x.sum(),
        lambda x: x.to("cpu", non_blocking=True),
        lambda x: torch.zeros(2, device="cuda"),
        lambda x: torch.ones(3).pin_memory().to("cuda", non_blocking=True),
        lambda x: torch.empty(0).to("cuda"),
    ],
)
def test_the_host_has_not_waited(other: Any) -> None:
    with simulate("cuda", in_flight="ignore") as ledger:
        there = torch.ones(3, device="cuda")
        x = there.to("cpu", non_blocking=True)
        other(there)
        x.sum()
    assert kinds(ledger) == ["read"]


def test_waiting_for_another_device_is_not_enough() -> None:
    with simulate("cuda:1", in_flight="ignore") as ledger:
        x = home("cuda:1")
        torch.cuda.synchronize(0)
        x.sum()
    assert kinds(ledger) == ["read"]


@pytest.mark.parametrize(
    "no_read",
    [
        lambda x: (x.shape, x.dtype, x.device, x.is_pinned(), x.data_ptr(), len(x)),
        lambda x: x.view(3, 1).expand(3, 2)[:1].detach(),
        lambda x: torch.zeros_like(x) + torch.empty_like(x).fill_(1) + x.new_zeros(3),
        lambda x: x.to("cuda", non_blocking=True),  # behind the copy, in one stream
        lambda x: torch.empty(3, device="cuda").copy_(x),
        lambda x: x.copy_(torch.zeros(3, device="cuda"), non_blocking=True),
    ],
)
def test_what_reads_no_values_of_the_host_is_allowed(no_read: Any) -> None:
    with simulate("cuda", in_flight="error"):
        no_read(home("cuda"))


def test_only_the_part_that_is_copied_is_in_flight() -> None:
    with simulate("cuda", in_flight="error"):
        buffer = torch.zeros(4, 4).pin_memory()
        buffer[1].copy_(torch.ones(4, device="cuda"), non_blocking=True)
        buffer[2:].sum()
        buffer[0, :3].tolist()
        buffer[::2].sum()
        for part in (buffer, buffer[:, 1], buffer.view(torch.int32), buffer[1, 3:], buffer.view(-1)[6::5]):
            with pytest.raises(UnsynchronizedAccess):
                part.sum()
        buffer.view(-1)[0::15].sum()  # around the part


@pytest.mark.parametrize(
    ("device", "memory", "in_flight"),
    [
        ("cuda", lambda: torch.empty(3).pin_memory(), True),
        ("cuda", lambda: torch.empty(3, pin_memory=True), True),
        ("cuda", lambda: torch.empty(3), False),  # cudaMemcpyAsync returns when it is complete
        ("cuda", lambda: torch.empty(3, dtype=torch.float16).pin_memory(), True),  # cast on the device
        ("cuda", lambda: torch.empty(3, 2).pin_memory()[:, 0], False),  # by a temporary that is not pinned
        ("mps", lambda: torch.empty(3), True),  # all memory of the host is used in place
    ],
)
def test_which_copies_to_the_host_are_in_flight(device: str, memory: Any, in_flight: bool) -> None:
    with simulate(device, in_flight="ignore") as ledger:
        target = memory().copy_(torch.ones(3, device=device), non_blocking=True)
        target.sum()
    assert kinds(ledger) == ["read"] * in_flight
    assert len(ledger.syncs) == (not in_flight)


@pytest.mark.parametrize(
    ("device", "memory", "in_flight"),
    [
        ("cuda", lambda: torch.ones(3).pin_memory(), True),
        ("cuda", lambda: torch.ones(3), False),
        ("cuda", lambda: torch.ones(3, dtype=torch.float16).pin_memory(), True),
        ("cuda", lambda: torch.ones(3, 2).pin_memory()[:, 0], False),
        ("mps", lambda: torch.ones(3), True),
        ("mps", lambda: torch.ones(3, dtype=torch.float16), False),  # cast on the host first
        ("mps", lambda: torch.ones(3, 2)[:, 0], False),
    ],
)
def test_which_copies_to_a_device_are_in_flight(device: str, memory: Any, in_flight: bool) -> None:
    with simulate(device, in_flight="ignore") as ledger:
        source = memory()
        torch.empty(3, device=device).copy_(source, non_blocking=True)
        source.sum()
        assert ledger.races == []
        source.zero_()
    assert kinds(ledger) == ["overwritten"] * in_flight


@DEVICES
def test_poisoned_memory_holds_garbage_until_the_host_has_waited(device: str) -> None:
    with simulate(device, in_flight="ignore", poison=True):
        there = [torch.tensor(data, device=device) for data in ([1.0, 2.0], [1, 2], [True, False])]
        x, i, b = (each.to("cpu", non_blocking=True) for each in there)
        half = torch.ones(2, 2, device=device).to("cpu", torch.float16, non_blocking=True)
        early = x.sum(), i.sum(), b.clone(), half.sum()
        getattr(torch, device).synchronize()
        assert early[0].isnan()
        assert early[3].isnan()
        assert early[1] != 3
        assert early[2].tolist() == [False, True]
        assert (x.tolist(), i.tolist(), b.tolist(), half.sum().item()) == ([1.0, 2.0], [1, 2], [True, False], 4)


def test_poisoned_memory_has_its_values_when_the_simulation_ends() -> None:
    with simulate("cuda", poison=True), torch.inference_mode():
        x = home("cuda")
    assert x.tolist() == [0, 1, 2]


def test_a_poisoned_average_is_as_wrong_as_on_the_device() -> None:
    """Lightning-AI/pytorch-lightning#11287: predictions are copied to the host and written before they arrived."""
    with simulate("cuda", in_flight="ignore", poison=True):
        written = [home("cuda").numpy().copy() for _ in range(2)]
    assert np.isnan(written).all()


@DEVICES
def test_a_source_that_is_overwritten_gives_the_device_its_new_values(device: str) -> None:
    with simulate(device, in_flight="ignore", poison=True) as ledger:
        source = torch.ones(3).pin_memory() if device == "cuda" else torch.ones(3)
        kept, changed = (source.to(device, non_blocking=True) for _ in range(2))
        changed.add_(1)
        source.fill_(5)
        assert kept.tolist() == [5, 5, 5]
        assert changed.tolist() == [2, 2, 2]  # it was written after the copy, in the order of the stream
    assert kinds(ledger) == ["overwritten", "overwritten"]
    with simulate(device, in_flight="error"):
        there = source.to(device, non_blocking=True)
        there.sum().item()
        source.zero_()


def test_memory_that_is_freed_before_the_copy_to_mps_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytorch/pytorch#139550, huggingface/lerobot#702: the source is replaced by its copy."""
    for retained in (True, False):
        monkeypatch.setattr(asynchrony, "MEMORY_IS_RETAINED", retained)
        with simulate("mps", in_flight="ignore") as ledger:
            a = torch.ones(3)
            b = torch.ones(3)
            a = a.to("mps", non_blocking=True)
            there = b.to("mps", non_blocking=True)
            torch.mps.synchronize()
            del a, b, there
        assert kinds(ledger) == ([] if retained else ["freed"])


def test_memory_that_is_freed_is_forgotten() -> None:
    with simulate("cuda", in_flight="error") as ledger:
        for _ in range(1200):
            torch.ones(1, device="cuda").to("cpu", non_blocking=True)
        assert ACTIVE.state is not None
        assert len(ACTIVE.state.asynchrony._copies) <= 1001
    assert ledger.races == []


def test_the_error_of_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(SimulationError, match="'warn', 'error' or 'ignore'"), simulate("cuda", in_flight="raise"):  # type: ignore[arg-type]
        pass

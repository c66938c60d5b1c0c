"""Streams and events: work is done in the order of the program, and missing waits are found."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.cuda import Event as ImportedEvent
from torch.cuda import Stream as ImportedStream

from pytest_evalcheck.devices import CannotSimulate, Ledger, SimulationError, UnsynchronizedAccess, simulate


def line() -> int:
    return sys._getframe(1).f_lineno


@pytest.fixture
def cuda() -> Iterator[Ledger]:
    with simulate("cuda:1", in_flight="error") as ledger:
        yield ledger


@pytest.fixture
def checked() -> Iterator[Ledger]:
    with simulate("cuda:1", in_flight="ignore", streams="check") as ledger:
        yield ledger


@pytest.mark.usefixtures("cuda")
def test_a_stream_is_current_inside_its_block() -> None:
    default, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    assert default == torch.cuda.default_stream()
    with torch.cuda.stream(stream) as _:
        assert torch.cuda.current_stream() == stream != default
        with torch.cuda.stream(None):
            assert torch.cuda.current_stream() == stream
        assert torch.ones(2, device="cuda").sum() == 2
    assert torch.cuda.current_stream() == default
    torch.cuda.set_stream(stream)
    assert torch.cuda.current_stream().stream_id == stream.stream_id
    assert torch.cuda.current_stream().cuda_stream == stream.cuda_stream != 0
    assert {default: 1, stream: 2}[torch.cuda.current_stream()] == 2
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream()))
    thread.start()
    thread.join()
    assert seen == [default]  # each thread has its own


@pytest.mark.usefixtures("cuda")
def test_a_stream_of_another_device_makes_that_device_current() -> None:
    stream = torch.cuda.Stream("cuda:1")
    assert (stream.device, stream.device_index) == (torch.device("cuda:1"), 1)
    with torch.cuda.stream(stream):
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream() == stream
        assert torch.cuda.current_stream(0) == torch.cuda.default_stream(0)
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    with torch.cuda.device(1):
        assert torch.cuda.Stream().device_index == 1


@pytest.mark.usefixtures("cuda")
def test_priorities_and_handles() -> None:
    assert torch.cuda.Stream(priority=-1).priority == -1
    assert torch.cuda.Stream(priority=7).priority == 0
    assert torch.cuda.Stream(priority=-99).priority == torch.cuda.Stream.priority_range()[1]
    stream = torch.cuda.Stream()
    known = {"stream_id": stream.stream_id, "device_index": 0, "device_type": stream.device_type}
    assert torch.cuda.Stream(**known) == stream
    assert isinstance(stream, torch.cuda.Stream)
    assert isinstance(stream, torch.Stream)
    assert stream != 3
    assert repr(stream).startswith("<torch.cuda.Stream device=cuda:0 cuda_stream=0x")
    pool = {torch.cuda.Stream() for _ in range(40)}
    assert len(pool) == 32  # PyTorch gives out 32 in turn
    assert isinstance(ImportedStream(), torch.cuda.Stream)
    assert isinstance(ImportedEvent(), torch.cuda.Event)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.Stream("cuda:7")


@pytest.mark.usefixtures("cuda")
def test_generic_streams_and_events() -> None:
    with torch.Stream("cuda:1") as stream, stream:
        assert torch.cuda.current_stream(1).stream_id == stream.stream_id
        assert torch.cuda.current_device() == 1
        event = stream.record_event()
    assert torch.cuda.current_device() == 0
    assert event.query()
    event.synchronize()
    assert torch.Stream("cpu").device.type == "cpu"
    if hasattr(torch, "accelerator"):
        before, stream = torch.accelerator.current_stream(), torch.Stream()
        torch.accelerator.set_stream(stream)
        assert torch.accelerator.current_stream() == stream != before


def test_mps_has_one_stream() -> None:
    with simulate("mps", in_flight="error") as ledger:
        x = torch.ones(3, device="mps").to("cpu", non_blocking=True)
        event = torch.mps.Event(enable_timing=True)
        event.record()
        event.wait()
        event.synchronize()
        assert x.sum() == 3
        assert event.query()
        assert torch.Stream("mps") == torch.Stream("mps")
    assert [sync.call for sync in ledger.syncs] == ["synchronize"]


def test_the_classes_of_pytorch_are_as_before_when_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {cls: dict(vars(cls)) for cls in (torch.cuda.Stream, torch.cuda.Event, torch.mps.event.Event)}
    with simulate("cuda", "mps"):
        torch.cuda.Event()
    assert {cls: dict(vars(cls)) for cls in before} == before
    monkeypatch.setattr(torch._C, "_mps_acquireEvent", lambda timed: -timed, raising=False)
    assert isinstance(torch.mps.event.Event(enable_timing=True), torch.mps.event.Event)


def in_flight_on(stream: Any) -> torch.Tensor:
    with torch.cuda.stream(stream):
        return torch.ones(3, device="cuda").to("cpu", non_blocking=True)


@pytest.mark.parametrize(
    "wait",
    [
        lambda stream, event: stream.synchronize(),
        lambda stream, event: event.synchronize(),
        lambda stream, event: event.query(),
        lambda stream, event: stream.query(),
        lambda stream, event: torch.cuda.synchronize(),
        lambda stream, event: (
            torch.cuda.current_stream().wait_stream(stream),
            torch.cuda.current_stream().synchronize(),
        ),
        lambda stream, event: (event.wait(), torch.ones(1, device="cuda").item()),
        lambda stream, event: (torch.cuda.Stream().wait_event(event), torch.cuda.synchronize()),
    ],
)
@pytest.mark.usefixtures("cuda")
def test_the_host_waits_for_a_copy_on_a_stream(wait: Any) -> None:
    stream = torch.cuda.Stream()
    x = in_flight_on(stream)
    wait(stream, stream.record_event())
    assert x.sum() == 3


@pytest.mark.parametrize(
    "wait",
    [
        lambda stream, early: torch.cuda.current_stream().synchronize(),
        lambda stream, early: torch.ones(1, device="cuda").item(),
        lambda stream, early: early.synchronize(),
        lambda stream, early: torch.cuda.Event().synchronize(),  # not recorded
        lambda stream, early: stream.wait_stream(torch.cuda.current_stream()),
        lambda stream, early: torch.cuda.current_stream().wait_stream(stream),
        lambda stream, early: torch.cuda.synchronize(1),
    ],
)
@pytest.mark.usefixtures("cuda")
def test_the_host_has_waited_for_something_else(wait: Any) -> None:
    stream = torch.cuda.Stream()
    early = stream.record_event()
    x = in_flight_on(stream)
    wait(stream, early)
    with pytest.raises(UnsynchronizedAccess, match="read by sum"):
        x.sum()


@pytest.mark.usefixtures("cuda")
def test_a_second_copy_on_another_stream_has_to_wait() -> None:
    stream = torch.cuda.Stream()
    x = in_flight_on(stream)
    with pytest.raises(UnsynchronizedAccess, match="read by to"):
        x.to("cuda", non_blocking=True)
    torch.cuda.current_stream().wait_stream(stream)
    assert x.to("cuda", non_blocking=True).sum().item() == 3


def test_poisoned_memory_is_right_for_the_device() -> None:
    with simulate("cuda", in_flight="ignore", poison=True):
        x = torch.ones(3, device="cuda").to("cpu", non_blocking=True)
        assert x.to("cuda", non_blocking=True).tolist() == [1, 1, 1]


@pytest.mark.usefixtures("cuda")
def test_what_events_refuse() -> None:
    event = torch.cuda.Event()
    event.record()
    with pytest.raises(RuntimeError, match="Event device 0 does not match recording stream's device 1"):
        event.record(torch.cuda.Stream(1))
    with pytest.raises(ValueError, match="must be created with argument 'enable_timing=True'"):
        event.elapsed_time(event)
    timed = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    with pytest.raises(ValueError, match="must be recorded"):
        timed[0].elapsed_time(timed[1])
    for each in timed:
        each.record()
    with pytest.raises(CannotSimulate, match="time between events"):
        timed[0].elapsed_time(timed[1])
    with pytest.raises(CannotSimulate, match="another process"):
        event.ipc_handle()
    with pytest.raises(CannotSimulate, match=r"torch\.cuda\.ExternalStream"):
        torch.cuda.ExternalStream(1)
    with pytest.raises(CannotSimulate, match="CUDAGraph"):
        torch.cuda.CUDAGraph()
    with pytest.raises(NotImplementedError, match="record_stream"):
        torch.ones(1).record_stream(torch.cuda.Stream())
    torch.ones(1, device="cuda").record_stream(torch.cuda.Stream())


def test_a_stream_of_an_earlier_simulation_is_refused() -> None:
    with simulate("cuda"):
        stream = torch.cuda.Stream()
    with pytest.raises(CannotSimulate, match="does not belong"):
        stream.synchronize()
    with simulate("cuda"), pytest.raises(CannotSimulate, match="earlier simulation"):
        torch.cuda.set_stream(stream)


def test_both_places_of_a_missing_wait_are_named(checked: Ledger) -> None:
    stream, x = torch.cuda.Stream(), torch.ones(3, device="cuda")
    torch.cuda.synchronize()
    number = line()
    x.add_(1)
    with torch.cuda.stream(stream):
        x.mul(2)
    (race,) = checked.races
    assert (race.kind, race.device) == ("streams", "cuda:0")
    assert (race.work.call, race.work.line, race.use.call, race.use.line) == ("add_", number + 1, "mul", number + 3)
    for part in ("read by mul", "on stream 2 of cuda:0", "written by add_", "on the default stream", "wait_stream"):
        assert part in str(race)
    assert pickle.loads(pickle.dumps(race)) == race


def produce_and_use(wait: Any, use: Any) -> None:
    """A tensor that one stream makes and another one uses, with something between."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(4, device="cuda") + 1
    wait(stream, stream.record_event())
    use(x)


USES = [
    lambda x: x + 1,
    lambda x: x.add_(1),
    lambda x: x[1:].sum(),
    lambda x: torch.stack([x, x]),
    lambda x: x.item() if x.numel() == 1 else x[0].item(),
    lambda x: x.cpu(),
    lambda x: x.copy_(torch.ones(4)),
    lambda x: torch.ones(4).copy_(x),
    lambda x: torch.ones(4, device="cuda").index_put_((x.long(),), x),
    lambda x: torch._foreach_add([x], 1.0),
]


@pytest.mark.parametrize("use", USES)
def test_a_stream_that_does_not_wait_is_found(checked: Ledger, use: Any) -> None:
    produce_and_use(lambda stream, event: None, use)
    assert {race.kind for race in checked.races} == {"streams"}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "wait",
    [
        lambda stream, event: torch.cuda.current_stream().wait_stream(stream),
        lambda stream, event: torch.cuda.current_stream().wait_event(event),
        lambda stream, event: event.synchronize(),
        lambda stream, event: torch.cuda.synchronize(),
    ],
)
def test_a_stream_that_waits_is_not(checked: Ledger, use: Any, wait: Any) -> None:
    produce_and_use(wait, use)
    assert checked.races == []


def test_waits_are_passed_on(checked: Ledger) -> None:
    first, second, third = (torch.cuda.Stream() for _ in range(3))
    with torch.cuda.stream(first):
        x = torch.ones(2, device="cuda") * 2
    second.wait_stream(first)
    third.wait_event(second.record_event())
    with torch.cuda.stream(third):
        x.sum()
    assert checked.races == []
    with torch.cuda.stream(first):
        x.zero_()  # third still reads
    assert [race.kind for race in checked.races] == ["streams"]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        (lambda x: x.sum(), lambda x: x.mean(), 0),  # two reads
        (lambda x: x.sum(), lambda x: x.zero_(), 1),
        (lambda x: x.zero_(), lambda x: x.zero_(), 1),
        (lambda x: x[:2].zero_(), lambda x: x[2:].zero_(), 0),
        (lambda x: x[::2].zero_(), lambda x: x[1::2].zero_(), 0),
        (lambda x: x[:3].zero_(), lambda x: x[2:].zero_(), 1),
        (lambda x: x.shape, lambda x: x.zero_(), 0),
    ],
)
def test_two_streams_race_where_one_writes_what_the_other_uses(
    checked: Ledger, first: Any, second: Any, found: int
) -> None:
    x = torch.ones(4, device="cuda")
    torch.cuda.synchronize()
    for use in (first, second):
        with torch.cuda.stream(torch.cuda.Stream()):
            use(x)
    assert len(checked.races) == found


def test_a_copy_between_devices_waits_for_both(checked: Ledger) -> None:
    x = torch.ones(3, device="cuda:0")
    y = x.to("cuda:1") + 1
    x.copy_(y)
    x.add_(1)
    assert checked.races == []


def test_autograd_orders_its_streams(checked: Ledger) -> None:
    stream = torch.cuda.Stream()
    weight = torch.ones(3, device="cuda", requires_grad=True)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        loss = (weight * 2).exp().sum()
    torch.cuda.current_stream().wait_stream(stream)
    loss.backward()
    assert weight.grad is not None
    weight.grad.add_(1)
    assert checked.races == []


def free_while_in_use(record: bool, wait: bool, size: int = 3) -> None:
    stream, x = torch.cuda.Stream(), torch.ones(3, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        x.sum()
    if record:
        x.record_stream(stream)
    del x
    if wait:
        torch.cuda.current_stream().wait_stream(stream)
    torch.zeros(size, device="cuda")


def test_memory_that_is_freed_while_another_stream_uses_it(checked: Ledger) -> None:
    for record, wait in ((True, False), (False, True)):
        free_while_in_use(record, wait)
    free_while_in_use(record=False, wait=False, size=10_000)  # it does not fit
    torch.cuda.synchronize()
    assert checked.races == []
    free_while_in_use(record=False, wait=False)
    assert [race.kind for race in checked.races] == ["freed"]
    assert "record_stream" in str(checked.races[0])


def test_a_training_step_on_one_stream_is_clean() -> None:
    with simulate("cuda", in_flight="error", streams="check"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            loss = torch.nn.functional.cross_entropy(
                model(torch.randn(4, 4).pin_memory().cuda(non_blocking=True)), torch.tensor([0, 1, 0, 1]).cuda()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss.item()


def test_trusted_streams_are_not_checked() -> None:
    with simulate("cuda", in_flight="error") as ledger:
        produce_and_use(lambda stream, event: None, lambda x: x + 1)
    assert ledger.races == []
    with pytest.raises(SimulationError, match="'trust' or 'check'"), simulate("cuda", streams="verify"):  # type: ignore[arg-type]
        pass

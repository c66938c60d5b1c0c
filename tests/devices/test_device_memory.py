"""Bytes in use on a simulated device, and what happens where they run out."""

from __future__ import annotations

import copy
import gc
import io
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor

from pytest_evalcheck.devices import SimulationError, simulate
from pytest_evalcheck.devices.device_memory import OutOfMemoryError, format_size, parse_size

CUDA = torch.device("cuda:0")


@pytest.fixture(autouse=True)
def _no_garbage() -> None:
    gc.collect()


@pytest.fixture
def used() -> Iterator[Callable[[], int]]:
    """The bytes in use, without what an earlier test left."""
    with simulate("cuda:1"):
        before = torch.cuda.memory_allocated()
        yield lambda: torch.cuda.memory_allocated() - before


@contextmanager
def with_free(size: int, *devices: str) -> Iterator[int]:
    """A simulation with so many bytes free on each device. Gives what an earlier test left, which is in use."""
    with simulate(*devices):
        kind = torch.device(devices[0]).type
        left = torch.cuda.memory_allocated() if kind == "cuda" else torch.mps.current_allocated_memory()
    with simulate(*devices, memory=left + size):
        yield left


def test_what_autograd_alone_holds_is_in_use(used) -> None:
    x = torch.ones(1000, device="cuda", requires_grad=True)
    y = (x * 2).exp().sum()
    assert used() == 4000 + 4000 + 4  # x; the result of exp is saved; y. The product is not needed any more
    y.backward()
    assert used() == 4000 + 4 + 4000  # the gradient
    del x, y
    assert used() == 0


def test_views_share_and_copies_count(used) -> None:
    x = torch.ones(10, 10, device="cuda")
    parts = [x[0], x.t(), x.detach(), x.data, x.view(-1)]
    assert used() == 400
    del x
    assert used() == 400
    parts.append(parts[1].contiguous())
    assert used() == 800
    parts.clear()
    assert used() == 0


def test_a_peak_is_seen_though_nobody_asks(used) -> None:
    start = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    x = torch.ones(1000, device="cuda")
    (x + 1 + 2).sum()
    del x
    assert torch.cuda.memory_allocated() == start
    assert torch.cuda.max_memory_allocated() - start == 3 * 4000  # x and two sums at once
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == start


def test_memory_that_changes_its_size(used) -> None:
    x = torch.ones(10, device="cuda")
    x.resize_(1000)
    assert used() == 4000
    x.untyped_storage().resize_(0)
    assert used() == 0
    x.untyped_storage().resize_(80)
    assert used() == 80
    out = torch.empty(0, device="cuda")
    torch.add(torch.ones(50, device="cuda"), 1, out=out)
    assert used() == 80 + 200
    y = torch.ones(100, device="cuda")
    x.set_(y.untyped_storage(), 0, (100,), (1,))
    del y
    assert used() == 400 + 200  # the memory that x had is gone


def test_memory_in_garbage_is_in_use_until_it_is_collected(used) -> None:
    gc.collect()
    gc.disable()
    try:
        cycle: list[object] = [torch.ones(1000, device="cuda")]
        cycle.append(cycle)
        del cycle
        assert used() == 4000
        gc.collect()
        assert used() == 0
    finally:
        gc.enable()


def test_a_storage_whose_python_object_was_collected_is_still_in_use(used) -> None:
    x = torch.ones(1000, device="cuda")
    storage = x.untyped_storage()
    cycle: list[object] = [storage]
    cycle.append(cycle)
    del storage, cycle
    gc.collect()
    assert used() == 4000
    assert x.device == CUDA
    del x
    assert used() == 0


def test_copies_that_are_saved_and_loaded(used) -> None:
    x = torch.ones(1000, device="cuda")
    buffer = io.BytesIO()
    torch.save(x, buffer)
    buffer.seek(0)
    kept = [torch.load(buffer), copy.deepcopy(x), x.clone(), x.untyped_storage().clone()]
    assert used() == 5 * 4000
    del kept, x
    assert used() == 0


def test_a_tensor_that_moves_leaves_the_device(used) -> None:
    x = torch.ones(1000).cuda()
    other = torch.cuda.memory_allocated(1)
    y = x.to("cuda:1")
    x = x.cpu()
    assert used() == 0
    assert torch.cuda.memory_allocated(1) - other == 4000
    assert x.device.type == "cpu"
    del y


def test_what_is_left_over_is_in_use_in_a_later_simulation() -> None:
    with simulate("cuda"):
        before = torch.cuda.memory_allocated()
        left = torch.ones(1000, device="cuda")
    with simulate("cuda"):
        assert torch.cuda.memory_allocated() - before == 4000
        assert torch.cuda.max_memory_allocated() - before == 4000
        del left
        assert torch.cuda.memory_allocated() == before


def test_all_functions_agree(used) -> None:
    x, y = torch.ones(1000, device="cuda"), torch.ones(500, device="cuda")
    del x
    stats = torch.cuda.memory_stats()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    assert (stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"]) == (allocated, reserved)
    assert stats["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated() == allocated + 4000
    assert stats["allocated_bytes.all.freed"] == 4000
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] + 1 == 2
    assert reserved == allocated + 4000  # what is freed stays reserved
    free, total = torch.cuda.mem_get_info()
    assert free + reserved == total == torch.cuda.get_device_properties(0).total_memory
    assert "Allocated memory" in torch.cuda.memory_summary()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == torch.cuda.memory_allocated() == allocated
    torch.cuda.reset_accumulated_memory_stats()
    del y
    assert torch.cuda.memory_stats()["allocated_bytes.all.freed"] == 2000


@pytest.mark.skipif(not hasattr(getattr(torch, "accelerator", None), "memory_allocated"), reason="new in 2.9")
def test_the_accelerator_reports_the_same(used) -> None:
    x = torch.ones(1000, device="cuda")
    assert torch.accelerator.memory_allocated() == torch.cuda.memory_allocated()
    assert torch.accelerator.max_memory_allocated() == torch.cuda.max_memory_allocated()
    assert torch.accelerator.memory_stats() == torch.cuda.memory_stats()
    del x


def test_mps_reports_it_too() -> None:
    with simulate("mps"):
        before = torch.mps.current_allocated_memory()
        x = torch.ones(1000, device="mps")
        assert torch.mps.current_allocated_memory() - before == 4000
        del x
        assert torch.mps.driver_allocated_memory() - before == 4000
        torch.mps.empty_cache()
        assert torch.mps.driver_allocated_memory() == before


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_what_does_not_fit_is_refused_and_the_rest_goes_on(kind: str) -> None:
    with with_free(10_000, kind):
        x = torch.ones(1000, device=kind)
        with pytest.raises(OutOfMemoryError if kind == "cuda" else RuntimeError, match="out of memory"):
            torch.ones(2000, device=kind)
        with pytest.raises(RuntimeError, match="out of memory"):
            x.exp().add(1)  # the first result fits
        assert (x.device.type, x.sum().item()) == (kind, 1000)
        del x
        assert torch.ones(2000, device=kind).sum().item() == 2000


def test_the_text_is_that_of_pytorch() -> None:
    with simulate("cuda", memory="2GiB"):
        kept = torch.ones(2**19, device="cuda")
        with pytest.raises(OutOfMemoryError) as caught:
            torch.empty(2**30, device="cuda")
    assert str(caught.value).startswith(
        "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 2.00 GiB of which 2.00 GiB is "
        "free. Including non-PyTorch memory, this process has 2.00 MiB memory in use. Of the allocated memory 2.00 MiB "
        "is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated."
    )
    assert type(caught.value) is torch.cuda.OutOfMemoryError
    with simulate("mps", memory="1MiB"), pytest.raises(RuntimeError) as caught_by_mps:
        torch.ones(2**19, device="mps")
    assert re.match(
        r"MPS backend out of memory \(MPS allocated: [\d.]+ \w+, other allocations: 0 bytes, max allowed: 1024\.00 KiB\)\. "
        r"Tried to allocate 2\.00 MiB on private pool\.",
        str(caught_by_mps.value),
    )
    assert type(caught_by_mps.value) is RuntimeError
    del kept


def test_each_device_has_so_much() -> None:
    with with_free(1_000_000, "cuda:1"):
        on_both = []
        for index in range(2):
            free, _ = torch.cuda.mem_get_info(index)
            on_both.append(torch.empty(free, dtype=torch.uint8, device=f"cuda:{index}"))
            with pytest.raises(OutOfMemoryError, match=f"GPU {index} has"):
                on_both.append(torch.ones(1, device=f"cuda:{index}"))


def test_a_fraction_limits_it_too() -> None:
    with with_free(10_000, "cuda") as left:
        torch.cuda.set_per_process_memory_fraction((left + 5000) / (left + 10_000))
        with pytest.raises(OutOfMemoryError, match=r"iB allowed; Of the allocated memory"):
            torch.ones(2000, device="cuda")
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.ones(2000, device="cuda")
        with pytest.raises(ValueError, match="Allowed range: 0~1"):
            torch.cuda.set_per_process_memory_fraction(1.5)
        with pytest.raises(TypeError, match="must be `float`"):
            torch.cuda.set_per_process_memory_fraction(1)
    with simulate("cuda"):
        torch.cuda.set_per_process_memory_fraction(0.5)
        with pytest.raises(OutOfMemoryError, match=r"capacity of 16\.00 GiB"):
            torch.empty(3 * 2**30, dtype=torch.float32, device="cuda")
    with with_free(10_000, "mps"):
        torch.mps.set_per_process_memory_fraction(2.0)
        torch.ones(4000, device="mps")
        torch.mps.set_per_process_memory_fraction(0.0)
        torch.ones(40_000, device="mps")


def test_an_error_holds_no_memory() -> None:
    """A batch is tried again where the error was caught: what the failed call made on its way is free."""
    with with_free(10_000, "cuda") as left:
        x = torch.ones(1000, device="cuda")
        with pytest.raises(OutOfMemoryError) as caught:
            torch.nn.functional.gelu(x.exp()).add(1)
        assert caught.tb is not None
        assert torch.cuda.memory_allocated() - left == 4000
        assert torch.cuda.memory_stats()["num_ooms"] == 1
        assert x.exp().sum().item() > 2718


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_what_the_machine_itself_does_not_have_is_out_of_memory_too(kind: str) -> None:
    with simulate(kind):
        x = torch.ones(1, device=kind)
        for call in (lambda: torch.empty(2**57, device=kind), lambda: x.expand(2**57).clone()):
            with pytest.raises(RuntimeError, match=r"out of memory.* Tried to allocate \d{9,}\.00 GiB") as raised:
                call()
            assert isinstance(raised.value, OutOfMemoryError) is (kind == "cuda")
        with pytest.raises(RuntimeError, match="DefaultCPUAllocator"):
            torch.empty(2**57)


def test_an_exabyte_is_refused_in_other_words() -> None:
    with simulate("cuda"), pytest.raises(OutOfMemoryError, match="Tried to allocate more than 1EB memory"):
        torch.empty(2**60, dtype=torch.int8, device="cuda")


def test_what_failed_has_not_written_or_drawn() -> None:
    with with_free(10_000, "cuda"):
        norm = torch.nn.BatchNorm1d(500).cuda()
        with pytest.raises(OutOfMemoryError):
            norm(torch.ones(2, 500, device="cuda") * 2)
        assert norm.running_mean.sum().item() == 0
        del norm
        x, out = torch.ones(1000, device="cuda"), torch.ones(10, device="cuda")
        extra = torch.ones(1200, device="cuda")
        with pytest.raises(OutOfMemoryError), pytest.warns(UserWarning, match="resized"):
            torch.add(x, 1, out=out)
        assert (out.shape, out.tolist()) == ((10,), [1.0] * 10)
        with pytest.raises(OutOfMemoryError):
            out.resize_(1000)
        assert (out.shape, out.untyped_storage().nbytes()) == ((10,), 40)
        with pytest.raises(OutOfMemoryError):
            out.untyped_storage().resize_(4000)
        assert out.untyped_storage().nbytes() == 40
        state = torch.get_rng_state()
        for draw in (lambda: torch.nn.functional.dropout(x), lambda: torch.rand(1000, device="cuda")):
            with pytest.raises(OutOfMemoryError):
                draw()
            assert torch.equal(torch.get_rng_state(), state)
        del extra


def test_a_backward_pass_runs_out_of_memory_too() -> None:
    def loss(x: Tensor) -> Tensor:
        for _ in range(3):
            x = x.exp().log()
        return x.sum()

    with with_free(30_000, "cuda") as left:
        x = torch.ones(1000, device="cuda", requires_grad=True)
        value = loss(x)
        used = torch.cuda.memory_allocated()
        torch.cuda.set_per_process_memory_fraction((used + 4000) / (left + 30_000))
        with pytest.raises(OutOfMemoryError):
            value.backward()
        assert x.grad is None
        del value
        assert torch.cuda.memory_allocated() - left == 4000
        torch.cuda.set_per_process_memory_fraction(1.0)
        loss(x).backward()
        assert x.grad is not None


@pytest.mark.parametrize(
    ("given", "expected"),
    [(1, 1), (2**40, 2**40), ("80MB", 80_000_000), ("2GiB", 2**31), ("1.5 kib", 1536), ("512B", 512), ("1tb", 10**12)],
)
@pytest.mark.slow(every=4)
def test_sizes(given: int | str, expected: int) -> None:
    assert parse_size(given) == expected


@pytest.mark.parametrize(
    ("given", "near"),
    [
        ("80", 'did you mean "80MB"'),
        ("80M", 'did you mean "80MB"'),
        ("2 gigs", 'did you mean "2GB"'),
        ("2Gb it", "expected bytes"),
        (2.5e6, "did you mean memory=2500000"),
        (0, "at least 1 byte"),
        (-5, "at least 1 byte"),
        ("0.1B", "at least 1 byte"),
        (True, "expected bytes as an int"),
        ("", "expected bytes as an int"),
        (["2GB"], "expected bytes as an int"),
    ],
)
@pytest.mark.slow(every=4)
def test_bad_sizes_say_what_is_near(given: object, near: str) -> None:
    with pytest.raises(SimulationError, match=near), simulate("cuda", memory=given):  # type: ignore[arg-type]
        pass


def test_an_inner_simulation_has_the_memory_of_the_outer_one() -> None:
    with simulate("cuda", memory=5000):
        with simulate("cuda"), pytest.raises(OutOfMemoryError):
            torch.ones(2000, device="cuda")
        with simulate("cuda", memory="5kB"):
            pass
        wants = "the inner one wants 6000 bytes, the outer one has 5000"
        with pytest.raises(SimulationError, match=wants), simulate("cuda", memory=6000):
            pass
    with simulate("cuda"):
        with pytest.raises(SimulationError, match="no limit"), simulate("cuda", memory=6000):
            pass
        torch.ones(2000, device="cuda")


def test_the_text_of_sizes() -> None:
    texts = [format_size(size) for size in (0, 1024, 1025, 2**20, 2**20 + 2**19, 2**31)]
    assert texts == ["0 bytes", "1024 bytes", "1.00 KiB", "1024.00 KiB", "1.50 MiB", "2.00 GiB"]

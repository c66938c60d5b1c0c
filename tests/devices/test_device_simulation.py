"""Arguments that simulate() takes and refuses; it leaves nothing behind."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
from torch.cuda import is_available as has_cuda  # by another name, as modules import it before any simulation
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from pytest_evalcheck.devices import CannotSimulate, SimulationError, simulate


def everything() -> dict[str, object]:
    owners = {
        "torch": torch,
        "cuda": torch.cuda,
        "cuda.random": torch.cuda.random,
        "cuda.memory": torch.cuda.memory,
        "mps": torch.mps,
        "backends.mps": torch.backends.mps,
        "accelerator": getattr(torch, "accelerator", torch),
        "storage": torch.UntypedStorage,
        "thread": threading.Thread,
        "pool": ThreadPoolExecutor,
        "autocast": torch.autocast,
        "autograd": torch.autograd,
        "jit": torch.jit,
        "hooks": torch.autograd.graph.saved_tensors_hooks,
        "pickler": ForkingPickler,
        "script": torch._C.ScriptFunction,
    }
    found = {f"{name}.{key}": value for name, owner in owners.items() for key, value in list(vars(owner).items())}
    return {key: value for key, value in found.items() if not key.endswith(("__dict__", "__weakref__"))}


@pytest.mark.skipif(torch.cuda.is_available(), reason="without a simulation there is one")
def test_a_function_that_a_module_has_imported_by_another_name_asks_the_simulation() -> None:
    assert not has_cuda()
    with simulate("cuda"):
        assert has_cuda()
    with simulate("mps"):
        assert not has_cuda()


@pytest.mark.parametrize("how", ["quietly", "with an error"])
def test_nothing_is_left_behind(how: str) -> None:
    with simulate("cuda"):  # installs persistent marks, once in a process, for releases that need them
        pass
    before, path = everything(), list(sys.meta_path)
    try:
        with simulate("cuda:1", "mps"):
            torch.set_default_device("mps")
            torch.nn.Linear(2, 2).cuda()(torch.ones(2, device="cuda"))
            if how != "quietly":
                raise KeyError
    except KeyError:
        pass
    after = everything()
    assert {key for key in before.keys() | after.keys() if before.get(key) is not after.get(key)} == set()
    assert sys.meta_path == path
    assert _get_current_function_mode_stack() == []
    assert _get_current_dispatch_mode_stack() == []
    assert torch.ones(1).device.type == "cpu"
    assert not torch.cuda.is_available()


def test_a_default_device_from_before_is_there_again() -> None:
    torch.set_default_device("meta")
    try:
        with simulate("cuda"):
            torch.set_default_device("cuda")
            assert torch.ones(1).device == torch.device("cuda:0")
        assert torch.ones(1).device == torch.device("meta")
    finally:
        torch.set_default_device(None)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("gpu",), ["'gpu'", "did you mean 'cuda'"]),
        (("metal",), ["did you mean 'mps'"]),
        (("cudas",), ["did you mean 'cuda'"]),
        (("cpu",), ["the CPU is always there"]),
        (("tpu",), ["'cuda' and 'mps'"]),
        (("cuda:x",), ["'cuda:x'", "expected an index"]),
        (("mps:1",), ["'mps:1'", "index of 0"]),
        ((), ["needs a device"]),
    ],
)
def test_devices_that_make_no_sense(names, words) -> None:
    with pytest.raises(SimulationError) as raised, simulate(*names):
        pass
    assert all(each in str(raised.value) for each in words)


def test_an_unknown_way_to_compile() -> None:
    with pytest.raises(SimulationError, match="expected 'refuse' or 'eager'"), simulate("cuda", compile="yes"):
        pass


def test_a_device_that_is_really_there_is_refused_unless_told(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(SimulationError, match="even_if_real=True"), simulate("cuda"):
        pass
    with simulate("mps"):
        assert not torch.cuda.is_available()
    with simulate("cuda", even_if_real=True):
        assert torch.ones(1, device="cuda").is_cuda


def test_contradicting_nesting() -> None:
    with simulate("cuda", "mps"):
        with (
            pytest.raises(SimulationError, match="the outer one has cuda:0, mps:0, the inner one wants mps:0"),
            simulate("mps"),
        ):
            pass
        assert torch.ones(1, device="cuda").is_cuda


def test_only_what_is_simulated_is_there() -> None:
    with simulate("mps"):
        with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
            torch.ones(1).cuda()
        assert torch.cuda.device_count() == 0
    with simulate("cuda"):
        with pytest.raises(RuntimeError, match="not linked with support for mps"):
            torch.ones(1).to("mps")
        assert not torch.backends.mps.is_available()


def test_a_tensor_that_was_left_over() -> None:
    with simulate("cuda"):
        left = torch.arange(3.0, device="cuda")
    assert left.device.type == "cpu"
    assert (left + torch.ones(3)).tolist() == [1, 2, 3]
    with simulate("cuda"):
        assert (left + torch.ones(3, device="cuda")).is_cuda
        assert (left * 2).is_cuda
    with simulate("mps"), pytest.raises(CannotSimulate, match="left by an earlier simulate"):
        left + 1


def test_a_tensor_that_was_left_over_is_where_it_was() -> None:
    with simulate("cuda"):
        left, parameter = torch.arange(3.0, device="cuda"), torch.nn.Parameter(torch.ones(3, device="cuda"))
    with simulate("cuda") as ledger:
        assert left.to("cuda") is left
        assert left[None].float().expand(2, 3).cuda().is_cuda
        assert left.untyped_storage().to(device=torch.device("cuda")) is not None
        parameter.grad = torch.ones(3, device="cuda")
    assert not ledger.transfers


@pytest.mark.parametrize("start", ["a thread", "a new pool", "an old pool", "a subclass"])
def test_threads_belong_to_the_simulation(start: str) -> None:
    found: list[torch.device] = []

    def work() -> None:
        found.append((torch.ones(2, device="mps") * 2).device)

    class Own(threading.Thread):
        def run(self) -> None:
            work()

    old = ThreadPoolExecutor(1)
    old.submit(int).result()
    with simulate("mps"):
        if start == "an old pool":
            old.submit(work).result()
        elif start == "a new pool":
            with ThreadPoolExecutor(1) as pool:
                pool.submit(work).result()
        else:
            thread = Own() if start == "a subclass" else threading.Thread(target=work)
            thread.start()
            thread.join()
    assert found == [torch.device("mps:0")]
    assert old.submit(lambda: torch.ones(1).device.type).result() == "cpu"
    old.shutdown()


def test_a_thread_that_outlives_its_simulation_is_stopped() -> None:
    errors: list[Exception] = []
    go = threading.Event()

    def work() -> None:
        go.wait(10)
        try:
            torch.ones(2) + 1
        except Exception as error:
            errors.append(error)

    with simulate("mps"):
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.05)
    go.set()
    thread.join(10)
    assert [type(each) for each in errors] == [CannotSimulate]
    assert "outlives" in str(errors[0])


def test_another_thread_cannot_open_its_own() -> None:
    errors: list[Exception] = []
    waiting, go = threading.Event(), threading.Event()

    def work() -> None:
        waiting.set()
        go.wait(10)
        try:
            with simulate("mps"):
                pass
        except SimulationError as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    waiting.wait(10)
    with simulate("mps"):
        go.set()
        thread.join(10)
    assert "another thread simulates mps:0" in str(errors[0])


def test_sending_to_another_process_is_refused() -> None:
    with simulate("cuda"):
        with pytest.raises(CannotSimulate, match="another process"):
            ForkingPickler.dumps(torch.ones(2, device="cuda"))
        assert ForkingPickler.dumps(torch.ones(2)) is not None


class _Rows(torch.utils.data.Dataset):
    def __init__(self, rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int):
        return self.rows[number]


def in_fork(function) -> str:
    """The error of a function in a forked process. A loader would do, but waits five seconds for a worker that failed."""
    context = multiprocessing.get_context("fork")
    there, here = context.Pipe()

    def run() -> None:
        try:
            function()
        except Exception as error:
            here.send(f"{type(error).__name__}: {error}")
        else:
            here.send("no error")

    process = context.Process(target=run)
    process.start()
    text = there.recv()
    process.join()
    return text


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_workers_of_a_loader_give_cpu_batches() -> None:
    with simulate("cuda"):
        loader = torch.utils.data.DataLoader(_Rows(torch.arange(2.0)), num_workers=1, multiprocessing_context="fork")
        assert [batch.cuda().device.type for batch in loader] == ["cuda", "cuda"]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("cuda", "RuntimeError: Cannot re-initialize CUDA in forked subprocess"),
        ("mps", "CannotSimulate: mps in a forked process"),
    ],
)
def test_a_forked_process_has_no_device(kind, words) -> None:
    with simulate(kind):
        rows = torch.arange(2.0, device=kind)
        assert in_fork(lambda: torch.ones(1, device=kind)).startswith(words)
        assert in_fork(lambda: rows[0] + 1).startswith(words)
        assert in_fork(lambda: torch.ones(1).to(kind)).startswith(words)
        assert in_fork(lambda: torch.ones(1) + 1) == "no error"
        assert (rows[0] + 1).item() == 1


def test_what_was_pickled_inside_needs_the_device() -> None:
    with simulate("cuda"):
        data = pickle.dumps(torch.ones(2, device="cuda"))
    with pytest.raises(RuntimeError, match=r"torch\.cuda\.is_available"):
        pickle.loads(data)
    with simulate("cuda"):
        assert pickle.loads(data).is_cuda


def test_replicas_are_refused() -> None:
    with simulate("cuda:1"):
        model = torch.nn.DataParallel(torch.nn.Linear(2, 2).cuda())
        with pytest.raises(CannotSimulate, match=r"torch\.nn\.parallel\.comm\.scatter .*use one device"):
            model(torch.ones(2, 2, device="cuda"))


@pytest.mark.parametrize(("kind", "ids"), [("cuda", None), ("cuda:1", [1]), ("mps", None)])
def test_data_parallel_over_one_device_calls_its_module(kind: str, ids: list[int] | None) -> None:
    layer = torch.nn.Linear(2, 2)
    x = torch.ones(3, 2, requires_grad=True)
    expected = torch.autograd.grad(layer(x).sum(), [x, layer.weight])
    for _ in range(2):  # PyTorch stores a stream for copies, which may not be that of an earlier simulation
        with simulate(kind, in_flight="error"):
            model = torch.nn.DataParallel(copy.deepcopy(layer).to(kind), device_ids=ids)
            out = model(x if kind != "mps" else x.to("mps"))
            assert str(out.device) == (kind if ":" in kind else f"{kind}:0")
            there = torch.autograd.grad(out.sum(), [x, model.module.weight])
            assert [each.device.type for each in there] == ["cpu", kind.partition(":")[0]]
            assert all(torch.equal(found.cpu(), wanted) for found, wanted in zip(there, expected, strict=True))
            inputs = x.to(kind)
            with torch.no_grad():
                assert torch.equal(model(inputs), model.module(inputs))
                assert torch.equal(model(input=inputs), model.module(inputs))


def timed_event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


@pytest.mark.parametrize(
    ("feature", "what"),
    [
        ("torch.compile", lambda: torch.compile(torch.nn.Linear(1, 1))),
        ("torch.jit.trace", lambda: torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1))),
        ("torch.cuda.ExternalStream", lambda: torch.cuda.ExternalStream(0)),
        ("torch.cuda.CUDAGraph", lambda: torch.cuda.CUDAGraph()),
        ("the time between events", lambda: timed_event().elapsed_time(timed_event())),
        ("the offset of random numbers", lambda: torch.Generator("cuda").get_offset()),
        ("the offset of random numbers", lambda: torch.cuda._set_rng_state_offset(0)),
        (
            "the state of random numbers of a CUDA graph",
            lambda: torch.cuda.default_generators[0].graphsafe_get_state(),
        ),
        ("handing memory of cuda:0 to another library", lambda: torch.ones(1, device="cuda").__dlpack__()),
    ],
)
def test_what_only_a_device_can_show_is_refused_by_name(feature, what) -> None:
    with simulate("cuda"), pytest.raises(CannotSimulate) as raised:
        what()
    assert raised.value.feature == feature
    assert str(raised.value).startswith(f"{feature} cannot be simulated: ")


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_scripted_code_is_refused_with_tensors_of_the_device_only() -> None:
    scripted = torch.jit.script(torch.nn.Linear(2, 2))
    with simulate("cuda"):
        assert scripted(torch.ones(2)).shape == (2,)
        with pytest.raises(CannotSimulate, match="scripted code"):
            scripted.cuda()(torch.ones(2, device="cuda"))


def test_compiled_code_runs_eagerly_on_request() -> None:
    with simulate("cuda", compile="eager"):
        double = torch.compile(lambda x: x * 2)
        assert double(torch.ones(1, device="cuda")).is_cuda

        @torch.compile(fullgraph=True)
        def triple(x):
            return x * 3

        assert triple(torch.ones(1)).item() == 3


def test_an_operator_without_a_cpu_kernel_is_not_the_fault_of_the_code() -> None:
    library = torch.library.Library("evalcheck_test", "DEF")
    library.define("only_there(Tensor x) -> Tensor")
    library.impl("only_there", lambda x: x, "CUDA")
    with simulate("cuda"), pytest.raises(CannotSimulate, match=r"evalcheck_test\.only_there"):
        torch.ops.evalcheck_test.only_there(torch.ones(1, device="cuda"))


def test_the_package_is_imported_without_torch() -> None:
    code = "import pytest_evalcheck, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_caches_of_libraries_forget_the_device() -> None:
    import functools

    @functools.lru_cache
    def cuda_is_there() -> bool:
        return torch.cuda.is_available()

    sys.modules["evalcheck_new_module"] = sys  # caches are looked for after imports
    try:
        assert not cuda_is_there()
        with simulate("cuda"):
            assert cuda_is_there()
        assert not cuda_is_there()
    finally:
        del sys.modules["evalcheck_new_module"]

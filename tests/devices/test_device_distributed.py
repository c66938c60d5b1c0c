"""Real processes of a gloo group on simulated devices: the numbers of the CPU, and what gloo or the device refuses."""

from __future__ import annotations

import importlib
import multiprocessing
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pytest_evalcheck.devices import CannotSimulate, Ledger, simulate
from pytest_evalcheck.devices.release import TORCH_RELEASE
from pytest_evalcheck.kinds.common.process_ranks import on_processes
from pytest_evalcheck.kinds.common.thread_ranks import AllGather, on_ranks

# PyTorch's own: names of collectives that it renames, options that a small model does not need.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True, scope="module")
def loaded_once() -> None:
    """Import in advance what `DistributedDataParallel` imports when it is first made, in each process otherwise."""
    importlib.import_module("torch._dynamo")


def on_two_ranks(work: Callable[[int], Any], world: int = 2) -> list[Any]:
    return on_processes([lambda rank=rank: work(rank) for rank in range(world)], seconds=60)


def raised(call: Callable[[], Any]) -> str:
    try:
        call()
    except (RuntimeError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


class Model(nn.Module):
    """Buffers, a layer that is not used, and one whose gradient is sparse."""

    def __init__(self, *, unused: bool = False, sparse: bool = False) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(6, 3, sparse=sparse)
        self.norm, self.linear = nn.BatchNorm1d(3), nn.Linear(3, 2)
        if unused:
            self.unused = nn.Linear(2, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.linear(self.norm(self.embedding(ids)))


def trained(device: str, rank: int, model: nn.Module, *, steps: int = 2, joined: bool = False, **options: Any) -> Any:
    """The weights and buffers after a few steps, each over two parts of a batch, and where the gradients are."""
    data_parallel = DistributedDataParallel(model.to(device), **options)
    optimizer = torch.optim.SGD(data_parallel.parameters(), lr=0.1)
    ids = torch.Generator().manual_seed(rank)

    def loss() -> Tensor:
        return data_parallel(torch.randint(6, (4, 2), generator=ids).to(device)).square().sum()

    def train() -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            if not options.get("static_graph"):
                with data_parallel.no_sync():
                    loss().backward()
            loss().backward()
            optimizer.step()

    if joined:
        with data_parallel.join():
            train()
    else:
        train()
    devices = {each.grad.device.type for each in model.parameters() if each.grad is not None}
    return {name: value.cpu() for name, value in model.state_dict().items()}, devices


OPTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "unused": ({"unused": True}, {"find_unused_parameters": True}),
    "views": ({}, {"gradient_as_bucket_view": True}),
    "static": ({}, {"static_graph": True}),
    "small buckets": ({}, {"bucket_cap_mb": 0.00001}),
    "no broadcast": ({}, {"broadcast_buffers": False}),
    "sparse": ({"sparse": True}, {}),
    "uneven": ({}, {"joined": True}),
}


def seeded(**options: Any) -> Model:
    torch.manual_seed(0)
    return Model(**options)


@pytest.mark.parametrize("how", OPTIONS)
def test_training_over_two_ranks_gives_the_weights_of_the_cpu(how: str) -> None:
    of_model, of_training = OPTIONS[how]

    def work(rank: int) -> tuple[bool, set[str]]:
        more = {**of_training, **({"steps": 2 + rank} if how == "uneven" else {})}
        expected, _ = trained("cpu", rank, seeded(**of_model), **more)
        with simulate("cuda"):
            found, devices = trained("cuda", rank, seeded(**of_model), **more)
        return all(torch.equal(found[name], value) for name, value in expected.items()), devices

    assert on_two_ranks(work) == [(True, {"cuda"})] * 2


def test_one_rank_alone_trains_too() -> None:
    def work(rank: int) -> tuple[bool, set[str]]:
        expected, _ = trained("cpu", rank, seeded())
        with simulate("cuda:1"):
            found, _ = trained("cuda:1", rank, seeded())
            model = seeded().to("cuda:1")
            DistributedDataParallel(model, device_ids=[1])(torch.tensor([[1, 2], [3, 4]])).sum().backward()
            devices = {str(each.grad.device) for each in model.parameters()}
        return all(torch.equal(found[name], value) for name, value in expected.items()), devices

    assert on_two_ranks(work, world=1) == [(True, {"cuda:1"})]


def test_a_hook_may_return_a_new_tensor() -> None:
    """Its callback runs in a thread of gloo, which belongs to the simulation too."""

    def work(rank: int) -> tuple[float, str]:
        with simulate("cuda"):
            model = nn.Linear(2, 1, bias=False).to("cuda")
            data_parallel = DistributedDataParallel(model)

            def hook(state, bucket):  # PyTorch looks at annotations, and here they are strings
                reduced = dist.all_reduce(bucket.buffer() / 2, async_op=True).get_future()
                return reduced.then(lambda future: future.value()[0] * 10)

            data_parallel.register_comm_hook(None, hook)
            data_parallel(torch.full((1, 2), 1.0 + rank, device="cuda")).sum().backward()
            return model.weight.grad[0, 0].item(), str(model.weight.grad.device)

    assert on_two_ranks(work) == [(15.0, "cuda:0")] * 2


def test_collectives_give_results_on_the_device() -> None:
    def work(rank: int) -> dict[str, Any]:
        with simulate("cuda"):
            mine = torch.tensor([1.0, 2.0], device="cuda") * (rank + 1)
            found: dict[str, Any] = {"all_reduce": mine.clone(), "async": mine.clone(), "broadcast": mine.clone()}
            found["reduce"], found["scatter"], found["part"] = mine.clone(), torch.zeros_like(mine), mine[:1].clone()
            found["all_gather"] = [torch.zeros_like(mine) for _ in range(2)]
            found["into"], found["exchanged"] = torch.zeros(4, device="cuda"), torch.zeros_like(mine)
            gathered = [torch.zeros_like(mine) for _ in range(2)]
            objects: list[Any] = [None, None]
            dist.all_reduce(found["all_reduce"])
            pending = dist.all_reduce(found["async"], async_op=True)
            pending.wait()
            dist.broadcast(found["broadcast"], 1)
            dist.reduce(found["reduce"], 0)
            dist.scatter(found["scatter"], [mine, mine + 5] if rank == 0 else None)
            dist.gather(mine, gathered if rank == 0 else None)
            dist.all_gather(found["all_gather"], mine)
            dist.all_gather_into_tensor(found["into"], mine)
            dist.reduce_scatter_tensor(found["part"], mine)
            dist.all_to_all_single(found["exchanged"], mine)
            dist.all_gather_object(objects, {"rank": rank, "rows": mine})
            found["objects"], found["gather"] = [each["rows"] for each in objects], gathered
            sparse = torch.sparse_coo_tensor([[rank]], [1.0], (2,), device="cuda", check_invariants=True)
            dist.all_reduce(sparse)
            found["sparse"] = sparse.to_dense()
            devices = {
                str(each.device) for value in found.values() for each in (value if isinstance(value, list) else [value])
            }
            lists = {
                name: [each.tolist() for each in value] if isinstance(value, list) else value.tolist()
                for name, value in found.items()
            }
            return {**lists, "devices": devices}

    first, second = on_two_ranks(work)
    assert first["devices"] == second["devices"] == {"cuda:0"}
    assert first["all_reduce"] == first["async"] == first["reduce"] == second["all_reduce"] == [3.0, 6.0]
    assert first["broadcast"] == second["broadcast"] == [2.0, 4.0]
    assert (first["scatter"], second["scatter"]) == ([1.0, 2.0], [6.0, 7.0])
    assert (
        first["gather"] == first["all_gather"] == second["all_gather"] == first["objects"] == [[1.0, 2.0], [2.0, 4.0]]
    )
    assert first["into"] == [1.0, 2.0, 2.0, 4.0]
    assert (first["part"], second["part"]) == ([3.0], [6.0])
    assert (first["exchanged"], second["exchanged"]) == ([1.0, 2.0], [2.0, 4.0])
    assert second["sparse"] == [1.0, 1.0]


def told(ledger: Ledger) -> tuple[list[str], list[str]]:
    return [f"{each.source} {each.target} {each.bytes} {each.call}" for each in ledger.transfers], [
        each.call for each in ledger.syncs
    ]


def test_a_collective_of_gloo_copies_through_the_host() -> None:
    """ProcessGroupGloo.cpp: to pinned memory and back; the root alone sends in a broadcast; one copy for each part."""

    def work(rank: int) -> list[Any]:
        with simulate("cuda") as ledger:
            rows, model = torch.zeros(2, device="cuda"), nn.Linear(2, 1).to("cuda")
            found = []
            with ledger.span() as seen:
                dist.all_reduce(rows)
            found.append(told(seen))
            with ledger.span() as seen:
                pending = dist.all_reduce(rows, async_op=True)
                waited = len(seen.syncs)
                pending.wait()
            found.append((waited, told(seen)[1]))
            with ledger.span() as seen:
                dist.broadcast(rows, 0)
            found.append(told(seen))
            with ledger.span() as seen:
                dist.all_gather_into_tensor(torch.zeros(4, device="cuda"), rows)
            found.append(told(seen))
            data_parallel = DistributedDataParallel(model)
            loss = data_parallel(rows[None]).sum()
            with ledger.span() as seen:
                loss.backward()
            found.append(told(seen))
            dist.all_reduce(torch.zeros(2))  # of the CPU
            return [*found, {Path(each.file).name for each in ledger.transfers}]

    there, back = "cpu cuda:0 {} {}", "cuda:0 cpu {} {}"
    root, other = on_two_ranks(work)
    one = [back.format(8, "all_reduce"), there.format(8, "all_reduce")]
    assert root[0] == (one, ["all_reduce"])
    assert root[1] == (0, ["wait"])
    assert root[2] == ([back.format(8, "broadcast"), there.format(8, "broadcast")], ["broadcast"])
    assert other[2] == ([there.format(8, "broadcast")], ["broadcast"])
    name = root[3][1][0]  # which PyTorch renames
    assert root[3] == ([back.format(8, name), there.format(8, name), there.format(8, name)], [name])
    assert root[4] == ([back.format(12, "backward"), there.format(12, "backward")], ["backward"])
    assert root[5] == {Path(__file__).name}


def test_what_gloo_or_a_device_lacks_is_refused() -> None:
    def work(rank: int) -> list[str]:
        with simulate("cuda:1", "mps"):
            there, here = torch.zeros(2, device="cuda"), torch.zeros(2)
            return [
                raised(lambda: dist.all_gather([here, there], there)),
                raised(lambda: dist.all_to_all_single(here, there)),
                raised(lambda: dist.scatter(there, [here] * 2 if rank == 0 else None)) if rank == 0 else "",
                raised(lambda: dist.send(there, 1 - rank)),
                raised(lambda: dist.recv(there, 1 - rank)),
                raised(lambda: dist.all_reduce(torch.zeros(2, device="mps"))),
                raised(lambda: dist.new_group(backend="nccl")),
                raised(
                    lambda: DistributedDataParallel(
                        nn.Sequential(nn.Linear(1, 1).to("cuda:0"), nn.Linear(1, 1).to("cuda:1"))
                    )
                ),
            ]

    found = on_two_ranks(work)[0]
    of_type = "invalid tensor type at index 0 (expected TensorOptions(dtype=float, device=cuda:0, layout=Strided"
    assert found[0].startswith(f"RuntimeError: ProcessGroupGloo::allgather: {of_type}")
    assert found[1] == "RuntimeError: output tensor and input tensor must be on the same type of device"
    assert found[2].startswith(f"RuntimeError: ProcessGroupGloo::scatter: {of_type}")
    assert "writev: Bad address" in found[3]
    assert "Read error: Bad address" in found[4]
    assert found[5].startswith(
        "NotImplementedError: Could not run 'c10d::allreduce_' with arguments from the 'MPS' backend"
    )
    assert found[6].startswith("CannotSimulate: a process group of NCCL")
    assert 'backend="gloo"' in found[6]
    assert found[7].startswith(
        "CannotSimulate: DistributedDataParallel of a module on several devices (cuda:0, cuda:1)"
    )


def test_a_group_of_the_cpu_alone_has_no_backend_for_the_device() -> None:
    def work(rank: int) -> str:
        with simulate("cuda"):
            group = dist.new_group(backend="cpu:gloo")
            return raised(lambda: dist.all_reduce(torch.zeros(2, device="cuda"), group=group))

    assert on_two_ranks(work)[0] == "RuntimeError: No backend type associated with device type cuda"


def test_statistics_over_ranks_are_the_devices_alone() -> None:
    def work(rank: int) -> list[str]:
        with simulate("cuda"):
            norm, rows = nn.SyncBatchNorm(2).to("cuda"), torch.ones(2, 2, device="cuda")
            return [str(norm.eval()(rows).device), raised(lambda: norm.train()(rows))]

    device, refused = on_two_ranks(work)[0]
    assert device == "cuda:0"
    assert refused.startswith("CannotSimulate: SyncBatchNorm in training")


def spawned(rank: int, rendezvous: str, pipe: Any) -> None:
    """A new process has to enter the simulation itself."""
    torch.set_num_threads(1)
    before = torch.cuda.is_available()
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=2, timeout=timedelta(seconds=40)
    )
    with simulate("cuda"):
        _, devices = trained("cuda", rank, seeded())
        rows = torch.ones(1, device="cuda")
        dist.all_reduce(rows)
    dist.barrier()
    pipe.send((before, devices, rows.item()))
    pipe.close()
    os._exit(0)  # the threads of gloo are not waited for


def test_processes_that_are_spawned(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for rank in range(2):
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=spawned, args=(rank, str(tmp_path / "rendezvous"), theirs))
        process.start()
        theirs.close()
        pipes.append(ours)
        processes.append(process)
    try:
        assert all(pipe.poll(60) for pipe in pipes)
        assert [pipe.recv() for pipe in pipes] == [(False, {"cuda"}, 2.0)] * 2
    finally:
        for process in processes:
            process.kill()
            process.join()


def test_ranks_that_are_threads_gather_on_the_device() -> None:
    with simulate("cuda"):
        gather = AllGather(2)

        def work(rank: int) -> Tensor:
            return torch.stack(gather.for_rank(rank)(torch.full((1,), float(rank), device="cuda")))

        found = on_ranks([lambda rank=rank: work(rank) for rank in range(2)], gather)
        assert (found.tolist(), str(found.device)) == ([[0.0], [1.0]], "cuda:0")


def test_a_backend_that_is_not_named_means_nccl_on_cuda(tmp_path: Path) -> None:
    with simulate("cuda"), pytest.raises(CannotSimulate, match="a process group of NCCL"):
        dist.init_process_group(init_method=f"file://{tmp_path / 'rendezvous'}", rank=0, world_size=1)
    assert not dist.is_initialized()


def two_layers(device: str) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).to(device)


def rows_of(rank: int, device: str) -> Tensor:
    return torch.randn(4, 4, generator=torch.Generator().manual_seed(rank)).to(device)


def stepped(model: nn.Module, rows: Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(rows).square().sum().backward()
        optimizer.step()


def fully_sharded(device: str, rank: int) -> tuple[list[Tensor], str]:
    from torch.distributed.device_mesh import init_device_mesh

    fully_shard = importlib.import_module("torch.distributed._composable.fsdp").fully_shard
    mesh, model = init_device_mesh(device, (2,)), two_layers(device)
    for each in (model[0], model[2], model):
        fully_shard(each, mesh=mesh)
    stepped(model, rows_of(rank, device))
    return [each.full_tensor().detach().cpu() for each in model.parameters()], str(model[0].weight.device)


def sharded_by_the_older_class(device: str, rank: int) -> tuple[list[Tensor], str]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(two_layers(device), device_id=torch.device(device, 0))
    stepped(model, rows_of(rank, device))
    with FullyShardedDataParallel.summon_full_params(model):
        return [each.detach().cpu().clone() for each in model.parameters()], str(next(model.parameters()).device)


def tensor_parallel(device: str, rank: int) -> tuple[list[Tensor], str]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(two_layers(device), init_device_mesh(device, (2,)), plan)
    out = model(rows_of(5, device))
    out.square().sum().backward()
    return [out.detach().cpu(), *(each.grad.full_tensor().cpu() for each in model.parameters())], str(out.device)


@pytest.mark.skipif(TORCH_RELEASE < (2, 5), reason="docs/devices.md: sharding needs torch 2.5")
def test_parameters_that_are_sharded_are_those_of_data_parallel() -> None:
    """Reduced in another order, so that the last digits may differ."""
    for name in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp", "torch.distributed.tensor.parallel"):
        pytest.importorskip(name)

    def work(rank: int) -> tuple[list[bool], list[str]]:
        plain = DistributedDataParallel(two_layers("cpu"))
        stepped(plain, rows_of(rank, "cpu"))
        trained = [each.detach() for each in plain.parameters()]
        alone = two_layers("cpu")
        out = alone(rows_of(5, "cpu"))
        out.square().sum().backward()
        expected = {fully_sharded: trained, sharded_by_the_older_class: trained}
        expected[tensor_parallel] = [out.detach(), *(each.grad for each in alone.parameters())]
        same, devices = [], []
        with simulate("cuda"):
            for function, values in expected.items():
                found, device = function("cuda", rank)
                flat = torch.cat([each.flatten() for each in values])
                same.append(bool(torch.allclose(torch.cat([each.flatten() for each in found]), flat, atol=1e-6)))
                devices.append(device)
        return same, devices

    assert on_two_ranks(work) == [([True] * 3, ["cuda:0"] * 3)] * 2

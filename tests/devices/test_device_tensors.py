"""Ordinary code inside a simulation: everything that makes, moves, copies or asks a tensor."""

from __future__ import annotations

import copy
import gc
import io
import pickle

import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from pytest_evalcheck.devices import CannotSimulate, simulate

CUDA, CUDA1, MPS, CPU = (torch.device(each) for each in ("cuda:0", "cuda:1", "mps:0", "cpu"))


@pytest.fixture
def machine():
    with simulate("cuda:1", "mps") as ledger:
        yield ledger


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.ones(2, device=d),
        lambda d: torch.full((2,), 3.0, device=d),
        lambda d: torch.arange(2, device=d),
        lambda d: torch.randint(0, 2, (2,), device=d),
        lambda d: torch.randperm(2, device=d),
        lambda d: torch.normal(0.0, 1.0, (2,), device=d),
        lambda d: torch.eye(2, device=d),
        lambda d: torch.linspace(0, 1, 2, device=d),
        lambda d: torch.tril_indices(2, 2, device=d),
        lambda d: torch.hann_window(2, device=d),
        lambda d: torch.fft.fftfreq(2, device=d),
        lambda d: torch.empty_strided((2,), (1,), device=d),
        lambda d: torch.tensor([1.0], device=d),
        lambda d: torch.tensor(torch.ones(2).tolist(), device=d, dtype=torch.float16),
        lambda d: torch.as_tensor([1.0], device=d),
        lambda d: torch.as_tensor(torch.ones(2), device=d),
        lambda d: torch.as_tensor(np.ones(2, np.float32), device=d),
        lambda d: torch.asarray(np.ones(2, np.float32), device=d),
        lambda d: torch.zeros_like(torch.ones(2), device=d),
        lambda d: torch.rand_like(torch.ones(2), device=d),
        lambda d: torch.ones(2).new_zeros(2, device=d),
        lambda d: torch.ones(2).new_tensor([1.0], device=d),
        lambda d: torch.ones(2).new_full((2,), 1.0, device=d),
        lambda d: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device=d),
        lambda d: torch.rand(2, device=d, generator=torch.Generator(d)),
        lambda d: torch.nn.Linear(2, 2, device=d).weight,
        lambda d: torch.nn.utils.skip_init(torch.nn.Linear, 2, 2, device=d).weight,
        lambda d: torch.ones(2).to(d),
        lambda d: torch.ones(2).to(device=d, dtype=torch.float16),
        lambda d: torch.ones(2).to(d, torch.float16, True, copy=True),
        lambda d: torch.ones(2).to(torch.ones(1, device=d)),
        lambda d: torch.ones(2).type_as(torch.ones(1, device=d)),
        lambda d: torch.nn.Linear(2, 2).to(d).weight,
        lambda d: torch.nn.Linear(2, 2).to(device=d, dtype=torch.float16).weight,
        lambda d: torch.nn.Linear(2, 2).to(torch.ones(1, device=d)).weight,
        lambda d: torch.nn.Linear(2, 2, device="meta").to_empty(device=d).weight,
        lambda d: torch.nn.utils.rnn.pad_sequence([torch.ones(1, device=d), torch.ones(2, device=d)]),
        lambda d: next(iter(torch.utils.data.DataLoader(torch.ones(2)))).to(d),
        lambda d: torch.utils.data.default_collate([torch.ones(1, device=d)] * 2),
        lambda d: torch.inference_mode()(lambda: torch.nn.Linear(2, 2).to(d)(torch.ones(2).to(d)))(),
        lambda d: torch.no_grad()(lambda: torch.ones(2).to(d) * 2)(),
    ],
)
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mps", torch.device("cuda"), torch.device("mps:0"), 1])
def test_everything_that_makes_a_tensor(make, device, machine) -> None:
    where = {"cuda": CUDA, "cuda:1": CUDA1, "mps": MPS, 1: CUDA1}.get(device)
    where = where or torch.device(device.type, 0)
    if device == 1:
        made = None
        try:
            made = make(device)
        except TypeError:  # PyTorch takes no index in some places
            pytest.skip("no index here")
        assert made.device == where
    else:
        assert make(device).device == where


def test_what_a_tensor_says(machine) -> None:
    x = torch.ones(2, device="cuda:1")
    assert (x.is_cuda, x.is_mps, x.is_cpu, x.is_meta) == (True, False, False, False)
    assert (x.get_device(), x.cpu().get_device()) == (1, -1)
    if torch.get_device in torch.overrides.get_testing_overrides():  # before 2.5 nobody sees the call
        assert torch.get_device(x) == 1
    assert x.type() == "torch.cuda.FloatTensor"
    assert x.half().type() == "torch.cuda.HalfTensor"
    assert x.cpu().type() == "torch.FloatTensor"
    assert type(x) is torch.Tensor
    assert x.untyped_storage().device == CUDA1
    assert repr(x) == "tensor([1., 1.], device='cuda:1')"
    assert repr(torch.ones(1, device="mps", dtype=torch.int32)) == "tensor([1], device='mps:0', dtype=torch.int32)"
    assert repr(torch.ones(1)) == "tensor([1.])"


@pytest.mark.parametrize("when", ["inside", "before"])
def test_default_devices(when: str) -> None:
    if when == "inside":
        with simulate("mps"), torch.device("mps"):
            found = [torch.ones(1), torch.tensor([1]), torch.nn.Linear(1, 1).weight, torch.as_tensor([1])]
            assert torch.ones(1, device="cpu").device == CPU
            assert {each.device for each in found} == {MPS}
    else:
        with torch.device("mps"), simulate("mps"):
            found = [torch.ones(1), torch.tensor([1]), torch.nn.Linear(1, 1).weight, torch.as_tensor([1])]
            assert {each.device for each in found} == {MPS}


def test_the_default_device_can_be_set(machine) -> None:
    torch.set_default_device("cuda:1")
    assert torch.ones(1).device == CUDA1
    torch.set_default_device("cpu")
    assert torch.ones(1).device == CPU
    torch.set_default_device(None)


def test_meta_tensors_stay_meta(machine) -> None:
    with torch.device("meta"):
        assert torch.nn.Linear(2, 2).weight.is_meta
    x = torch.ones(2, device="cuda")
    assert torch.empty_like(x, device="meta").device == torch.device("meta")
    assert x.to("meta").device == torch.device("meta")
    with pytest.raises(RuntimeError, match="Expected all tensors"):
        x + torch.ones(2, device="meta")


def test_the_mark_is_on_the_memory(machine) -> None:
    x = torch.arange(4.0, device="cuda")
    views = [
        x[1:],
        x.view(2, 2),
        x.detach(),
        x.data,
        x.unsqueeze(0),
        x.T if x.dim() == 2 else x.t(),
        x.expand(2, 4),
        *x.unbind(),
    ]
    assert {each.device for each in views} == {CUDA}
    assert x.add_(1).mul_(2).zero_().device == CUDA
    host = torch.ones(4)
    host.data = x
    assert host.device == CUDA
    other = torch.empty(0, device="cuda")
    other.set_(x.untyped_storage(), 0, (4,), (1,))
    assert other.device == CUDA


def test_a_mark_outlives_garbage(machine) -> None:
    x = torch.ones(4, device="cuda")
    torch.save({"x": x, "view": x[1:]}, io.BytesIO())
    cycle = [x.untyped_storage()]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert x.device == CUDA


def test_memory_that_is_used_again_is_not_marked(machine) -> None:
    for _ in range(200):
        torch.ones(1000, device="cuda")
        assert torch.ones(1000).device == CPU


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        copy.copy,
        torch.clone,
        lambda x: pickle.loads(pickle.dumps(x)),
        lambda x: copy.deepcopy({"a": [x]})["a"][0],
        lambda x: copy.deepcopy(torch.nn.Parameter(x)),
        lambda x: pickle.loads(pickle.dumps(torch.nn.Parameter(x))),
    ],
)
def test_copies_are_where_the_original_is(copied, machine) -> None:
    x = torch.arange(3.0, device="cuda:1")
    found = copied(x)
    assert found.device == CUDA1
    assert found.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("where", "expected"), [(None, CUDA), ("cpu", CPU), ("mps", MPS), ({"cuda:0": "cuda:1"}, CUDA1), (CUDA1, CUDA1)]
)
def test_state_is_saved_and_loaded(where, expected, machine) -> None:
    model = torch.nn.BatchNorm1d(3).cuda()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=where)
    assert {each.device for each in state.values()} == {expected}
    fresh = torch.nn.BatchNorm1d(3).to("mps")
    fresh.load_state_dict(state)
    assert {each.device for each in fresh.state_dict().values()} == {MPS}


def test_values_are_real(machine) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4), torch.nn.GELU(), torch.nn.Linear(4, 2))
    x = torch.randn(5, 3)
    expected = model(x)
    torch.testing.assert_close(model.to("mps")(x.to("mps")).cpu(), expected, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("make", "size"),
    [
        (lambda: torch.nn.LSTM(4, 3, bidirectional=True), (2, 1, 4)),
        (lambda: torch.nn.GRU(4, 3), (2, 1, 4)),
        (lambda: torch.nn.MultiheadAttention(4, 2), None),
        (lambda: torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (1, 2, 4)),
        (lambda: torch.nn.Conv1d(4, 3, 1), (1, 4, 2)),
        (lambda: torch.nn.BatchNorm1d(4), (3, 4)),
    ],
)
@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference"])
def test_modules_run_where_they_are(make, size, mode, machine) -> None:
    module = make().cuda().eval()
    context = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}[mode]
    with context():
        if size is None:
            x = torch.randn(2, 1, 4, device="cuda")
            found = module(x, x, x)
        else:
            found = module(torch.randn(size, device="cuda"))
    flat = torch.utils._pytree.tree_leaves(found)
    assert {each.device for each in flat if isinstance(each, torch.Tensor)} == {CUDA}


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_are_where_their_tensors_are(reentrant, machine) -> None:
    layer = torch.nn.Linear(4, 4).cuda()
    x = torch.ones(4, device="cuda", requires_grad=True)
    seen = []
    x.register_hook(lambda grad: seen.append(grad.device))
    checkpoint(
        lambda each: layer(each) + torch.ones(4, device=each.device), x, use_reentrant=reentrant
    ).sum().backward()
    assert (x.grad.device, layer.weight.grad.device, seen) == (CUDA, CUDA, [CUDA])


def test_a_gradient_is_cast_on_its_way_back(machine) -> None:
    x = torch.ones(2, device="mps", requires_grad=True)
    (x.to("cpu", torch.float64) * 2).sum().backward()
    assert (x.grad.device, x.grad.dtype, x.grad.tolist()) == (MPS, torch.float32, [2, 2])


def test_copies_between_devices_pass_gradients(machine) -> None:
    x = torch.ones(2, requires_grad=True)
    there = torch.zeros(2, device="cuda")
    there.copy_(x)
    (there * 3).sum().backward()
    assert (x.grad.device, x.grad.tolist()) == (CPU, [3, 3])


def test_a_function_of_ones_own_sees_the_device_in_backward(machine) -> None:
    seen = []

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(x.device)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            seen.append(grad.device)
            return grad * torch.full((), 2.0, device=grad.device)

    x = torch.ones(2, device="mps", requires_grad=True)
    Double.apply(x).sum().backward()
    assert seen == [MPS, MPS]
    (grad,) = torch.autograd.grad(Double.apply(x).sum(), x)
    assert (grad.device, grad.tolist()) == (MPS, [2, 2])


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam"])
def test_optimisers_step(name, machine) -> None:
    def weights(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2).to(device)
        optimiser = getattr(torch.optim, name)(layer.parameters(), lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            layer(torch.ones(3, device=device)).sum().backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimiser.step()
        return layer.weight.detach().cpu()

    torch.testing.assert_close(weights("cuda"), weights("cpu"))


def test_autocast_casts_on_its_device_only(machine) -> None:
    layer, host = torch.nn.Linear(3, 2).cuda(), torch.nn.Linear(3, 2)
    x = torch.ones(1, 3, device="cuda")
    with torch.autocast("cuda"):
        y = layer(x)
        assert y.dtype is torch.float16
        assert y.softmax(-1).dtype is torch.float32
        assert (
            torch.nn.functional.cross_entropy(y, torch.zeros(1, dtype=torch.long, device="cuda")).dtype is torch.float32
        )
        assert host(torch.ones(1, 3)).dtype is torch.float32
        with torch.autocast("cuda", enabled=False):
            assert layer(x).dtype is torch.float32
        y.float().sum().backward()
    assert layer(x).dtype is torch.float32
    assert layer.weight.grad.dtype is torch.float32
    if not torch.amp.is_autocast_available("mps"):
        return  # an older release
    with torch.autocast("mps", dtype=torch.bfloat16):
        assert torch.nn.Linear(2, 2).to("mps")(torch.ones(2, device="mps")).dtype is torch.bfloat16
        assert layer(x).dtype is torch.float32


def test_gradients_are_scaled(machine) -> None:
    layer = torch.nn.Linear(3, 2).cuda()
    optimiser, scaler = torch.optim.SGD(layer.parameters(), lr=0.1), torch.amp.GradScaler("cuda", init_scale=8.0)
    with torch.autocast("cuda"):
        loss = layer(torch.ones(1, 3, device="cuda")).float().sum()
    scaler.scale(loss).backward()
    scaler.step(optimiser)
    scaler.update()
    assert scaler.get_scale() == 8.0


@pytest.mark.filterwarnings("ignore:Sparse", "ignore:torch.quantize", "ignore:`torch.jit")
@pytest.mark.parametrize(
    "transform",
    [
        lambda x: torch.vmap(lambda each: each * 2 + torch.ones((), device=each.device))(x),
        lambda x: torch.func.grad(lambda each: (each * each).sum())(x),
        lambda x: torch.func.jvp(lambda each: each * each, (x,), (torch.ones_like(x),))[1],
        lambda x: torch.func.jacrev(lambda each: each * 2)(x),
        lambda x: torch.func.functional_call(torch.nn.Linear(4, 1).cuda(), {}, (x,)),
        lambda x: torch.einsum("i,j->ij", x, x),
        lambda x: torch.eye(3, device="cuda").to_sparse(),
        lambda x: torch.sparse.mm(torch.eye(4).to_sparse().cuda(), x.view(4, 1)),
        lambda x: torch.eye(3).to_sparse_csr().cuda().to_dense(),
        lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged).cuda() * 2,
        lambda x: torch.nn.functional.interpolate(x.view(1, 1, 4), scale_factor=2),
        lambda x: torch.stft(x.repeat(8), 8, return_complex=True, window=torch.hann_window(8, device="cuda")),
        lambda x: torch.nn.functional.one_hot(x.long()),
        lambda x: torch.fft.rfft(x),
        lambda x: torch.complex(x, x),
        lambda x: x.new_empty(0),
    ],
)
def test_what_has_no_ordinary_storage_knows_where_it_is(transform, machine) -> None:
    assert transform(torch.arange(4.0, device="cuda")).device == CUDA


def test_pinned_memory(machine) -> None:
    x = torch.ones(2).pin_memory()
    assert x.is_pinned()
    assert not torch.ones(2).is_pinned()
    assert torch.ones(2, pin_memory=True).is_pinned()
    assert x.cuda(non_blocking=True).device == CUDA
    (batch,) = torch.utils.data.DataLoader(torch.ones(2), batch_size=2, pin_memory=True)
    assert batch.is_pinned()


def test_generators(machine) -> None:
    generator = torch.Generator("cuda").manual_seed(3)
    first = torch.rand(2, device="cuda", generator=generator)
    generator.manual_seed(3)
    assert torch.equal(first, torch.rand(2, device="cuda", generator=generator))
    assert generator.device == CUDA
    assert isinstance(torch.Generator(), torch.Generator)
    assert isinstance(torch.default_generator, torch.Generator)
    torch.cuda.manual_seed_all(1)
    state = torch.cuda.get_rng_state()
    first = torch.rand(2, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.rand(2, device="cuda"))


def test_what_the_modules_answer(machine) -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    assert torch.cuda.get_device_properties(0).total_memory == torch.cuda.mem_get_info()[1]
    assert torch.cuda.get_device_capability() == (8, 0)
    assert torch.cuda.is_bf16_supported()
    assert torch.backends.mps.is_available()
    assert torch.backends.mps.is_built()
    torch.cuda.empty_cache()
    torch.mps.empty_cache()
    with torch.cuda.device(1):
        assert torch.ones(1, device="cuda").device == CUDA1
        assert torch.ones(1).cuda().device == CUDA1
    torch.cuda.set_device(1)
    assert torch.cuda.current_device() == 1
    torch.cuda.set_device("cuda:0")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(5)


@pytest.mark.skipif(not hasattr(torch, "accelerator"), reason="torch.accelerator is new in 2.6")
def test_the_accelerator_is_the_first_kind(machine) -> None:
    assert torch.accelerator.current_accelerator().type == "cuda"
    assert torch.accelerator.device_count() == 2
    assert torch.accelerator.is_available()


def test_memory_in_use_is_that_of_the_tensors(machine) -> None:
    before, beside = torch.cuda.memory_allocated(), torch.cuda.memory_allocated(1)
    x = torch.ones(1000, device="cuda")
    view, other = x[1:], torch.ones(1000, device="cuda:1")
    assert torch.cuda.memory_allocated() - before == 4000
    assert torch.cuda.memory_allocated(1) - beside == 4000
    del x, view
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() == before + 4000
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() == before
    assert other.device == CUDA1


def test_an_operator_runs_under_its_torch_ops_name(machine) -> None:
    assert torch.ops.aten.add(torch.ones(1, device="cuda"), 1).device == CUDA
    assert torch.ops.aten.zeros([2], device="cuda").device == CUDA
    with pytest.raises(RuntimeError, match="Expected all tensors"):
        torch.ops.aten.add.Tensor(torch.ones(1, device="cuda"), torch.ones(1))


def test_shared_subclasses_keep_their_type(machine) -> None:
    class Own(torch.Tensor):
        pass

    x = torch.ones(2).as_subclass(Own).cuda()
    assert type(x) is Own
    assert (x.device, (x * 2).device, type(x * 2)) == (CUDA, CUDA, Own)
    with pytest.raises(RuntimeError, match="Expected all tensors"):
        x + torch.ones(2)


def test_the_error_is_an_ordinary_one() -> None:
    error = pickle.loads(pickle.dumps(CannotSimulate("streams", "do this.")))
    assert (str(error), error.feature) == ("streams cannot be simulated: do this.", "streams")
    assert isinstance(error, RuntimeError)


def test_a_sparse_tensor_that_is_written_stays_on_its_device() -> None:
    with simulate("cuda"):
        first, second = (torch.eye(3)[rows].to_sparse().to("cuda") for rows in ([0, 1, 1], [2, 1, 0]))
        first.add_(second)
        assert str(first.device) == str(first._values().device) == "cuda:0"
        second.copy_(first)
        assert str(second.device) == "cuda:0"


def test_an_index_of_0_is_a_device_for_data_of_any_kind() -> None:
    storage = torch.ones(2).untyped_storage()
    with simulate("cuda"):
        for data in (storage, [1, 2], torch.ones(2)):
            assert str(torch.asarray(data, dtype=torch.uint8, device=0).device) == "cuda:0"
        assert str(torch.tensor(storage, dtype=torch.uint8, device=0).device) == "cuda:0"


def test_tensors_without_data_are_not_moved(machine) -> None:
    meta = torch.ones(2, device="meta")
    text = r"^Cannot copy out of meta tensor; no data!"
    for move in (lambda: meta.to("cuda"), lambda: meta.cuda(), lambda: meta.to(torch.ones(1, device="cuda"))):
        with pytest.raises(NotImplementedError, match=f"{text}$"):
            move()
    layer = torch.nn.Linear(2, 2, device="meta")
    with pytest.raises(NotImplementedError, match=rf"{text} Please use torch\.nn\.Module\.to_empty\(\)"):
        layer.to("cuda")
    with pytest.raises(NotImplementedError, match=text):
        layer.cuda()
    assert layer.weight.device == meta.device == torch.device("meta")
    assert repr(meta) == "tensor(..., device='meta', size=(2,))"
    assert layer.to_empty(device="cuda").weight.device == CUDA
    assert torch.ones(2, device="cuda").to("meta").device == torch.device("meta")
    assert torch.empty_like(meta, device="cuda").device == CUDA

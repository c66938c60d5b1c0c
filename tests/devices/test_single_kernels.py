"""Functions of one kernel run without the mode below autograd: with the results, errors and counts that it gives."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.devices.handlers import single_kernels, without_dispatch
from pytest_evalcheck.devices.state import HANDLERS

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch's own samples, and of what it deprecates
SAMPLES = 1  # of each operator, and as many wrong calls
Calls = Callable[[], Iterator[tuple[str, Callable[..., Any], Any]]]
CALLS: dict[str, Callable[[Tensor], Any]] = {
    "pointwise": lambda x: x + x,
    "with a number": lambda x: x * 2,
    "compared": lambda x: x == 1,
    "reduced": lambda x: x.sum(dim=0),
    "two results": lambda x: x.topk(2),
    "a list": lambda x: torch.cat([x, x]),
}


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


class Around(TorchFunctionMode):
    """A mode of the user's that was there before, which computes with each result."""

    def __init__(self) -> None:
        super().__init__()
        self.doubled: list[Tensor] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.doubled += [each * 2 for each in tree_leaves(out) if isinstance(each, Tensor)]
        return out


@pytest.fixture(scope="module")
def calls(module_with_samples: Callable[[str], ModuleType]) -> Calls:
    """Calls of PyTorch's own tests of the functions that are handled here, right and wrong ones."""
    database = module_with_samples("torch.testing._internal.common_methods_invocations").op_db

    def made() -> Iterator[tuple[str, Callable[..., Any], Any]]:
        for op in database:
            handled = [each for each in (op.op, op.method_variant) if each is not None and HANDLERS[each] is HANDLER]
            dtype = torch.float32 if torch.float32 in op.dtypes else torch.int64
            if not handled or dtype not in op.dtypes:
                continue
            with torch.random.fork_rng():
                torch.manual_seed(0)
                samples = list(itertools.islice(op.sample_inputs_func(op, "cpu", dtype, requires_grad=False), SAMPLES))
                errors = (
                    list(itertools.islice(op.error_inputs_func(op, "cpu"), SAMPLES)) if op.error_inputs_func else []
                )
            for sample in (*samples, *(each.sample_input for each in errors)):
                for function in handled:
                    yield getattr(op, "full_name", op.name), function, (sample.input, sample.args, sample.kwargs)

    return made


HANDLER = single_kernels.new_results


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_call_is_the_same_without_the_mode(kind: str, calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[Any]] = []
    for alone in (True, False):
        if not alone:
            monkeypatch.setattr(single_kernels, "is_alone", lambda state: False)
        found.append([(name, outcome(kind, function, arguments)) for name, function, arguments in calls()])
    with_mode, without = found[1], found[0]
    assert len({name for name, _ in without}) > 140
    assert [pair for pair in zip(without, with_mode, strict=True) if str(pair[0]) != str(pair[1])] == []


def outcome(kind: str, function: Callable[..., Any], arguments: Any) -> Any:
    """Observations of a call on a device: results, gradients, counts and memory, or the error."""
    gc.disable()  # what an error of an earlier call has left would be freed here
    try:
        return _outcome(kind, function, arguments)
    finally:
        gc.enable()


def _outcome(kind: str, function: Callable[..., Any], arguments: Any) -> Any:
    with simulate(kind) as ledger:
        moved = tree_map(lambda each: _moved(each, kind), arguments)
        device = torch.get_device_module(kind) if hasattr(torch, "get_device_module") else getattr(torch, kind)
        count = getattr(device, "memory_allocated", None) or device.current_allocated_memory
        before, ledger.transfers[:], ledger.syncs[:] = count(), [], []
        try:
            out = function(moved[0], *moved[1], **moved[2])
        except Exception as error:
            return type(error), str(error)
        seen = [described(each) for each in tree_leaves(out)], count() - before
        leaf = next((each for each in tree_leaves(out) if isinstance(each, Tensor) and each.requires_grad), None)
        if leaf is not None:
            try:
                leaf.sum().backward()
            except Exception as error:
                return seen, type(error), str(error)
        gradients = [described(each.grad) for each in tree_leaves(moved) if isinstance(each, Tensor) and each.is_leaf]
        entries = [(each.call, each.bytes) for each in ledger.transfers], [each.call for each in ledger.syncs]
        return seen, gradients, entries


def _moved(value: Any, kind: str) -> Any:
    if not isinstance(value, Tensor) or (kind == "mps" and value.dtype in (torch.float64, torch.complex128)):
        return value
    moved = value.detach().to(kind)
    return moved.requires_grad_() if value.is_floating_point() and value.layout is torch.strided else moved


def described(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    numbers = value.detach().cpu()
    return (
        value.dtype,
        value.device,
        value.requires_grad,
        str(numbers.tolist() if numbers.layout is torch.strided else numbers),
    )


@pytest.mark.parametrize("name", CALLS)
def test_a_result_is_on_the_device(name: str) -> None:
    with simulate("cuda"):
        x = torch.ones(4, device="cuda")
        for function in (x, x.requires_grad_()):
            assert {str(each.device) for each in tree_leaves(CALLS[name](function))} == {"cuda:0"}
        assert {str(each.device) for each in tree_leaves(CALLS[name](torch.ones(4)))} == {"cpu"}


@pytest.mark.parametrize("name", CALLS)
def test_another_mode_sees_the_operators_and_is_seen(name: str) -> None:
    with simulate("cuda"):
        x = torch.ones(4, device="cuda")
        with Seen() as seen:
            CALLS[name](x)
        assert seen.operators
    with Around() as around, simulate("cuda"):
        x = torch.ones(4, device="cuda")
        around.doubled.clear()
        CALLS[name](x)
        assert {str(each.device) for each in around.doubled} == {"cuda:0"}


def test_what_makes_tensors_of_its_own_on_the_way_is_seen() -> None:
    packed: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(tensor * 2)
        return tensor

    with simulate("cuda"):
        x = torch.ones(4, device="cuda", requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            x.exp()
        assert [str(each.device) for each in packed] == ["cuda:0"]
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(4, device="cuda"), torch.ones(4, device="cuda"))
            tangent = forward_ad.unpack_dual(dual.exp()).tangent
            assert str(tangent.device) == "cuda:0"
            assert str((tangent + 1).device) == "cuda:0"


def test_a_torch_that_names_no_packers_may_have_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(without_dispatch, "_packers", None)
    with torch.no_grad():
        assert without_dispatch.nothing_is_derived()
    assert not without_dispatch.nothing_is_derived()
    test_what_makes_tensors_of_its_own_on_the_way_is_seen()


def test_tensors_on_two_devices_are_refused_and_a_number_is_not() -> None:
    with simulate("cuda:1"):
        x = torch.ones(4, device="cuda")
        for other in (torch.ones(4), torch.ones(4, device="cuda:1")):
            with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
                torch.add(x, other)
        assert (x + torch.tensor(1.0)).device == x.device
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            torch.cat([x, torch.ones(4)])


def test_what_the_device_refuses_is_refused() -> None:
    with simulate("mps"), pytest.raises(TypeError, match="float64"):
        torch.ones(4, device="mps").sum(dtype=torch.float64)
    with simulate("cuda", memory=100) as _, pytest.raises(torch.cuda.OutOfMemoryError):
        torch.ones(20, device="cuda").exp()
    with simulate("cuda"):
        picked = torch.ones(3, device="cuda").gather(0, torch.tensor([7], device="cuda"))
        with pytest.raises(RuntimeError, match="device-side assert"):
            picked.item()


def test_memory_of_an_argument_that_is_written_is_counted_again() -> None:
    with simulate("cuda"):
        x, out = torch.ones(100, device="cuda"), torch.empty(0, device="cuda")
        before = torch.cuda.memory_allocated()
        torch.add(x, x, out=out)
        assert torch.cuda.memory_allocated() - before == 400


def test_in_a_backward_pass_a_tensor_from_nothing_is_where_the_last_operator_ran() -> None:
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Any:
            return gradients[0] * 2

    with simulate("cuda"):
        x = torch.ones(4, device="cuda", requires_grad=True)
        Doubled.apply(x).exp().sum().backward()
        assert x.grad is not None
        assert str(x.grad.device) == "cuda:0"


def test_functions_that_do_more_than_compute_keep_the_mode() -> None:
    for function in (
        *(
            torch.nonzero,
            torch.unique,
            torch.bincount,
            torch.masked_select,
            torch.bernoulli,
            torch.where,
            torch.index_put,
        ),
        *(torch.dropout, torch.randperm, torch.empty_like, torch.softmax, torch.layer_norm, Tensor.add_, Tensor.item),
        *(Tensor.copy_, Tensor.set_, Tensor.resize_, Tensor.index_put_, torch.nn.functional.linear),
    ):
        assert HANDLERS[function] is not HANDLER, function
    # By older releases a dimension of `cat` may be a text, and `mm` has more overloads: both keep the mode there.
    later = (torch.cat, torch.mm) if torch.__version__ >= "2.8" else ()
    for function in (torch.add, Tensor.mul, Tensor.__eq__, torch._C._nn.gelu, Tensor.amax, *later):
        assert HANDLERS[function] is HANDLER, function


def test_a_function_of_the_user_is_not_kept() -> None:
    def overridable(x: Tensor) -> Tensor:
        if torch.overrides.has_torch_function_unary(x):
            return torch.overrides.handle_torch_function(overridable, (x,), x)  # type: ignore[no-any-return]
        return x + 1

    with simulate("cuda"):
        assert str(overridable(torch.ones(2, device="cuda")).device) == "cuda:0"
    assert overridable not in HANDLERS

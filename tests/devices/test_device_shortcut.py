"""The way past the dispatcher gives what the long way gives, for every function on it."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

from pytest_evalcheck.devices import Ledger, direct, shortcut, simulate
from pytest_evalcheck.devices.shortcut import LIKE, SIMPLE, WAITING, WRITING

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch's own samples
DTYPES = (torch.float32, torch.int64, torch.bool)
SAMPLES = 2
# The operator in PyTorch's own table that has samples for a function of another name.
SAME = {
    "__and__": "bitwise_and",
    "__iand__": "bitwise_and",
    "__or__": "bitwise_or",
    "__ior__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__invert__": "bitwise_not",
    "__mod__": "remainder",
    "__floordiv__": "floor_divide",
    **dict.fromkeys(("__truediv__", "__itruediv__", "__idiv__"), "div"),
    "__rtruediv__": "__rdiv__",
    "__iadd__": "add",
    "__isub__": "sub",
    "__imul__": "mul",
    "__matmul__": "matmul",
}
ONE, ROW = torch.tensor(1), torch.tensor([2])
# What functions are called with of which PyTorch has no samples.
WRITTEN: dict[str, list[tuple[Any, ...]]] = {
    **{each: [(ONE,), (ROW,)] for each in ("__bool__", "__int__", "__float__", "__index__", "zero_")},
    **{each: [(torch.ones(2, 3),)] for each in ("detach", "T")},
    "swapaxes": [(torch.ones(2, 3), 0, 1)],
    "__setitem__": [(torch.ones(2, 3), 1, torch.zeros(3)), (torch.ones(2), torch.tensor([True, False]), 2.0)],
    "__getitem__": [(torch.ones(2, 3), (slice(1), None, 2)), (torch.ones(2, 3), ...)],
    "einsum": [("ij,jk", torch.ones(2, 3), torch.ones(3, 2)), ("ii", [torch.ones(2, 2)])],
    "embedding": [(ROW, torch.ones(3, 2)), (torch.ones(3, 2), ROW)],
    "broadcast_tensors": [(torch.ones(2, 1), torch.ones(3))],
    "scaled_dot_product_attention": [(torch.ones(1, 2, 3, 4),) * 3],
}
PLACEMENTS = ("cpu", "cuda:1", "mps")


def name_of(function: Any) -> str:
    """`T` for the getter of an attribute, and what PyTorch calls a function that chooses one of two."""
    name = str(getattr(function, "__name__", function))
    return str(function.__self__.__name__) if name == "__get__" else name


def identity(function: Any) -> str:
    """The same in every process."""
    qualified = getattr(function, "__qualname__", "").replace("boolean_dispatch.<locals>.fn", "")
    module = (getattr(function, "__module__", None) or "").replace("torch._tensor", "")
    return f"{module} {qualified} {name_of(function)}"


FUNCTIONS = {
    identity(each): each for each in SIMPLE | WRITING | LIKE | WAITING | {Tensor.__setitem__, Tensor.__getitem__}
}


@pytest.fixture(scope="module")
def operators(of_pytorchs_samples: Callable[[str], ModuleType]) -> dict[str, list[Any]]:
    """PyTorch's own table, by name."""
    table: dict[str, list[Any]] = {}
    for each in of_pytorchs_samples("torch.testing._internal.common_methods_invocations").op_db:
        table.setdefault(each.name.rpartition(".")[2], []).append(each)
    return table


def samples(function: Any, operators: dict[str, list[Any]]) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """What a function can be called with: positional and keyword arguments."""
    from fidelity_samples import seeded

    name = name_of(function)
    yield from ((given, {}) for given in WRITTEN.get(name, []))
    seeded(0)
    for found in operators.get(SAME.get(name, name if name in operators else name.strip("_")), []):
        for dtype in DTYPES:
            if dtype in found.dtypes:
                every = list(found.sample_inputs("cpu", dtype, requires_grad=False))
                for each in random.Random(name).sample(every, min(SAMPLES, len(every))):
                    yield (each.input, *each.args), each.kwargs


def outcome(
    function: Any, given: Any, places: dict[int, str], ledger: Ledger, kind: Callable[[Tensor], Tensor] = Tensor.clone
) -> Any:
    """All that can be seen of a call with its tensors put on places: the one of number 0, 1, ..., or -1 for the rest."""
    from fidelity_samples import _replace, seeded, tensors_in

    numbers = iter(range(100))

    def put(_: str, tensor: Tensor) -> Tensor:
        there = tensor.clone().to(places.get(next(numbers), places[-1]))
        return kind(there) if there.is_floating_point() else there

    args, kwargs = (_replace("", each, put, lambda _: torch.device(places[-1])) for each in given)
    seeded(1)
    with ledger.span() as span:
        try:
            with torch.no_grad():
                out = function(*args, **kwargs)
        except Exception as error:
            return type(error), str(error).partition("\nException raised")[0], str(span)
    given = list(tensors_in((args, kwargs)))
    return (
        type(out),
        [[each is one for one in given] for each in tensors_in(out)],
        [each._version for each in given],  # what is written twice counts twice
        [seen(each) for each in tensors_in((out, args, kwargs))],
        str(span),
        out if isinstance(out, (int, float, bool)) else None,
    )


class Values:
    """Equal up to the last bits: where memory lies may change those of a decomposition."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Values) and torch.allclose(self.tensor, other.tensor, equal_nan=True)

    def __repr__(self) -> str:
        return str(self.tensor)


def seen(tensor: Tensor) -> Any:
    return tensor.device, tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad, Values(tensor.cpu())


@contextlib.contextmanager
def the_long_way() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(direct, "_functions", lambda: 1)
        yield


@contextlib.contextmanager
def counted() -> Iterator[list[Any]]:
    """The functions that were called with the dispatcher off."""
    taken: list[Any] = []

    def call(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        out = direct.straight(function, args, kwargs)
        taken.append(function)
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortcut, "straight", call)
        yield taken


def placements(given: Any) -> Iterator[dict[int, str]]:
    from fidelity_samples import tensors_in

    yield from ({-1: place} for place in PLACEMENTS)
    count = len(list(tensors_in(given)))
    if 1 < count < 5:
        yield from ({-1: "mps", number: other} for number in range(count) for other in ("cpu", "cuda:1"))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_it_gives_what_the_long_way_gives(name: str, operators: dict[str, list[Any]]) -> None:
    function, found = FUNCTIONS[name], 0
    for given in samples(function, operators):
        for places in placements(given):
            with simulate("cuda:1", "mps") as ledger, counted() as taken:
                short = outcome(function, given, places, ledger)
                with the_long_way():
                    assert short == outcome(function, given, places, ledger), (given, places)
                if len(places) == 1:  # as an optimiser calls it
                    short = outcome(function, given, places, ledger, Parameter)
                    with the_long_way():
                        assert short == outcome(function, given, places, ledger, Parameter), (given, places)
            found += bool(taken) and places[-1] == "mps"
    assert found, "never called with the dispatcher off"

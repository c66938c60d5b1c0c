"""Calls of PyTorch's operators, and the placements of their tensors over devices.

The operators and their inputs are those that PyTorch tests itself with (`op_db`), which needs `expecttest`.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_methods_invocations import op_db

common_utils.extract_test_fn = lambda: None  # it goes through the stack for a `unittest.TestCase`: most of the time

Tensor = torch.Tensor
DEVICE, SECOND = "cuda:0", "cuda:1"
KINDS = 3  # samples of an operator
LOOKED_AT = 60  # samples of an operator to choose from
LEAVES = 8  # tensors of a sample that are moved
UNSAFE_WITHOUT_DIMENSIONS = ("_chunk_cat",)  # its kernel for the CPU reads memory that such a tensor does not have


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of one operator: `function(input, *args, **kwargs)`."""

    op: str  # the name in op_db, with its variant, and `_` behind it where it works in place
    number: int  # which sample
    function: Callable[..., Any]
    arguments: tuple[Any, tuple[Any, ...], dict[str, Any]]
    differentiable: bool
    on_cuda: bool = True  # PyTorch tests it there, with this dtype
    family: str = ""  # the name in op_db, with its variant
    reduced: str = ""  # the argument that was given no dimensions, `*` for all; only these are put on the CPU

    def leaves(self) -> list[tuple[str, Tensor]]:
        """The tensors, each with the name of its argument: `input`, `arg1`, `arg1.0` in a list, `weight`."""
        found: list[tuple[str, Tensor]] = []
        self.with_leaves(lambda name, value: found.append((name, value)) or value, lambda device: device)
        return found

    def with_leaves(
        self, tensor: Callable[[str, Tensor], Any], device: Callable[[Any], Any]
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """The arguments, with each tensor and each device replaced."""
        first, rest, named = self.arguments
        return (
            _replace("input", first, tensor, device),
            tuple(_replace(f"arg{n}", each, tensor, device) for n, each in enumerate(rest, 1)),
            {
                name: device(each) if name == "device" else _replace(name, each, tensor, device)
                for name, each in named.items()
            },
        )


@dataclasses.dataclass(frozen=True)
class Placement:
    """All tensors on the device, but for the one that is named."""

    argument: str = ""
    device: str = DEVICE
    scalar: bool = False  # the one that is named has no dimensions

    def __str__(self) -> str:
        return f"{self.argument} on {self.location}" if self.argument else "all"

    @property
    def location(self) -> str:
        return f"{self.device} 0-dim" if self.scalar else self.device

    def of(self, name: str) -> str:
        return self.device if name == self.argument else DEVICE


def placements(call: Call) -> list[Placement]:
    """All on the device first, then each tensor on the CPU and on a second device, where there are two to part.

    A tensor that was given no dimensions is only put on the CPU: the others are known from the original call.
    """
    leaves = call.leaves()
    if call.reduced:
        moved = [name for name, _ in leaves[:LEAVES] if call.reduced in (name, "*")]
        return [Placement(name, "cpu", scalar=True) for name in moved]
    found = [Placement()]
    if len(leaves) > 1:
        for name, tensor in leaves[:LEAVES]:
            found += [Placement(name, device, tensor.dim() == 0) for device in ("cpu", SECOND)]
    return found


def operators(pattern: str = "*", kinds: int = KINDS, seed: int = 0) -> Iterator[list[Call]]:
    """The calls of each operator whose name matches one of the patterns, which are separated by commas.

    At most `kinds` samples of each, drawn with a seed.
    """
    wanted = pattern.split(",")
    for op in op_db:
        if any(fnmatch.fnmatchcase(full_name(op), each) for each in wanted):
            yield calls(op, kinds, seed)
    for call in extras(seed):
        if any(fnmatch.fnmatchcase(call.op, each) for each in wanted):
            yield [call]


def names() -> list[str]:
    """Every operator, as `operators` knows it."""
    return [full_name(op) for op in op_db] + [call.op for call in extras()]


def family(name: str, kinds: int = KINDS, seed: int = 0) -> list[Call]:
    """The calls of the one operator of this very name."""
    return [call for same in operators(name, kinds, seed) for call in same]


def extras(seed: int = 0) -> Iterator[Call]:
    """Return what evaluation code does and `op_db` has no samples for."""
    seeded(seed)
    rows, table = torch.rand(4, 3), torch.rand(5, 3)
    which, lengths, flag = torch.tensor([0, 2, 1]), torch.tensor([3, 2]), torch.rand(4) > 0.5
    lstm, one = torch.nn.LSTM(3, 2, batch_first=True).requires_grad_(False), torch.tensor(0.5)
    written: dict[str, Callable[..., Any]] = {
        "setitem_index": lambda x, index, value: x.__setitem__(index, value),
        "setitem_mask": lambda x, mask, value: x.__setitem__(mask, value),
        "pack_padded_sequence": lambda x, each: torch.nn.utils.rnn.pack_padded_sequence(x, each, batch_first=True).data,
        "lstm": lambda x, *weights: torch.lstm(
            x, [torch.zeros_like(x[:1, :2, :2].transpose(0, 1))] * 2, list(weights), True, 1, 0.0, False, False, True
        ),
        "fill_": lambda x, value: x.fill_(value),
        "copy_": lambda x, other: x.copy_(other),
        "imul": lambda x, value: x.__imul__(value),
        "where": lambda choice, x, value: torch.where(choice, x, value),
        "embedding_bag": lambda *three: torch.nn.functional.embedding_bag(*three),
        "_foreach_add_": lambda *pairs: torch._foreach_add_(list(pairs[:2]), list(pairs[2:])),
        "_foreach_mul": lambda x, y, factor: torch._foreach_mul([x, y], factor),
        "repeat_interleave": lambda x, times: torch.repeat_interleave(x, times, dim=0),
    }
    given: dict[str, tuple[Tensor, ...]] = {
        "setitem_index": (rows, which, torch.rand(3, 3)),
        "setitem_mask": (rows, flag, one),
        "pack_padded_sequence": (torch.rand(2, 3, 3), lengths),
        "lstm": (torch.rand(2, 3, 3), *lstm._flat_weights),
        "fill_": (rows, one),
        "copy_": (rows, torch.rand(4, 3)),
        "imul": (rows, one),
        "where": (flag, torch.rand(4), one),
        "embedding_bag": (which, table, torch.tensor([0])),
        "_foreach_add_": (rows, table, torch.rand(4, 3), torch.rand(5, 3)),
        "_foreach_mul": (rows, table, one),
        "repeat_interleave": (rows, torch.tensor([1, 0, 2, 1])),
    }
    if hasattr(torch.nn.utils, "get_total_norm"):  # torch 2.6
        written["total_norm"] = lambda x, y: torch.nn.utils.get_total_norm([x, y])
        given["total_norm"] = rows, table
    for name, function in written.items():
        first, *rest = given[name]
        yield Call(f"extra.{name}", 0, function, (first, tuple(rest), {}), False, family=f"extra.{name}")


def full_name(op: Any) -> str:
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else str(op.name)


def calls(op: Any, kinds: int = KINDS, seed: int = 0) -> list[Call]:
    """Some calls that differ in the number of tensors, in which of them have no dimensions, and in their keywords."""
    seeded(seed)
    name, there = full_name(op), dtype_of(op) in op.dtypesIfCUDA
    chosen, forms = _chosen(op, kinds), [(name, op, bool(op.supports_autograd))]
    if op.inplace_variant is not None:
        forms.append((f"{name}_", op.inplace_variant, False))
    found = [
        call
        for form, function, grad in forms
        for number, sample in enumerate(chosen)
        if _runs(call := Call(form, number, function, _arguments(sample), grad, there, name))
    ]
    return found + [other for call in found if call.op == name for other in _without_dimensions(call)]


def _without_dimensions(call: Call) -> Iterator[Call]:
    """The same call with one tensor that has no dimensions, each in turn, and with all; as far as they mean something.

    Most operators take such a tensor on the CPU beside a device tensor, and those that do not are the hard ones.
    """
    if call.op in UNSAFE_WITHOUT_DIMENSIONS:
        return
    leaves = [(name, tensor) for name, tensor in call.leaves() if tensor.layout is torch.strided]
    large = [name for name, tensor in leaves[:LEAVES] if tensor.dim() and tensor.numel()]
    if len(leaves) < 2:
        return
    for reduced in (*large, *(["*"] if len(large) > 1 else [])):
        names = {name for name in large if reduced in (name, "*")}
        arguments = call.with_leaves(
            lambda name, tensor, names=names: tensor.reshape(-1)[0].clone() if name in names else tensor,
            lambda device: device,
        )
        other = dataclasses.replace(call, arguments=arguments, reduced=reduced, differentiable=False)
        if _runs(other):
            yield other


def _arguments(sample: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    return sample.input, sample.args, sample.kwargs


def _runs(call: Call) -> bool:
    """Return whether a call means something at all: not every sample can be written in place."""
    seeded(1)
    first, rest, named = call.with_leaves(lambda _, tensor: tensor.clone(), lambda device: device)
    try:
        call.function(first, *rest, **named)
    except Exception:
        return False
    return True


def seeded(seed: int) -> None:
    torch.default_generator.manual_seed(seed)  # torch.manual_seed writes down a stack for each device that is not there
    np.random.seed(seed)
    random.seed(seed)


def _chosen(op: Any, most: int) -> list[Any]:
    kinds: dict[Any, Any] = {}
    for number, sample in enumerate(op.sample_inputs("cpu", dtype_of(op), requires_grad=False)):
        leaves = Call("", 0, op, _arguments(sample), False).leaves()
        kinds.setdefault((*((name, each.dim() == 0) for name, each in leaves), *sorted(sample.kwargs)), sample)
        if number >= LOOKED_AT:
            break
    most_tensors_first = sorted(kinds, key=lambda kind: -sum(isinstance(each, tuple) for each in kind))
    return [kinds[each] for each in most_tensors_first[:most]]


def dtype_of(op: Any) -> torch.dtype:
    for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool):
        if dtype in op.dtypes:
            return dtype
    return min(op.dtypes, key=str, default=torch.float32)


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested containers."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(each)


def _replace(name: str, value: Any, tensor: Callable[[str, Tensor], Any], device: Callable[[Any], Any]) -> Any:
    if isinstance(value, Tensor):
        return tensor(name, value)
    if isinstance(value, torch.device):
        return device(value)
    if isinstance(value, slice):
        ends = (value.start, value.stop, value.step)
        return slice(*(_replace(f"{name}.{n}", each, tensor, device) for n, each in enumerate(ends)))
    if isinstance(value, dict):
        return {key: _replace(f"{name}.{key}", each, tensor, device) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        found = [_replace(f"{name}.{n}", each, tensor, device) for n, each in enumerate(value)]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    return value

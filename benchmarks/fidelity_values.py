"""Comparison of a call on the simulated device with the call outside: values, gradients, dtypes; float64 on MPS."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from fidelity_references import line, moved
from fidelity_samples import DEVICE, Call, seeded, tensors_in

from pytest_evalcheck.devices import CannotSimulate, simulate

Tensor = torch.Tensor
NO_FLOAT64 = "doesn't support float64"
NO_DTYPE = (NO_FLOAT64, "to the MPS backend but it does not have support for that dtype")
ON_THE_CPU = {"tensor_split": "arg1", "extra.pack_padded_sequence": "arg1"}  # these must be there for every device
UNSET = ("empty", "new_empty")  # operators that give what memory holds


@dataclasses.dataclass
class Tally:
    """The number of comparisons, and the differences that they found."""

    compared: int = 0
    rounded: list[str] = dataclasses.field(default_factory=list)  # equal but for the last bits
    different: list[str] = dataclasses.field(default_factory=list)


def values(call: Call, tally: Tally) -> None:
    """The results of a call, and what it wrote into its arguments, are equal inside and outside.

    To the last bit, but for what PyTorch computes by another kernel under any TorchDispatchMode (`linalg.svdvals`).
    """
    if call.op.startswith(UNSET) or not call.on_cuda:
        return
    outside = _run(call, "cpu", grad=False)
    if isinstance(outside, Exception):
        return
    with simulate("cuda", even_if_real=True):
        inside = _run(call, DEVICE, grad=False)
        found = inside if isinstance(inside, Exception) else _brought(inside)
    _compare(call, outside, found, tally, "value")


def gradients(call: Call, tally: Tally) -> None:
    """The gradients of the sum of the results are equal too, and on the device."""
    if not call.differentiable:
        return
    outside = _run(call, "cpu", grad=True)
    if isinstance(outside, Exception) or not outside:
        return
    with simulate("cuda", even_if_real=True):
        inside = _run(call, DEVICE, grad=True)
        found: Any = inside
        if not isinstance(inside, Exception):
            strays = [str(each.device) for each in inside if each.device != torch.device(DEVICE)]
            found = RuntimeError(f"gradients are on {', '.join(strays)}") if strays else _brought(inside)
    _compare(call, outside, found, tally, "gradient")


def float64(call: Call, tally: Tally) -> None:
    """On MPS no argument is float64, and no result becomes so: all of it is refused with PyTorch's text."""
    with simulate("mps", even_if_real=True):
        for _, tensor in call.leaves():
            if tensor.is_floating_point() and tensor.layout is torch.strided:
                tally.compared += 1
                refused = _refused(lambda tensor=tensor: tensor.to("mps", torch.float64))
                refused = refused and _refused(lambda tensor=tensor: tensor.double().to("mps"))
                if not refused:
                    tally.different.append(f"{call.op} {call.number}: a float64 argument got onto mps")
        found = _run(call, "mps", grad=False)
        tally.compared += 1
        if not isinstance(found, Exception):
            if any(each.dtype is torch.float64 and each.device.type == "mps" for each in found):
                tally.different.append(f"{call.op} {call.number}: the result is float64 on mps")
        elif not isinstance(found, CannotSimulate) and not any(each in str(found) for each in NO_DTYPE):
            outside = _run(call, "cpu", grad=False)
            if not isinstance(outside, Exception):
                tally.different.append(f"{call.op} {call.number}: {line(found)}")


def _refused(action: Any) -> bool:
    try:
        action()
    except TypeError as error:
        return NO_FLOAT64 in str(error)
    return False


def _run(call: Call, device: str, grad: bool) -> list[Tensor] | Exception:
    """The results and the arguments after the call; or the gradients of the arguments. Else what was raised."""
    leaves: list[Tensor] = []

    def placed(name: str, tensor: Tensor) -> Tensor:
        made = moved(tensor, "cpu" if ON_THE_CPU.get(call.op) == name else device)
        if grad and (made.is_floating_point() or made.is_complex()):
            made.requires_grad_()
        leaves.append(made)
        return made

    try:
        first, rest, named = call.with_leaves(placed, lambda _: torch.device(device))
        seeded(1)
        out = [each for each in tensors_in(call.function(first, *rest, **named)) if isinstance(each, Tensor)]
        if not grad:
            return out + leaves
        total = _total(out)
        if total is None:
            return []
        total.backward()
        return [each.grad for each in leaves if each.grad is not None]
    except Exception as error:
        return error


def _total(results: list[Tensor]) -> Tensor | None:
    sums = [each.abs().sum() if each.is_complex() else each.sum() for each in results if each.grad_fn is not None]
    return torch.stack([each.to(torch.float64) for each in sums]).sum() if sums else None


def _brought(tensors: list[Tensor]) -> list[Tensor]:
    return [each.detach().cpu() for each in tensors]


def _compare(call: Call, outside: Any, inside: Any, tally: Tally, what: str) -> None:
    if isinstance(inside, CannotSimulate):
        return
    tally.compared += 1
    if isinstance(inside, Exception):
        tally.different.append(f"{call.op} {call.number}: {what}: {line(inside)}")
    elif len(outside) != len(inside):
        tally.different.append(f"{call.op} {call.number}: {len(inside)} {what}s, {len(outside)} outside")
    elif not all(map(_same_bits, outside, inside)):
        near = all(map(_near, outside, inside))
        (tally.rounded if near else tally.different).append(f"{call.op} {call.number}: {what}s differ")


def _same_bits(one: Tensor, other: Tensor) -> bool:
    if (one.dtype, one.shape, one.layout, one.is_conj(), one.is_neg()) != (
        other.dtype,
        other.shape,
        other.layout,
        other.is_conj(),
        other.is_neg(),
    ):
        return False
    pairs = zip(_bytes(one), _bytes(other), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def _near(one: Tensor, other: Tensor) -> bool:
    try:
        torch.testing.assert_close(one, other, equal_nan=True)
    except AssertionError:
        return False
    return True


def _bytes(tensor: Tensor) -> Iterator[Tensor]:
    """Return what a tensor holds, so that NaN equals NaN."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        yield from (tensor.indices(), *_bytes(tensor.values()))
    elif tensor.layout is not torch.strided:
        yield from _bytes(tensor.to_dense())
    else:
        yield torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor).reshape(-1).view(torch.uint8)

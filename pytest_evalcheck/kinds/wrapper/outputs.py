"""What a forward gave: copies that can be compared, and the part of it that belongs to one row."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.kinds.common.tensors import overwrite


def settled(outputs: Any) -> Any:
    """A copy in plain containers that shares no memory; objects that hold no values become `Opaque`."""
    if isinstance(outputs, Raised) or outputs is None or isinstance(outputs, (bool, int, float, complex, str, bytes)):
        return outputs
    if _is_tensor(outputs):
        return outputs.detach().clone()
    if type(outputs).__module__ == "numpy":
        return outputs.copy() if hasattr(outputs, "copy") else outputs
    if isinstance(outputs, Mapping):
        return {key: settled(value) for key, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return [settled(value) for value in outputs]
    if dataclasses.is_dataclass(outputs):
        return {field.name: settled(getattr(outputs, field.name)) for field in dataclasses.fields(outputs)}
    return Opaque(f"a {type(outputs).__name__}")


class Opaque(str):
    """The name of a type: all that is seen of an object of a type that we do not know."""

    __slots__ = ()


def nothing_in(settled_outputs: Any) -> bool:
    """Whether there is no value in a settled nest that could be compared with another."""
    return all(isinstance(value, Opaque) for _, value in leaves(settled_outputs))


def write_into(outputs: Any, noise: Any = None) -> None:
    """Write other values into all outputs in place, as far as they can be written to."""
    import torch

    noise = noise or torch.Generator().manual_seed(0)
    if _is_tensor(outputs):
        for dim in [dim for dim, stride in enumerate(outputs.stride()) if stride == 0]:
            outputs = outputs.narrow(dim, 0, min(1, outputs.shape[dim]))  # one value, seen many times
        with torch.inference_mode(outputs.is_inference()):
            overwrite(outputs, noise)
    elif isinstance(outputs, Mapping):
        for value in outputs.values():
            write_into(value, noise)
    elif dataclasses.is_dataclass(outputs):
        for field in dataclasses.fields(outputs):
            write_into(getattr(outputs, field.name), noise)
    elif isinstance(outputs, (list, tuple)) and not all(isinstance(item, str) for item in outputs):
        for value in outputs:
            write_into(value, noise)
    else:
        overwrite(outputs, noise)


def leaves(settled_outputs: Any, path: str = "outputs") -> Iterator[tuple[str, Any]]:
    """Every tensor, number and list of texts in a settled nest, with its path."""
    if isinstance(settled_outputs, dict):
        for key, value in settled_outputs.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(settled_outputs, list) and not all(isinstance(item, str) for item in settled_outputs):
        for i, value in enumerate(settled_outputs):
            yield from leaves(value, f"{path}[{i}]")
    elif settled_outputs is not None:
        yield path, settled_outputs


def rowwise(outputs: Any, count: int) -> dict[str, Sequence[Any]]:
    """By path, what holds one entry for each of ``count`` rows; the rest, such as a loss, is left out."""
    return {path: value for path, value in leaves(settled(outputs)) if _length(value) == count}


def row(outputs: Mapping[str, Sequence[Any]], index: int, *, of: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What belongs to one row; with ``of``, no more than is named there."""
    return {path: value[index] for path, value in outputs.items() if of is None or path in of}


@dataclass(frozen=True, kw_only=True)
class Padded:
    """What was seen of rows at some widths: outputs with an entry for each of them, and what stands for the batch."""

    rows: Mapping[str, Sequence[Any]]
    batch: Mapping[str, Any]
    widths: tuple[int, ...]
    side: str

    def own(self, place: int, lengths: Sequence[int] | None, beside: Padded) -> dict[str, Any]:
        """The outputs of one row, at its own positions where they have a position for each column.

        What has an entry for each row, or for each column, at these widths and not beside them has so by chance.
        """
        one, other = row(self.rows, place, of=beside.rows), row(beside.rows, place, of=self.rows)
        for width, wide, length in zip(self.widths, beside.widths, lengths or self.widths, strict=True):
            real = slice(width - length, width) if self.side == "left" else slice(0, length)
            columns = [path for path, value in other.items() if _length(value) == wide]
            one |= {path: one[path][real] for path in columns if _length(self.rows[path][place]) == width}
        return one


def scalars(outputs: Any) -> dict[str, Any]:
    """By path, the numbers that stand for the whole batch, such as its loss."""
    return {
        path: value
        for path, value in leaves(settled(outputs))
        if isinstance(value, (int, float)) or (_is_tensor(value) and value.dim() == 0)
    }


def compare_shapes(of_many: Any, of_one: Any, count: int, what: str) -> None:
    """Hold that what a batch of one gives has the shape of what ``count`` rows give, but for their number.

    Raises:
        CheckFailure: naming the first place where it has not.
    """
    many, one = dict(leaves(settled(of_many), what)), dict(leaves(settled(of_one), what))
    if list(many) != list(one):
        raise CheckFailure(
            f"{what} of a batch of one is built otherwise", expected=", ".join(many), actual=", ".join(one)
        )
    for path, value in many.items():
        wanted, found = _shape(value), _shape(one[path])
        alike = type(value) is type(one[path]) and len(found) == len(wanted) and found[1:] == wanted[1:]
        # The first dimension counts rows, or positions of all rows, or has nothing to do with the batch.
        if not (alike and (not wanted or found[0] in (wanted[0], wanted[0] // count))):
            shown = (wanted[0] // count, *wanted[1:]) if wanted and wanted[0] % count == 0 else wanted
            raise CheckFailure(
                f"{path} of a batch of one has another shape",
                expected=f"{_kind(value)} of shape {shown}",
                actual=f"{_kind(one[path])} of shape {found}",
            )


def _kind(value: Any) -> str:
    return "a tensor" if _is_tensor(value) else f"a {type(value).__name__}"


def _shape(value: Any) -> tuple[int, ...]:
    if hasattr(value, "shape"):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, list) else ()


def _length(value: Any) -> int:
    shape = _shape(value)
    return shape[0] if shape else -1


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "dim")

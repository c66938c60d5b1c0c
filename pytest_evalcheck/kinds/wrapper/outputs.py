"""The outputs of a forward and the inputs of a metric: copies to compare, and the values of single rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.expectations.ids import slug


def plain_copy(outputs: Any) -> Any:
    """A copy in plain containers that shares no memory; objects without known values become `Opaque`."""
    if isinstance(outputs, Raised) or outputs is None or isinstance(outputs, (bool, int, float, complex, str, bytes)):
        return outputs
    if _is_tensor(outputs):
        return outputs.detach().clone()
    if type(outputs).__module__ == "numpy":
        return outputs.copy() if hasattr(outputs, "copy") else outputs
    if isinstance(outputs, Mapping):
        return {key: plain_copy(value) for key, value in outputs.items()}
    if isinstance(outputs, (list, tuple)):
        return [plain_copy(value) for value in outputs]
    if dataclasses.is_dataclass(outputs):
        return {field.name: plain_copy(getattr(outputs, field.name)) for field in dataclasses.fields(outputs)}
    return Opaque(f"a {type(outputs).__name__}")


class Opaque(str):
    """The name of a type, in place of an object of an unknown type."""

    __slots__ = ()


def has_no_values(copied: Any) -> bool:
    """Return whether a `plain_copy` holds no value that could be compared."""
    return all(isinstance(value, Opaque) for _, value in leaves(copied))


def leaves(copied: Any, path: str = "outputs") -> Iterator[tuple[str, Any]]:
    """Every tensor, number and list of texts of a `plain_copy`, with its path."""
    if isinstance(copied, dict):
        for key, value in copied.items():
            yield from leaves(value, f"{path}[{key!r}]")
    elif isinstance(copied, list) and not all(isinstance(item, str) for item in copied):
        for i, value in enumerate(copied):
            yield from leaves(value, f"{path}[{i}]")
    elif copied is not None:
        yield path, copied


def rowwise(outputs: Any, count: int) -> dict[str, Sequence[Any]]:
    """Return the values with one entry for each of ``count`` rows, by path; others, such as a loss, are skipped."""
    return {path: value for path, value in leaves(plain_copy(outputs)) if _length(value) == count}


def row(outputs: Mapping[str, Sequence[Any]], index: int, *, of: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The entries of one row; with ``of``, only those at its paths."""
    return {path: value[index] for path, value in outputs.items() if of is None or path in of}


@dataclass(frozen=True, kw_only=True)
class PaddedOutputs:
    """The results for a padded batch: outputs with an entry for each row, and the values of the whole batch."""

    rows: Mapping[str, Sequence[Any]]
    batch: Mapping[str, Any]
    widths: tuple[int, ...]
    side: str

    def unpadded(self, index: int, lengths: Sequence[int] | None, other: PaddedOutputs) -> dict[str, Any]:
        """The outputs of one row; of outputs with a position for each column, only the positions of the row.

        ``other`` holds the results at other widths: an output whose size is equal to the number of rows, or of columns,
        in only one of both is so by coincidence.
        """
        values, others = row(self.rows, index, of=other.rows), row(other.rows, index, of=self.rows)
        for width, other_width, length in zip(self.widths, other.widths, lengths or self.widths, strict=True):
            real = slice(width - length, width) if self.side == "left" else slice(0, length)
            columns = [path for path, value in others.items() if _length(value) == other_width]
            values |= {path: values[path][real] for path in columns if _length(self.rows[path][index]) == width}
        return values


def scalars(outputs: Any) -> dict[str, Any]:
    """Return the numbers that belong to the whole batch, such as its loss, by path."""
    return {
        path: value
        for path, value in leaves(plain_copy(outputs))
        if isinstance(value, (int, float)) or (_is_tensor(value) and value.dim() == 0)
    }


def compare_shapes(of_many: Any, of_one: Any, count: int, what: str) -> None:
    """Compare the shapes for a batch of one with those for ``count`` rows, except for the number of rows.

    Raises:
        CheckFailure: with the path of the first difference.
    """
    many, one = dict(leaves(plain_copy(of_many), what)), dict(leaves(plain_copy(of_one), what))
    if list(many) != list(one):
        raise CheckFailure(
            f"{what} of a batch of one have another structure",
            expected=", ".join(many),
            actual=", ".join(one),
            id=f"{slug(what)}-structure",
        )
    for path, value in many.items():
        expected, actual = _shape(value), _shape(one[path])
        alike = type(value) is type(one[path]) and len(actual) == len(expected) and actual[1:] == expected[1:]
        # The first dimension counts rows, or positions of all rows, or is independent of the batch.
        if not (alike and (not expected or actual[0] in (expected[0], expected[0] // count))):
            divisible = expected and expected[0] % count == 0
            shown = (expected[0] // count, *expected[1:]) if divisible else expected
            raise CheckFailure(
                f"{path} of a batch of one has another shape",
                expected=f"{_kind(value)} of shape {shown}",
                actual=f"{_kind(one[path])} of shape {actual}",
                id=f"{slug(path)}-shape",
            )


class RecordingMetric:
    """A metric on a device that scores nothing: its value is a copy of the arguments of every update."""

    def __init__(self, device: str = "cpu") -> None:
        import torch

        self.device = torch.device(device)
        self._updates: list[Any] = []

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Record a copy of the arguments."""
        self._updates.append({**{str(i): plain_copy(arg) for i, arg in enumerate(args)}, **plain_copy(kwargs)})

    __call__ = forward = update

    def compute(self) -> Any:
        """The arguments of every update."""
        return list(self._updates)

    def reset(self) -> None:
        """Remove the recorded updates."""
        self._updates = []

    def to(self, *_: Any, **__: Any) -> RecordingMetric:
        """Do not move: the metric has no tensors of its own."""
        return self


def _kind(value: Any) -> str:
    return "a tensor" if _is_tensor(value) else f"a {type(value).__name__}"


def _shape(value: Any) -> tuple[int, ...]:
    if hasattr(value, "shape"):
        return tuple(value.shape)
    return (len(value),) if isinstance(value, list) else ()


def _length(value: Any) -> int:
    return next(iter(_shape(value)), -1)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "detach") and hasattr(value, "dim")

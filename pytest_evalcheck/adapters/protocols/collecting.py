"""Functions of all samples as metrics: batches are collected, and the function is called once on all of them."""

from __future__ import annotations

import copy
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.expectations.comparison import Tolerance, difference, only_scalars


class Collected:
    """The batches for a function of predictions and targets.

    Tensors and arrays are joined along their first dimension, lists and tuples end to end, dicts and tuples of these
    part by part. Anything else, such as a number or an option, must be the same in every batch.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._args: list[tuple[Any, ...]] = []
        self._kwargs: list[dict[str, Any]] = []

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Copy the arguments of a batch.

        Raises:
            TypeError: where other arguments were given before.
        """
        if self._args and (len(args), set(kwargs)) != (len(self._args[0]), set(self._kwargs[0])):
            raise TypeError(
                f"a batch of {_words(args, kwargs)}; the first one was of {_words(self._args[0], self._kwargs[0])}"
            )
        self._args.append(tuple(map(_copied, args)))
        self._kwargs.append({name: _copied(value) for name, value in kwargs.items()})

    def compute(self) -> Any:
        """The function of all samples.

        Raises:
            ValueError: where no batch was given.
        """
        if not self._args:
            raise ValueError("no batch was given to the function")
        args = tuple(_joined(f"argument {i + 1}", pieces) for i, pieces in enumerate(zip(*self._args, strict=True)))
        kwargs = {name: _joined(name, [each[name] for each in self._kwargs]) for name in self._kwargs[0]}
        # Joined once: a function that writes into its arguments gives another value the next time.
        self._args, self._kwargs = [args], [kwargs]
        value = called(self._function, *args, **kwargs)
        # What becomes of a result is not what becomes of the samples.
        if (held := {*_memory(value)}) and held & {*_memory((args, kwargs))}:
            self._args, self._kwargs = [_copied(args)], [{name: _copied(each) for name, each in kwargs.items()}]
        return value


def _words(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    positional = f"{len(args)} positional argument{'s' * (len(args) != 1)}"
    return f"{positional} and {', '.join(kwargs)}" if kwargs else positional


def _copied(value: Any) -> Any:
    if type(value) in (list, tuple):
        return type(value)(value if only_scalars(value) else map(_copied, value))
    if hasattr(value, "clone"):
        return value.clone()
    try:
        return copy.deepcopy(value)  # what is inside of a dict is the caller's, too
    except Exception:  # of an object that cannot be copied whole
        return copy.copy(value)


def _memory(value: Any, most: int = 8) -> Iterator[int]:
    """Yield where the memory of a value and its parts that can be written is, up to ``most`` in each other."""
    if isinstance(value, (list, tuple, dict)):
        yield from () if isinstance(value, tuple) else (id(value),)
        parts = [*value.values()] if isinstance(value, dict) else value
        for part in () if only_scalars(parts) or not most else parts:
            yield from _memory(part, most - 1)
    elif hasattr(value, "untyped_storage"):
        yield value.untyped_storage().data_ptr()
    elif hasattr(value, "__array_interface__"):
        whole = value if getattr(value, "base", None) is None else value.base
        yield whole.__array_interface__["data"][0] if hasattr(whole, "__array_interface__") else id(whole)
    elif hasattr(value, "__dict__"):
        yield id(value)
        yield from (place for part in (vars(value).values() if most else ()) for place in _memory(part, most // 2))


def _joined(name: str, pieces: Sequence[Any]) -> Any:
    parts = _parts(pieces[0])
    if parts is not None and all(type(each) is type(pieces[0]) and len(each) == len(parts) for each in pieces):
        inside = [_joined(f"{name}[{key!r}]", [each[key] for each in pieces]) for key in parts]
        return dict(zip(parts, inside, strict=True)) if isinstance(pieces[0], dict) else tuple(inside)
    # An empty list or array has another dtype than the others.
    filled = [piece for piece in pieces if count_rows(piece) != 0] or pieces[:1]
    first = filled[0]
    if len(filled) == 1:
        return first
    if count_rows(first) is None:
        if any(type(piece) is not type(first) or difference(piece, first, Tolerance()) is not None for piece in filled):
            raise ValueError(f"{name} differs between batches: {first!r} and others; expected the same in every one")
        return first
    if isinstance(first, (list, tuple)):
        return type(first)(value for piece in filled for value in piece)
    if len({tuple(getattr(piece, "shape", ()))[1:] for piece in filled}) > 1:
        shapes = ", ".join(str(tuple(piece.shape)) for piece in filled[:3])
        raise ValueError(f"{name} has the shapes {shapes} in different batches, which cannot be joined")
    if hasattr(first, "clone"):
        import torch

        return torch.cat(filled)
    home = type(first).__module__.partition(".")[0]
    if home == "xarray":
        return importlib.import_module(home).concat(filled, dim=first.dims[0])
    if home == "pandas":
        # Else its rows have names.
        places = all((getattr(each.index, "start", 1), getattr(each.index, "step", 0)) == (0, 1) for each in filled)
        return importlib.import_module(home).concat(filled, ignore_index=places)
    import numpy

    return numpy.concatenate(filled)


def _parts(value: Any) -> list[Any] | None:
    """Return the keys of a dict, or the places of a tuple of lists and arrays, whose parts have the rows; else None."""
    if type(value) is dict and any(count_rows(each) is not None or _parts(each) for each in value.values()):
        return [*value]
    of_rows = type(value) is tuple and value and all(count_rows(each) is not None for each in value)
    return [*range(len(value))] if of_rows else None


def count_rows(value: Any) -> int | None:
    """The number of rows; None for a value that has none."""
    if hasattr(value, "shape"):
        return int(value.shape[0]) if len(value.shape) else None
    return len(value) if isinstance(value, (list, tuple)) else None

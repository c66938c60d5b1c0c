"""One data set, cut into batches in hostile ways, as loaders for ordinary tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference, show
from pytest_evalcheck.expectations.failures import CheckFailure

WHOLE = "one batch"
_PAIR = 2


@dataclass(frozen=True)
class Stream:
    """A data set in one cut."""

    name: str
    batches: tuple[tuple[int, ...], ...]
    """The plan: the indices of the samples of every batch."""
    loader: Any = field(repr=False)
    """A ``torch.utils.data.DataLoader`` over the data set."""
    passes: int = 1
    """How often `Streams.agree` evaluates it."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.batches)


@dataclass(frozen=True)
class Streams:
    """A data set in several cuts, the first of them whole."""

    all: tuple[Stream, ...]
    left_out: Mapping[str, str]
    """The cuts that were not made, and why."""

    def __iter__(self) -> Iterator[Stream]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, name: str) -> Stream:
        for stream in self.all:
            if stream.name == name:
                return stream
        why = f"; it was left out: {self.left_out[name]}" if name in self.left_out else ""
        raise KeyError(f"no stream {name!r}{why}; there are {', '.join(stream.name for stream in self.all)}")

    def agree(self, evaluate: Callable[[Any], Any], *, tolerance: Tolerance | None = None) -> Any:
        """Hold that ``evaluate(loader)`` gives on every stream the value of the whole, and return that.

        Raises `CheckFailure` with the stream, its plan and both values; a stream on which alone ``evaluate`` raises is
        one too. What it raises on all of them is raised as it is.
        """
        if not callable(evaluate):
            raise TypeError(
                f"evaluate is {show(evaluate)}; expected a function that takes a loader and returns a value"
            )
        if tolerance is not None and not isinstance(tolerance, Tolerance):
            raise TypeError(f"tolerance={tolerance!r}; expected Tolerance(rtol=..., atol=...)")
        tried = [
            _Tried(stream, number, _value(evaluate, stream)) for stream in self.all for number in range(stream.passes)
        ]
        reference = next((one for one in tried if not isinstance(one.value, Raised)), None)
        if reference is None:
            raise tried[0].value.error
        tolerance = tolerance or Tolerance()
        broken = [one for one in tried if difference(one.value, reference.value, tolerance) is not None]
        if broken:
            raise _violation(broken, reference, tolerance)
        return reference.value


class _Tried(NamedTuple):
    stream: Stream
    number: int
    value: Any


def streams(
    dataset: Any, collate_fn: Callable[[Sequence[Any]], Any] | None = None, *, order_matters: bool = False
) -> Streams:
    """One data set as loaders that cut it in hostile ways.

    ``dataset`` is map-style: ``dataset[i]`` for ``i`` below ``len(dataset)``, which may be a list. ``collate_fn`` is
    the loader's. With ``order_matters`` the samples stay in order: for an evaluation that returns one result a sample.
    """
    count = _length(dataset)
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError(f"collate_fn is {show(collate_fn)}; expected a function of a list of samples, or None")
    from torch.utils.data import DataLoader, default_collate

    collate = default_collate if collate_fn is None else collate_fn
    made: dict[str, Stream] = {}
    left_out: dict[str, str] = {}
    for name, plan in _plans(count).items():
        twin = next((stream.name for stream in made.values() if stream.batches == plan), None)
        if twin is not None:
            left_out[name] = f"with {_samples(count)} it is {twin!r}"
        elif order_matters and name in _MOVED:
            left_out[name] = "order_matters=True"
        elif () in plan and (refusal := _refusal(collate)):
            left_out[name] = f"collate_fn does not take an empty batch: {refusal}"
        else:
            made[name] = Stream(name, plan, DataLoader(dataset, batch_sampler=_Plan(plan), collate_fn=collate))
    plan = _sized(range(count), [_PAIR] * count)
    cached = DataLoader(_Cached(dataset, collate), batch_size=None, sampler=_Plan(plan), collate_fn=_as_it_is)
    made["cached batches"] = Stream("cached batches", plan, cached, passes=2)
    return Streams(tuple(made.values()), left_out)


_MOVED = ("reversed", "shuffled")


def _plans(count: int) -> dict[str, tuple[tuple[int, ...], ...]]:
    order = list(range(count))
    mixed = random.Random(count).sample(order, count)
    size = next((size for size in range(2, count) if count % size == 1), 1)
    half = count // 2
    growing = list(range(1, count + 1))
    return {
        WHOLE: (tuple(order),),
        "batches of one": _sized(order, [1] * count),
        "last batch of one": _sized(order, [size] * count),
        "uneven batches": _sized(order, growing),
        "large batch first": (tuple(order[:-1]), tuple(order[-1:])) if count > 1 else ((0,),),
        "empty batch between": (tuple(order[:half]), (), tuple(order[half:])) if half else ((), (0,)),
        "reversed": _sized(order[::-1], [_PAIR] * count),
        "shuffled": _sized(mixed, growing),
    }


def _sized(order: Sequence[int], sizes: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    plan, start = [], 0
    for size in sizes:
        if start >= len(order):
            break
        plan.append(tuple(order[start : start + size]))
        start += size
    return tuple(plan)


class _Plan:
    """A sampler of whole batches, which knows how often it was read."""

    def __init__(self, batches: tuple[tuple[int, ...], ...]) -> None:
        self._batches, self.read = batches, 0

    def __iter__(self) -> Iterator[list[int]]:
        self.read += 1
        return iter([list(batch) for batch in self._batches])

    def __len__(self) -> int:
        return len(self._batches)


class _Cached:
    """The data set, read by batches that are made once."""

    def __init__(self, dataset: Any, collate: Callable[[Sequence[Any]], Any]) -> None:
        self._dataset, self._collate = dataset, collate
        self._batches: dict[tuple[int, ...], Any] = {}

    def __getitem__(self, batch: list[int]) -> Any:
        key = tuple(batch)
        if key not in self._batches:
            self._batches[key] = self._collate([self._dataset[i] for i in batch])
        return self._batches[key]

    def __len__(self) -> int:
        return len(self._dataset)


def _as_it_is(batch: Any) -> Any:
    return batch


def _value(evaluate: Callable[[Any], Any], stream: Stream) -> Any:
    plan = stream.loader.batch_sampler or stream.loader.sampler
    before = plan.read
    try:
        value = evaluate(stream.loader)
    except Exception as error:
        return Raised(error, "evaluate")
    if value is None:
        raise TypeError("evaluate returned None; expected the value that it worked out")
    if plan.read == before:
        raise CheckFailure(
            "evaluate did not read its loader",
            expected=f"a value of {stream.name!r}",
            actual=f"{show(value)}, without it",
        )
    return value


def _violation(broken: list[_Tried], reference: _Tried, tolerance: Tolerance) -> CheckFailure:
    stream, number, value = broken[0]
    over = f"{stream.name!r}{', the second time' if number else ''}"
    found = difference(value, reference.value, tolerance)
    assert found is not None
    names = list(dict.fromkeys(tried.stream.name for tried in broken))
    detail = [f"batches={show([list(batch) for batch in stream.batches])}"]
    detail += [f"also over {', '.join(map(repr, names[1:]))}"] if names[1:] else []
    if set(names) <= set(_MOVED):
        detail.append("for results of one a sample, order_matters=True keeps the samples in order")
    about = f"evaluate raised over {over}" if isinstance(value, Raised) else f"the value over {over}"
    made = CheckFailure(
        about + (f" at {found.path}" if found.path else ""),
        expected=f"{found.expected}, as over {reference.stream.name!r}",
        actual=found.actual + (f" (and {found.more} more)" if found.more else ""),
        detail="\n".join(detail),
    )
    made.__cause__ = value.error if isinstance(value, Raised) else None
    return made


def _refusal(collate: Callable[[Sequence[Any]], Any]) -> str:
    try:
        collate([])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _length(dataset: Any) -> int:
    from torch.utils.data import IterableDataset

    what = f"dataset is of type {type(dataset).__name__}"
    expected = "expected dataset[i] and len(dataset), such as list(dataset)"
    unfit = (Mapping, str, bytes, IterableDataset)
    if isinstance(dataset, unfit) or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"{what}, which cannot be cut again and again; {expected}")
    try:
        count = len(dataset)
    except TypeError as error:
        raise TypeError(f"{what} without a length; {expected}") from error
    if count == 0:
        raise ValueError("the data set is empty; expected at least one sample, of which batches can be made")
    return count


def _samples(count: int) -> str:
    return "one sample" if count == 1 else f"{count} samples"

"""One data set in several batchings, as loaders for ordinary tests."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference, show
from pytest_evalcheck.expectations.failures import CheckFailure

Plan = tuple[tuple[int, ...], ...]
"""The indices of the samples of every batch."""
WHOLE = "one batch"
_PAIR = 2
_REORDERED = ("reversed", "shuffled")


@dataclass(frozen=True)
class Batching:
    """A data set in one batching."""

    name: str
    batches: Plan
    loader: Any = field(repr=False)
    """A ``torch.utils.data.DataLoader`` over the data set."""
    passes: int = 1
    """Number of times that `Batchings.agree` evaluates it."""

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.batches)


@dataclass(frozen=True)
class Batchings:
    """A data set in several batchings, the first of them one batch of all samples."""

    all: tuple[Batching, ...]
    skipped: Mapping[str, str]
    """The reason for each batching that was not created, by name."""

    def __iter__(self) -> Iterator[Batching]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, name: str) -> Batching:
        for batching in self.all:
            if batching.name == name:
                return batching
        why = f"; it was skipped: {self.skipped[name]}" if name in self.skipped else ""
        raise KeyError(f"no batching {name!r}{why}; there are {', '.join(batching.name for batching in self.all)}")

    def agree(self, evaluate: Callable[[Any], Any], *, tolerance: Tolerance | None = None) -> Any:
        """Compare the value of ``evaluate(loader)`` for every batching with that for one batch, and return the latter.

        An error that ``evaluate`` raises for every batching is raised unchanged.

        Raises:
            CheckFailure: with the batching, its batches and both values, where they differ, or where ``evaluate``
                raises for some batchings only, or does not read its loader.
            TypeError: where ``evaluate`` is not callable or returns None, or ``tolerance`` is no `Tolerance`.
        """
        if not callable(evaluate):
            raise TypeError(
                f"evaluate is {show(evaluate)}; expected a function that takes a loader and returns a value"
            )
        if tolerance is not None and not isinstance(tolerance, Tolerance):
            raise TypeError(f"tolerance={tolerance!r}; expected Tolerance(rtol=..., atol=...)")
        results = [_Result(b, number, _value(evaluate, b)) for b in self.all for number in range(b.passes)]
        reference = next((result for result in results if not isinstance(result.value, Raised)), None)
        if reference is None:
            raise results[0].value.error
        tolerance = tolerance or Tolerance()
        failed = [result for result in results if difference(result.value, reference.value, tolerance) is not None]
        if failed:
            raise _failure(failed, reference, tolerance)
        return reference.value


class _Result(NamedTuple):
    batching: Batching
    number: int
    value: Any


def batchings(
    dataset: Any, collate_fn: Callable[[Sequence[Any]], Any] | None = None, *, order_matters: bool = False
) -> Batchings:
    """Return one data set as loaders with adversarial batches: of one sample, uneven, empty, reordered, cached.

    ``dataset`` is map-style: ``dataset[i]`` for ``i`` below ``len(dataset)``, which may be a list. ``collate_fn`` is
    that of the loader. With ``order_matters`` the samples stay in order: for an evaluation with one result per sample.

    Raises:
        TypeError: where ``dataset`` is not map-style, or ``collate_fn`` is not callable.
        ValueError: where ``dataset`` is empty.
    """
    count = _length(dataset)
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError(f"collate_fn is {show(collate_fn)}; expected a function of a list of samples, or None")
    from torch.utils.data import DataLoader, default_collate

    collate = default_collate if collate_fn is None else collate_fn
    created: dict[Plan, Batching] = {}
    skipped: dict[str, str] = {}
    for name, plan in _plans(count).items():
        if plan in created:
            samples = "one sample" if count == 1 else f"{count} samples"
            skipped[name] = f"with {samples} it is {created[plan].name!r}"
        elif order_matters and name in _REORDERED:
            skipped[name] = "order_matters=True"
        elif () in plan and (refusal := _refusal(collate)):
            skipped[name] = f"collate_fn does not take an empty batch: {refusal}"
        else:
            loader = DataLoader(dataset, batch_sampler=_BatchSampler(plan), collate_fn=collate)
            created[plan] = Batching(name, plan, loader)
    plan = _split(range(count), [_PAIR] * count)
    cached = DataLoader(
        _CachedBatches(dataset, collate), batch_size=None, sampler=_BatchSampler(plan), collate_fn=_unchanged
    )
    return Batchings((*created.values(), Batching("cached batches", plan, cached, passes=2)), skipped)


def _plans(count: int) -> dict[str, Plan]:
    order = list(range(count))
    shuffled = random.Random(count).sample(order, count)
    size = next((size for size in range(2, count) if count % size == 1), 1)
    half = count // 2
    growing = list(range(1, count + 1))
    return {
        WHOLE: (tuple(order),),
        "batches of one": _split(order, [1] * count),
        "last batch of one": _split(order, [size] * count),
        "uneven batches": _split(order, growing),
        "large batch first": (tuple(order[:-1]), tuple(order[-1:])) if count > 1 else ((0,),),
        "empty batch between": (tuple(order[:half]), (), tuple(order[half:])) if half else ((), (0,)),
        "reversed": _split(order[::-1], [_PAIR] * count),
        "shuffled": _split(shuffled, growing),
    }


def _split(order: Sequence[int], sizes: Sequence[int]) -> Plan:
    batches, start = [], 0
    for size in sizes:
        if start >= len(order):
            break
        batches.append(tuple(order[start : start + size]))
        start += size
    return tuple(batches)


class _BatchSampler:
    """A sampler of whole batches that counts how often it was read."""

    def __init__(self, batches: Plan) -> None:
        self._batches, self.reads = batches, 0

    def __iter__(self) -> Iterator[list[int]]:
        self.reads += 1
        return iter([list(batch) for batch in self._batches])

    def __len__(self) -> int:
        return len(self._batches)


class _CachedBatches:
    """The data set by batches; each is collated once and returned again."""

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


def _unchanged(batch: Any) -> Any:
    return batch


def _value(evaluate: Callable[[Any], Any], batching: Batching) -> Any:
    sampler = batching.loader.batch_sampler or batching.loader.sampler
    before = sampler.reads
    try:
        value = evaluate(batching.loader)
    except Exception as error:
        return Raised(error, "evaluate")
    if value is None:
        raise TypeError("evaluate returned None; expected the value that it computed")
    if sampler.reads == before:
        raise CheckFailure(
            "evaluate did not read its loader",
            expected=f"a value of {batching.name!r}",
            actual=f"{show(value)}, without it",
        )
    return value


def _failure(failed: list[_Result], reference: _Result, tolerance: Tolerance) -> CheckFailure:
    batching, number, value = failed[0]
    over = f"{batching.name!r}{', the second time' if number else ''}"
    line = difference(value, reference.value, tolerance)
    assert line is not None
    names = list(dict.fromkeys(result.batching.name for result in failed))
    detail = [f"batches={show([list(batch) for batch in batching.batches])}"]
    detail += [f"also over {', '.join(map(repr, names[1:]))}"] if names[1:] else []
    if set(names) <= set(_REORDERED):
        detail.append("for one result per sample, order_matters=True keeps the samples in order")
    about = f"evaluate raised over {over}" if isinstance(value, Raised) else f"the value over {over}"
    failure = CheckFailure(
        about + (f" at {line.path}" if line.path else ""),
        expected=f"{line.expected}, as over {reference.batching.name!r}",
        actual=line.actual + (f" (and {line.more} more)" if line.more else ""),
        detail="\n".join(detail),
    )
    failure.__cause__ = value.error if isinstance(value, Raised) else None
    return failure


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
    if isinstance(dataset, (Mapping, str, bytes, IterableDataset)) or not hasattr(dataset, "__getitem__"):
        raise TypeError(f"{what}, which cannot be indexed by sample; {expected}")
    try:
        count = len(dataset)
    except TypeError as error:
        raise TypeError(f"{what} without a length; {expected}") from error
    if count == 0:
        raise ValueError("the data set is empty; expected at least one sample")
    return count

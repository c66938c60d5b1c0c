"""Samples and how they become a batch: collated, padded and in a container.

A `SampleStrategy` is all that the author of a target writes about data. The checks derive everything adversarial
(splits, shards, permutations, empty batches, ignored rows, malformed batches, other dtypes) from it.
"""

from __future__ import annotations

import copy
import itertools
import math
import unittest
from collections import OrderedDict, UserDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, make_dataclass, replace
from functools import cache, cached_property, lru_cache
from typing import Any, Literal

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.strategies.arguments import Arguments as Arguments
from pytest_evalcheck.strategies.arguments import (
    Changed,
    Names,
    Packed,
    Tensors,
    swapped,
    to_array,
    to_float,
    to_list,
    which_arguments,
)

Sample = Any
"""One row as plain Python: numbers, strings, None, and tuples, lists or dicts of them."""
Side = Literal["right", "left"]
OF_TYPES = "the types of its parameters say"
"""Source of samples that are values of types."""


@dataclass(frozen=True, kw_only=True)
class SampleStrategy:
    """A strategy of one sample and its collate, with what else is known about such samples.

    Only ``name``, ``sample`` and ``collate`` are required. Each of the other fields enables checks that need it; where
    it is None those checks are reported as not applicable.
    """

    name: str
    sample: st.SearchStrategy[Sample]
    collate: Callable[[Sequence[Sample]], Any]
    """From samples to the arguments of ``update``: a tuple of its positional arguments, or a dict of keyword arguments;
    for a scorer ``(responses, documents)``. Tensors are created on the CPU. The empty batch, ``collate([])``, is
    collated too."""
    min_samples: int = 1
    """The fewest samples for which the value is defined, e.g. 2 for a correlation."""
    distinct: Callable[[Sample], Hashable] | None = None
    """Key that may not occur twice in one case, e.g. the score of a candidate: a tie has no right order."""
    ignored: st.SearchStrategy[Sample] | None = None
    """Samples that must not count, e.g. with the label ``ignore_index``."""
    partly_ignored: st.SearchStrategy[tuple[Sample, Sample]] | None = None
    """Pairs of samples that must count alike: one with positions that must not count among others, and the same one
    without these positions, or with other predictions there. The first ones of all pairs fit into one batch, and so do
    the second ones."""
    right: Callable[[Sample], Sample] | None = None
    """The same sample with a perfect prediction."""
    wrong: Callable[[Sample], Sample] | None = None
    """The same sample with the worst prediction."""
    contrast: tuple[Sample, ...] = ()
    """Samples for which right and wrong predictions must have different values, e.g. some of every class."""
    corrupted: Callable[[Sample, float], Sample] | None = None
    """The same sample with a number replaced by the given non-finite one."""
    nonfinite: tuple[float, ...] = (float("nan"),)
    """The non-finite numbers that are not legitimate input: minus infinity is a common masked logit."""
    bulk: Callable[[Bulk], Sequence[Sample]] | None = None
    """Many samples from a seed and the parameters of a distribution."""
    unit: float = 0.0
    """The size of numbers that are bounded, such as 1 for probabilities: rounding one of them changes a difference
    of two by that much, however small the difference is. 0 where the data has no such bound."""
    integers: bool = False
    """True if the numbers of a sample may also arrive as integer tensors (uint8 images, int32 counts)."""
    numbered: Callable[[Sample, int], Sample] | None = None
    """The same sample with the number of its group, such as a query, multiplied: which samples share one stays so."""
    padding: Padding | None = None
    """Padding of samples of unequal length."""
    containers: tuple[str, ...] = ("dict",)
    """The containers in which a dict of fields may arrive, names of `CONTAINERS`."""
    labels: str = "labels"
    """The field of a batch that holds the labels."""
    similar: Callable[[Sample], Sample] | None = None
    """Another sample that looks the same to code which reads a part of it: the same question with another answer, the
    ids of a prompt in another order."""
    odd: st.SearchStrategy[Sample] | None = None
    """Samples with a response that is empty, None or missing, as models return them."""
    observed: str = ""
    """Source of samples that nobody wrote, such as "your tests use": a failure with other data says so."""

    @property
    def is_guessed(self) -> bool:
        """Return whether nobody wrote or gave the samples: they are values of the types of parameters."""
        return self.observed == OF_TYPES

    def __post_init__(self) -> None:
        if not isinstance(self.sample, st.SearchStrategy):
            raise TypeError(f"{self.name}: sample must be a Hypothesis strategy, got {self.sample!r}")
        for name, expected in _FUNCTIONS.items():
            value = getattr(self, name)
            missing = value is None and name != "collate"
            if not missing and (not callable(value) or isinstance(value, st.SearchStrategy)):
                raise TypeError(f"{self.name}: {name} must be a function, {expected}, got {value!r}")
        for name in ("ignored", "partly_ignored", "odd"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, st.SearchStrategy):
                what = "two samples" if name == "partly_ignored" else "one sample"
                raise TypeError(f"{self.name}: {name} must be a Hypothesis strategy of {what}, got {value!r}")
        _check_containers(self.containers)

    def rows(self, *, min_size: int = 0, max_size: int = 6) -> st.SearchStrategy[list[Sample]]:
        """Lists of samples: any, constant (one sample repeated), or of few kinds (absent classes)."""
        most = max(min_size, max_size)
        # What Hypothesis draws for one case is limited, to some rows of a thousand numbers; an index is small.
        sample = st.sampled_from(self.fixed(max(_FIXED, most))) if self._is_large else self.sample
        if self.distinct is not None:
            return st.lists(sample, min_size=min_size, max_size=most, unique_by=self.distinct)
        return _lists(sample, min_size, max_size)

    @cached_property
    def _is_large(self) -> bool:
        return max(map(_count_values, self.fixed(1))) > _LARGE

    def fixed(self, count: int) -> list[Sample]:
        """``count`` samples that are the same in every run, on every machine: what canonical cases are made of.

        They differ from each other as far as the strategy of one sample allows it, and those of a smaller ``count``
        come first. Every fourth one, from the first on, has a right prediction, and every fourth one, from the third
        on, a wrong one, where such are known: predictions that are drawn alone may all be as bad as each other.

        Raises:
            ValueError: where the strategy does not draw so many different samples as ``distinct`` asks for.
        """
        samples = self._fixed.get(size := max(_FIXED, 2 * count)) or self._fixed.setdefault(size, self._varied(size))
        if self.distinct is not None and len(samples) < count:
            raise ValueError(f"{self.name}: {len(samples)} different samples were drawn, {count} are needed")
        return [copy.deepcopy(samples[i % len(samples)]) for i in range(count)]

    @cached_property
    def _fixed(self) -> dict[int, list[Sample]]:
        return {}

    def _varied(self, size: int) -> list[Sample]:
        predictions = {0: self.right, 2: self.wrong}
        found: dict[Hashable, Sample] = {}
        for drawn in self._drawn(size, found):
            change = predictions.get(len(found) % 4)
            changed = drawn if change is None else change(drawn)
            if self.distinct is not None and self.distinct(changed) != self.distinct(drawn):
                changed = drawn  # the prediction is what must be distinct
            found.setdefault(repr(changed) if self.distinct is None else self.distinct(changed), changed)
        return list(found.values())

    def _drawn(self, size: int, found: dict[Hashable, Sample]) -> Iterator[Sample]:
        yield from copy.deepcopy(_drawn_once(self.sample, size, 0))
        if 2 * len(found) < size:  # a strategy of few samples: chance may have left one of them out
            yield from copy.deepcopy(_drawn_once(self.sample, 4 * size, 1))

    @property
    def fixed_ignored(self) -> list[Sample]:
        """Some samples that must not count, the same in every run; empty where there is no such sample."""
        return [] if self.ignored is None else drawn_with_seed(self.ignored, count=3, seed=0)

    def fixed_partly_ignored(self, count: int) -> list[tuple[Sample, Sample]]:
        """``count`` pairs of ``partly_ignored``, the same in every run; none where there is no such pair."""
        return [] if self.partly_ignored is None else drawn_with_seed(self.partly_ignored, count=count, seed=0)

    def replace(self, **changes: Any) -> SampleStrategy:
        """Return a copy with some fields changed, e.g. ``es.multiclass(classes=5).replace(min_samples=2)``."""
        return replace(self, **changes)

    def with_nan(self) -> SampleStrategy:
        """The same samples, every fourth of them with a NaN: for a metric with an option that says what one counts.

        That a NaN leaves no trace is meant there (``corrupted`` is None), and no NaN can arrive as an integer.

        >>> from pytest_evalcheck import strategies as es
        >>> bool(es.values().with_nan().example(9)[0].isnan().any())
        True

        Raises:
            ValueError: where these samples have no number that may be a NaN (``corrupted`` is None).
        """
        corrupted = self.corrupted
        if corrupted is None:
            raise ValueError(f"{self.name}: with_nan() needs samples with a number that may be a NaN")
        holed = self.sample.map(lambda sample: corrupted(sample, math.nan))
        sample = st.one_of(self.sample, self.sample, self.sample, holed)
        return self.replace(sample=sample, corrupted=None, integers=False)

    def example(self, count: int = 4) -> Any:
        """The collated batch of ``count`` samples that are the same in every run: what a target receives.

        >>> from pytest_evalcheck import strategies as es
        >>> preds, target = es.multiclass(classes=3, of="logits").example(2)
        >>> preds.shape, target.dtype
        (torch.Size([2, 3]), torch.int64)

        Raises:
            ValueError: where ``count`` is negative, or more than there are different samples.
        """
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError(f"example({count!r}): expected a number of samples, at least 0")
        return self.collate(self.fixed(count))

    def named(self, *names: str, **others: str) -> SampleStrategy:
        """The same samples with names for the arguments: positional ones become keyword arguments.

        A strategy that collates a dict gets other names for its fields, all of them in their order, or some by keyword.

        >>> from pytest_evalcheck import strategies as es
        >>> sorted(es.regression().named("y_pred", "y_true").example(2))
        ['y_pred', 'y_true']
        >>> list(es.retrieval().named(indexes="queries").example(2))
        ['preds', 'target', 'queries']

        Raises:
            TypeError: where a name is no text.
            ValueError: where there is no name, where one is given twice, or where both forms are mixed. Where the names
                do not fit the batch, the collate raises it.
        """
        change = Names.of(names, others, self.labels)
        return self._collated(change).replace(labels=others.get(self.labels, self.labels))

    def swapped(self) -> SampleStrategy:
        """The same samples with the first two positional arguments exchanged: ``(target, preds)``.

        >>> from pytest_evalcheck import strategies as es
        >>> target, preds = es.binary().swapped().example(3)
        >>> target.dtype, preds.dtype
        (torch.int64, torch.float32)

        The collate raises a ValueError where there are no two positional arguments.
        """
        return self._collated(swapped)

    def packed(self, *layout: int | Mapping[str, int]) -> SampleStrategy:
        """The same samples with their positional arguments in another layout: by themselves, or together in a dict.

        Each of ``layout`` is the place of an argument, counted from 0, or a dict from names to places.

        >>> from pytest_evalcheck import strategies as es
        >>> preds, target = es.regression().packed(0, {"size": 1}).example(2)
        >>> list(target), preds.shape == target["size"].shape
        (['size'], True)

        Raises:
            TypeError: where one is neither a place nor a dict of places. Where there is no such argument, the collate
                raises a ValueError.
        """
        return self._collated(Packed.of(layout))

    def as_float(self, *which: int | str) -> SampleStrategy:
        """The same samples with integer tensors in float32, such as labels for a loss: in all arguments, or in some.

        ``which`` are places of arguments, counted from 0, or their names. Booleans stay as they are. Such samples do
        not arrive as integers (``integers`` is False).

        >>> from pytest_evalcheck import strategies as es
        >>> [tensor.dtype for tensor in es.binary(of="labels").as_float(1).example(2)]
        [torch.int64, torch.float32]

        Raises:
            TypeError: where one of ``which`` is neither a place nor a name.
            ValueError: where a place is negative. Where there is no such argument, the collate raises it.
        """
        change = Tensors("as_float", to_float, which_arguments("as_float", which))
        return self._collated(change).replace(integers=False)

    def as_numpy(self) -> SampleStrategy:
        """The same samples with NumPy arrays where there were tensors.

        Checks that cast tensors to other dtypes do not apply (``bulk`` is None and ``integers`` is False).

        >>> from pytest_evalcheck import strategies as es
        >>> [type(argument).__name__ for argument in es.regression().as_numpy().example(2)]
        ['ndarray', 'ndarray']
        """
        return self._collated(Tensors("as_numpy", to_array)).replace(bulk=None, integers=False)

    def as_list(self) -> SampleStrategy:
        """The same samples with lists of Python numbers where there were tensors.

        Checks that cast tensors to other dtypes do not apply (``bulk`` is None and ``integers`` is False).

        >>> from pytest_evalcheck import strategies as es
        >>> [type(argument).__name__ for argument in es.multiclass(classes=3).as_list().example(2)]
        ['list', 'list']
        """
        return self._collated(Tensors("as_list", to_list)).replace(bulk=None, integers=False)

    def _collated(self, change: Callable[[Any], Any]) -> SampleStrategy:
        """A copy whose batches are changed, at every width where they are padded."""
        padding = self.padding and replace(self.padding, collate=Changed(self.padding.collate, change))
        return replace(self, collate=Changed(self.collate, change), padding=padding)


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """Many samples as a seed and the parameters of a distribution, for checks of size and precision."""

    seed: int
    rows: int
    scale: float = 1.0
    offset: float = 0.0
    drift: float = 0.0
    """Distance by which the mean moves from the first row to the last, in units of ``scale``."""


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Collation of samples of unequal length, to widths and with padding on a side that the checks choose."""

    widths: Callable[[Sequence[Sample]], tuple[int, ...]]
    """The smallest widths that hold these samples, one for each length that a sample has: (source, target) for a
    sequence-to-sequence model."""
    collate: Callable[[Sequence[Sample], Side, tuple[int, ...]], Any]
    """The batch of the samples at these widths."""
    sides: tuple[Side, ...] = ("right",)
    """The sides that the model supports. On the left, absolute positions need ``position_ids``."""
    lengths: Callable[[Sample], tuple[int, ...]] | None = None
    """Number of positions of outputs belong to the sample, one number for each width; None where a sample has one
    output."""
    blank: Sample = None
    """A sample of padding only, whose labels are ignored; None where there is no such sample."""

    def least(self, samples: Sequence[Sample]) -> Any:
        """The batch of the samples with no more padding than they need, on the first side."""
        return self.collate(samples, self.sides[0], self.widths(samples))


def padded(row: Sequence[Any], side: Side, width: int, fill: Any) -> list[Any]:
    """One row at a width."""
    space = [fill] * (width - len(row))
    return [*row, *space] if side == "right" else [*space, *row]


def _batch_encoding(fields: Mapping[str, Any]) -> Any:
    from transformers import BatchEncoding

    return BatchEncoding(dict(fields))


_dataclass = cache(lambda names: make_dataclass("Batch", names))

CONTAINERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "UserDict": lambda fields: UserDict(dict(fields)),
    "BatchEncoding": _batch_encoding,
    "dataclass": lambda fields: _dataclass(tuple(fields))(**fields),
    "tuple": lambda fields: tuple(fields.values()),
    "list": lambda fields: list(fields.values()),
    "nested": lambda fields: {
        "inputs": {name: value for name, value in fields.items() if name != "labels"},
        **({"labels": fields["labels"]} if "labels" in fields else {}),
    },
}
"""The mappings and records that loaders of real libraries return, by name: from the fields of a batch to the batch.
``nested`` is ``{"inputs": {...}, "labels": ...}``."""


MAPPINGS = frozenset({"dict", "OrderedDict", "UserDict", "BatchEncoding", "nested"})
"""Members of `CONTAINERS` whose batches are read by name, so that one may hold another."""


def to_container(batch: Any, container: str) -> Any:
    """The fields of a batch in another container; a batch that is no dict is returned as it is."""
    return CONTAINERS[container](batch) if isinstance(batch, dict) else batch


def _check_containers(containers: tuple[str, ...]) -> None:
    if isinstance(containers, str) or not containers:
        raise ValueError(f"containers={containers!r}; expected a tuple of {', '.join(CONTAINERS)}")
    for name in containers:
        if name not in CONTAINERS:
            hint = nearest(str(name), CONTAINERS)
            raise ValueError(f"container {name!r} is none of {', '.join(CONTAINERS)}{hint}")


_FIXED = 12
"""Number of samples are drawn at least where some are asked for that are the same in every run."""


_LARGE = 200
"""Samples of more values than this are not drawn value by value, but from some that are the same in every run."""


def _count_values(sample: Sample) -> int:
    if isinstance(sample, Mapping):
        return sum(map(_count_values, sample.values()))
    return sum(map(_count_values, sample)) if isinstance(sample, (list, tuple)) else 1


def samples(
    sample: st.SearchStrategy[Sample],
    *,
    collate: Callable[[Sequence[Sample]], Any],
    name: str = "samples",
    **more: Any,
) -> SampleStrategy:
    """Samples of your own: a strategy of one row, and how rows become a batch.

    >>> from hypothesis import strategies as st
    >>> from pytest_evalcheck import strategies as es
    >>> losses = es.samples(st.integers(0, 9), collate=lambda rows: ([float(row) for row in rows],))
    >>> losses.collate([1, 2])
    ([1.0, 2.0],)
    """
    return SampleStrategy(name=name, sample=sample, collate=collate, **more)


_FUNCTIONS = {
    "collate": "from a list of samples to a batch",
    "distinct": "from a sample to what may not occur twice",
    "right": "from a sample to the same one with a perfect prediction",
    "wrong": "from a sample to the same one with the worst prediction",
    "similar": "from a sample to another one that looks the same in part",
    "corrupted": "from a sample and a number to the same one with this number in it",
    "bulk": "from a distribution to samples",
    "numbered": "from a sample and a factor to the same one in a group whose number is multiplied by it",
}


class _TooLarge(unittest.SkipTest):
    """Hypothesis lets it through at once."""


_TRIES = 2
"""Number of times that a list of values is begun before fewer of them are drawn at once."""


@lru_cache(maxsize=128)
def _drawn_once(strategy: st.SearchStrategy[Any], count: int, seed: int) -> tuple[Any, ...]:
    """Drawing takes longer than all else: strategies that differ in how they collate share what is drawn."""
    return tuple(drawn_with_seed(strategy, count=count, seed=seed))


def drawn_with_seed(strategy: st.SearchStrategy[Any], *, count: int, seed: int) -> list[Any]:
    """``count`` values of a strategy, the same in every process: no database, no profile, no seed of the run."""
    found: list[list[Any]] = []
    lists, started = st.lists(strategy, min_size=count, max_size=count), itertools.count()

    @st.composite
    def values(draw: st.DrawFn) -> list[Any]:
        if next(started) == _TRIES and count > 1:
            raise _TooLarge("")  # Hypothesis would go on to try a thousand times
        return draw(lists)

    @hypothesis.seed(seed)
    @settings(
        max_examples=2,  # the first one is the simplest value, count times
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        backend=_backend(),
        suppress_health_check=list(HealthCheck),
    )
    @given(values())
    def draw(drawn: list[Any]) -> None:
        found.append(drawn)

    with suppress(_TooLarge):
        draw()
    if len(found) < 2 and count > 1:  # so many large values are more than Hypothesis draws at once
        halves = (count // 2, 2 * seed + 1), (count - count // 2, 2 * seed + 2)
        return [value for half, own in halves for value in drawn_with_seed(strategy, count=half, seed=own)]
    return found[-1]


@cache
def _backend() -> str:
    """Hypothesis without the constants that it reads from loaded modules, which differ from run to run."""
    try:
        from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
    except ImportError:  # before 6.116 there are no such constants
        return "hypothesis"

    class WithoutConstants(HypothesisProvider):
        def _maybe_draw_constant(self, *_: Any, **__: Any) -> None:
            return None

    globals()["WithoutConstants"] = WithoutConstants
    AVAILABLE_PROVIDERS["evalcheck"] = f"{__name__}.WithoutConstants"
    return "evalcheck"


@st.composite
def _lists(draw: st.DrawFn, sample: st.SearchStrategy[Sample], min_size: int, max_size: int) -> list[Sample]:
    most = max(min_size, max_size)
    # Half of them with three or more: fewer cannot be split unevenly, and there are not many cases.
    size = st.one_of(st.integers(min_size, most), st.integers(min(most, max(min_size, 3)), most))
    if draw(st.integers(0, 3)) < 3:  # any samples, the form that shrinks best, three times of four
        count = draw(size)
        return [draw(sample) for _ in range(count)]
    kinds = [draw(sample) for _ in range(draw(st.integers(1, 2)))]
    count = draw(size)
    return [draw(st.sampled_from(kinds)) for _ in range(count)]


def grid(low: float, high: float, *, step: int = 8) -> st.SearchStrategy[float]:
    """Floats on a grid of ``1/step``, exact in every floating dtype, so that no tie or rounding is accidental."""
    return st.integers(round(low * step), round(high * step)).map(lambda i: i / step)


def integer_tensor(values: Any, *shape: int) -> Any:
    """An int64 tensor, of a shape that an empty list does not have."""
    import torch

    tensor = torch.tensor(values, dtype=torch.int64)
    return tensor.reshape(*shape) if shape else tensor


def float_tensor(values: Any, *shape: int) -> Any:
    """A float32 tensor, of a shape that an empty list does not have."""
    import torch

    tensor = torch.tensor(values, dtype=torch.float32)
    return tensor.reshape(*shape) if shape else tensor

"""What one sample is, and how samples become a batch.

A `SampleStrategy` is all that the author of a target writes about data. Everything hostile (cuts, shards,
permutations, empty batches, ignored rows, malformed batches, other dtypes) is derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.containers import check_containers
from pytest_evalcheck.strategies.padding import Padding

Sample = Any
"""One row as plain Python: numbers, strings, None, and tuples, lists or dicts of them."""


@dataclass(frozen=True, kw_only=True)
class SampleStrategy:
    """A strategy of one sample and its collate, with what else is known about such samples.

    Only ``name``, ``sample`` and ``collate`` are needed. Each of the others opens promises that could not be
    checked without it; where it is None those promises are reported as not applicable.
    """

    name: str
    sample: st.SearchStrategy[Sample]
    collate: Callable[[Sequence[Sample]], Any]
    """Samples to what ``update`` eats: a tuple of its positional arguments, or a dict of keyword arguments; for a
    scorer to ``(responses, documents)``. Tensors are made on the CPU. It is also asked for the empty batch,
    ``collate([])``."""
    min_samples: int = 1
    """The fewest samples for which the value is defined, e.g. 2 for a correlation."""
    distinct: Callable[[Sample], Hashable] | None = None
    """What may not occur twice in one case, e.g. the score of a candidate: a tie has no right order."""
    ignored: st.SearchStrategy[Sample] | None = None
    """Samples that must count for nothing, e.g. with the label ``ignore_index``."""
    right: Callable[[Sample], Sample] | None = None
    """The same sample, predicted perfectly."""
    wrong: Callable[[Sample], Sample] | None = None
    """The same sample, predicted as wrongly as can be."""
    contrast: tuple[Sample, ...] = ()
    """Samples on which right and wrong predictions must be told apart, e.g. some of every class."""
    poisoned: Callable[[Sample, float], Sample] | None = None
    """The same sample with a number replaced by the given non-finite one."""
    poisons: tuple[float, ...] = (float("nan"),)
    """The non-finite numbers that are not legitimate input: minus infinity is a common masked logit."""
    bulk: Callable[[Bulk], Sequence[Sample]] | None = None
    """Many samples from a seed and the parameters of a distribution."""
    unit: float = 0.0
    """The size of numbers that are bounded, such as 1 for probabilities: rounding one of them moves a difference
    of two by that much, however small the difference is. 0 where the size is the data's own."""
    integers: bool = False
    """Whether the numbers of a sample may also arrive as integer tensors (uint8 images, int32 counts)."""
    padding: Padding | None = None
    """How samples of unequal length are padded."""
    containers: tuple[str, ...] = ("dict",)
    """What else a dict of fields may come in (`pytest_evalcheck.strategies.containers`)."""
    labels: str = "labels"
    """The field of a batch that holds the labels."""
    odd: st.SearchStrategy[Sample] | None = None
    """Samples with a response that is empty, None or missing, as models give them."""

    def __post_init__(self) -> None:
        if not isinstance(self.sample, st.SearchStrategy):
            raise TypeError(f"{self.name}: sample must be a Hypothesis strategy, got {self.sample!r}")
        check_containers(self.containers)

    def rows(self, *, min_size: int = 0, max_size: int = 6) -> st.SearchStrategy[list[Sample]]:
        """Lists of samples: any, constant (one sample again and again), or of few kinds (absent classes)."""
        if self.distinct is not None:
            return st.lists(self.sample, min_size=min_size, max_size=max(min_size, max_size), unique_by=self.distinct)
        return _lists(self.sample, min_size, max_size)

    def but(self, **changes: Any) -> SampleStrategy:
        """A copy with some fields changed, e.g. ``es.multiclass(classes=5).but(min_samples=2)``."""
        return replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class Bulk:
    """Many samples as a seed and the parameters of a distribution, where size and precision are the point."""

    seed: int
    rows: int
    scale: float = 1.0
    offset: float = 0.0
    drift: float = 0.0
    """How far the mean moves from the first row to the last, in units of ``scale``."""


@dataclass(frozen=True)
class Arguments:
    """The positional and keyword arguments of one ``update``."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, collated: Any) -> Arguments:
        """From what a collate returned: a tuple, a dict, or arguments already."""
        if isinstance(collated, Arguments):
            return collated
        if isinstance(collated, tuple):
            return cls(collated)
        if isinstance(collated, Mapping) and all(isinstance(key, str) for key in collated):
            return cls((), dict(collated))
        raise TypeError(
            f"collate returned {type(collated).__name__}; expected a tuple of the positional arguments of "
            "update, or a dict of its keyword arguments. For a single argument return `(batch,)`."
        )


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


@st.composite
def _lists(draw: st.DrawFn, sample: st.SearchStrategy[Sample], min_size: int, max_size: int) -> list[Sample]:
    most = max(min_size, max_size)
    # Half of them with three or more: no cut of fewer is uneven, and there are not many cases.
    size = st.one_of(st.integers(min_size, most), st.integers(min(most, max(min_size, 3)), most))
    if draw(st.integers(0, 3)) < 3:  # any samples, the form that shrinks best, three times of four
        count = draw(size)
        return [draw(sample) for _ in range(count)]
    kinds = [draw(sample) for _ in range(draw(st.integers(1, 2)))]
    count = draw(size)
    return [draw(st.sampled_from(kinds)) for _ in range(count)]


_GRID = 8


def grid(low: float, high: float, *, step: int = _GRID) -> st.SearchStrategy[float]:
    """Floats on a grid of ``1/step``, exact in every floating dtype, so that no tie or rounding is accidental."""
    return st.integers(round(low * step), round(high * step)).map(lambda i: i / step)

"""Data sets of a loop and what happens while they are evaluated: batch sizes, other data, ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hypothesis import assume
from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.strategies.samples import SampleStrategy

if TYPE_CHECKING:
    from typing_extensions import Self

_MOST = 7


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Samples that are evaluated in batches of one size."""

    samples: Rows
    batch_size: int

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset(size_regimes(len(self.samples), self.batch_size))

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Self]:
        return sized(inputs).map(lambda drawn: cls(samples=drawn[0], batch_size=drawn[1]))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Self | None:
        return cls(samples=samples, batch_size=usual_size(samples)) if enough(inputs, samples) else None


@dataclass(frozen=True, kw_only=True)
class Sequel:
    """Two data sets that one loop evaluates one after the other."""

    samples: Rows
    others: Rows
    batch_size: int

    @property
    def regimes(self) -> frozenset[str]:
        same, fewer = len(self.samples) == len(self.others), len(self.samples) > len(self.others)
        return frozenset({"as many samples" if same else "fewer samples" if fewer else "more samples"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Sequel]:
        @st.composite
        def sequel(draw: st.DrawFn) -> Sequel:
            rows, size = draw(sized(inputs, most=4))
            # Often of the same size: what is kept by its size is then taken for the other.
            more = draw(st.sampled_from([0, 1, -1, 0]))
            count = max(1, inputs.min_samples, len(rows) + more)
            return cls(samples=rows, others=draw(inputs.rows(min_size=count, max_size=count)), batch_size=size)

        return sequel()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Sequel | None:
        ok = enough(inputs, samples)
        return cls(samples=samples, others=samples[::-1], batch_size=usual_size(samples)) if ok else None


@dataclass(frozen=True, kw_only=True)
class Spread(Evaluation):
    """Samples that are spread over several numbers of ranks, each of which evaluates its own in batches."""

    @property
    def ranks(self) -> tuple[int, ...]:
        """How many ranks there are, one after the other."""
        return (2, 3, 4)

    @property
    def regimes(self) -> frozenset[str]:
        count = len(self.samples)
        reached = size_regimes(count, self.batch_size) & {"a last batch of one", "fewer samples than a batch"}
        reached |= {"uneven ranks" if count % ranks else "even ranks" for ranks in self.ranks}
        return frozenset(reached | ({"a rank without samples"} if count < max(self.ranks) else set()))


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Samples for real processes: every number of ranks is tried for them, since starting processes is dear."""

    samples: Rows
    batch_size: int

    @property
    def ranks(self) -> tuple[int, ...]:
        """How many processes there are, one after the other."""
        return (2, 3)

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset("uneven ranks" if len(self.samples) % ranks else "even ranks" for ranks in self.ranks)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Gathered]:
        @st.composite
        def gathered(draw: st.DrawFn) -> Gathered:
            # Few cases are tried, so each must be uneven for one of the numbers of ranks, and tell ranks apart.
            rows = draw(inputs.rows(min_size=max(4, inputs.min_samples), max_size=max(5, inputs.min_samples)))
            assume(rows[-1] not in rows[:-1])  # ranks with the same samples say nothing
            return cls(samples=rows, batch_size=draw(st.sampled_from([1, 2])))

        return gathered()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Gathered | None:
        return cls(samples=samples, batch_size=2) if len(samples) > 2 and enough(inputs, samples) else None


def size_regimes(count: int, size: int) -> set[str]:
    """How a number of samples and a batch size stand to each other."""
    reached = {"a single sample"} if count == 1 else set()
    if count < size:
        reached.add("fewer samples than a batch")
    elif 1 < size < count:
        rest = count % size
        reached.add({0: "full batches", 1: "a last batch of one"}.get(rest, "a last batch that is not full"))
        if rest == size - 1:
            reached.add("a last batch that lacks one")
    return reached


def enough(inputs: SampleStrategy, samples: Rows) -> bool:
    """Whether there are as many samples as a number needs."""
    return len(samples) >= max(1, inputs.min_samples)


def usual_size(samples: Rows) -> int:
    """A batch size for given samples: the last batch has one sample."""
    return max(2, len(samples) - 1)


@st.composite
def sized(draw: st.DrawFn, inputs: SampleStrategy, *, least: int = 1, most: int = _MOST) -> tuple[Rows, int]:
    """Samples and a batch size: most often one that leaves a last batch which is not full."""
    least = max(least, inputs.min_samples)
    kind = draw(st.sampled_from(["partial", "full", "beyond", "partial", "ones"]))
    if kind == "partial":
        rows = draw(inputs.rows(min_size=max(least, 3), max_size=max(least, most)))
        return rows, draw(st.sampled_from([size for size in range(2, len(rows)) if len(rows) % size]))
    if kind == "full":
        count = max(least + least % 2, draw(st.sampled_from([4, 6] if most >= 6 else [4])))
        rows = draw(inputs.rows(min_size=count, max_size=count))
        return rows, draw(st.sampled_from([size for size in range(2, count) if not count % size] or [count]))
    rows = draw(inputs.rows(min_size=least, max_size=max(least, 4)))
    return rows, 1 if kind == "ones" else draw(st.sampled_from([max(2, len(rows)), len(rows) + 1, 64]))

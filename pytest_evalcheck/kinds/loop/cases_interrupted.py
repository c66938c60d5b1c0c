"""Evaluations that something happens to: a sample that cannot be read or is not finite, memory that runs out."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.kinds.loop.cases import enough, size_regimes, sized, usual_size
from pytest_evalcheck.strategies.samples import SampleStrategy

MODES = ("every submodule trains", "some submodules are frozen", "every submodule evaluates")


@dataclass(frozen=True, kw_only=True)
class Interrupted:
    """Samples that are evaluated while a model trains, and one of them that cannot be read another time."""

    samples: Rows
    batch_size: int
    broken: int
    """The index of the sample that cannot be read."""
    modes: str
    """The modes of the model before it, one of `MODES`."""

    @property
    def regimes(self) -> frozenset[str]:
        where = "an error in the first batch" if self.broken < self.batch_size else "an error in a later batch"
        return frozenset({self.modes, where})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Interrupted]:
        @st.composite
        def interrupted(draw: st.DrawFn) -> Interrupted:
            rows = draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=max(4, inputs.min_samples)))
            size, broken = draw(st.sampled_from([1, 2])), draw(st.sampled_from([len(rows) - 1, 0]))
            return cls(samples=rows, batch_size=size, broken=broken, modes=draw(st.sampled_from(MODES)))

        return interrupted()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Interrupted | None:
        if not enough(inputs, samples):
            return None
        return cls(samples=samples, batch_size=1, broken=len(samples) - 1, modes=MODES[1])


@dataclass(frozen=True, kw_only=True)
class Exhausted:
    """Samples that are evaluated while memory runs out in one forward pass, or in two in a row."""

    samples: Rows
    batch_size: int
    times: int

    @property
    def regimes(self) -> frozenset[str]:
        reached = size_regimes(len(self.samples), self.batch_size) & {"a last batch of one", "full batches"}
        return frozenset(reached | {"one failure" if self.times == 1 else "the retry fails too"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Exhausted]:
        least = max(4, inputs.min_samples)
        # Two batches, or two halves of one: what came before a failure may count twice.
        return st.builds(
            cls,
            samples=inputs.rows(min_size=least, max_size=least + 2),
            batch_size=st.sampled_from([2, 4, 3]),
            times=st.sampled_from([1, 2]),
        )

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Exhausted | None:
        return cls(samples=samples, batch_size=2, times=1) if len(samples) > 1 and enough(inputs, samples) else None


@dataclass(frozen=True, kw_only=True)
class Spoilt:
    """Samples of which one, at ``poisoned``, holds a number that is not finite."""

    samples: Rows
    poisoned: int
    number: float
    batch_size: int

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"the first sample" if self.poisoned == 0 else "a later sample"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Spoilt]:
        @st.composite
        def spoilt(draw: st.DrawFn) -> Spoilt:
            assert inputs.corrupted is not None
            rows, size = draw(sized(inputs, least=2, most=5))
            at, number = draw(st.integers(0, len(rows) - 1)), draw(st.sampled_from(inputs.nonfinite))
            rows = [*rows[:at], inputs.corrupted(rows[at], number), *rows[at + 1 :]]
            return cls(samples=rows, poisoned=at, number=number, batch_size=size)

        return spoilt()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Spoilt | None:
        if not enough(inputs, samples) or inputs.corrupted is None:
            return None
        number = inputs.nonfinite[0]
        rows = [inputs.corrupted(samples[0], number), *samples[1:]]
        return cls(samples=rows, poisoned=0, number=number, batch_size=usual_size(samples))

"""Streams with something in them that must not count, must show, or must be rejected."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Cut, Rows, cuts, pick
from pytest_evalcheck.kinds.metric.cases import Stream
from pytest_evalcheck.strategies.samples import SampleStrategy


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """Samples among which some must count for nothing: their indices are in ``ignored``."""

    samples: Rows
    batches: Cut
    ignored: list[int]

    @property
    def cut(self) -> list[Rows]:
        """The samples of each batch, ignored ones included."""
        return pick(self.samples, self.batches)

    @property
    def counted(self) -> list[Rows]:
        """The samples that count, as one batch; no batch when none does."""
        rows = [s for i, s in enumerate(self.samples) if i not in self.ignored]
        return [rows] if rows else []

    @property
    def regimes(self) -> frozenset[str]:
        gone = set(self.ignored)
        reached = set()
        if gone and len(gone) == len(self.samples):
            reached.add("everything ignored")
        elif any(set(batch) <= gone for batch in self.batches):
            reached.add("a whole batch ignored")
        if any(set(batch) & gone and not set(batch) <= gone for batch in self.batches):
            reached.add("part of a batch ignored")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Ignored]:
        @st.composite
        def ignored(draw: st.DrawFn) -> Ignored:
            assert inputs.ignored is not None
            counted = draw(inputs.rows(max_size=4))
            gone = draw(st.lists(inputs.ignored, min_size=1, max_size=3))
            if counted and len(counted) < inputs.min_samples:
                counted = []
            places = sorted(draw(st.lists(st.integers(0, len(counted)), min_size=len(gone), max_size=len(gone))))
            rows: Rows = []
            indices: list[int] = []
            for i in range(len(counted) + 1):
                for sample, place in zip(gone, places, strict=True):
                    if place == i:
                        indices.append(len(rows))
                        rows.append(sample)
                rows += counted[i : i + 1]
            return cls(samples=rows, batches=draw(cuts(len(rows))), ignored=indices)

        return ignored()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Poisoned:
    """Samples cut into batches, one of them with a number that is not finite."""

    samples: Rows
    batches: Cut
    poisoned: int
    number: float

    @property
    def cut(self) -> list[Rows]:
        """The samples of each batch."""
        return pick(self.samples, self.batches)

    @property
    def regimes(self) -> frozenset[str]:
        reached = set()
        if len(self.samples) > 1:
            reached.add("the first sample" if self.poisoned == 0 else "a later sample")
        return frozenset(reached)

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Poisoned]:
        @st.composite
        def poisoned(draw: st.DrawFn) -> Poisoned:
            assert inputs.poisoned is not None
            rows = list(draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=5)))
            at = draw(st.integers(0, len(rows) - 1))
            number = draw(st.sampled_from(inputs.poisons))
            rows[at] = inputs.poisoned(rows[at], number)
            return cls(samples=rows, batches=draw(cuts(len(rows))), poisoned=at, number=number)

        return poisoned()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> None:
        return None


@dataclass(frozen=True, kw_only=True)
class Rejected:
    """Good batches with a malformed one among them: ``fault`` says how batch ``at`` is spoilt."""

    samples: Rows
    batches: Cut
    at: int
    fault: str
    through: str

    FAULTS = ("unequal lengths", "another rank", "another type", "too few arguments")

    @property
    def good(self) -> list[Rows]:
        """The good batches; the malformed one comes before batch ``at``."""
        return pick(self.samples, self.batches)

    @property
    def spoilt(self) -> Rows:
        """The samples that the malformed batch is made of."""
        return [self.samples[i] for i in self.batches[min(self.at, len(self.batches) - 1)]]

    @property
    def regimes(self) -> frozenset[str]:
        where = "before any good batch" if self.at == 0 else "after a good batch"
        return frozenset({where, f"through {self.through}"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Rejected]:
        @st.composite
        def rejected(draw: st.DrawFn) -> Rejected:
            rows = draw(inputs.rows(min_size=max(2, inputs.min_samples), max_size=5))
            plan = draw(cuts(len(rows)))
            return cls(
                samples=rows,
                batches=plan,
                at=draw(st.integers(0, len(plan))),
                fault=draw(st.sampled_from(cls.FAULTS)),
                through=draw(st.sampled_from(["update", "forward"])),
            )

        return rejected()

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Rejected | None:
        stream = Stream.of(inputs, samples)
        if stream is None:
            return None
        plan = stream.batches
        return cls(samples=samples, batches=plan, at=len(plan), fault=cls.FAULTS[0], through="update")


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """The same samples predicted rightly and wrongly."""

    right: Rows
    wrong: Rows

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset()

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Contrast]:
        assert inputs.wrong is not None
        wrong, right = inputs.wrong, inputs.right or (lambda s: s)
        # All of the contrast every time (some of each class), with samples of any kind behind it.
        return (
            inputs.rows(max_size=4)
            .map(lambda rows: [right(s) for s in (*inputs.contrast, *(rows if inputs.distinct is None else ()))])
            .map(lambda rows: cls(right=rows, wrong=[wrong(s) for s in rows]))
        )

"""A kind of target from outside of the package: samplers, which must return what they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

import pytest_evalcheck as ec


@dataclass(frozen=True)
class Sampler:
    """The record: what a factory returns."""

    take: Callable[[list[Any], int], list[Any]]


class SamplerSubject(ec.Subject):
    """Arguments of a check."""

    kind: ClassVar[str] = "sampler"

    def take(self, samples: list[Any], count: int) -> list[Any]:
        """The result of a new sampler."""
        return list(self.build().take(samples, count))


@dataclass(frozen=True)
class Request:
    """The case: samples, and how many to take."""

    samples: list[Any]
    count: int

    @property
    def conditions(self) -> frozenset[str]:
        return frozenset({"all of them"} if self.count == len(self.samples) else {"some of them"})

    @classmethod
    def strategy(cls, inputs: Any) -> st.SearchStrategy[Request]:
        samples = st.lists(inputs.sample, min_size=1, max_size=6)
        return samples.flatmap(lambda rows: st.builds(cls, st.just(rows), st.integers(1, len(rows))))


@ec.check("TOY101", conditions=("all of them", "some of them"))
def a_sampler_returns_as_many_as_asked(sampler: SamplerSubject, case: Request) -> None:
    """A sampler returns as many samples as it is asked for.

    Why: a sampler that drops some evaluates on fewer samples than it reports.
    Usual cause: an index that stops one too early.
    Fix: samples[:count]
    """
    ec.expect(len(sampler.take(case.samples, case.count))).equals(case.count, about="the number of samples")


SAMPLER = ec.KindSpec(
    name="sampler",
    record=Sampler,
    subject=SamplerSubject,
    example="multiclass(classes=5)",
    expected="a Sampler",
    methods=("take",),
    complete_hint="It has take(): return `Sampler(it.take)`.",
    partial_hint="`Sampler(take=...)`",
)
EVERYTHING = [a_sampler_returns_as_many_as_asked, SAMPLER]

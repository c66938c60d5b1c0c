"""As many samples as it takes to tell a small loss from chance."""

from __future__ import annotations

from dataclasses import dataclass

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Rows
from pytest_evalcheck.strategies.samples import Bulk, SampleStrategy

_ROWS = 256
_FEWEST = 20
"""Fewer examples of a target are there to show something else."""


@dataclass(frozen=True, kw_only=True)
class Many:
    """Samples that nobody searched for: an interval says nothing of those that were chosen because they fail.

    Either those of an example of the target, or ``rows`` that are drawn with a seed of their own.
    """

    samples: Rows
    seed: int
    rows: int

    @property
    def regimes(self) -> frozenset[str]:
        return frozenset({"samples of the target" if self.samples else "samples that were drawn"})

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Many]:
        del inputs
        return st.just(cls(samples=[], seed=0, rows=_ROWS))

    @classmethod
    def of(cls, inputs: SampleStrategy, samples: Rows) -> Many | None:
        del inputs
        return cls(samples=samples, seed=0, rows=len(samples)) if len(samples) >= _FEWEST else None

    def of_inputs(self, inputs: SampleStrategy) -> Rows:
        """The samples: the same in every run, whatever seed Hypothesis has."""
        return self.samples or many(inputs, self.rows, self.seed)


def many(inputs: SampleStrategy, rows: int = _ROWS, seed: int = 0) -> Rows:
    """At most ``rows`` different samples by a seed, from the distribution of the inputs or from their strategy."""
    if inputs.bulk is not None:
        return list(inputs.bulk(Bulk(seed=seed, rows=rows)))
    found: dict[object, object] = {}
    for turn in range(_TURNS):  # lists that Hypothesis draws hold some samples twice
        before = len(found)
        for sample in _drawn(inputs, rows - before, seed * _TURNS + turn):
            found.setdefault(repr(sample) if inputs.distinct is None else inputs.distinct(sample), sample)
        if len(found) in (before, rows):
            break
    return list(found.values())


_TURNS = 5
_AT_ONCE = 16


def _drawn(inputs: SampleStrategy, rows: int, seed: int) -> Rows:
    found: Rows = []

    @hypothesis.seed(seed)
    @settings(
        max_examples=1 + rows // _AT_ONCE,  # the first is of the simplest sample again and again
        phases=[Phase.generate],
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(inputs.sample, min_size=_AT_ONCE, max_size=_AT_ONCE))
    def gather(samples: Rows) -> None:
        found.extend(samples)

    gather()
    return found[:rows]

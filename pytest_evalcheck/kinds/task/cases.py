"""Documents of a task: single ones, several, and one with rewritings of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Conditions, Given, Plans, Rows, SamplesAndPlan
from pytest_evalcheck.strategies.documents import Documents
from pytest_evalcheck.strategies.samples import SampleStrategy

_FIRST = 20
"""Number of documents that are tried in every run."""


@dataclass(frozen=True, kw_only=True)
class SomeDocuments(SamplesAndPlan):
    """One document, and several."""

    MOST = 4
    GIVEN: ClassVar[Given] = lambda _, n: () if n else None
    CONDITIONS: ClassVar[Conditions] = {
        "one document": lambda case: len(case.samples) == 1,
        "several documents": lambda case: len(case.samples) > 1,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The first document, and those after it."""
        rows = inputs.fixed(_FIRST)
        return [(rows[:1],), (rows[1:n],), (rows[n:],)]


@dataclass(frozen=True, kw_only=True)
class Rewritten(SamplesAndPlan):
    """A document, and the names of the rewritings of its answer."""

    names: list[str]

    MOST = 1
    OF: ClassVar[tuple[str, ...]] = ()
    """What is rewritten, see `Rewriting.of`."""
    CONDITIONS: ClassVar[Conditions] = {"a rewriting": lambda case: bool(case.names)}

    @classmethod
    def known(cls, inputs: SampleStrategy) -> list[str]:
        """Names of the rewritings that such inputs allow."""
        if not isinstance(inputs, Documents):
            return []
        return [n for n, each in inputs.rewritings.items() if each.of in cls.OF and n not in inputs.unequal]

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        """Draw one rewriting, or up to three that are applied in turn."""
        names = st.lists(st.sampled_from(cls.known(inputs)), min_size=1, max_size=3, unique=True)
        return {"names": draw(names)} if cls.known(inputs) else {"names": []}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Each rewriting alone, of several documents: it need not apply to the first."""
        return [([row], [name]) for name in cls.known(inputs) for row in inputs.fixed(n)]


class RewrittenNotation(Rewritten):
    """A document, and the names of other notations of its answer."""

    OF = ("notation",)


class RewrittenResponse(Rewritten):
    """A document, and the names of what stands around its answer."""

    OF = ("answer", "response")

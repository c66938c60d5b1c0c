"""Documents of a task: single ones, several, and one with rewritings of its answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Conditions, Draws, Given, Plans, Rows, SamplesAndPlan
from pytest_evalcheck.strategies.documents import Documents
from pytest_evalcheck.strategies.samples import SampleStrategy

_FIRST, _MANY = 12, 60
"""Numbers of documents that are tried in every run: by most checks, and by those that call little for each."""


@dataclass(frozen=True, kw_only=True)
class SomeDocuments(SamplesAndPlan):
    """One document, and several."""

    MOST = 4
    GIVEN: ClassVar[Given] = lambda _, n: () if n else None
    CONDITIONS: ClassVar[Conditions] = {
        "one document": lambda case: len(case.samples) == 1,
        "several documents": lambda case: len(case.samples) > 1,
    }

    COUNT: ClassVar[int] = _FIRST
    """Number of documents of the canonical cases."""

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The first document, and those after it."""
        rows = inputs.fixed(cls.COUNT)
        return [(rows[:1],), (rows[1:n],), (rows[n:],)]


class ManyDocuments(SomeDocuments):
    """One document, several, and many of the data set."""

    COUNT = _MANY


@dataclass(frozen=True, kw_only=True)
class Rewritten(SamplesAndPlan):
    """A document, and the names of the rewritings of its answer."""

    names: list[str]

    MOST = 1
    OF: ClassVar[tuple[str, ...]] = ()
    """The parts of a response that are rewritten, see `Rewriting.of`."""
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
        return [(inputs.fixed(n + 1), [name]) for name in cls.known(inputs)] or [(1, [])]


class RewrittenNotation(Rewritten):
    """A document, and the names of other notations of its answer."""

    OF = ("notation",)


class RewrittenResponse(Rewritten):
    """A document, and the names of the texts around its answer."""

    OF = ("answer", "response")


@dataclass(frozen=True, kw_only=True)
class FirstDocuments(SamplesAndPlan):
    """The first documents, always the same: a process for each case would take too long."""

    CONDITIONS: ClassVar[Conditions] = {"several documents": lambda case: len(case.samples) > 1}

    @classmethod
    def strategy(cls, inputs: SampleStrategy) -> st.SearchStrategy[Any]:
        return st.just(cls(samples=inputs.fixed(4)))

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """All of them."""
        del n
        return [(inputs.fixed(4),)]


@dataclass(frozen=True, kw_only=True)
class OneOfSeveral(SamplesAndPlan):
    """Several documents, and the index of one."""

    index: int

    FEWEST, MOST = 2, 5
    PLAN: ClassVar[Draws] = {"index": lambda _, rows: st.integers(0, len(rows) - 1)}
    CONDITIONS: ClassVar[Conditions] = {"one of several documents": lambda case: len(case.samples) > 1}

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The second of two, and the last of several."""
        return [(2, 1), (4, 3), (4, 0)]


@dataclass(frozen=True, kw_only=True)
class Cut(SamplesAndPlan):
    """A document, and where its text is divided into a prompt and a continuation."""

    share: float | None
    """The share of the text that is the prompt; None where the task divides it."""

    MOST = 1
    PLAN: ClassVar[Draws] = {"share": lambda *_: st.none() | st.floats(0.1, 0.9)}
    CONDITIONS: ClassVar[Conditions] = {
        "the task's own cut": lambda case: case.share is None,
        "another cut": lambda case: case.share is not None,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """The cuts of the task for some documents, and other ones."""
        rows = inputs.fixed(_FIRST)
        return [(rows, None), *((rows[:1], share) for share in (0.35, 0.6, 0.8))]


@dataclass(frozen=True, kw_only=True)
class Reordered(SamplesAndPlan):
    """A document, and another order of its choices, of which those it does not have are left out."""

    order: list[int]

    MOST = 1
    PLAN: ClassVar[Draws] = {"order": lambda *_: st.permutations(range(_CHOICES)).map(list)}
    CONDITIONS: ClassVar[Conditions] = {
        "choices in another order": lambda case: case.order != sorted(case.order),
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """Choices backwards, and moved by one."""
        rows, order = inputs.fixed(n), [*range(_CHOICES)]
        return [(rows, order[::-1]), (rows, [*order[1:], 0])]


_CHOICES = 12
"""The most choices of a document that are reordered."""


@dataclass(frozen=True, kw_only=True)
class FailingDocument(SamplesAndPlan):
    """Several documents, and the index of the one for which the model raises an error; None where there is none."""

    index: int | None

    FEWEST, MOST = 2, 5
    PLAN: ClassVar[Draws] = {"index": lambda _, rows: st.none() | st.integers(0, len(rows) - 1)}
    CONDITIONS: ClassVar[Conditions] = {
        "one failing document": lambda case: case.index is not None,
        "no failing document": lambda case: case.index is None,
    }

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        """None of several, the first and the last one."""
        return [(3, None), (3, 0), (4, 3)]

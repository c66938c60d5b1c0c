"""Cases that are tried with each of the conventions of a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from hypothesis import strategies as st

from pytest_evalcheck.kinds.common.case import Plans, Rows, SamplesAndPlan
from pytest_evalcheck.strategies.samples import SampleStrategy


@dataclass(frozen=True, kw_only=True)
class ConventionCase(SamplesAndPlan):
    """Samples with the plan of another case, and the number of the convention with which a case begins.

    It is the first base of a class whose second one is that other case. Cases begin with different conventions, so that
    one that fails does not hide the others.
    """

    first: int

    MOST_CONVENTIONS: ClassVar[int] = 4

    @classmethod
    def draw_plan(cls, draw: st.DrawFn, inputs: SampleStrategy, rows: Rows) -> dict[str, Any]:
        plan = super().draw_plan(draw, inputs, rows)
        return {**plan, "first": draw(st.integers(0, cls.MOST_CONVENTIONS - 1))}

    @classmethod
    def given_plan(cls, inputs: SampleStrategy, count: int) -> tuple[Any, ...] | None:
        plan = super().given_plan(inputs, count)
        return None if plan is None else (*plan, 0)

    @classmethod
    def first_plans(cls, inputs: SampleStrategy, n: int) -> Plans:
        return [(*plan, index) for index, plan in enumerate(super().first_plans(inputs, n))]

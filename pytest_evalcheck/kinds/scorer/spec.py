"""The kind of scorers."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.scorer.subject import Scorer, ScorerSubject

_ROOM = "pytest_evalcheck.kinds.scorer"

SPEC = KindSpec(
    name="scorer",
    record=Scorer,
    subject=ScorerSubject,
    checks=tuple(
        f"{_ROOM}.checks_{name}"
        for name in ("documents", "parallel", "numbers", "repeats", "judges", "conventions", "counts")
    ),
    example="responses(max_repeats=3)",
    expected="an ec.Scorer, or a filter or task of lm_eval, or a metric of Hugging Face evaluate",
    methods=("score",),
    complete_hint="It has score(): return `ec.Scorer(score=it.score)`, if that takes responses and documents.",
    partial_hint="`ec.Scorer(score=...)`, or `ec.Scorer.of(function)` for a function that scores one document",
)

"""Patches of lm-evaluation-harness."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, body, replace

LIBRARY = Library(
    "lm_eval",
    "0.4.13",
    "0.4.14",
    patches=(
        Patch(
            mends=("lm-eval-median-is-the-upper-one",),
            says="the median of an even number of values is the mean of the two in the middle",
            edits={
                "lm_eval.api.metrics:median": (
                    body(
                        """\
ordered = sorted(arr)
half = len(ordered) // 2
return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2"""
                    ),
                )
            },
            test="""
                from lm_eval.api.metrics import median

                assert median([1, 2, 3, 10]) == 2.5
            """,
        ),
        Patch(
            mends=("lm-eval-take-first-k-asks-once",),
            says="take_first_k asks every document for its k responses",
            edits={
                "lm_eval.filters.selection:TakeKFilter.apply": (
                    replace(
                        "assert len(resps[0]) >= self.k, (",
                        "fewest = min(map(len, resps), default=self.k)\nassert fewest >= self.k, (",
                    ),
                    replace("but got {len(resps[0])} only", "but got {fewest} only"),
                )
            },
            test="""
                from lm_eval.filters.selection import TakeKFilter

                try:
                    list(TakeKFilter(k=2).apply([["a", "b"], ["c"]], [{}, {}]))
                except AssertionError:
                    pass
                else:
                    raise RuntimeError("a document with one response passed")
            """,
        ),
    ),
)

"""Patches of scoringrules."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, body

LIBRARY = Library(
    "scoringrules",
    "0.10.0",
    "0.11",
    patches=(
        Patch(
            mends=("scoringrules-equal-forecasts-are-not-pooled",),
            says="a reliability diagram pools equal forecasts",
            edits={
                "scoringrules.visualization.reliability:corp_reliability": (
                    body(
                        """\
order = np.lexsort((obs, fct))
x = fct[order]
y = obs[order]
_, point, counts = np.unique(x, return_inverse=True, return_counts=True)
cep = isotonic_regression(np.bincount(point, weights=y) / counts, weights=counts).x
return x, y, cep[point]"""
                    ),
                )
            },
            test="""
                import numpy as np
                from scoringrules.visualization.reliability import corp_reliability, corp_score_decomposition

                forecasts, outcomes = np.array([0.5, 0.5, 0.9, 0.5, 0.5]), np.array([0.0, 0.0, 1.0, 1.0, 1.0])
                for order in ([0, 1, 2, 3, 4], [3, 2, 4, 0, 1]):
                    x, y, cep = corp_reliability(outcomes[order], forecasts[order])
                    assert cep.tolist() == [0.5] * 4 + [1.0]
                    assert corp_score_decomposition(x, y, cep)[0] == 0.2
            """,
        ),
    ),
)

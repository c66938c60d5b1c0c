"""Patches of hydroeval."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, replace

LIBRARY = Library(
    "hydroeval",
    "0.1.0",
    "0.2",
    patches=(
        Patch(
            mends=("hydroeval-ranks-of-equal-values",),
            says="equal values of kgenp() share the mean of their ranks",
            edits={
                "hydroeval.objective_functions:kgenp": (
                    replace(
                        """\
sim_rank = np.argsort(np.argsort(simulations, axis=0), axis=0)
obs_rank = np.argsort(np.argsort(evaluation, axis=0), axis=0)
""",
                        """\
def rank(x):
    # equal values share the mean of their ranks
    x_sorted = np.sort(x)
    return (np.searchsorted(x_sorted, x, 'left')
            + np.searchsorted(x_sorted, x, 'right') - 1) / 2

sim_rank = np.apply_along_axis(rank, 0, simulations)
obs_rank = np.apply_along_axis(rank, 0, evaluation)
""",
                    ),
                )
            },
            test="""
                import hydroeval
                import numpy as np

                simulated, observed = np.array([0.0, 0.0, 1.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0])
                for order in ([0, 1, 2, 3], [1, 0, 2, 3]):
                    found = hydroeval.kgenp(simulated[order], observed[order]).ravel()
                    assert abs(found[1] - 0.9**0.5) < 1e-9
            """,
        ),
    ),
)

"""The unbiased estimate of pass@k."""

from __future__ import annotations

import math


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate the chance that at least one of ``k`` candidates is right, from ``n`` candidates of which ``c`` are.

    This is 1 - C(n-c, k) / C(n, k): the share of all choices of ``k`` among the ``n`` that hold a right one, which
    is unbiased for every ``k`` up to ``n`` (Chen et al. 2021, "Evaluating Large Language Models Trained on Code",
    arXiv:2107.03374, equation 1). The binomials are exact, so the result is rounded once. The score of a data set is
    the mean of this over its problems.

    Raises ValueError unless 0 <= c <= n and 1 <= k <= n, TypeError for what is not a whole number.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 0, 4)
    (0.25, 0.5, 0.0)
    """
    for name, value in (("n", n), ("c", c), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name}: expected a whole number, got {value!r}")
    if n < 1:
        raise ValueError(f"n: expected at least one candidate, got {n}")
    if not 0 <= c <= n:
        raise ValueError(f"c: expected 0 to n={n} right candidates, got {c}")
    if not 1 <= k <= n:
        hint = f"; pass@{k} cannot be estimated from {n} candidate{'s' * (n > 1)}" if k > n else ""
        raise ValueError(f"k: expected 1 to n={n}, got {k}{hint}")
    whole = math.comb(n, k)
    return (whole - math.comb(n - c, k)) / whole

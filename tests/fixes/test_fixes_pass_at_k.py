"""The estimate of pass@k against counting."""

from __future__ import annotations

from itertools import combinations

import pytest

from pytest_evalcheck.fixes.scoring.pass_at_k import pass_at_k


@pytest.mark.parametrize("n", range(1, 8))
def test_it_is_the_share_of_choices_that_hold_a_right_one(n: int):
    for c in range(n + 1):
        for k in range(1, n + 1):
            choices = list(combinations([True] * c + [False] * (n - c), k))
            assert pass_at_k(n, c, k) == sum(map(any, choices)) / len(choices)


def test_pass_at_1_is_the_share_of_right_ones():
    assert [pass_at_k(7, c, 1) for c in range(8)] == [c / 7 for c in range(8)]


def test_large_numbers_stay_exact():
    assert pass_at_k(10**5, 1, 10) == 1e-4
    assert pass_at_k(2000, 1000, 1000) == 1.0
    assert pass_at_k(200, 1, 100) == 0.5


@pytest.mark.parametrize(
    ("numbers", "error", "message"),
    [
        ((0, 0, 1), ValueError, "n: expected at least one candidate, got 0"),
        ((2, 3, 1), ValueError, "c: expected 0 to n=2 right candidates, got 3"),
        ((2, -1, 1), ValueError, "c: expected 0 to n=2 right candidates, got -1"),
        ((2, 1, 0), ValueError, "k: expected 1 to n=2, got 0"),
        ((2, 1, 3), ValueError, "k: expected 1 to n=2, got 3; pass@3 cannot be estimated from 2 candidates"),
        ((2, 1, 1.0), TypeError, "k: expected a whole number, got 1.0"),
        ((2, True, 1), TypeError, "c: expected a whole number, got True"),
    ],
)
def test_numbers_without_sense_are_named(numbers: tuple, error: type[Exception], message: str):
    with pytest.raises(error) as caught:
        pass_at_k(*numbers)
    assert str(caught.value) == message

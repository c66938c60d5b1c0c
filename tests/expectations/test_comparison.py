from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_evalcheck.expectations.comparison import EXACT, Raised, Tolerance, difference, has_nonfinite, show

leaves = st.one_of(st.floats(), st.integers(), st.text(max_size=3), st.booleans(), st.none())
results = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(results)
def test_a_result_says_the_same_as_itself(value: object) -> None:
    assert difference(value, value, EXACT) is None
    assert isinstance(show(value), str)
    assert "\n" not in show(value)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32), st.floats(-1, 1))
def test_numbers_in_all_containers_compare_alike(number: float, off: float) -> None:
    other = number + off
    verdict = difference(other, number, Tolerance()) is None
    for wrap in (torch.tensor, np.float64, lambda x: torch.tensor(x, dtype=torch.float64)):
        wrapped = difference(wrap(other), number, Tolerance())
        assert (wrapped is None) == verdict or math.isclose(abs(off), 1e-5 + 1e-4 * abs(number), rel_tol=1e-2)


@pytest.mark.parametrize(
    ("actual", "expected", "said"),
    [
        (0.5, 0.75, "0.5 is not 0.75"),
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 3.0]), "[1.0, 2.0] is not [1.0, 3.0]"),
        (torch.tensor([1.0]), torch.tensor(1.0), "shape (1,): [1.0] is not 1.0"),
        (torch.zeros(2, 1), torch.zeros(1, 2), "shape (2, 1): [[0.0], [0.0]] is not shape (1, 2): [[0.0, 0.0]]"),
        ({"a": 1.0, "b": [1, 2]}, {"a": 1.0, "b": [1, 3]}, "at ['b'][1]: 2 is not 3"),
        ({"a": 1.0}, {"b": 1.0}, "keys ['a'] is not keys ['b']"),
        ((1, 2), (1, 2, 3), "length 2 is not length 3"),
        ("a", "b", "'a' is not 'b'"),
        (float("nan"), 1.0, "nan is not 1.0"),
        (float("inf"), float("-inf"), "inf is not -inf"),
        (1.0, Raised(ValueError("no rows"), "compute"), "1.0 is not compute raised ValueError: no rows"),
        (torch.tensor([]), torch.tensor([1.0]), "shape (0,): empty, of shape (0,) is not shape (1,): [1.0]"),
    ],
)
def test_what_differs_is_named(actual: object, expected: object, said: str) -> None:
    found = difference(actual, expected, Tolerance())
    assert said in str(found)


def test_of_a_large_array_the_first_number_that_differs_is_named() -> None:
    expected = torch.zeros(4, 5)
    actual = expected.clone()
    actual[2, 3], actual[3, 1] = 1.0, 2.0
    assert str(difference({"x": actual}, {"x": expected}, EXACT)) == "at ['x'][2, 3]: 1.0 is not 0.0 (and 1 more)"


def test_order_of_keys_does_not_matter_nor_does_the_dtype() -> None:
    assert difference({"a": 1, "b": 2}, {"b": 2, "a": 1}, EXACT) is None
    assert difference(torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), EXACT) is None


def test_errors_of_one_type_are_the_same_refusal() -> None:
    refusal = Raised(ValueError("a"), "update")
    assert difference(refusal, Raised(ValueError("b"), "compute"), EXACT) is None
    assert difference(refusal, Raised(TypeError("a"), "update"), EXACT)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_non_finite_numbers_are_found_anywhere(bad: float) -> None:
    assert has_nonfinite({"a": [torch.tensor([[1.0, bad]])]})
    assert not has_nonfinite({"a": [torch.tensor([[1.0]]), "nan", 3]})


def test_a_tolerance_must_be_finite() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        Tolerance(rtol=-1)


def test_sparse_results_are_compared_by_their_numbers() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    dense = [[0.0, 2.0], [3.0, 0.0]]
    other = torch.tensor([[0.0, 2.0], [4.0, 0.0]])
    for sparse in (scipy_sparse.csr_matrix(dense), torch.tensor(dense).to_sparse()):
        assert difference(sparse, torch.tensor(dense), Tolerance()) is None
        assert str(difference(sparse, other, Tolerance())) == "[[0.0, 2.0], [3.0, 0.0]] is not [[0.0, 2.0], [4.0, 0.0]]"


class Foreign:
    """An array of another library: it says of itself that NumPy can read it, and compares element by element."""

    def __init__(self, *numbers: float) -> None:
        self.numbers = np.array(numbers[0] if len(numbers) == 1 else numbers)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.numbers.astype(dtype) if dtype else self.numbers

    def __eq__(self, other: object) -> Any:
        return self.numbers == getattr(other, "numbers", other)

    __hash__ = None  # type: ignore[assignment]


@dataclasses.dataclass
class Moments:
    mean: Any
    deviations: Any


NAN = float("nan")


@pytest.mark.parametrize(
    ("actual", "expected", "equal"),
    [
        (Foreign(NAN), Foreign(NAN), True),
        (Foreign(1.0), 1.0, True),
        (Foreign(1.0, 2.0), np.array([1.0, 2.0]), True),
        (Foreign(1.0, 2.0), Foreign(1.0, 3.0), False),
        (pandas.Series([1.0, NAN]), pandas.Series([1.0, NAN]), True),
        (pandas.DataFrame({"a": [1.0], "b": [2.0]}), pandas.DataFrame({"a": [1.0], "b": [3.0]}), False),
        (Moments(NAN, torch.tensor([1.0, 2.0])), Moments(NAN, torch.tensor([1.0, 2.0])), True),
        (Moments(0.0, torch.tensor([1.0, 2.0])), Moments(0.0, torch.tensor([1.0, 3.0])), False),
    ],
)
def test_arrays_of_other_libraries_and_dataclasses_are_compared_by_value(
    actual: Any, expected: Any, equal: bool
) -> None:
    assert (difference(actual, expected, Tolerance()) is None) == equal
    assert has_nonfinite(actual) == ("nan" in show(actual))

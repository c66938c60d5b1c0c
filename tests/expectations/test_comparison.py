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

from pytest_evalcheck.expectations import comparison
from pytest_evalcheck.expectations.comparison import (
    EXACT,
    Raised,
    Tolerance,
    close,
    difference,
    differences,
    has_nonfinite,
    is_no_score,
    show,
)

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


def _ragged(*rows: list[float]) -> Any:
    found = np.empty(len(rows), object)
    found[:] = [np.array(row) for row in rows]
    return found


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
        (np.array([0.5, "a"], object), np.array([0.75, "a"], object), "[0.5, 'a'] is not [0.75, 'a']"),
        (np.array([0.5, "a"], object), np.array(["a", 0.5], object), "[0.5, 'a'] is not ['a', 0.5]"),
        (_ragged([1, 2], [3]), _ragged([1, 2], [4]), "[[1, 2], [3]] is not [[1, 2], [4]]"),
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


odd_numbers = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, 1.00001, 1.001, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324]),
    st.integers(-3, 3),
    st.booleans(),
    st.just(2**53 + 1),
    st.just(10**400),
)
tolerances = st.sampled_from([EXACT, Tolerance(), Tolerance(rtol=0.5, atol=0.0)])
MANY: dict[str, Any] = {
    "a list": list,
    "a tuple": tuple,
    "a mapping": lambda row: {str(i): number for i, number in enumerate(row)},
    "a list of rows": lambda row: [list(row[i : i + 4]) for i in range(0, len(row), 4)],
    "rows of two types": lambda row: [tuple(row[:4]), *[list(row[i : i + 4]) for i in range(4, len(row), 4)]],
    "ragged rows": lambda row: [list(row[:3]), *[list(row[i : i + 4]) for i in range(3, len(row), 4)]],
}


@given(
    st.lists(st.tuples(odd_numbers, odd_numbers), max_size=3), st.integers(0, 99), tolerances, st.sampled_from([*MANY])
)
def test_many_numbers_compare_as_one_does(
    odd: list[tuple[Any, Any]], place: int, tolerance: Tolerance, kind: str
) -> None:
    rows = [[0.5] * 100, [0.5] * 100]
    for offset, pair in enumerate(odd):
        for row, number in zip(rows, pair, strict=True):
            row[(place + 7 * offset) % 100] = number
    try:
        same = all(close(a, e, tolerance) for a, e in zip(*rows, strict=True))
    except OverflowError:  # of an integer that is no float, in the one way as in the other
        with pytest.raises(OverflowError):
            difference(*map(MANY[kind], rows), tolerance)
        return
    actual, expected = map(MANY[kind], rows)
    found = difference(actual, expected, tolerance)
    assert (found is None) == same
    if found is not None:
        first = next(i for i, (a, e) in enumerate(zip(*rows, strict=True)) if not close(a, e, tolerance))
        assert (found.actual, found.expected) == (show(rows[0][first]), show(rows[1][first]))
        assert found.path.startswith("[")
        inner = actual
        for key in eval(f"[{found.path[1:-1].replace('][', ', ')}]"):
            inner = inner[key]
        assert inner is rows[0][first]
    assert has_nonfinite(actual) == any(isinstance(n, float) and not math.isfinite(n) for n in rows[0])


def test_every_entry_of_a_large_mapping_is_named_and_no_other() -> None:
    row = {f"c{i}": float(i) for i in range(200)}
    other = {**row, "c3": 0.0, "c150": math.nan}
    assert [(found.name, found.path) for found in differences(other, row, Tolerance())] == [
        ("c3", "['c3']"),
        ("c150", "['c150']"),
    ]


@pytest.mark.parametrize("make", [np.array, torch.tensor, list], ids=["numpy", "torch", "a list"])
def test_many_numbers_are_compared_without_a_loop(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "close", None)
    numbers = [i / 7 for i in range(1000)]
    assert difference(make([n * (1 + 1e-7) for n in numbers]), make(numbers), Tolerance()) is None


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float16, torch.bfloat16, torch.complex64])
def test_many_numbers_of_every_dtype_are_compared(dtype: torch.dtype) -> None:
    zeros, changed = torch.zeros(8, 16, dtype=dtype), torch.zeros(8, 16, dtype=dtype)
    changed[5, 3] = changed[7, 15] = 1
    assert difference(zeros, zeros.clone(), EXACT) is None
    found = difference(changed, zeros, EXACT)
    assert found is not None
    assert (found.path, found.more) == ("[5, 3]", 1)


@pytest.mark.parametrize("size", [299, 300, 301, 5000])
@pytest.mark.parametrize(
    "make", [np.array, torch.tensor, list, tuple, dict], ids=["numpy", "torch", "list", "tuple", "dict"]
)
def test_the_text_of_many_numbers_is_that_of_all_of_them(make: Any, size: int) -> None:
    numbers = [float(i) for i in range(size)]
    joined = ", ".join(map(repr, numbers))
    whole = {tuple: f"({joined})", dict: f"{{{', '.join(f'{n!r}: {n!r}' for n in numbers)}}}"}.get(make, f"[{joined}]")
    value = make(zip(numbers, numbers, strict=True) if make is dict else numbers)
    assert show(value) == f"{whole[:200]} ... {whole[-80:]}"
    assert show([[n] for n in numbers]) == show(np.array(numbers).reshape(-1, 1))


def test_a_long_array_of_nan_is_no_score() -> None:
    assert is_no_score(np.full(1000, math.nan))
    assert has_nonfinite(np.full(1000, math.nan))
    assert not is_no_score([math.nan] * 999 + [1.0])


class Scores:
    """A result of a library: an object without an equality of its own."""

    def __init__(self, value: float, parent: Any = None) -> None:
        self.value, self.parts, self.parent = value, {"parts": [value]}, parent or self


def test_objects_of_a_library_are_compared_by_what_they_hold() -> None:
    assert difference(Scores(1.0), Scores(1.0), EXACT) is None
    assert difference([Scores(1.0)], [Scores(1.0 + 1e-9)], Tolerance(1e-6, 1e-6)) is None
    found = difference({"a": Scores(1.0)}, {"a": Scores(2.0)}, EXACT)
    assert (found.path, found.actual, found.expected, found.contrast) == (
        "['a'].['value']",
        "1.0",
        "2.0",
        "another number",
    )


def test_an_object_of_a_library_holds_nan() -> None:
    assert has_nonfinite([Scores(math.nan, Scores(1.0))])
    assert has_nonfinite(Scores(1.0, Scores(math.nan)))
    assert not has_nonfinite(Scores(1.0, Scores(2.0)))

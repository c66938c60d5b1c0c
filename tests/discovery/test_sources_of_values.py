"""The source of a value that a run has seen gives that value again."""

from __future__ import annotations

import math
from typing import Any

import numpy
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_evalcheck.discovery.learned import source_of
from pytest_evalcheck.expectations.comparison import EXACT, difference
from pytest_evalcheck.learning.values import encoded

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-9, 9),
    st.floats(width=16),
    st.text("ab_7", max_size=6),
    st.floats(width=16).map(numpy.float64),
    st.integers(-9, 9).map(numpy.int64),
)
HASHED = SCALARS.filter(lambda value: not isinstance(value, float) or math.isfinite(value))
ARRAYS = st.lists(st.floats(width=16), min_size=1, max_size=3).flatmap(
    lambda numbers: st.sampled_from([numpy.array(numbers), torch.tensor(numbers)])
)


def _containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(values, max_size=3),
        st.lists(values, max_size=3).map(tuple),
        st.dictionaries(st.text("abc", min_size=1, max_size=3), values, max_size=3),
        st.dictionaries(st.integers(0, 5), values, max_size=3),
        st.sets(HASHED, max_size=3),
        st.frozensets(st.tuples(HASHED, HASHED), max_size=2),
    )


@given(st.recursive(SCALARS | ARRAYS, _containers, max_leaves=6))
def test_the_source_of_a_value_gives_it_again(value: Any) -> None:
    imports: dict[str, None] = {}
    source = source_of(encoded(value), "package", imports)
    names: dict[str, Any] = {}
    exec("\n".join(imports), names)
    again = eval(source, names)
    assert type(again) is type(value)
    assert difference(again, value, EXACT) is None

from __future__ import annotations

import ast
from dataclasses import make_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_evalcheck.expectations.comparison import EXACT, difference
from pytest_evalcheck.reports.case_codec import InvalidBlob, case_literal, decode_case, encode_case, is_plain, literal

leaves = st.one_of(st.floats(), st.integers(), st.text(max_size=3), st.booleans(), st.none(), st.binary(max_size=3))
plain = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
        st.dictionaries(st.one_of(st.text(max_size=2), st.integers()), inner, max_size=3),
    ),
    max_leaves=8,
)
Case = make_dataclass("Case", ["samples", "plan"])


@given(plain, plain)
def test_a_case_survives_its_blob_with_its_types(samples: Any, plan: Any) -> None:
    blob = encode_case("EC201", Case(samples, plan))
    code, values = decode_case(blob)
    assert code == "EC201"
    assert repr(values) == repr({"samples": samples, "plan": plan})
    assert set(blob) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(plain)
def test_a_literal_is_python_for_the_value(value: Any) -> None:
    read = eval(literal(value), {"float": float})
    assert repr(read) == repr(value)
    assert is_plain(value)


def test_a_case_prints_as_keyword_arguments() -> None:
    lines = case_literal(Case([(0, 1)], [[0]]))
    assert lines == ["samples=[(0, 1)]", "plan=[[0]]"]
    ast.parse(f"f({', '.join(lines)})")


@given(st.text(alphabet="eNqabc_-=0 ", max_size=30))
def test_other_text_is_refused_and_never_crashes(text: str) -> None:
    with pytest.raises(InvalidBlob, match="is not a replay blob"):
        decode_case(text)


@given(plain, st.data())
def test_a_blob_that_was_cut_off_is_refused(value: Any, data: st.DataObject) -> None:
    blob = encode_case("EC201", Case(value, value))
    cut = data.draw(st.integers(0, len(blob) - 3))
    with pytest.raises(InvalidBlob):
        decode_case(blob[:cut])


def test_objects_are_not_plain() -> None:
    assert not is_plain([(object(),)])
    assert not is_plain({"a": {1, 2}})
    assert difference(1, 1, EXACT) is None

"""Values as JSON: bounded, read back as they were, and never code."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import numpy
import pytest
import torch

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning.values import (
    MOST_CHARACTERS,
    MOST_ENTRIES,
    MOST_NUMBERS,
    decoded,
    encoded,
    is_kept,
    noted,
)


class Kind(enum.Enum):
    A = 1


class Trap:
    """An object whose every operation is seen."""

    touched: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if name != "__class__":
            Trap.touched.append(name)
        return object.__getattribute__(self, name)

    def __repr__(self) -> str:
        Trap.touched.append("repr")
        return "trap"


def _round(value: Any) -> Any:
    return decoded(json.loads(json.dumps(encoded(value))))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -0.5,
        "text",
        [1, [2.5, "a"]],
        (1, 2),
        {"a": [1], "b": None},
        {1: "a", 2: "b"},
        frozenset({1}),
        math.inf,
    ],
)
def test_plain_values_come_back(value: Any) -> None:
    assert _round(value) == value
    assert type(_round(value)) is type(value)


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([[0.1, 0.2], [0.3, float("nan")]]),
        torch.tensor([1, 2], dtype=torch.uint8),
        torch.tensor([0.5], dtype=torch.bfloat16),
        torch.tensor(True),
        torch.zeros(0, 3),
        numpy.array([[1.5, 2.5]], dtype=numpy.float32),
        numpy.array([1, 2]),
    ],
)
def test_arrays_come_back(value: Any) -> None:
    found = _round(value)
    assert type(found) is type(value)
    assert (found.dtype, found.shape) == (value.dtype, value.shape)
    assert repr(found.tolist()) == repr(value.tolist())


def test_tables_and_times_come_back() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"score": [0.5, 1.5, 2.0], "group": ["a", "b", "a"], "n": [1, 2, 3]})
    pandas.testing.assert_frame_equal(_round(frame), frame)
    for name in ("score", "n"):
        pandas.testing.assert_series_equal(_round(frame[name]), frame[name])
    pandas.testing.assert_series_equal(_round(pandas.Series([True, False])), pandas.Series([True, False]))
    frame["day"] = pandas.to_datetime(["2026-01-01", "2026-01-02", None])
    for named in (frame.set_index("group"), frame[1:], frame.set_index("day"), frame[frame.n != 2]):
        pandas.testing.assert_frame_equal(_round(named), named, check_index_type=False, check_dtype=False)
    pandas.testing.assert_series_equal(_round(frame["n"][1:]), frame["n"][1:])
    for other in (frame.set_index(["group", "n"]), frame.rename(columns={"n": "score"}), frame.T):
        assert "opaque" in encoded(other)
    for time in (pandas.Timestamp("2026-01-02", tz="UTC"), datetime(2026, 1, 2, 3, 4), date(2026, 1, 2)):
        assert _round(time) == time
    for text, name in (("noon", "date"), ("noon", "Timestamp")):
        with pytest.raises(UsageError, match=f"'noon' is no {name}: "):
            decoded({"time": text, "of": name})


def test_arrays_of_xarray_come_back_and_their_rows_have_places_as_coordinates() -> None:
    xarray = pytest.importorskip("xarray")
    plain = xarray.DataArray([[0.5, 1.5]], dims=("t", "lat"))
    for value in (plain, xarray.DataArray([1, 2]), xarray.DataArray(0.5), plain.assign_coords(lat=[10, 20.5], t=[0])):
        xarray.testing.assert_identical(_round(value), value)
    dated = plain.assign_coords(t=numpy.array(["2026-01-01"], "datetime64[ns]"), season="winter")
    xarray.testing.assert_identical(_round(dated), plain.assign_coords(t=[0]))
    of_places = plain.assign_coords(x=(("t", "lat"), [[1, 2]]))
    for other in (plain.assign_coords(lat=["a", "b"]), of_places, xarray.DataArray([1.0], dims=("a:b",))):
        assert "opaque" in encoded(other)
    for home in ("xarray:a:b", "xarray:a:b=[1.0]", "xarray:a=x", "xarray:a=[1"):
        with pytest.raises(UsageError, match=r"the numbers of an array of shape \[1, 2\] cannot be read"):
            decoded(
                encoded(plain) | {"array": home} if home != "xarray:a:b" else encoded(plain) | {"array": "xarray:a"}
            )


@pytest.mark.parametrize("make", [numpy.asarray, torch.as_tensor])
def test_an_array_that_was_cut_comes_back_in_its_shape(make: Any) -> None:
    rows = make(numpy.arange(4 * 300).reshape(4, 300) / 1200)
    restored = decoded(json.loads(json.dumps(encoded(rows))))
    assert (restored.shape, restored.dtype) == (rows.shape, rows.dtype)
    assert all(each.tolist() == rows[0].tolist() for each in restored)  # the one row that was kept
    for values in (make(numpy.arange(-600, 600).reshape(2, 600)), make(numpy.linspace(-2, 3, 1200).reshape(2, 600))):
        written = encoded(values)
        assert written["rows"] == []
        restored = decoded(written)
        assert (restored.shape, restored.dtype) == (values.shape, values.dtype)
        assert values.min() <= restored.min() < restored.max() <= values.max()
        assert restored.tolist() == decoded(written).tolist()
    flags = decoded(encoded(make(numpy.arange(1200).reshape(2, 600) % 2 == 0)))
    assert set(numpy.asarray(flags).reshape(-1).tolist()) == {True, False}


def test_what_is_large_is_cut_and_says_so() -> None:
    rows = encoded(torch.zeros(10_000, 7))
    assert (rows["shape"], len(rows["rows"])) == ([10_000, 7], MOST_NUMBERS // 7)
    assert encoded("x" * 1000) == {"text": "x" * MOST_CHARACTERS, "characters": 1000}
    assert encoded(list(range(1000)))["length"] == 1000
    assert len(encoded({str(i): i for i in range(1000)})["dict"]) == MOST_ENTRIES
    deep: Any = []
    for _ in range(50):
        deep = [deep]
    assert len(json.dumps(encoded(deep))) < 200


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Kind.A, {"name": f"{__name__}:Kind.A"}),
        (Kind, {"name": f"{__name__}:Kind"}),
        (math.sqrt, {"name": "math:sqrt"}),
        (torch.float16, {"torch": "torch.float16"}),
        (torch.device("cpu"), {"torch": "cpu"}),
        (object(), {"opaque": "builtins.object"}),
        (torch.empty(2, 3, device="meta"), {"array": "torch", "dtype": "torch.float32", "shape": [2, 3]}),
        (numpy.array(["a", "b"]), {"list": ["a", "b"], "length": 2}),
    ],
)
def test_names_and_what_has_no_form(value: Any, expected: Any) -> None:
    assert encoded(value) == expected


def test_an_unknown_object_is_not_touched() -> None:
    trap = Trap()
    Trap.touched.clear()
    assert encoded([trap]) == [{"opaque": f"{__name__}.Trap"}]
    assert not [name for name in Trap.touched if name not in ("shape", "dtype", "__qualname__")]


@pytest.mark.parametrize(
    "value",
    [
        {"name": "os:system"},
        {"opaque": "x.Y"},
        {"torch": "torch.load"},
        {"array": "torch", "dtype": "torch.load", "shape": [1]},
        {"array": "torch", "dtype": "torch.no_such", "shape": [1], "rows": [1]},
        {"what": 1},
        {},
    ],
)
def test_what_was_not_kept_is_refused(value: Any) -> None:
    with pytest.raises(UsageError):
        decoded(value)


def test_a_class_of_arrays_and_a_value_that_refuses_to_be_read() -> None:
    assert encoded(torch.Tensor) == {"name": "torch:Tensor"}
    assert decoded(noted([1.5])) == [1.5]

    class Refuses(dict[str, Any]):
        def items(self) -> Any:
            raise RuntimeError("no")

    Refuses.__module__ = "collections"
    assert noted(Refuses(a=1)) == {"opaque": f"collections.{Refuses.__qualname__}"}


def test_gradients_and_devices_are_left_alone() -> None:
    made = torch.ones(2, requires_grad=True) * 2
    encoded(made)
    made.sum().backward()
    function: Callable[..., Any] = torch.ones
    assert encoded(function) == {"name": f"{torch.ones.__module__}:ones"}


@dataclasses.dataclass
class Case:
    question: str
    hidden: int = dataclasses.field(default=3, init=False)


@dataclasses.dataclass
class Slotted:
    __slots__ = ("question", "unset")
    question: str


def test_numbers_and_texts_of_numpy_come_back_as_what_they_are() -> None:
    kept = encoded([numpy.str_("ok"), numpy.float64(0.5), numpy.int64(3)])
    assert kept[0] == "ok"
    assert [type(each) for each in decoded(kept)] == [str, numpy.float64, numpy.int64]


def test_fields_in_slots_come_back() -> None:
    kept = encoded(Slotted("why"))
    assert kept == {"object": f"{__name__}:Slotted", "fields": {"question": "why"}}
    assert decoded(kept, package=__name__.partition(".")[0]) == Slotted("why")


@dataclasses.dataclass(init=False)
class Renames:
    """Its constructor has other arguments than it has fields, as a client of a model that names itself."""

    name: str

    def __init__(self, version: str) -> None:
        self.name = f"model {version}"


def test_an_object_whose_constructor_takes_other_arguments_is_not_made() -> None:
    kept, package = encoded({"model": Renames("2")}), __name__.partition(".")[0]
    assert not is_kept(kept, package)
    with pytest.raises(UsageError, match=r"Renames cannot be made of its fields name: .*unexpected keyword"):
        decoded(kept, package)
    assert is_kept(encoded([Case("why")]), package)
    made = {"made": f"{__name__}:Renames", "arguments": {"name": "2"}}
    assert is_kept(made, package)  # it is data still: no constructor has run


def test_fields_of_a_dataclass_come_back_for_its_own_package_alone() -> None:
    kept = encoded(Case("why"))
    assert kept == {"object": f"{__name__}:Case", "fields": {"question": "why"}}
    assert decoded(kept, package=__name__.partition(".")[0]) == Case("why")
    with pytest.raises(UsageError, match="a value was not kept"):
        decoded(kept, package="other")
    with pytest.raises(UsageError, match="a value was not kept"):
        decoded({"name": "os:system"}, package="json")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("api_key", "abc"),
        ("openai_api_key", "abc"),
        ("password", "pw77"),
        ("token", "0123456789abcdef0123"),
        ("text", "sk-0123456789abcdef0123"),
        ("text", "ghp_0123456789abcdef0123"),
        ("url", "postgres://user:secret@host/db"),
        ("header", "Bearer 0123456789abcdef0123"),
        ("pem", "-----BEGIN PRIVATE KEY-----"),
    ],
)
def test_secrets_are_not_stored(name: str, text: str) -> None:
    for value in (encoded(text, name=name), encoded({name: [text]})):
        assert text not in json.dumps(value)


@pytest.mark.parametrize(
    ("name", "text"), [("token", "the"), ("tokens", "a b c"), ("key", "a word"), ("author", "Ann")]
)
def test_ordinary_texts_are_stored(name: str, text: str) -> None:
    assert encoded(text, name=name) == text

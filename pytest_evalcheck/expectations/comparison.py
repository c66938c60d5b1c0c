"""Comparison of two results: their equality, or the first difference.

Numbers, tensors, arrays, texts, and tuples, lists, dicts and dataclasses of them are compared by value; NaN equals NaN;
a 0-dimensional tensor equals the number it holds. Shapes must agree, dtypes need not.
"""

from __future__ import annotations

import enum
import itertools
import math
import numbers
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from pytest_evalcheck.errors import safe_text
from pytest_evalcheck.expectations.origin import place_of, raised_by_adapter, raised_on_purpose


@dataclass(frozen=True)
class Tolerance:
    """The distance that two results may have: ``|actual - expected| <= atol + rtol * |expected|``.

    The defaults gave no false alarm on well-conditioned float32 results; results near zero need ``atol``.
    """

    rtol: float = 1e-4
    atol: float = 1e-5

    def __post_init__(self) -> None:
        if not (0 <= self.rtol < math.inf and 0 <= self.atol < math.inf):
            raise ValueError(f"rtol={self.rtol}, atol={self.atol}; expected finite numbers of at least 0")


EXACT = Tolerance(rtol=0.0, atol=0.0)
ABOUT_NONFINITE = r"\b(nans?|inf|infinit\w*|(non-?)?finite)\b"
"""Words of a warning that says of numbers that they are not finite."""


@dataclass(frozen=True)
class Raised:
    """An error instead of a result. Errors of one type are the same refusal, whatever their text."""

    error: BaseException
    where: str

    @property
    def origin(self) -> str:
        """The type of the error and the line of the code under test that raised it."""
        return place_of(self.error)

    @property
    def is_of_adapter(self) -> bool:
        """Return whether an adapter of this package raised it: it says nothing of the code under test."""
        return raised_by_adapter(self.error)

    @property
    def on_purpose(self) -> bool:
        """Return whether it is a refusal: code under test raised it by a statement of its own, with a text."""
        return raised_on_purpose(self.error)

    def __str__(self) -> str:
        text = safe_text(self.error, str, most=2000).strip().splitlines()
        return f"{self.where} raised {type(self.error).__name__}" + (f": {text[0][:160]}" if text else "")

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class Difference:
    """The first index at which two results differ."""

    path: str
    actual: str
    expected: str
    more: int = 0
    """The number of further differences in the same array."""
    contrast: str = ""
    """The kinds of values that differ, such as ``another number`` or ``NaN``."""
    name: str = ""
    """Name of the differing result."""
    origin: str = ""
    """The origin of the error that one of the results is; empty where both are values."""

    def __str__(self) -> str:
        more = f" (and {self.more} more)" if self.more else ""
        return f"{_at_path(self.path)}{self.actual} is not {self.expected}{more}"


def differences(actual: Any, expected: Any, tolerance: Tolerance) -> Iterator[Difference]:
    """The first difference of each value of two mappings with the same keys; of anything else the first one at all."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping) and set(actual) == set(expected):
        for key, found in _differing_items([*expected], actual, expected, tolerance, ""):
            yield replace(found, name=key) if isinstance(key, str) else found
    elif one := difference(actual, expected, tolerance):
        yield one


def difference(actual: Any, expected: Any, tolerance: Tolerance, path: str = "") -> Difference | None:
    """None where both are equal, else the index and both values."""
    if isinstance(actual, Raised) or isinstance(expected, Raised):
        if isinstance(actual, Raised) and isinstance(expected, Raised):
            same = type(actual.error) is type(expected.error)
        else:
            same = False
        return None if same else _differing(path, actual, expected)
    actual, expected = plain(actual), plain(expected)
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if list(actual) != list(expected) and set(actual) != set(expected):
            return Difference(path, f"keys {list(actual)}", f"keys {list(expected)}", contrast="other keys")
        items = _differing_items([*expected], actual, expected, tolerance, path)
        return next((found for _, found in items), None)
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            return Difference(path, f"length {len(actual)}", f"length {len(expected)}", contrast="another length")
        items = _differing_items(range(len(expected)), actual, expected, tolerance, path)
        return next((found for _, found in items), None)
    if _is_array(actual) or _is_array(expected):
        return _array_difference(actual, expected, tolerance, path)
    if _is_number(actual) and _is_number(expected):
        return None if close(actual, expected, tolerance) else _differing(path, actual, expected)
    if type(actual) is not type(expected) or actual != expected:
        ours, theirs = attributes(actual), attributes(expected)
        if type(actual) is type(expected) and ours and theirs:
            deeper = path.count(".") < _MOST_INSIDE
            return difference(ours, theirs, tolerance, f"{path}.") if deeper else None
        return _differing(path, actual, expected)
    return None


def _differing_items(
    keys: Sequence[Any], actual: Any, expected: Any, tolerance: Tolerance, path: str
) -> Iterator[tuple[Any, Difference]]:
    """Yield the keys or the indices whose values differ, of many numbers without a loop over all of them."""
    ours, theirs = ([part[key] for key in keys] if isinstance(part, Mapping) else part for part in (actual, expected))
    places: Iterable[int] | None = _wrong_numbers(ours, theirs, tolerance)
    if places is None:
        pairs = zip(ours, theirs, strict=True)
        places = (
            i
            for i, (a, e) in enumerate(pairs)
            if a is not e and not (type(a) in _ATOMS and type(e) in _ATOMS and a == e)
        )
    for i in places:
        if found := difference(ours[i], theirs[i], tolerance, f"{path}[{keys[i]!r}]"):
            yield keys[i], found


_ATOMS = frozenset({bool, int, float, str, bytes, type(None)})
_MANY = 64
"""Number of numbers from which on NumPy is faster than a loop."""


def _wrong_numbers(actual: Any, expected: Any, tolerance: Tolerance) -> Sequence[int] | None:
    """Return the indices of the rows in which numbers are not `close`; None for few, or for other values."""
    a, e = _as_float64(actual), _as_float64(expected)
    if a is None or e is None or a.shape != e.shape:
        return None
    import numpy

    if (same := a == e).all():
        return ()
    with numpy.errstate(invalid="ignore", over="ignore"):
        near = numpy.abs(a - e) <= tolerance.atol + tolerance.rtol * numpy.abs(e)
    agree = same | (near & numpy.isfinite(e)) | (numpy.isnan(a) & numpy.isnan(e))
    return numpy.flatnonzero(~agree.reshape(len(a), -1).all(1)).tolist()  # type: ignore[no-any-return]


def _as_float64(value: Any) -> Any:
    """Return many numbers as an array: of an array in one row, of lists as they are; None for few, or other values."""
    import numpy

    try:
        if _is_sequence(value):
            shape, row = [len(value)], value
            while row and (types := {*map(type, row)}) <= _ROWS and len({*map(len, row)}) == 1:
                shape.append(len(row[0]))
                row = [*itertools.chain.from_iterable(row)]
            return numpy.array(row, "f8").reshape(shape) if len(row) >= _MANY and types <= _REAL else None
        if math.prod(value.shape) < _MANY:
            return None
        if hasattr(value, "detach"):
            return None if value.is_complex() else value.reshape(-1).double().numpy()
        return value.reshape(-1).astype("f8") if value.dtype.kind in "biuf" else None
    except Exception:  # an integer that is too large, or an array of another library
        return None


_REAL, _ROWS = frozenset({bool, int, float}), frozenset({list, tuple})


def only_scalars(row: Sequence[Any]) -> bool:
    """Return whether a list or a tuple holds plain numbers, texts and None alone, so that nothing else is in it."""
    return {*map(type, row)} <= _ATOMS


def contrast(actual: Any, expected: Any) -> str:
    """Return the kinds of values that differ: ``NaN``, ``another number``, ``a list, not an error``.

    An error where a value is expected has its type and its place. Whether the expected value is NaN depends
    on the samples, not on what is wrong, and makes no difference.
    """
    kind = kind_of_value(actual)
    if isinstance(actual, Raised):
        return kind
    if isinstance(expected, Raised):
        return f"{kind}, not an error"
    wanted = kind_of_value(expected)
    if kind == wanted or (kind == _NUMBER and wanted in _NOT_FINITE):
        return f"another {kind.split(maxsplit=1)[-1]}"
    return kind if kind in _NOT_FINITE and wanted in (_NUMBER, *_NOT_FINITE) else f"{kind}, not {wanted}"


_NUMBER, _NOT_FINITE = "a number", ("NaN", "an infinity")


def kind_of_value(value: Any) -> str:
    """Return the kind of a result, without the value: ``a number``, ``NaN``, ``ValueError in json.decoder:decode``."""
    value = plain(value)
    if isinstance(value, Raised):
        return f"{type(value.error).__name__}{raised_in(value.error)}"
    if isinstance(value, numbers.Number):
        if not isinstance(value, (int, float)) or math.isfinite(value):
            return _NUMBER
        return "NaN" if math.isnan(value) else "an infinity"
    if value is None:
        return "None"
    return "an array" if _is_array(value) else f"a {type(value).__name__}"


def raised_in(error: BaseException) -> str:
    """Return where an error was raised: `` in package.module:function``; empty where this package raised it.

    A simulated device stands in for torch: its errors come from where torch was called. A comprehension, which is a
    function of its own up to Python 3.11, does not count.
    """
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    places = [(str(frame.f_globals.get("__name__", "")), frame.f_code.co_name) for frame in frames]
    places = [(module, name) for module, name in places if not _SIMULATION.match(module)]
    if not places or _OURS.match(places[-1][0]):
        return ""
    named = [f" in {module}:{name}" for module, name in places if not _OURS.match(module) and not name.startswith("<")]
    return named[-1] if named else ""


_OURS = re.compile(r"pytest_evalcheck\.(?!fixes\b)")
_SIMULATION = re.compile(r"pytest_evalcheck\.devices\b")


def _differing(path: str, actual: Any, expected: Any) -> Difference:
    origin = origin_of([actual, expected])
    return Difference(path, show(actual), show(expected), contrast=contrast(actual, expected), origin=origin)


def close(actual: complex, expected: complex, tolerance: Tolerance) -> bool:
    """Return whether two numbers agree; NaN agrees with NaN, infinities with themselves."""
    if actual == expected:
        return True
    try:
        a, e = float(actual), float(expected)  # type: ignore[arg-type]
    except TypeError:
        return abs(actual - expected) <= tolerance.atol + tolerance.rtol * abs(expected)
    if math.isnan(a) or math.isnan(e):
        return math.isnan(a) and math.isnan(e)
    if math.isinf(a) or math.isinf(e):
        return False
    return abs(a - e) <= tolerance.atol + tolerance.rtol * abs(e)


def plain(value: Any) -> Any:
    """Tensors of no dimension become numbers, sparse ones and sparse matrices dense; others stay as they are.

    What another library calls an array or a table (jax, pandas, xarray) becomes one of NumPy, and a dataclass a dict.
    """
    if hasattr(value, "detach") and hasattr(value, "dim"):
        value = value.detach().cpu()
        value = value if str(getattr(value, "layout", "torch.strided")) == "torch.strided" else value.to_dense()
        return value.item() if value.dim() == 0 else value
    if type(value).__module__ == "numpy":
        return value.item() if getattr(value, "ndim", None) == 0 else value
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        return value.toarray()
    if hasattr(type(value), "__array__"):
        return _as_numpy(value)
    if is_dataclass(value) and not isinstance(value, (type, Raised)):
        return {each.name: getattr(value, each.name, None) for each in fields(value)}
    return value


_MOST_INSIDE = 4
"""Number of objects inside of each other whose attributes are looked at: some hold what holds them."""


def attributes(value: Any) -> Mapping[str, Any]:
    """Return what an object of a library holds, by name; empty for a value of Python, a class or what can be called."""
    held = getattr(value, "__dict__", None)
    of_python = callable(value) or isinstance(value, (BaseException, Raised, enum.Enum))
    return held if isinstance(held, dict) and not of_python else {}


def leave_out(value: Any, *names: str) -> Any:
    """Return a result as plain values, without what has one of these names in it.

    A time, or an identifier that each call creates, belongs to the call and not to the samples that a metric was given.
    """
    value = plain(value)
    held = value if isinstance(value, Mapping) else attributes(value)
    if held:
        return {name: leave_out(each, *names) for name, each in held.items() if name not in names}
    return [leave_out(each, *names) for each in value] if isinstance(value, (list, tuple)) else value


def _as_numpy(value: Any) -> Any:
    import numpy

    try:
        made = numpy.asarray(value)
    except Exception:  # one that is on a device, or that no array can hold
        return value
    return made.item() if made.ndim == 0 else made


def origin_of(value: Any) -> str:
    """Return the origin of the first error that is anywhere in a result; empty where there is none."""
    if isinstance(value, Raised):
        return value.origin
    inner = value.values() if isinstance(value, Mapping) else value if _is_sequence(value) else ()
    return next((found for part in inner if type(part) not in _ATOMS and (found := origin_of(part))), "")


def has_nonfinite(value: Any, most: int = _MOST_INSIDE) -> bool:
    """Return whether a NaN or an infinity is anywhere in a result, also inside of ``most`` objects in each other."""
    value = plain(value)
    if isinstance(value, Mapping):
        return has_nonfinite([*value.values()], most)
    if _is_sequence(value) or _is_array(value):
        if (row := _as_float64(value)) is not None:
            return not math.isfinite(abs(row).max())
        parts = value if _is_sequence(value) else value.reshape(-1).tolist()
        return any(has_nonfinite(part, most) for part in parts if not isinstance(part, str))
    if most and (held := attributes(value)):
        return has_nonfinite([*held.values()], most - 1)
    return isinstance(value, float) and not math.isfinite(value)


def is_no_score(value: Any) -> bool:
    """Return whether a result says that there is no score: an error, or NaN and no other number."""
    value = plain(value)
    if isinstance(value, Raised):
        return True
    if isinstance(value, Mapping):
        return is_no_score([*value.values()])
    if _is_sequence(value):
        return bool(value) and all(map(is_no_score, value))
    if _is_array(value):
        return is_no_score(value.reshape(-1).tolist())
    return isinstance(value, float) and math.isnan(value)


def numbers_of(value: Any, name: str = "") -> dict[str, float]:
    """Return the numbers of a value by name, where it is a mapping or a tuple; lists and arrays are left out.

    >>> numbers_of({"map": 0.5, "classes": [1, 2], "rouge": (0.25, 0.75)})
    {'map': 0.5, 'rouge[0]': 0.25, 'rouge[1]': 0.75}
    """
    value = plain(value)
    if isinstance(value, Mapping):
        parts = [numbers_of(each, f"{name}[{key!r}]" if name else str(key)) for key, each in value.items()]
    elif isinstance(value, tuple):
        parts = [numbers_of(each, f"{name}[{place}]") for place, each in enumerate(value)]
    else:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return {name: float(value)} if is_number and name else {}
    return {key: number for part in parts for key, number in part.items()}


def constant_numbers(values: Sequence[Any]) -> dict[str, float]:
    """Return the numbers that are the same in all values that are no error; none where all are."""
    same = same_numbers(values)
    first = next((numbers_of(value) for value in values if not isinstance(value, Raised)), {})
    return same if len(same) < len(first) else {}


def same_numbers(values: Sequence[Any]) -> dict[str, float]:
    """Return the numbers that are the same in all values that are no error."""
    parts = [numbers_of(value) for value in values if not isinstance(value, Raised)]
    first, *others = parts or [{}]
    return {name: number for name, number in first.items() if all(_is_same(number, each.get(name)) for each in others)}


def _is_same(number: float, other: float | None) -> bool:
    return other is not None and (number == other or (math.isnan(number) and math.isnan(other)))


def show(value: Any) -> str:
    """A result on one line, short enough for a screen."""
    value = plain(value)
    if isinstance(value, Raised):
        return str(value)
    if isinstance(value, Mapping):
        text = "{" + ", ".join(f"{k!r}: {show(value[k])}" for k in _ends([*value])) + "}"
    elif isinstance(value, tuple):
        text = "(" + ", ".join(map(show, _ends(value))) + ("," if len(value) == 1 else "") + ")"
    elif isinstance(value, list) or (_is_array(value) and math.prod(value.shape) > 2 * _SHOWN):
        text = "[" + ", ".join(map(show, _ends(value))) + "]"
    elif _is_array(value):
        text = f"empty, of shape {tuple(value.shape)}" if 0 in value.shape else show(value.tolist())
    elif isinstance(value, float):
        text = repr(float(f"{value:.9g}"))
    else:
        text = safe_text(value, most=2000)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-80:]}"


def _ends(parts: Any) -> list[Any]:
    """Return the parts of a result that its text shows; of many, the first and the last ones."""
    few = len(parts) <= 2 * _SHOWN
    return [*parts] if few else [*parts[:_SHOWN], *parts[-_SHOWN:]]


_SHOWN = 150
"""Number of parts at each end of a text; they take more characters than are shown of it."""


def _array_difference(actual: Any, expected: Any, tolerance: Tolerance, path: str) -> Difference | None:
    if not (_is_array(actual) and _is_array(expected)) or tuple(actual.shape) != tuple(expected.shape):
        shapes = [f"shape {tuple(v.shape)}: {show(v)}" if _is_array(v) else show(v) for v in (actual, expected)]
        both = _is_array(actual) and _is_array(expected)
        return Difference(path, shapes[0], shapes[1], contrast="another shape" if both else contrast(actual, expected))
    wrong = _wrong_numbers(actual, expected, tolerance)
    if wrong is None:
        pairs = zip(actual.reshape(-1).tolist(), expected.reshape(-1).tolist(), strict=True)
        wrong = [i for i, (a, e) in enumerate(pairs) if not _agree(a, e, tolerance)]
    if not wrong:
        return None
    # One entry of an array of objects is any object: only an array becomes a list.
    a, e = (array.reshape(-1)[wrong[0] : wrong[0] + 1].tolist()[0] for array in (actual, expected))
    if math.prod(actual.shape) <= _SHOWN_WHOLE:
        return Difference(path, show(actual), show(expected), contrast=contrast(a, e))
    at = f"{path}{list(_place(wrong[0], tuple(actual.shape)))}"
    return Difference(at, show(a), show(e), len(wrong) - 1, contrast(a, e))


def _agree(actual: Any, expected: Any, tolerance: Tolerance) -> bool:
    """Return whether two entries agree: those of an array of objects may be arrays."""
    if _is_number(actual) and _is_number(expected):
        return close(actual, expected, tolerance)
    return difference(actual, expected, tolerance) is None


def _place(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The index in an array of this shape, from that in the flattened one."""
    at: list[int] = []
    for size in reversed(shape):
        flat, last = divmod(flat, size)
        at.insert(0, last)
    return tuple(at)


_SHOWN_WHOLE = 16
"""Arrays of up to so many numbers are shown whole beside each other."""


def _at_path(path: str) -> str:
    return f"at {path}: " if path else ""


def _is_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "tolist") and len(value.shape) > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Number)

"""The usual causes of a failed check that fit what was seen: its comparison, its values and its case."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Tolerance, difference, plain
from pytest_evalcheck.expectations.failures import CheckFailure, Compared


def fitting_causes(text: str, failure: CheckFailure, case: Any) -> str:
    """Return the causes that fit a failure, such as ``one of: a mean of means; a sum in float16``.

    A check writes ``A; if samples differ in length, B; if `order-of-scores` fails, C.`` A condition is one of `SEEN`,
    or a part of the id of the comparison that failed. Some of them leave other causes possible.
    """
    always, *conditional = text.removesuffix(".").split("; if ")
    pairs = [each.partition(", ")[::2] for each in conditional]
    if not pairs or not all(is_condition(condition) for condition, _ in pairs):
        return text
    seen = {condition: cause for condition, cause in pairs if _is_seen(condition, failure, case)}
    causes = [cause for condition, cause in seen.items() if condition not in _VAGUE] or [*seen.values(), always]
    return f"{causes[0]}." if len(causes) == 1 else f"one of: {'; '.join(causes)}."


def is_condition(text: str) -> bool:
    """Return whether a text is a condition of a cause."""
    return text in SEEN or _FAILS.fullmatch(text) is not None


def _is_seen(condition: str, failure: CheckFailure, case: Any) -> bool:
    if named := _FAILS.fullmatch(condition):
        return named[1] in failure.id
    return failure.compared is not None and SEEN[condition](failure.compared, case)


def _differ_in_length(_: Compared, case: Any) -> bool:
    samples = getattr(case, "samples", None)
    return isinstance(samples, Sequence) and any(_lengths(sample) != _lengths(samples[0]) for sample in samples)


def _lengths(sample: Any) -> Any:
    if isinstance(sample, (list, str)):
        return len(sample)
    parts = sample.values() if isinstance(sample, Mapping) else sample if isinstance(sample, tuple) else ()
    return [_lengths(part) for part in parts]


def _reordered(compared: Compared, _: Any) -> bool:
    one, other = map(_entries, (compared.actual, compared.expected))
    return one != other and sorted(one) == sorted(other)


def _entries(value: Any) -> list[str]:
    """Return the entries of a result as texts; of a mapping those of its first value."""
    value = plain(value)
    if isinstance(value, Mapping):
        return _entries(next(iter(value.values()), None))
    listed = value.tolist() if hasattr(value, "tolist") else value
    return [f"{each:.6g}" if isinstance(each, float) else repr(each) for each in listed] if type(listed) is list else []


def _nearly_equal(compared: Compared, _: Any) -> bool:
    return compared.form == "same" and difference(compared.actual, compared.expected, _DIGITS) is None


SEEN: Mapping[str, Callable[[Compared, Any], bool]] = {
    "samples differ in length": _differ_in_length,
    "only the order differs": _reordered,
    "only the last digits differ": _nearly_equal,
}
"""Conditions of causes, as checks write them."""
_VAGUE = ("samples differ in length", "only the last digits differ")
_FAILS = re.compile(r"`([a-z-]+)` fails")
_DIGITS = Tolerance(rtol=1e-2, atol=0.0)

"""The error for what a user wrote wrong, and the nearest right word. Every layer may use this module."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable
from typing import Any


class UsageError(Exception):
    """A target, an option or a registration is not written as it should be.

    The message says what was wrong, what was expected, and the nearest right thing.
    """


def nearest(word: str, words: Iterable[str], *, cutoff: float = 0.5) -> str:
    """``; did you mean 'x'?``, or nothing when no word is near."""
    return did_you_mean(nearest_word(word, words, cutoff=cutoff))


def did_you_mean(word: str) -> str:
    """The clause that suggests a word, at the end of a message; empty for none."""
    return f"; did you mean {word!r}?" if word else ""


def nearest_word(word: str, words: Iterable[str], *, cutoff: float = 0.5) -> str:
    """The nearest of some words, or '' when none is near; of words equally near the one that begins alike."""
    matches = difflib.get_close_matches(word, list(words), n=_EQUALLY_NEAR, cutoff=cutoff)
    if not matches:
        return ""
    ratios = [difflib.SequenceMatcher(None, match, word).ratio() for match in matches]
    best = [match for match, ratio in zip(matches, ratios, strict=True) if ratio == max(ratios)]
    return min(best, key=lambda match: (-common_start(match, word), match))


def require_fields(given: Any, required: Collection[str], known: Collection[str], place: str) -> None:
    """Require that what was read from JSON is an object with these fields, and with no unknown one.

    Raises:
        UsageError: where it is not, with the place.
    """
    if not isinstance(given, dict):
        raise UsageError(f"{place}: expected an object with {', '.join(required)}, not {type(given).__name__}")
    for name in given:
        if name not in known:
            raise UsageError(f"{place}: there is no field {name!r}{nearest(name, known)}")
    for name in required:
        if name not in given:
            raise UsageError(f"{place}: the field {name!r} is missing")


def missing_attribute(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """Make the error of a module's ``__getattr__`` about a name that it lacks, with the nearest of its ``names``."""
    near = "" if name.startswith("__") else nearest(name, names)
    return AttributeError(f"module {module!r} has no attribute {name!r}{near}")


def common_start(one: str, two: str) -> int:
    """Count the characters that two words have in common at their beginning."""
    return next((index for index, (a, b) in enumerate(zip(one, two, strict=False)) if a != b), min(len(one), len(two)))


_EQUALLY_NEAR = 20


def safe_text(value: object, form: Callable[[object], str] = repr, *, most: int = 200) -> str:
    """``form(value)`` in at most ``most`` characters; code of users may raise where it is shown."""
    try:
        text = form(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose {form.__name__}() raised {type(error).__name__}>"
    return text if len(text) <= most else f"{text[: most - 4]} ..."

"""Texts that a regular expression finds: the form of an answer that an extraction looks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

_HOLE = "\0"
"""The place of the answer in a form of texts: braces occur in answers and in forms."""


def filled(form: str, answer: str) -> str:
    r"""Return a form with an answer in its place: that of `form_around`, or a format string.

    >>> filled(r"\boxed{{{}}}", "29")
    '\\boxed{29}'
    """
    return form.replace(_HOLE, answer) if _HOLE in form else form.format(answer)


def form_around(pattern: str, answer: str) -> str | None:
    """Return the form of a text in which a pattern finds exactly this answer; None where none is found.

    The answer takes the place of the first group of the pattern, or of its first part that matches any text.

    >>> filled(form_around(r"#### (-?[0-9.,]+)", "29"), "29")
    '#### 29'
    >>> filled(form_around(r"(?<=the answer is )(.*)(?=.)", "no"), "no")
    'the answer is no.'
    """
    try:
        tree = parser.parse(pattern)
        text, taken = _example(tree, bool(re.compile(pattern).groups))
        if not taken:
            return None
        found = re.findall(pattern, text.replace(_HOLE, answer))
    except (re.error, RecursionError, OverflowError):
        return None
    first = next(iter(found), None)
    parts = first if isinstance(first, tuple) else (first,)
    return text if any(isinstance(part, str) and part.strip() == answer for part in parts) else None


def _example(tree: Any, in_group: bool) -> tuple[str, bool]:
    """Return a text that a parsed pattern matches, and whether the answer is in it."""
    text, taken = "", False
    for code, value in tree:
        part, there = _part(code, value, in_group, taken)
        text, taken = text + part, taken or there
    return text, taken


def _part(code: Any, value: Any, in_group: bool, taken: bool) -> tuple[str, bool]:
    if code is codes.LITERAL:
        return chr(value), False
    if code is codes.ASSERT:
        return _example(value[1], True)[0].replace(_HOLE, "."), False
    if code is codes.SUBPATTERN:
        if value[0] is None or taken:
            return _example(value[3], in_group)
        if any(each in (codes.ASSERT, codes.BRANCH, codes.SUBPATTERN) for each, _ in value[3]):
            text, there = _example(value[3], "SUBPATTERN" in repr(value[3]))
            if there:
                return text, True
        return _HOLE, True
    if code is codes.BRANCH:
        return _example(value[1][0], in_group)
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        least, _, below = value
        if not in_group and not taken and not all(each[0] is codes.LITERAL for each in below):
            return _HOLE, True
        text, there = _example(below, in_group)
        return (text if there else text * min(least, 4)), there
    if code is codes.IN:
        return _class_example(value), False
    return ("." if code is codes.ANY else "", False)


_CLASSES = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}


def _class_example(value: Any) -> str:
    for code, item in value:
        if code is codes.LITERAL:
            return chr(item)
        if code is codes.RANGE:
            return chr(item[0])
        if code is codes.CATEGORY and str(item) in _CLASSES:
            return _CLASSES[str(item)]
    return "a"


FORMS = ("{}", "ANSWER: {}", "The answer is {}.", "Answer: {}", r"\boxed{{{}}}", "#### {}", "The final answer is {}.")
"""Texts by which models give an answer."""


def best_form(forms: Iterable[str], marks: Callable[[str], Mapping[str, float]]) -> str:
    """Return the first form in which a right answer gets the most full marks; ``"{}"`` where none does.

    Args:
        forms: as `filled` takes them, the likeliest first.
        marks: from a form to the marks of the right answer in it. What it raises is a form without a mark.
    """
    best, most = "{}", 0
    for form in dict.fromkeys(forms):
        try:
            found = marks(form)
        except Exception:  # what a task does with a right answer is judged by checks
            continue
        full = sum(1 for mark in found.values() if mark == 1)
        if full > most:
            best, most = form, full
        if full and full == len(found):
            break
    return best


def exact_marks(answers: Iterable[str], marks: Callable[[str], Mapping[str, float]]) -> tuple[str, ...]:
    """Return the names of the marks that say right or wrong; others measure how alike two texts are.

    Each of some responses, by ``answers``, gets 0 or 1 by such a mark. ``marks`` is as for `best_form`, of a response.
    One that is the same for all of them, beside others that move, says something else: whether there is an answer.
    """
    names: dict[str, bool] = {}
    seen: dict[str, set[float]] = {}
    for answer in answers:
        for text in (answer, f"{answer} and something else", "none of it"):
            try:
                found = marks(text)
            except Exception:  # see above
                continue
            for name, mark in found.items():
                names[name] = names.get(name, True) and mark in (0, 1)
                seen.setdefault(name, set()).add(mark)
    moving = [name for name, values in seen.items() if len(values) > 1]
    return tuple(name for name, kept in names.items() if kept and (name in moving or not moving))

"""Making a target of a factory and of keywords, whatever they are; and the note of every target that was made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pytest_evalcheck.errors import UsageError, nearest, safe_text
from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.registry import kind_of, shipped
from pytest_evalcheck.targets import keywords as read
from pytest_evalcheck.targets.target import Target

Decorator = Callable[[Callable[..., Any]], Target]

Namespace = dict[str, Any]
"""The globals of a module: a file that is imported twice has two."""

_notes: list[list[tuple[Namespace, Target]]] = []


@contextmanager
def noting() -> Iterator[list[tuple[Namespace, Target]]]:
    """Gives a list, to which every target that is made in this block is added, with the module that made it.

    The module is the innermost one whose top level was being run: a helper that makes targets does so for the file
    that calls it.
    """
    notes: list[tuple[Namespace, Target]] = []
    _notes.append(notes)
    try:
        yield notes
    finally:
        _notes.remove(notes)


def decorator(kind: Any, given: Any, misplaced: Any = None) -> Decorator:
    """The decorator of targets of a kind. ``misplaced`` is what was given by position, which is always a mistake."""
    if isinstance(kind, str) and misplaced is None:
        return lambda factory: _target(kind, factory, given, [])
    name, what = (kind, misplaced) if isinstance(kind, str) else ("target", kind)
    example = "@ec.target('metric', inputs=...)" if name == "target" else f"@ec.{name}(inputs=...)"
    if not given and (callable(what) or isinstance(what, (staticmethod, classmethod))):
        wrong = [f"the decorator has no parentheses; write {example}"]
        return _target(name, what, None, wrong)
    wrong = [f"the decorator was given {safe_text(what)} by position; it takes keywords only: {example}"]
    return lambda factory: _target(name, factory, given, wrong)


def _target(kind: str, factory: Any, given: Any, problems: list[str]) -> Target:
    written = _caller()
    spec = None
    values: dict[str, Any] = {}
    options: dict[str, Any] = {}
    if given is not None:
        try:
            spec = kind_of(kind)
            values = _values(spec, given, problems)
            options = _options(spec, given, problems)
        except UsageError as error:
            problems.append(str(error))
        except Exception as error:  # a mapping or a sequence of the user's own may raise when it is read
            problems.append(f"the keywords cannot be read: {type(error).__name__}: {safe_text(error, str)}")
    problems = [*read.factory_problems(factory), *problems]
    made = Target(
        kind=kind,
        factory=factory,
        written=(written.f_code.co_filename, written.f_lineno) if written else ("<unknown>", 0),
        **{**read.DEFAULTS, "tolerance": spec.tolerance if spec else Tolerance(), **values},
        options=options,
        problems=tuple(problems),
    )
    if _notes:
        module = _importing(written)
        for notes in _notes:
            notes.append((module, made))
    return made


def _values(spec: KindSpec, given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    names = [*read.DEFAULTS, *spec.options]
    problems += [f"unknown keyword {name!r}{nearest(name, names)}" for name in given if name not in names]
    extras = read.extra_checks(spec.name, given.get("extra_checks", ()), problems)
    checks = (*(check for check in shipped() if spec.name in check.kinds), *extras)
    values = {
        "inputs": read.inputs(given.get("inputs", spec.inputs), spec.example, problems),
        "extra_checks": extras,
        **read.tables(given.get("known_failures"), given.get("not_applicable"), checks, problems),
    }
    for name, reader in read.READERS.items():
        if name in given:
            values[name] = reader(given[name], problems)
    if values.get("tolerance") is None:
        values.pop("tolerance", None)
    return values


def _options(spec: KindSpec, given: dict[str, Any], problems: list[str]) -> dict[str, Any]:
    values = {}
    for name, option in spec.options.items():
        value = given.get(name, option.default)
        try:
            values[name] = option.read(value, problems)
        except Exception as error:
            problems.append(f"{name}={safe_text(value)}: {type(error).__name__}: {safe_text(error, str)}")
            values[name] = option.default
    return values


def _caller() -> FrameType | None:
    """The innermost frame outside of this package of decorators."""
    frame: FrameType | None = sys._getframe(1)
    while frame and str(frame.f_globals.get("__name__", "")).startswith(__package__):
        frame = frame.f_back
    return frame


def _importing(frame: FrameType | None) -> Namespace:
    while frame and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    return frame.f_globals if frame else {}

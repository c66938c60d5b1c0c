"""Metrics with values of their options that bite: at a limit, at a score, inside the range, or past what is seen."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from sweep_families import alone
from sweep_members import Member

import pytest_evalcheck as ec
from pytest_evalcheck.discovery.control import try_strategy
from pytest_evalcheck.kinds.common.calling import is_clear_refusal
from pytest_evalcheck.strategies import Arguments

BITING: dict[str, tuple[Any, ...]] = {
    "adaptive_k": (True,),
    "beta": (0.5, 2.0),
    "data_range": (0.5, (0.25, 0.75)),
    "empty_target_action": ("pos", "skip", "error"),
    "ignore_index": (0, 1, -1, -100),
    "max_fpr": (0.25, 0.999),
    "max_k": (1, 2),
    "min_precision": (0.0, 1.0),
    "min_recall": (0.0, 1.0),
    "min_sensitivity": (0.0, 1.0),
    "min_specificity": (0.0, 1.0),
    "n_bins": (1, 2, 100),
    "num_classes": (5,),
    "power": (0, 1, 1.5, 2, 3),
    "p": (1, 1.5, 2),
    "squared": (False,),
    "threshold": (0.0, 0.0625, 0.5, 0.9375, 1.0),
    "thresholds": (1, 2, [0.0, 0.0625, 0.5, 0.9375, 1.0]),
    "top_k": (1, 2, 3),
    "window": (1, 2, 9),
    "zero_division": (0.0, 1.0, float("nan")),
}
"""By name: values of which a path of its own is known or likely. Scores of the inputs are sixteenths, so that a
threshold of 0.0625 or 0.9375 hits some exactly; 0 and 1 are classes; three classes are seen where there are five."""


def variants(member: Member, chosen: Callable[[str], bool]) -> Iterator[Member]:
    """A member with each such value of each of its options that it takes, or that ends in an error by accident."""
    parameters = inspect.signature(member.origin).parameters
    for option, values in BITING.items():
        for value in values if option in parameters else ():
            other = _with_option(member, option, value)
            if option == "num_classes" and value <= _classes(member):
                continue  # labels beyond the classes are a mistake of the user
            if chosen(other.construction) and (not try_strategy(other.source, other.make)[0] or fails(other)):
                yield other


def _classes(member: Member) -> int:
    call = ast.parse(member.construction, mode="eval").body
    assert isinstance(call, ast.Call)
    given = (each.value for each in call.keywords if each.arg == "num_classes")
    return next((each.value for each in given if isinstance(each, ast.Constant)), 0)  # type: ignore[misc]


def fails(member: Member) -> bool:
    """Return whether a plain batch ends in an unclear error, though the constructor took the option."""
    try:
        made = member.make()
    except Exception:
        return False
    inputs = member.inputs
    batch = Arguments.of(inputs.collate(inputs.fixed(max(4, inputs.min_samples))))
    try:
        made.update(*batch.args, **batch.kwargs)
        made.compute()
    except Exception as error:
        return not is_clear_refusal(error)
    return False


def configured(found: Iterable[Member], chosen: Callable[[str], bool]) -> Iterator[tuple[str, ec.Target]]:
    """Every class with each such value of each of its options: the construction and the target."""
    for member in found:
        for other in variants(member, chosen):
            yield other.construction, alone(other)


def changed(member: Member, option: str, value: Any) -> Member:
    """The member with another value of one option, and the same inputs."""
    call = ast.parse(member.construction, mode="eval").body
    imports = member.imports
    if not isinstance(call, ast.Call):  # a function without options
        call = ast.Call(ast.Name("partial"), [call], [])
        imports = (*imports, "from functools import partial")
    place = [*inspect.signature(member.origin).parameters].index(option)
    if place < len(call.args):
        call.args[place] = _shown(value)
    else:
        kept = [each for each in call.keywords if each.arg != option]
        call.keywords = [*kept, ast.keyword(option, _shown(value))]
    return replace(member, construction=ast.unparse(call), imports=imports)


def _shown(value: Any) -> ast.expr:
    plain = str(value) if isinstance(value, str) else value  # some libraries have texts of another repr()
    return ast.parse("float('nan')" if value != value else repr(plain), mode="eval").body


def _with_option(member: Member, option: str, value: Any) -> Member:
    other, source = changed(member, option, value), member.source
    if option == "ignore_index" and "ignore_index" not in str(source):
        source = source.ignoring(value)
    return replace(other, source=source)

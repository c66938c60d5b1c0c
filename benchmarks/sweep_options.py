"""Metrics with values of their options that bite: at a limit, at a score, inside the range, or past what is seen."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sweep_families import alone
from sweep_members import Member

import pytest_evalcheck as ec
from pytest_evalcheck.discovery.control import control

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
WITH_IGNORED = ("es.binary(", "es.multiclass(", "es.multilabel(", "es.segmentation(", "es.retrieval(", "es.tokens(")


def variants(member: Member, chosen: Callable[[str], bool]) -> Iterator[Member]:
    """A member with each such value of each of its options that it takes."""
    parameters = inspect.signature(type(member.make())).parameters
    for option, values in BITING.items():
        for value in values if option in parameters else ():
            other = _with(member, option, value)
            if chosen(other.construction) and not control(other.source, other.make)[0]:
                yield other


def configured(found: Iterable[Member], chosen: Callable[[str], bool]) -> Iterator[tuple[str, ec.Target]]:
    """Every class with each such value of each of its options: the construction and the target."""
    for member in found:
        for other in variants(member, chosen):
            yield other.construction, alone(other)


def _with(member: Member, option: str, value: Any) -> Member:
    call = ast.parse(member.construction, mode="eval").body
    source = member.source
    assert isinstance(call, ast.Call)
    shown = "float('nan')" if value != value else repr(value)
    kept = [each for each in call.keywords if each.arg != option]
    call.keywords = [*kept, ast.keyword(option, ast.parse(shown, mode="eval").body)]
    if option == "ignore_index" and source.startswith(WITH_IGNORED) and "ignore_index" not in source:
        inside = source.replace(")", f", ignore_index={value})", 1).replace("(, ", "(")
        source = inside
    return Member(ast.unparse(call), member.imports, source, member.setup, member.by_design)

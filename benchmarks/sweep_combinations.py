"""Metrics with all of their options at once: every pair of values occurs in one combination (EC227 and EC228)."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from sweep_members import Member
from sweep_options import BITING, changed

import pytest_evalcheck as ec
from pytest_evalcheck.discovery.options import varied
from pytest_evalcheck.kinds.common.combinations import annotations_of

CODES = "EC227,EC228"
ABOUT_INPUTS = frozenset({"from_sorted_ids", "num_outputs"})
"""Options that say what the inputs are."""
DOWNLOADED = frozenset({"flores101", "flores200"})
"""Values that need a model from the network."""
CLASS = 1
"""The class that is ignored, other than the background, which has an option of its own."""
INNER = (0.0625, 0.9375)
"""Thresholds, of which 0 and 1 would predict all or nothing, so that no other option has an effect."""
SILENT = {
    ("AveragePrecisionMetric", "average"): '"type of averaging performed if not binary classification"',
    ("ConfusionMatrixMetric", "compute_sample"): '"when reducing": nothing is reduced',
    ("DiceHelper", "threshold"): "masks of 0 and 1 are the same after a threshold",
    ("DiceScore", "aggregation_level"): "pictures of one size weigh the same in a micro average",
    ("GeneralizedDiceScore", "weight_type"): "the weight of a class cancels in the score of that class",
    ("KendallRankCorrCoef", "alternative"): '"alternative hypothesis for t-test": there is none',
    ("ROCAUCMetric", "average"): '"type of averaging performed if not binary classification"',
    ("precision_recall_fscore_support", "beta"): "a micro average has equal precision and recall",
}
"""By class and option: why it has no effect beside others, or is not looked at, by documentation or by definition."""


def combined(found: Iterable[Member], chosen: Callable[[str], bool]) -> Iterator[tuple[str, ec.Target]]:
    """Every class that has options, with their values: its construction and the target."""
    for member in found:
        options = _options(member)
        if options and chosen(member.construction):
            yield member.construction, _target(member, options)


def _options(member: Member) -> dict[str, tuple[Any, ...]]:
    """By name: the default, and the values that bite or that inference would try."""
    made = member.origin
    parameters = list(inspect.signature(made).parameters.values())
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return {}  # it passes on what it is given
    found = varied(parameters, annotations_of(made))
    given, options = _given(member), {}
    tame = {"ignore_index": () if _is_about_two(made) else (CLASS,), "threshold": INNER}
    for name, values in found.items():
        usual = given.get(name, values[0])
        biting = tame.get(name, BITING.get(name, values[1:]))[:_MOST]
        others = [each for each in biting if _fits(each, usual)]
        options[name] = tuple({repr(value): value for value in (usual, *others)}.values())
    return {name: values for name, values in options.items() if len(values) > 1 and name not in ABOUT_INPUTS}


_MOST = 8


def _fits(value: Any, usual: Any) -> bool:
    """Return whether a value can be tried here, and a number is of the usual kind: thresholds may also be a count."""
    if isinstance(value, str):
        return value not in DOWNLOADED
    if value is None:
        return type(usual) not in (int, float)
    return not isinstance(value, float) or usual is None or isinstance(usual, float)


def excuse_of_options(cell: ec.Cell, member: str) -> str:
    """Return why a red cell is by design: `SILENT` names its option."""
    about = cell.failure.about if cell.failure else ""
    found = (why for (of, option), why in SILENT.items() if of in member and about.startswith(f"{option} "))
    return next((f"by design: {why}" for why in found), "")


def _given(member: Member) -> dict[str, Any]:
    """The options of the construction that are written out, by name."""
    call = ast.parse(member.construction, mode="eval").body
    keywords = call.keywords if isinstance(call, ast.Call) else []
    found = {}
    for each in keywords:
        with suppress(ValueError):
            found[str(each.arg)] = ast.literal_eval(each.value)
    return found


def _is_about_two(made: Any) -> bool:
    """Return whether a metric is about two classes, also for each of several labels or documents."""
    return made.__name__.startswith(("Binary", "Multilabel", "Retrieval"))


def _target(member: Member, options: dict[str, tuple[Any, ...]]) -> ec.Target:
    """A target whose factory takes the options by name, as one that somebody writes does."""

    def build(**given: Any) -> Any:
        other = member
        for name, value in given.items():
            other = changed(other, name, value)
        return other.make()

    names = ", ".join(f"{name}=options[{name!r}][0]" for name in options)
    given = ", ".join(f"{name}={name}" for name in options)
    space: dict[str, Any] = {"build": build, "options": options}
    exec(f"def configured({names}):\n    return build({given})", space)
    return ec.metric(inputs=member.inputs, options=options)(space["configured"])

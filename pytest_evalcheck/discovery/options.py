"""Options of a constructor that are tried, and their values."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_evalcheck.kinds.common.combinations import listed_values

_INFRASTRUCTURE = re.compile(
    "validate_args|compute_on_(cpu|step)|dist_sync_on_step|sync_on_compute|compute_with_cache|distributed_available_fn"
    "|process_group|dist_sync_fn|device|dtype|name|verbose|kwargs|args|copy|n_jobs|check_input|prefix|postfix"
    "|skip_unrolling|progress_bar|fast_bilinear|truncate|return_full_image"
)
"""Options that are about running a metric, not about its value."""

_ABOUT_INPUTS = re.compile(r"(^|_)(log_prob|log_input|logits?|softmax|sigmoid|one_?hot|sparse|dense)(_|$)")
"""Words of options that say in which form the inputs are: another value of one needs other inputs."""

_SHOWING_NAN = ("error", "raise", "warn", "propagate", "keep", "disable")
"""Values of an option about NaN with which one must be seen."""

_OPTIONS: dict[str, tuple[Any, ...]] = {
    "average": ("micro", "macro", "weighted", "none", None),
    "multidim_average": ("global", "samplewise"),
    "nan_strategy": ("warn", "ignore", 0.0),
    "multioutput": ("uniform_average", "variance_weighted", "raw_values"),
    "threshold": (0.5, 0.25),
    "top_k": (2,),
    "k": (None, 2),
    "ignore_index": (None, -1),
    "num_outputs": (1, 2),
    "beta": (1.0, 2.0),
    "reduction": ("mean", "sum", "none"),
}
"""By name: values of an option that change how a metric computes; those that a constructor refuses are left out."""

_RATES = ("recall", "precision", "sensitivity", "specificity")
_REQUIRED: dict[str, Any] = {
    **dict.fromkeys(("num_classes", "num_labels", "n_classes", "classes"), 3),
    **dict.fromkeys(("num_outputs", "num_tasks", "top_k", "k", "spatial_dims"), 2),
    **dict.fromkeys(("num_bins", "n_bins"), 10),
    **dict.fromkeys(("fs", "sample_rate"), 8000),
    **dict.fromkeys(("beta", "data_range", "max_val"), 1.0),
    **dict.fromkeys(("threshold", "quantile", "alpha"), 0.5),
    **{f"{prefix}{name}": 0.5 for prefix in ("", "min_") for name in _RATES},
    "p": 2.0,
    "include_background": True,
    "class_thresholds": [0.5, 0.5, 0.5],
    "target_class_ids": [0, 1],
}
"""By name: a value for a parameter of a constructor that has no default."""


class MissingArgument(Exception):
    """A parameter of a constructor that has no default and of which no value is known."""


def required(parameters: Sequence[inspect.Parameter], annotations: Mapping[str, Any]) -> dict[str, Any]:
    """Values for the parameters that have no default.

    Raises:
        MissingArgument: with the name of one of which no value is known.
    """
    found = {}
    for each in parameters:
        if each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            continue
        if each.name in _REQUIRED:
            found[each.name] = _REQUIRED[each.name]
            continue
        values = listed_values(annotations.get(each.name))
        if not values:
            raise MissingArgument(each.name)
        found[each.name] = values[0]
    return found


def varied(parameters: Sequence[inspect.Parameter], annotations: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    """By option: the values to be tried, the default first."""
    found = {}
    for each in parameters:
        if each.default is each.empty or each.name.startswith("_"):
            continue
        if _INFRASTRUCTURE.fullmatch(each.name) or _ABOUT_INPUTS.search(each.name):
            continue
        known = _OPTIONS.get(each.name, ())
        annotated = listed_values(annotations.get(each.name))
        values = annotated if isinstance(each.default, bool) or annotated else known
        if isinstance(each.default, bool) and not values:
            values = (False, True)
        if any(isinstance(value, str) for value in (each.default, *known)) and annotated:
            numbers = [kind for kind in typing.get_args(annotations[each.name]) if kind in (int, float)]
            values = (*(value for value in known if value in annotated or type(value) in numbers), *annotated)
        others = [value for value in values if not _is_equal(value, each.default)]
        if others:
            found[each.name] = (each.default, *dict.fromkeys(others))
    return found


def about_nan(given: Mapping[str, Any]) -> str:
    """The option that says that a NaN is replaced or left out, such as ``nan_strategy="drop"``; empty for none."""
    return next((name for name, value in given.items() if "nan" in name.split("_") and _hides_nan(value)), "")


def _hides_nan(value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return bool(value)
    return value == value and value not in _SHOWING_NAN


def _is_equal(first: Any, second: Any) -> bool:
    return type(first) is type(second) and bool(first == second)

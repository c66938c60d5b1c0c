"""Checks that a metric fails by its meaning: checks that do not apply to it, with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pytest_evalcheck import adapters
from pytest_evalcheck.discovery.forms import snake_case

_NEWEST = re.compile(r"(^|_)(windowed|running|moving|rolling)(_|$)")
"""Words in the name of a metric that say that its value is one of the newest updates, not of all samples."""
_WINDOW = re.compile(r"window|(max_)?num_updates|last_n_updates")
"""Names of options that count updates."""
_OF_A_WINDOW = {
    "EC201": "the window counts updates, not samples",
    "EC202": "the window counts updates, empty ones included",
    "EC203": "every rank has a window of its own",
    "EC208": "the window keeps the newest updates",
    "EC216": "what is not finite leaves the window with its update",
    "EC221": "every rank has a window of its own",
    "EC224": "the window counts updates and samples, whatever their weight",
}
"""By code: why a property of all samples does not apply to a metric of the newest updates."""
_SORTS = ("reorder", "sort", "sorted")
"""Options that say whether samples are sorted first."""
_FOR_EACH_SAMPLE = ("samplewise", "sample_wise", "sample-wise")
"""Values of an option with which every sample has a value of its own."""


def inapplicable(name: str, made: Any, given: Mapping[str, Any], by_order: Callable[[], bool]) -> dict[str, str]:
    """By code: why a check does not apply to this object, of a class with this name, made with these options.

    ``by_order`` tries whether the order of updates counts. What a name says is taken for a window only then: a mean of
    means may have any name.
    """
    found = dict(_OF_A_WINDOW) if _NEWEST.search(snake_case(name)) and by_order() else {}
    for option, value in given.items():
        if isinstance(value, int) and not isinstance(value, bool) and _WINDOW.fullmatch(option):
            found |= {code: f"{option}={value}: {reason}" for code, reason in _OF_A_WINDOW.items()}
        if option in _SORTS and value is False:
            found["EC208"] = f"{option}=False: the samples are taken in the order in which they come"
        if option == "include_background" and value is False:
            found["EC216"] = "include_background=False: what is in the first channel does not count"
        if isinstance(value, str) and value in _FOR_EACH_SAMPLE:
            found["EC213"] = f"{option}={value!r}: every sample has a value of its own, the ignored ones, too"
    return {**found, **adapters.by_design("metric", made)}

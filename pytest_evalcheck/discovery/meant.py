"""What a metric does by its meaning: checks that do not apply to it, with the reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_evalcheck import adapters

_WINDOW = re.compile(r"window|(max_)?num_updates|last_n_updates")
"""Names of options that count updates."""
_OF_A_WINDOW = ("EC201", "EC202", "EC203", "EC208", "EC221")
_FOR_EACH_SAMPLE = ("samplewise", "sample_wise", "sample-wise")
"""Values of an option with which every sample has a value of its own."""


def inapplicable(made: Any, given: Mapping[str, Any]) -> dict[str, str]:
    """By code: why a check does not apply to this object, made with these options."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, int) and not isinstance(value, bool) and _WINDOW.fullmatch(name):
            found |= dict.fromkeys(
                _OF_A_WINDOW, f"{name}={value} counts updates: what is in the window depends on them"
            )
        if isinstance(value, str) and value in _FOR_EACH_SAMPLE:
            found["EC213"] = f"{name}={value!r}: every sample has a value of its own, the ignored ones, too"
    return {**found, **adapters.by_design("metric", made)}

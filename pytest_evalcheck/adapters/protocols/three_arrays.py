"""Functions of three arrays, known by the names of their parameters: forecasts with a deviation, and survival times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Literal

Kind = Literal["forecasts", "survival"]

_WORDS: tuple[tuple[str, str], ...] = (
    ("deviation", r"std|stds|stddev|stdev|sd|sigma|sigmas|uncertaint(y|ies)|variances?|var"),
    ("mean", r"pred(iction|icted)?s?|y?hat|mu|mean|means|loc|forecast(ed)?s?"),
    ("time", r"times?|durations?|survival"),
    ("event", r"events?|observed|indicators?|status|censor(ed|ing)?"),
    ("risk", r"risks?|estimates?|scores?|hazards?|hz"),
    ("target", r"y|true|truth|targets?|labels?|gt|golds?|references?|observations?|obs|actuals?"),
)
"""Roles of an argument, with the words in the name of its parameter, in the order in which they are tried."""
_ORDERS: dict[Kind, tuple[str, str, str]] = {
    "forecasts": ("mean", "deviation", "target"),
    "survival": ("risk", "time", "event"),
}
"""Parts of a sample of each strategy, in order."""


@dataclass(frozen=True)
class ThreeArrays:
    """Roles of the arguments of a function of three arrays."""

    kind: Kind
    """The strategy of such samples."""
    order: tuple[int, ...]
    """The place of each argument in a sample."""


def three_arrays(parameters: Sequence[Parameter]) -> ThreeArrays | None:
    """Return the meaning and order of the first three parameters; None if their names do not say it clearly.

    >>> import inspect
    >>> def crps(y_pred, y_std, y_true, scaled=True): ...
    >>> three_arrays([*inspect.signature(crps).parameters.values()])
    ThreeArrays(kind='forecasts', order=(0, 1, 2))
    >>> def concordance(event_indicator, event_time, estimate): ...
    >>> three_arrays([*inspect.signature(concordance).parameters.values()])
    ThreeArrays(kind='survival', order=(2, 1, 0))
    """
    positional = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
    first = [each for each in parameters if each.kind in positional][:3]
    meanings = [_meaning(each.name) for each in first]
    if "time" in meanings:  # what is predicted of a time is a score
        meanings = ["risk" if meaning == "mean" else meaning for meaning in meanings]
    for kind, order in _ORDERS.items():
        if sorted(meanings) == sorted(order):
            return ThreeArrays(kind, tuple(order.index(meaning) for meaning in meanings))
    return None


def _meaning(name: str) -> str:
    words = re.split(r"[_\d]+", name.lower())
    return next((meaning for meaning, pattern in _WORDS if any(re.fullmatch(pattern, word) for word in words)), "")

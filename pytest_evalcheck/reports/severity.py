"""Severities: what is wrong with code that fails, from a number that is silently another one to a cost."""

from __future__ import annotations

from typing import Literal, get_args

Severity = Literal["number", "error", "cost"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
"""Most severe first: another number, silently; an error where a value or a clear refusal is due; waits and memory."""


WORDS = {"error": "error, where a value or a clear refusal is due", "cost": "cost: waits or memory"}
"""Severities that a screen names: another number needs no word."""


def mark(severity: str) -> str:
    """Return a severity as each view writes it behind a headline, `` (error)``; '' for another number."""
    return f" ({severity})" if severity in WORDS else ""


def rank(severity: str) -> int:
    """Return the place of a severity among all, the most severe first; an unknown one comes last."""
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)

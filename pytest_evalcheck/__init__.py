"""pytest-evalcheck finds where the code that evaluates models reports a wrong number.

The public names are loaded when they are first used: importing this package imports neither torch nor hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evalcheck.cell import Cell, Report
    from pytest_evalcheck.checks import Check, check
    from pytest_evalcheck.compare import Tolerance
    from pytest_evalcheck.decorators import decoder, metric, scorer, wrapper
    from pytest_evalcheck.guard import unchanged
    from pytest_evalcheck.standalone import run
    from pytest_evalcheck.subjects.decoder import Decoder
    from pytest_evalcheck.subjects.metric import Metric
    from pytest_evalcheck.subjects.scorer import Runner, Scorer, Several
    from pytest_evalcheck.subjects.wrapper import Wrapper
    from pytest_evalcheck.target import KnownFailure, Target, TargetError
    from pytest_evalcheck.violation import Violation, expect, passed_over

__version__ = "0.1.0"

_HOMES = {
    "Cell": "cell",
    "Check": "checks",
    "Decoder": "subjects.decoder",
    "KnownFailure": "target",
    "Metric": "subjects.metric",
    "Report": "cell",
    "Runner": "subjects.scorer",
    "Scorer": "subjects.scorer",
    "Several": "subjects.scorer",
    "Target": "target",
    "TargetError": "target",
    "Tolerance": "compare",
    "Violation": "violation",
    "Wrapper": "subjects.wrapper",
    "check": "checks",
    "decoder": "decorators",
    "expect": "violation",
    "metric": "decorators",
    "passed_over": "violation",
    "run": "standalone",
    "scorer": "decorators",
    "unchanged": "guard",
    "wrapper": "decorators",
}

__all__ = [
    "Cell",
    "Check",
    "Decoder",
    "KnownFailure",
    "Metric",
    "Report",
    "Runner",
    "Scorer",
    "Several",
    "Target",
    "TargetError",
    "Tolerance",
    "Violation",
    "Wrapper",
    "__version__",
    "check",
    "decoder",
    "expect",
    "metric",
    "passed_over",
    "run",
    "scorer",
    "unchanged",
    "wrapper",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from difflib import get_close_matches

        near = get_close_matches(name, _HOMES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

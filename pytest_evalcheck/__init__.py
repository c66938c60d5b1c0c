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
    from pytest_evalcheck.decorators import decoder, loop, metric, scorer, wrapper
    from pytest_evalcheck.guard import unchanged
    from pytest_evalcheck.standalone import run
    from pytest_evalcheck.subjects.decoder import Decoder
    from pytest_evalcheck.subjects.loop import Loop
    from pytest_evalcheck.subjects.loop_data import LoopData
    from pytest_evalcheck.subjects.loop_numbers import Evaluated
    from pytest_evalcheck.subjects.metric import Metric
    from pytest_evalcheck.subjects.scorer import Runner, Scorer, Several
    from pytest_evalcheck.subjects.wrapper import Wrapper
    from pytest_evalcheck.target import KnownFailure, Target, TargetError
    from pytest_evalcheck.variants import Variant
    from pytest_evalcheck.violation import Violation, expect, passed_over

__version__ = "0.1.0"

_HOMES = {
    "Cell": "cell",
    "Check": "checks",
    "Decoder": "subjects.decoder",
    "Evaluated": "subjects.loop_numbers",
    "KnownFailure": "target",
    "Loop": "subjects.loop",
    "LoopData": "subjects.loop_data",
    "Metric": "subjects.metric",
    "Report": "cell",
    "Runner": "subjects.scorer",
    "Scorer": "subjects.scorer",
    "Several": "subjects.scorer",
    "Target": "target",
    "TargetError": "target",
    "Tolerance": "compare",
    "Variant": "variants",
    "Violation": "violation",
    "Wrapper": "subjects.wrapper",
    "check": "checks",
    "decoder": "decorators",
    "expect": "violation",
    "loop": "decorators",
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
    "Evaluated",
    "KnownFailure",
    "Loop",
    "LoopData",
    "Metric",
    "Report",
    "Runner",
    "Scorer",
    "Several",
    "Target",
    "TargetError",
    "Tolerance",
    "Variant",
    "Violation",
    "Wrapper",
    "__version__",
    "check",
    "decoder",
    "expect",
    "loop",
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

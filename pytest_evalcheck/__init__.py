"""pytest-evalcheck finds where the code that evaluates models reports a wrong number.

The public names are loaded when they are first used: importing this package imports neither torch nor hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evalcheck.engine.api import run
    from pytest_evalcheck.expectations.comparison import Tolerance
    from pytest_evalcheck.expectations.failures import CheckFailure, expect, inconclusive
    from pytest_evalcheck.guard import unchanged
    from pytest_evalcheck.kinds.decoder.record import Decoder
    from pytest_evalcheck.kinds.loop.record import Evaluated, Loop, LoopData
    from pytest_evalcheck.kinds.metric.subject import Metric
    from pytest_evalcheck.kinds.scorer.subject import Runner, Scorer, Several
    from pytest_evalcheck.kinds.suite import Check, check
    from pytest_evalcheck.kinds.wrapper.subject import Wrapper
    from pytest_evalcheck.reports.results import Cell, Report
    from pytest_evalcheck.targets.decorators import decoder, loop, metric, scorer, wrapper
    from pytest_evalcheck.targets.target import KnownFailure, Target, UsageError
    from pytest_evalcheck.variants import Variant

__version__ = "0.1.0"

_HOMES = {
    "Cell": "reports.results",
    "Check": "kinds.suite",
    "Decoder": "kinds.decoder.record",
    "Evaluated": "kinds.loop.record",
    "KnownFailure": "targets.target",
    "Loop": "kinds.loop.record",
    "LoopData": "kinds.loop.record",
    "Metric": "kinds.metric.subject",
    "Report": "reports.results",
    "Runner": "kinds.scorer.subject",
    "Scorer": "kinds.scorer.subject",
    "Several": "kinds.scorer.subject",
    "Target": "targets.target",
    "UsageError": "targets.target",
    "Tolerance": "expectations.comparison",
    "Variant": "variants",
    "CheckFailure": "expectations.failures",
    "Wrapper": "kinds.wrapper.subject",
    "check": "kinds.suite",
    "decoder": "targets.decorators",
    "expect": "expectations.failures",
    "loop": "targets.decorators",
    "metric": "targets.decorators",
    "inconclusive": "expectations.failures",
    "run": "engine.api",
    "scorer": "targets.decorators",
    "unchanged": "guard",
    "wrapper": "targets.decorators",
}

__all__ = [
    "Cell",
    "Check",
    "CheckFailure",
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
    "Tolerance",
    "UsageError",
    "Variant",
    "Wrapper",
    "__version__",
    "check",
    "decoder",
    "expect",
    "inconclusive",
    "loop",
    "metric",
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

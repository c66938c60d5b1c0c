"""pytest-evalcheck finds where the code that evaluates models reports a wrong number.

The public names are loaded when they are first used: importing this package imports neither torch nor hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_evalcheck.adapters.openai_api.engine import Endpoint as Endpoint
    from pytest_evalcheck.adapters.openai_api.serving import serving as serving
    from pytest_evalcheck.engine.api import run as run
    from pytest_evalcheck.errors import UsageError as UsageError
    from pytest_evalcheck.expectations.comparison import Tolerance as Tolerance
    from pytest_evalcheck.expectations.comparison import leave_out as leave_out
    from pytest_evalcheck.expectations.failures import CheckFailure as CheckFailure
    from pytest_evalcheck.expectations.failures import TargetError as TargetError
    from pytest_evalcheck.expectations.failures import expect as expect
    from pytest_evalcheck.expectations.failures import inconclusive as inconclusive
    from pytest_evalcheck.guard import unchanged as unchanged
    from pytest_evalcheck.integration.ordinary_tests.in_tests import assert_passes as assert_passes
    from pytest_evalcheck.integration.ordinary_tests.in_tests import parametrize_with_checks as parametrize_with_checks
    from pytest_evalcheck.kinds.common.check import Check as Check
    from pytest_evalcheck.kinds.common.check import check as check
    from pytest_evalcheck.kinds.common.convention import Convention as Convention
    from pytest_evalcheck.kinds.common.intervals import Interval as Interval
    from pytest_evalcheck.kinds.common.kind import Adapter as Adapter
    from pytest_evalcheck.kinds.common.kind import KindOption as KindOption
    from pytest_evalcheck.kinds.common.kind import KindSpec as KindSpec
    from pytest_evalcheck.kinds.common.subject import Subject as Subject
    from pytest_evalcheck.kinds.decoder.log_probabilities import Sampler as Sampler
    from pytest_evalcheck.kinds.decoder.log_probabilities import TextScore as TextScore
    from pytest_evalcheck.kinds.decoder.log_probabilities import TokenDistribution as TokenDistribution
    from pytest_evalcheck.kinds.decoder.record import Decoder as Decoder
    from pytest_evalcheck.kinds.engine.record import Completion as Completion
    from pytest_evalcheck.kinds.engine.record import Engine as Engine
    from pytest_evalcheck.kinds.loop.record import Evaluated as Evaluated
    from pytest_evalcheck.kinds.loop.record import Loop as Loop
    from pytest_evalcheck.kinds.loop.record import LoopData as LoopData
    from pytest_evalcheck.kinds.metric.declared import Undefined as Undefined
    from pytest_evalcheck.kinds.metric.record import Metric as Metric
    from pytest_evalcheck.kinds.registry import register as register
    from pytest_evalcheck.kinds.scorer.declared import Counts as Counts
    from pytest_evalcheck.kinds.scorer.declared import Reducer as Reducer
    from pytest_evalcheck.kinds.scorer.declared import Repeated as Repeated
    from pytest_evalcheck.kinds.scorer.judging import Judging as Judging
    from pytest_evalcheck.kinds.scorer.subject import Runner as Runner
    from pytest_evalcheck.kinds.scorer.subject import Scorer as Scorer
    from pytest_evalcheck.kinds.scorer.subject import Several as Several
    from pytest_evalcheck.kinds.task.record import Request as Request
    from pytest_evalcheck.kinds.task.record import Tally as Tally
    from pytest_evalcheck.kinds.task.record import Task as Task
    from pytest_evalcheck.kinds.wrapper.label_scores import LabelScore as LabelScore
    from pytest_evalcheck.kinds.wrapper.subject import Wrapper as Wrapper
    from pytest_evalcheck.learning.corpus import stand_in as stand_in
    from pytest_evalcheck.learning.replaced import replaced as replaced
    from pytest_evalcheck.learning.streams import learned as learned
    from pytest_evalcheck.reports import ReportFormat as ReportFormat
    from pytest_evalcheck.reports.failure_text import format_failure as format_failure
    from pytest_evalcheck.reports.results import Cell as Cell
    from pytest_evalcheck.reports.results import Failure as Failure
    from pytest_evalcheck.reports.results import Report as Report
    from pytest_evalcheck.reports.results import Verdict as Verdict
    from pytest_evalcheck.reports.results import VerdictError as VerdictError
    from pytest_evalcheck.targets.decorators import decoder as decoder
    from pytest_evalcheck.targets.decorators import loop as loop
    from pytest_evalcheck.targets.decorators import metric as metric
    from pytest_evalcheck.targets.decorators import scorer as scorer
    from pytest_evalcheck.targets.decorators import target as target
    from pytest_evalcheck.targets.decorators import task as task
    from pytest_evalcheck.targets.decorators import wrapper as wrapper
    from pytest_evalcheck.targets.target import KnownFailure as KnownFailure
    from pytest_evalcheck.targets.target import Target as Target
    from pytest_evalcheck.variants import Variant as Variant

__version__ = "0.1.0"

_MODULES = {
    "adapters.openai_api.engine": ("Endpoint",),
    "adapters.openai_api.serving": ("serving",),
    "adapters.protocols.metric": ("Metric",),  # `of` needs the adapters
    "engine.api": ("run",),
    "errors": ("UsageError",),
    "expectations.comparison": ("Tolerance", "leave_out"),
    "expectations.failures": ("CheckFailure", "TargetError", "expect", "inconclusive"),
    "guard": ("unchanged",),
    "integration.ordinary_tests.in_tests": ("assert_passes", "parametrize_with_checks"),
    "kinds.common.check": ("Check", "check"),
    "kinds.common.convention": ("Convention",),
    "kinds.common.intervals": ("Interval",),
    "kinds.common.kind": ("Adapter", "KindOption", "KindSpec"),
    "kinds.common.subject": ("Subject",),
    "kinds.decoder.log_probabilities": ("Sampler", "TextScore", "TokenDistribution"),
    "kinds.decoder.record": ("Decoder",),
    "kinds.engine.record": ("Completion", "Engine"),
    "kinds.loop.record": ("Evaluated", "Loop", "LoopData"),
    "kinds.metric.declared": ("Undefined",),
    "kinds.registry": ("register",),
    "kinds.scorer.declared": ("Counts", "Reducer", "Repeated"),
    "kinds.scorer.judging": ("Judging",),
    "kinds.scorer.subject": ("Runner", "Scorer", "Several"),
    "kinds.task.record": ("Request", "Tally", "Task"),
    "kinds.wrapper.label_scores": ("LabelScore",),
    "kinds.wrapper.subject": ("Wrapper",),
    "learning.corpus": ("stand_in",),
    "learning.replaced": ("replaced",),
    "learning.streams": ("learned",),
    "reports": ("ReportFormat",),
    "reports.failure_text": ("format_failure",),
    "reports.results": ("Cell", "Failure", "Report", "Verdict", "VerdictError"),
    "targets.decorators": ("decoder", "loop", "metric", "scorer", "target", "task", "wrapper"),
    "targets.target": ("KnownFailure", "Target"),
    "variants": ("Variant",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}

__all__ = sorted([*_HOMES, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        from pytest_evalcheck.errors import missing_attribute

        raise missing_attribute(__name__, name, _HOMES)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

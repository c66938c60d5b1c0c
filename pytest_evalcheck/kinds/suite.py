"""The suite: every shipped check, by kind of target."""

from __future__ import annotations

import importlib
from functools import cache

from pytest_evalcheck.kinds.common.check import Check, check, explain

__all__ = ["Check", "check", "explain", "shipped"]


_MODULES = (
    "wrapper.checks_batch",
    "wrapper.checks_rows",
    "wrapper.checks_state",
    "metric.checks_streams",
    "metric.checks_state",
    "metric.checks_precision",
    "decoder.checks_cache",
    "decoder.checks_batches",
    "decoder.checks_rows",
    "decoder.checks_state",
    "scorer.checks_documents",
    "scorer.checks_parallel",
    "scorer.checks_numbers",
    "loop.checks_batches",
    "loop.checks_samples",
    "loop.checks_state",
    "loop.checks_variants",
    "device.checks",
)


@cache
def shipped() -> tuple[Check, ...]:
    """Every check of the suite, in the order of their codes."""
    modules = [importlib.import_module(f"pytest_evalcheck.kinds.{name}") for name in _MODULES]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Check)]
    return tuple(sorted(found, key=lambda made: made.code))

"""The suite: every shipped check, by kind of target."""

from __future__ import annotations

from functools import cache

from pytest_evalcheck.checks.check import Check, check, explain

__all__ = ["Check", "check", "explain", "shipped"]


@cache
def shipped() -> tuple[Check, ...]:
    """Every check of the suite, in the order of their codes."""
    from pytest_evalcheck.checks import (
        decoder_batches,
        decoder_cache,
        decoder_rows,
        decoder_state,
        devices,
        loop_batches,
        loop_samples,
        loop_state,
        loop_variants,
        metric_precision,
        metric_state,
        metric_streams,
        scorer_documents,
        scorer_numbers,
        scorer_parallel,
        wrapper_batch,
        wrapper_rows,
        wrapper_state,
    )

    modules = (
        wrapper_batch,
        wrapper_rows,
        wrapper_state,
        metric_streams,
        metric_state,
        metric_precision,
        decoder_cache,
        decoder_batches,
        decoder_rows,
        decoder_state,
        scorer_documents,
        scorer_parallel,
        scorer_numbers,
        loop_batches,
        loop_samples,
        loop_state,
        loop_variants,
        devices,
    )
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Check)]
    return tuple(sorted(found, key=lambda made: made.code))

"""Signatures: the parts that failures of one root cause have in common."""

from __future__ import annotations

from pytest_evalcheck.expectations.failures import CheckFailure


def signature_of(code: str, failure: CheckFailure) -> str:
    """Return what a failure of a check has in common with others of the same root cause, in all cases that show it.

    It holds the code, the id of the comparison, and what kinds of values differ or which function raised which error.

    >>> signature_of("EC202", CheckFailure("the value after 3 batches", id="after-empty-batch", contrast="NaN"))
    'EC202: after-empty-batch: NaN'
    """
    return ": ".join(part for part in (code, failure.id or failure.cause, failure.contrast) if part)

"""Detecting changes of values that code receives: `unchanged` around a block of code, and `Snapshot`."""

from pytest_evalcheck.guard.mutation_guard import COPY_LIMIT, Guard, Snapshot, unchanged, verify

__all__ = ["COPY_LIMIT", "Guard", "Snapshot", "unchanged", "verify"]

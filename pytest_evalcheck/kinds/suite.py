"""The suite: every check, and how they are made and explained."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.check import Check, check, explain
from pytest_evalcheck.kinds.registry import shipped

__all__ = ["Check", "check", "explain", "shipped"]

"""Cells and the pytest items that run them."""

from __future__ import annotations

import json

import pytest

from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.integration.choosing.target_nodes import RUNNERS
from pytest_evalcheck.reports.results import Cell

PROPERTY = "evalcheck"
"""The user property that carries a cell: it reaches the process that reports, the controller of xdist, and JUnit."""


def runner_of(item: pytest.Item) -> CellRunner | None:
    """Return the runner of the cell of an item; None for an ordinary test."""
    runners = getattr(getattr(item, "function", None), RUNNERS, None)
    return runners[item.callspec.params["device"]] if runners else None  # type: ignore[attr-defined]


def attach(item: pytest.Item, cell: Cell) -> None:
    """Let the reports of an item carry this cell."""
    item.user_properties[:] = [p for p in item.user_properties if p[0] != PROPERTY]
    item.user_properties.append((PROPERTY, json.dumps(cell.as_json())))

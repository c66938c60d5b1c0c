"""The library of each cell, so that a view can group and filter by it."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable

from packaging.utils import canonicalize_name  # comes with pytest

from pytest_evalcheck import upstream
from pytest_evalcheck.reports.results import Cell, Report

_NONE = sys.stdlib_module_names | {"__main__"}
"""Packages that are the library of nobody."""


class Libraries:
    """The library of each target of a report, by the name of its distribution."""

    def __init__(self, report: Report) -> None:
        cells: dict[str, list[Cell]] = {}
        for cell in report.cells:
            cells.setdefault(cell.target, []).append(cell)
        self._by_target = {target: _library(own) for target, own in cells.items()}

    def of(self, cell: Cell) -> str:
        """Return the library of its upstream fault, else that of its target; empty where it is not known."""
        fault = upstream.find(cell.upstream) if cell.upstream else None
        return normalized(fault.library) if fault else self.library_of(cell.target)

    def library_of(self, target: str) -> str:
        """Return the first requirement of the target, else the library of its class, else what it lacks here."""
        return self._by_target.get(target, "")


def _library(cells: Iterable[Cell]) -> str:
    """The library of the cells of one target: most of them know it."""
    cells = list(cells)
    classes = [upstream.distribution(cell.class_name.partition(".")[0]) for cell in cells if _is_library(cell)]
    required = [cell.requires[0] for cell in cells if cell.requires]
    missing = [cell.missing[0] for cell in cells if cell.missing and cell.outcome == "not run"]
    found = next(filter(None, (required, classes, missing)), [""])
    return normalized(Counter(found).most_common(1)[0][0])


def normalized(name: str) -> str:
    """The name of a distribution as package indexes compare it: ``lm-eval`` for ``lm_eval``."""
    return canonicalize_name(name).strip("-")


def _is_library(cell: Cell) -> bool:
    """Return whether the class is neither of the file of the target nor of the standard library."""
    package, dot, _ = cell.class_name.partition(".")
    file = cell.target.partition("::")[0].replace("\\", "/").rpartition("/")[2]
    return bool(dot) and package not in _NONE and f"{package}.py" != file

"""A report as JSON for other programs; ``schema.json`` beside this file describes it."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_evalcheck.reports import ReportError, write_file
from pytest_evalcheck.reports.results import OUTCOMES, Cell, Report

SCHEMA = "pytest-evalcheck/2"

_REQUIRED = ("pytest-evalcheck", "pytest", "hypothesis", "torch")
_LIBRARIES = (
    *("accelerate", "datasets", "evaluate", "lightning", "lm-eval", "mosaicml", "numpy", "pytest-xdist"),
    *("pytorch-lightning", "scikit-learn", "tokenizers", "torchao", "torchmetrics", "torchtune", "transformers"),
)


def versions() -> dict[str, str | None]:
    """The versions of Python, of this package and its requirements (None where not installed), and of known libraries.

    They come from the metadata of the installed distributions: nothing is imported.
    """
    libraries = {name: version for name in _LIBRARIES if (version := _version(name))}
    return {"python": platform.python_version(), **{name: _version(name) for name in _REQUIRED}, **libraries}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data, in the shape of the schema."""
    return {
        "schema": SCHEMA,
        "versions": versions(),
        "summary": {
            "ok": report.ok,
            "targets": len(report.targets),
            "cells": len(report.cells),
            **{outcome: report.count(outcome) for outcome in OUTCOMES},
            "untried": list(report.untried),
        },
        "cells": [_finite(cell.as_json()) for cell in report.cells],
    }


def _finite(cell: dict[str, Any]) -> dict[str, Any]:
    return {**cell, "seconds": cell["seconds"] if math.isfinite(cell["seconds"]) else None}


def write(report: Report, path: Path) -> None:
    """Write the report to ``path`` in UTF-8; a reader sees the old file or the new one, never a part of it.

    Raises `OSError` when the file cannot be written.
    """
    text = json.dumps(as_json(report), ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    # UTF-8 cannot hold a lone surrogate, as in the name of a file that is not UTF-8: it is written as an escape.
    data = re.sub("[\ud800-\udfff]", lambda match: rf"\\u{ord(match[0]):04x}", text).encode()
    write_file(data, path)


def load(path: Path) -> Report:
    """The report that `write` wrote to ``path``.

    Raises:
        ReportError: when the file is not such a report.
        OSError: when it cannot be read.
    """
    try:
        data = json.loads(path.read_bytes())
    except ValueError as error:
        raise ReportError(f"{str(path)!r} is not JSON: {error}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        raise ReportError(f"{str(path)!r} cannot be read: its schema is {schema!r}, not {SCHEMA!r}.")
    cells = data.get("cells")
    if not isinstance(cells, list):
        raise ReportError(f"{str(path)!r} has no list of cells.")
    return Report(_cell(cell, index, path) for index, cell in enumerate(cells))


def _cell(data: Mapping[str, Any], index: int, path: Path) -> Cell:
    try:
        cell = Cell.from_json({key: value for key, value in data.items() if value is not None})
    except (TypeError, AttributeError, ValueError) as error:
        raise ReportError(f"cell {index} of {str(path)!r} cannot be read: {error}") from error
    if cell.outcome not in OUTCOMES:
        raise ReportError(f"cell {index} of {str(path)!r} ended {cell.outcome!r}, not {' or '.join(OUTCOMES)}.")
    return cell

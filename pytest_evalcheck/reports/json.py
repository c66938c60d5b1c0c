"""A report as JSON for other programs; ``schema.json`` beside this file describes it."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from pytest_evalcheck.reports import ReportError, groups, write_file
from pytest_evalcheck.reports.causes import Cause
from pytest_evalcheck.reports.results import OUTCOMES, Cell, Report
from pytest_evalcheck.reports.runs import Run

SCHEMA = "pytest-evalcheck/3"

_REQUIRED = ("pytest-evalcheck", "pytest", "hypothesis", "torch")
_LIBRARIES = (
    *("accelerate", "datasets", "evaluate", "keras", "lightning", "lm-eval", "monai", "mosaicml", "numpy", "peft"),
    *("pytest-xdist", "pytorch-ignite", "pytorch-lightning", "scikit-learn", "sentence-transformers", "tokenizers"),
    *("torchao", "torcheval", "torchmetrics", "torchtune", "transformers", "trl"),
)


def versions() -> dict[str, str | None]:
    """The versions of Python, of this package and its requirements (None where not installed), and of known libraries.

    They come from the metadata of the installed distributions: nothing is imported.
    """
    libraries = {name: version for name in _LIBRARIES if (version := _version(name))}
    return {"python": platform.python_version(), **{name: _version(name) for name in _REQUIRED}, **libraries}


def versions_text() -> str:
    """Lines for an issue: the installed versions and the platform."""
    found = {name: version for name, version in versions().items() if version}
    own, python = found.pop("pytest-evalcheck", "is not installed"), found.pop("python")
    lines = [f"{name} {version}" for name, version in found.items()]
    return "\n".join([f"pytest-evalcheck {own}", f"Python {python} on {platform.platform()}", *lines])


@cache  # a file is read for each, and a process makes a report, its header and its parts
def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def as_json(report: Report) -> dict[str, Any]:
    """The report as plain data, in the shape of the schema."""
    indices = {id(cell): index for index, cell in enumerate(report.cells)}
    return {
        "schema": SCHEMA,
        "versions": dict(report.run.versions) if report.run else versions(),
        **({"run": report.run.as_json()} if report.run else {}),
        "summary": {
            "ok": report.ok,
            "why": list(report.verdict.why),
            "targets": len(report.targets),
            "checks": len(report.cells),
            **{outcome: report.count(outcome) for outcome in OUTCOMES},
            "causes": len(report.causes),
            "untried": list(report.untried),
            "problems": list(report.problems),
            "optional": list(report.optional),
            "narrowed": report.narrowed,
            "unchanged": report.unchanged,
        },
        **({} if report.inferred is None else {"inferred": dict(report.inferred)}),
        "causes": [_cause(cause, indices) for cause in report.causes],
        "checks": [finite(cell.as_json()) for cell in report.cells],
    }


def _cause(cause: Cause[Cell], indices: Mapping[int, int]) -> dict[str, Any]:
    members = zip(cause.cells, cause.whys, strict=True)
    cells = [{"check": indices[id(cell)], "why": why} for cell, why in members]
    return {"headline": groups.headline(cause), "checks": cells}


def finite(cell: dict[str, Any]) -> dict[str, Any]:
    """The JSON types of a cell, without a duration that JSON cannot hold."""
    return {**cell, "seconds": cell["seconds"] if math.isfinite(cell["seconds"]) else None}


def write(report: Report, path: Path) -> None:
    """Write the report to ``path`` in UTF-8; a reader sees the old file or the new one, never a part of it.

    Raises `OSError` when the file cannot be written.
    """
    write_file(encoded(as_json(report)), path)


def encoded(data: Mapping[str, Any]) -> bytes:
    """Plain data as JSON in UTF-8, which cannot hold a lone surrogate, as in the name of a file that is not UTF-8.

    It is written as the text of an escape.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    return re.sub("[\ud800-\udfff]", lambda match: rf"\\u{ord(match[0]):04x}", text).encode()


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
    cells = data.get("checks")
    if not isinstance(cells, list):
        raise ReportError(f"{str(path)!r} has no list of checks.")
    summary = data.get("summary")
    summary = summary if isinstance(summary, dict) else {}
    try:
        run = Run.from_json(data["run"], data["versions"]) if data.get("run") else None
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise ReportError(f"{str(path)!r} does not name its run: {error}") from error
    return Report(
        (read_cell(cell, f"check {index} of {str(path)!r}") for index, cell in enumerate(cells)),
        problems=map(str, summary.get("problems") or ()),
        optional=map(str, summary.get("optional") or ()),
        narrowed=summary.get("narrowed") is True,
        inferred=data.get("inferred"),
        run=run,
        unchanged=str(summary.get("unchanged", "")),
    )


def read_cell(data: Mapping[str, Any], where: str) -> Cell:
    """The cell that `finite` made ready; ``where`` is how an error names it.

    Raises:
        ReportError: when it cannot be read.
    """
    try:
        cell = Cell.from_json({key: value for key, value in data.items() if value is not None})
    except (TypeError, AttributeError, ValueError) as error:
        raise ReportError(f"{where} cannot be read: {error}") from error
    if cell.outcome not in OUTCOMES:
        raise ReportError(f"{where} ended {cell.outcome!r}, not {' or '.join(OUTCOMES)}.")
    return cell

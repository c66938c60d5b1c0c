"""Cells as JSON, a line each, written as they end: what a run that is killed leaves behind.

The first line is a header: the schema, the versions, the effort and the devices of the run. Then one line a cell:
``{"id": ..., "source": ..., "check": {...}}`` with the node id of pytest, a digest of the file of the target, and the
cell as in the JSON report. A later line of the same id replaces an earlier one. A run that came to its end adds
``{"end": {"ok": ..., "why": [...]}}``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_evalcheck.reports import ReportError
from pytest_evalcheck.reports.json import finite, read_cell, versions
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.reports.runs import Run

SCHEMA = "pytest-evalcheck-lines/2"


@dataclass(frozen=True)
class Line:
    """One cell of a file."""

    cell: Cell
    source: str


def header(effort: str, devices: Sequence[str]) -> dict[str, Any]:
    """The first line of a file."""
    return {"schema": SCHEMA, "versions": versions(), "effort": effort, "devices": list(devices)}


def begin(path: Path, head: Mapping[str, Any]) -> None:
    """Start a new file; raises `OSError` when it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_line(head))


def append(path: Path, nodeid: str, cell: Cell) -> None:
    """Add the line of a cell; raises `OSError` when it cannot be written."""
    add(path, {"id": nodeid, "source": digest(cell.file), "check": finite(cell.as_json())})


def add(path: Path, data: Mapping[str, Any]) -> None:
    """Add a line in one write, so that a run that is killed leaves whole lines; raises `OSError`."""
    with path.open("ab", buffering=0) as file:
        file.write(_line(data))


def write(report: Report, path: Path) -> None:
    """Add the end of a run, whose cells are in the file already, or write a whole file where there is none.

    Raises `OSError` when it cannot be written.
    """
    if not path.exists():
        run = report.run or Run(versions=versions())
        begin(path, {**header(run.effort, run.devices), "versions": dict(run.versions)})
        for cell in report.cells:
            append(path, f"{cell.target}::{cell.check}[{cell.device}]", cell)
    add(path, {"end": {"ok": report.ok, "why": list(report.verdict.why)}})


def digest(file: str) -> str:
    """Return a digest of the content of a file; empty where it cannot be read."""
    try:
        return hashlib.blake2b(Path(file).read_bytes(), digest_size=16).hexdigest()
    except OSError:
        return ""


def load(path: Path, size: int | None = None) -> tuple[dict[str, Any], dict[str, Line], int]:
    """The header, the cells by id, and how many bytes of the file are whole lines.

    The last line of a run that was killed may be torn: it is left out. With ``size`` only so many bytes are read.

    Raises:
        ReportError: when the file is no such file, or a line of it cannot be read.
        OSError: when it cannot be read.
    """
    data = path.read_bytes()[:size]
    whole = data.rfind(b"\n") + 1
    head: dict[str, Any] = {}
    cells: dict[str, Line] = {}
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            read = json.loads(line)
        except ValueError as error:
            raise ReportError(f"line {number} of {str(path)!r} is not JSON: {error}") from error
        if number == 1:
            head = _header(read, path)
        elif not isinstance(read, dict) or not {"check", "end"} & read.keys():
            raise ReportError(f"line {number} of {str(path)!r} is neither a check nor the end of a run")
        elif "check" in read:
            cell = read_cell(read["check"], f"line {number} of {str(path)!r}")
            cells[str(read.get("id"))] = Line(cell, str(read.get("source", "")))
    if not head:
        raise ReportError(f"{str(path)!r} has no header: write such a file with --evalcheck-report=jsonl=PATH")
    return head, cells, whole


def _header(read: Any, path: Path) -> dict[str, Any]:
    schema = read.get("schema") if isinstance(read, dict) else None
    if schema != SCHEMA:
        raise ReportError(
            f"{str(path)!r} was not written by --evalcheck-report=jsonl=PATH: its schema is {schema!r}, not {SCHEMA!r}"
        )
    return dict(read)


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=True, allow_nan=False).encode() + b"\n"

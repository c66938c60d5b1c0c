"""The verdict of a run as a badge: the JSON that an endpoint of shields.io has (https://shields.io/badges/endpoint-badge)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_evalcheck.reports import write_file
from pytest_evalcheck.reports.json import encoded
from pytest_evalcheck.reports.results import Outcome, Report

_SHOWN: tuple[Outcome, ...] = ("failed", "incomplete", "passed", "known")


def write(report: Report, path: Path) -> None:
    """Write the badge to ``path``.

    Raises `OSError` when the file cannot be written.
    """
    write_file(encoded(as_json(report)), path)


def as_json(report: Report) -> dict[str, Any]:
    """Red where the run is not ok, as its exit code says; yellow where it is ok and a part of the cells; else green.

    The message counts cells. It does not count those that are not applicable, and names a part as one.
    """
    part = "part" if report.parts else ""
    if report.run and report.run.shard:
        part = f"shard {report.run.shard.text}"
    return {
        "schemaVersion": 1,
        "label": "evalcheck",
        "message": ": ".join(filter(None, [part, _message(report)])),
        "color": "yellow" if report.ok and part else "brightgreen" if report.ok else "red",
        "isError": not report.ok,
    }


def _message(report: Report) -> str:
    found = [f"{count} {outcome}" for outcome in _SHOWN if (count := report.count(outcome))]
    lacking = sum(not report.excuses(cell) for cell in report.of("not run"))
    found += [f"{lacking} not run"] if lacking else []
    if report.ok:
        return ", ".join(found) or "nothing changed"
    red = report.count("failed") or report.count("incomplete") or lacking
    return ", ".join([*([] if red else ["not ok"]), *found])

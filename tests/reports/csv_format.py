"""A format of reports of another distribution: a line for each cell."""

import csv
from pathlib import Path

import pytest_evalcheck as ec

COLUMNS = ("target", "code", "device", "outcome", "reason")


def write(report: ec.Report, path: Path) -> str:
    """Write the cells that ran, and say how many did not."""
    ran = [cell for cell in report.cells if cell.outcome != "not run"]
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        rows.writerows([getattr(cell, name) for name in COLUMNS] for cell in ran)
    left_out = len(report.cells) - len(ran)
    return f"the csv report leaves out {left_out} that did not run" if left_out else ""


CSV = ec.ReportFormat(write=write, file="evalcheck.csv", marks=(",".join(COLUMNS).encode(),))

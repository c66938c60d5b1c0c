"""docs/records.md has every field of every record, and says which checks need it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.table import CHECKS, SPECIMENS

PAGE = (Path(__file__).parent.parent / "docs" / "records.md").read_text(encoding="utf-8")
SECTIONS = {
    "Metric": ec.Metric,
    "Wrapper": ec.Wrapper,
    "Scorer": ec.Scorer,
    "Decoder": ec.Decoder,
    "Loop": ec.Loop,
    "Task": ec.Task,
}
RECORDS = {
    **SECTIONS,
    "Runner": ec.Runner,
    "Several": ec.Several,
    "Evaluated": ec.Evaluated,
    "Request": ec.Request,
    "Tally": ec.Tally,
}


def tables() -> dict[str, list[list[str]]]:
    """The rows of the table of each record: those of a section first, then those of the records that it names."""
    found = {}
    for section in re.split(r"^## ", PAGE, flags=re.M)[1:]:
        name = section.split("\n", 1)[0]
        if name in SECTIONS:
            parts = re.split(r"^\| field .*\n\|[ -|]*\n", section, flags=re.M)
            names = [name, *re.findall(r"(?:^A|an) `(\w+)`:$", section, flags=re.M)]
            for record, part in zip(names, parts[1:], strict=True):
                lines = [line for line in part.splitlines() if line.startswith("|")]
                found[record] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return found


TABLES = tables()
NEEDED = [
    pytest.param(record, re.findall(r"`(\w+)`", row[0]), code, id=f"{record}-{row[0].strip('*')}-{code}")
    for record in (*SECTIONS, "Evaluated")
    for row in TABLES[record]
    for code in re.findall(r"EC\d+", row[3])
]


@pytest.mark.parametrize("record", RECORDS)
def test_the_page_has_every_field(record: str) -> None:
    rows = TABLES[record]
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row[0])] == [
        field.name for field in dataclasses.fields(RECORDS[record])
    ]
    missing = dataclasses.MISSING
    required = {f.name for f in dataclasses.fields(RECORDS[record]) if f.default is missing is f.default_factory}
    assert {re.sub(r"\W", "", row[0]) for row in rows if row[0].startswith("**")} == required


def test_the_page_names_no_check_that_does_not_exist() -> None:
    assert set(re.findall(r"EC\d+", PAGE)) <= CHECKS.keys()


def without_fields(made: Any, names: list[str]) -> Any:
    """A record, or what ``evaluate`` of a loop returns, without these fields."""
    fields = {field.name: field for field in dataclasses.fields(made)}
    defaults = {
        name: field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        for name, field in fields.items()
        if name in names
    }
    return dataclasses.replace(made, **defaults)


@pytest.mark.parametrize(("record", "names", "code"), NEEDED)
def test_a_check_is_not_applicable_without_the_field(record: str, names: list[str], code: str) -> None:
    kind = "loop" if record == "Evaluated" else record.lower()
    twins = [s.twin for s in SPECIMENS if s.code == code and s.twin.kind == kind]
    device = "sim:cuda" if CHECKS[code].accelerators else "cpu"

    def lacking(twin: ec.Target) -> ec.Target:
        def factory(device: str) -> Any:
            thing = twin.factory(device) if "device" in twin.arguments else twin.factory()
            if record == "Evaluated":
                numbers = thing.evaluate
                return dataclasses.replace(thing, evaluate=lambda *a, **k: without_fields(numbers(*a, **k), names))
            return without_fields(ec.Metric.of(thing) if twin.kind == "metric" else thing, names)

        keywords = {"reference": twin.reference} if twin.reference else {}
        return getattr(ec, twin.kind)(inputs=twin.inputs, **keywords)(factory)

    cells = [cell for twin in twins for cell in ec.run(lacking(twin), device, select=code, effort="quick").cells]
    assert {cell.outcome for cell in cells} == {"not applicable"}

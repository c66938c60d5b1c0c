"""``--evalcheck-known=accept,prune``: add failures to the baseline, remove what no longer fails."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pytest_evalcheck.engine.known_failures import STALE
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.expectations.ids import is_stable
from pytest_evalcheck.integration.known.baseline import Baseline, Entry
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.integration.process import run_in_child
from pytest_evalcheck.integration.scripts import INSIDE
from pytest_evalcheck.reports.results import ACCEPTED_NOW, Cell, plural
from pytest_evalcheck.reports.text import line as shown
from pytest_evalcheck.targets import device_spec

_MOST = 20
"""Most failures of different signatures that one cell may have to be accepted."""
_MOST_NAMED = 5


def run_cell(runner: CellRunner, arguments: Mapping[str, Any], options: Options) -> Cell:
    """Run a cell; where it is asked for, take out of its known failures what is stale, and add what it shows.

    After each change the cell runs again, so that what hides behind one failure is seen too.
    """
    cell = run_in_child.run_cell(runner, arguments)
    stale: list[str] = []
    while options.prune and cell.cause == STALE and _drop(runner, cell.stale):
        stale += cell.stale
        cell = run_in_child.run_cell(runner, arguments)
    accepted: dict[str, dict[str, Any]] = {}
    red, listed = cell, runner.spec.listed
    while options.accept and len(accepted) < _MOST and (new := _acceptable(cell)):
        signature = new["signature"]
        if signature in accepted:
            if not accepted[signature]["values"]:
                break
            new["values"] = ()  # they differ from run to run
        accepted[signature] = new
        others = (entry for entry in runner.spec.listed if entry.signature != signature)
        runner.spec = replace(runner.spec, listed=(*others, _entry(cell, new).known_failure("")))
        cell = run_in_child.run_cell(runner, arguments)
    if accepted and cell.outcome != "known":  # it does not fail each time, or in too many ways
        runner.spec = replace(runner.spec, listed=listed)
        cell = replace(red, unaccepted=_shown_again(cell, len(accepted)))
    elif accepted:
        cell = replace(cell, reason=ACCEPTED_NOW, accepted=tuple(accepted.values()))
    return replace(cell, stale=tuple(stale)) if stale else cell


def _drop(runner: CellRunner, places: Iterable[str]) -> bool:
    kept = tuple(entry for entry in runner.spec.listed if entry.listed not in places)
    dropped = len(kept) < len(runner.spec.listed)
    runner.spec = replace(runner.spec, listed=kept)
    return dropped


def _acceptable(cell: Cell) -> dict[str, Any] | None:
    """Return the failure of a cell if it is one of its check: a target that cannot be tried is a mistake."""
    failure = cell.failure
    if cell.outcome != "failed" or failure is None or failure.untestable or failure.case is None or not cell.signature:
        return None
    values = (failure.expected, failure.actual) if ": another " in cell.signature else ()
    return {"signature": cell.signature, "case": dict(failure.case), "values": values if any(values) else ()}


def _shown_again(cell: Cell, tries: int) -> str:
    """Return what a cell shows with its failures accepted, as a clause."""
    if cell.cause == STALE:
        return "the same case passed when tried again"
    text = shown(cell.reason) or cell.outcome
    return f"with {plural(tries, 'failure')} accepted it still fails: {text}"


def _entry(cell: Cell, new: Mapping[str, Any]) -> Entry:
    return Entry(
        code=cell.code,
        target=cell.target,
        devices=(device_spec.kind(cell.device),),
        signature=new["signature"],
        case=new["case"],
        values=tuple(new.get("values", ())),
    )


def writes(options: Options) -> bool:
    """Return whether this process writes the baseline at the end: no worker does, and no process of one cell."""
    return (options.accept or options.prune) and INSIDE not in os.environ


def updated(
    baseline: Baseline, cells: Iterable[Cell], gone: Iterable[str] = (), *, accept: bool = False
) -> tuple[Baseline, list[str]]:
    """Return the baseline after a run, and lines about what changed; ``gone`` are entries without a target.

    With ``accept`` what is red nevertheless is said, too.
    """
    cells, gone = list(cells), list(gone)
    accepted = [_entry(cell, new) for cell in cells for new in cell.accepted]
    stale: dict[int, set[str]] = {}
    tried: dict[tuple[str, str], set[str]] = {}
    for cell in cells:
        kind = device_spec.kind(cell.device)
        tried.setdefault((cell.target, cell.code), set()).add(kind)
        for place in cell.stale if cell.cause != STALE else ():
            stale.setdefault(_line(place), set()).add(kind)
    for place in gone:
        stale[_line(place)] = {*device_spec.KINDS}
    after = baseline.remove(stale, tried).with_new(accepted)
    return after, [*_changes(baseline, after, cells, gone), *(_not_accepted(cells) if accept else ())]


def _not_accepted(cells: Iterable[Cell]) -> Iterator[str]:
    red = [cell for cell in cells if cell.outcome == "failed" and not cell.stale]
    untried = [cell for cell in red if cell.failure is None or cell.failure.untestable or cell.failure.case is None]
    if untried:
        yield f"not accepted: {plural(len(untried), 'check')} that could not be tried"
    unsteady = [cell for cell in red if cell.unaccepted]
    for cell in unsteady[:_MOST_NAMED]:
        yield f"not accepted: {cell.code} of {cell.target} on {cell.device}: {shown(cell.reason)}; {cell.unaccepted}"
    if unsteady[_MOST_NAMED:]:
        yield f"not accepted: {plural(len(unsteady) - _MOST_NAMED, 'check')} more of this kind"
    if unsteady:
        yield _WAY_OUT


_WAY_OUT = (
    "An entry covers failures that every run shows. Seed what is random in the target, or declare the check in it: "
    "not_applicable={'EC201': 'why'}"
)


def _changes(before: Baseline, after: Baseline, cells: Iterable[Cell], gone: Iterable[str]) -> Iterator[str]:
    name, lost = before.path.name, [*map(_line, gone)]
    left = {entry.line: entry for entry in after.entries if entry.line}
    if added := sum(not entry.line for entry in after.entries):
        red = sum(bool(cell.accepted) for cell in cells)
        yield f"accepted: {plural(added, 'entry', 'entries')} of {plural(red, 'check')} in {name}; give each a reason"
    if other := sum(entry.line in left and entry.values != left[entry.line].values for entry in before.entries):
        yield f"accepted: other values of {plural(other, 'entry', 'entries')} in {name}"
    if removed := [entry for entry in before.entries if entry.line not in left]:
        without = sum(entry.line in lost for entry in removed)
        why = {"no longer failing": len(removed) - without, "whose target is gone": without}
        counts = (f"{plural(count, 'entry', 'entries')} {text}" for text, count in why.items() if count)
        yield f"taken out of {name}: {', '.join(counts)}"
        for entry in removed:  # a target that has another name now fails again
            if entry.line in lost and entry.reason.strip():
                yield f"taken out with its reason: {entry.code} of {entry.target}: {shown(entry.reason)}"
    fewer = [entry for entry in before.entries if entry.line in left and entry.devices != left[entry.line].devices]
    if fewer:
        count = plural(len(fewer), "entry", "entries")
        yield f"taken out of {name}: devices of {count} on which nothing fails any more"


def unstable(cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a line about known failures whose ids nobody has given."""
    codes = sorted({cell.code for cell in cells if cell.outcome == "known" and not is_stable(cell.signature)})
    if codes:
        yield (
            f"{', '.join(codes)}: a known failure is known by the order of the comparisons in its check, which is not "
            "stable; give each an id, as in expect(value).equals(other, about=..., id='after-write')"
        )


def _line(place: str) -> int:
    return int(place.rpartition(":")[2])

"""The summary of a run on simulated devices as lines of text: about 30 of them, or everything."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_evalcheck.devices.suite_records import SuiteReport, TestRecord

SHOWN = 3
"""Number of tests, features and errors that each part shows, unless it shows all."""
WIDTH = 118


def lines(report: SuiteReport, *, everything: bool = False) -> list[str]:
    """The summary. `everything` shows all tests, and every line of code that cost something."""
    limit = len(report.tests) + 1 if everything else SHOWN
    found = [*_totals(report), *_costliest(report, limit), *_failures(report, limit), *_caught(report, limit)]
    if everything:
        found += _lines_of_entries(report)
    elif any(record.total("transfers") + record.total("syncs") for record in report.everything()):
        found.append("-v shows all tests and the lines of code; --simulate-report=json=PATH writes them")
    return found


def _totals(report: SuiteReport) -> Iterator[str]:
    outcomes = Counter(record.outcome for record in report.tests.values())
    counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
    yield f"{_count(len(report.tests), 'test')}: {counts}" if report.tests else "no tests"
    directions: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for record in report.everything():
        for entry in record.transfers:
            directions[entry["source"], entry["target"]] += entry["count"]
            sizes[entry["source"], entry["target"]] += entry["bytes"]
    for source, target in sorted(directions):
        moved = _count(directions[source, target], "transfer")
        yield f"{source} -> {target}: {moved}, {sizes[source, target]:,} bytes"
    yield f"host synchronisations: {report.total('syncs'):,}"
    races = report.total("races")
    if races:
        yield f"memory used while a copy is in flight: {_count(races, 'time')}"


def _costliest(report: SuiteReport, limit: int) -> Iterator[str]:
    costly = [record for record in report.everything() if record.total("transfers") or record.total("syncs")]
    costly.sort(key=lambda record: (-record.total("transfers") - record.total("syncs"), record.nodeid))
    if costly:
        yield "  transfers        bytes      syncs  test (the most first)"
    for record in costly[:limit]:
        numbers = f"{record.total('transfers'):>11,}{record.total('bytes'):>13,}{record.total('syncs'):>11,}"
        yield f"{numbers}  {_end(record.nodeid, WIDTH - len(numbers) - 2)}"
    yield from _more(costly, limit)


def _failures(report: SuiteReport, limit: int) -> Iterator[str]:
    not_checkable = report.with_cause("cannot simulate")
    if not_checkable:
        skipped = all(record.outcome != "failed" for record in not_checkable)
        yield f"cannot be simulated, so not checkable here: {_count(len(not_checkable), 'test')} " + (
            "skipped" if skipped else "failed; --simulate-not-checkable=skip skips them"
        )
        yield from _groups(not_checkable, lambda record: f"{record.feature}: {record.advice}", limit)
    refused = report.with_cause("refused by the device")
    if refused:
        yield f"refused by the device: {_count(len(refused), 'test')} failed"
        yield from _groups(refused, lambda record: record.error, limit)
    others = report.with_cause("other")
    if others:
        yield f"failed for another reason: {_count(len(others), 'test')}"
        if limit > SHOWN:
            yield from _groups(others, lambda record: record.error, limit)
            return
        errors = Counter(record.error for record in others)
        yield from (_cut(f"{count:>5}  {error}") for error, count in errors.most_common(limit))
        yield from _more(list(errors), limit)


def _caught(report: SuiteReport, limit: int) -> Iterator[str]:
    caught: dict[str, list[str]] = {}
    for record in report.everything():
        for feature in record.met:
            if feature != record.feature:
                caught.setdefault(feature, []).append(record.nodeid)
    if caught:
        yield "cannot be simulated, which the code caught"
        for feature, nodeids in itertools.islice(sorted(caught.items()), limit):
            others = f" and {len(nodeids) - 1} more" if len(nodeids) > 1 else ""
            start = f"{len(nodeids):>5}  {_cut(feature, WIDTH // 2)}: "
            yield f"{start}{_end(nodeids[0], WIDTH - len(start) - len(others))}{others}"
    yield from _more(list(caught), limit)


def _groups(records: Sequence[TestRecord], key: object, limit: int) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record.nodeid)  # type: ignore[operator]
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    for text, nodeids in ordered[:limit]:
        yield from _group(text, nodeids, limit)
    yield from _more(ordered, limit)


def _group(text: str, nodeids: list[str], limit: int) -> Iterator[str]:
    if limit > SHOWN:
        yield f"{len(nodeids):>5}  {text}"
        yield from (f"         {nodeid}" for nodeid in nodeids)
    else:
        yield _cut(f"{len(nodeids):>5}  {text}")
        others = f" and {len(nodeids) - 1} more" if len(nodeids) > 1 else ""
        yield f"         {_end(nodeids[0], WIDTH - 9 - len(others))}{others}"


def _lines_of_entries(report: SuiteReport) -> Iterator[str]:
    found: Counter[str] = Counter()
    for record in report.everything():
        for entry in record.transfers:
            found[f"{_place(entry)}: {entry['call']}: {entry['source']} -> {entry['target']}"] += entry["count"]
        for entry in record.syncs:
            found[f"{_place(entry)}: {entry['call']}: waits for {entry['device']}"] += entry["count"]
    if found:
        yield "lines of code"
    for text, count in sorted(found.items(), key=lambda item: (-item[1], item[0])):
        yield f"{count:>11,}  {text}"


def _place(entry: dict[str, object]) -> str:
    path = str(entry["file"])
    relative = os.path.relpath(path) if os.path.splitdrive(path)[0] == os.path.splitdrive(os.getcwd())[0] else path
    _, installed, inside = path.rpartition(f"site-packages{os.sep}")
    return f"{inside if installed else path if relative.startswith('..') else relative}:{entry['line']}"


def _more(items: Sequence[object], limit: int) -> Iterator[str]:
    if len(items) > limit:
        yield f"       and {len(items) - limit:,} more"


def _cut(text: str, room: int = WIDTH) -> str:
    return text if len(text) <= room else f"{text[: room - 3]}..."


def _end(nodeid: str, room: int) -> str:
    """The end of an id, where tests of one file differ."""
    return nodeid if len(nodeid) <= room else f"...{nodeid[3 - room :]}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"

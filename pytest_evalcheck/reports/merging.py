"""One report of several: of the shards of a run, and of environments that exclude each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_evalcheck.reports import ReportError
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.reports.runs import Run

Read = tuple[Path, Report]
_Key = tuple[str, str, str, str]


def merged(reports: Sequence[Read], *, environments: bool = False) -> Report:
    """The report of the whole.

    The reports of one environment are the shards of one run, all of them. With ``environments`` there may be several:
    a cell that one could not run is that of the one which ran it.

    Raises:
        ReportError: when they are of other versions, options or selections, overlap, or lack a shard.
    """
    if not reports:
        raise ReportError("there is no report to merge; expected those of --evalcheck-report=json=PATH")
    runs = {path: _run(path, report) for path, report in reports}
    groups: dict[tuple[tuple[str, str | None], ...], list[Read]] = {}
    for path, report in reports:
        groups.setdefault(tuple(sorted(runs[path].versions.items())), []).append((path, report))
    _require_one(reports, runs, "effort", "the effort")
    _require_one(reports, runs, "devices", "the devices")
    if len(groups) > 1 and not environments:
        (first, _), (second, _) = (group[0] for group in list(groups.values())[:2])
        raise ReportError(
            f"{str(first)!r} and {str(second)!r} are of other versions: "
            f"{_differences(runs[first].versions, runs[second].versions)}; shards need the same ones, and environments "
            "that exclude each other are merged with --environments"
        )
    wholes = [_join_shards(group, runs) for group in groups.values()]
    return wholes[0] if len(wholes) == 1 else _join_environments(wholes, [group[0][0] for group in groups.values()])


def _run(path: Path, report: Report) -> Run:
    if report.run is None or not report.run.effort:
        raise ReportError(
            f"{str(path)!r} does not name its run: it was written by another release, or not by a run of "
            "pytest --evalcheck"
        )
    return report.run


def _require_one(reports: Sequence[Read], runs: Mapping[Path, Run], name: str, what: str) -> None:
    first = reports[0][0]
    for path, _ in reports:
        if getattr(runs[path], name) != getattr(runs[first], name):
            shown = " and ".join(_shown(getattr(runs[each], name)) for each in (first, path))
            raise ReportError(f"{what} of {str(first)!r} and of {str(path)!r} differ: {shown}")


def _shown(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _differences(one: Mapping[str, str | None], other: Mapping[str, str | None]) -> str:
    names = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    found = [f"{name} {one.get(name) or 'is missing'} and {other.get(name) or 'is missing'}" for name in names]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")


def _join_shards(reports: Sequence[Read], runs: Mapping[Path, Run]) -> Report:
    """The whole of one environment."""
    first, whole = reports[0]
    if len(reports) == 1 and runs[first].shard is None:
        return whole
    by_number: dict[int, Path] = {}
    for path, _ in reports:
        shard, expected = runs[path].shard, runs[first].shard
        if shard is None or expected is None:
            lacking = path if shard is None else first
            raise ReportError(
                f"{str(lacking)!r} is the report of a whole run; expected shards of one run: --evalcheck-shard=K/N"
            )
        if shard.of != expected.of:
            raise ReportError(f"{str(first)!r} is shard {expected.text}, and {str(path)!r} is shard {shard.text}")
        if shard.selection != expected.selection:
            raise ReportError(
                f"{str(first)!r} and {str(path)!r} are shards of different selections: other targets, checks or files "
                "were selected, or they were split by other durations"
            )
        if shard.number in by_number:
            raise ReportError(f"shard {shard.text} is there twice: {str(by_number[shard.number])!r} and {str(path)!r}")
        by_number[shard.number] = path
    of = runs[first].shard.of  # type: ignore[union-attr]
    missing = [f"{number}/{of}" for number in range(1, of + 1) if number not in by_number]
    if missing:
        which = f"shard {missing[0]} is" if len(missing) == 1 else f"the shards {', '.join(missing)} are"
        raise ReportError(f"{which} missing; expected the reports of all {of}")
    parts = dict(reports)
    ordered = [(by_number[number], parts[by_number[number]]) for number in sorted(by_number)]
    cells: dict[_Key, Cell] = {}
    for path, report in ordered:
        for cell in report.cells:
            if _key(cell) in cells:
                raise ReportError(f"{str(path)!r} has a check that is also in another shard: {cell.code} {cell.target}")
            cells[_key(cell)] = cell
    return _joined([report for _, report in ordered], cells.values(), replace(runs[first], shard=None))


def _join_environments(wholes: Sequence[Report], paths: Sequence[Path]) -> Report:
    cells: dict[_Key, tuple[Cell, Path]] = {}
    for path, report in zip(paths, wholes, strict=True):
        for cell in report.cells:
            other = cells.get(_key(cell))
            if other is None or other[0].outcome == "not run":
                cells[_key(cell)] = (cell, path)
            elif cell.outcome not in ("not run", "not applicable"):
                raise ReportError(
                    f"{cell.code} of {cell.target} on {cell.device} was run for {str(other[1])!r} and for "
                    f"{str(path)!r}; expected environments in which different checks run"
                )
    runs = [report.run for report in wholes if report.run]
    found = tuple(versions for run in runs for versions in (run.environments or (run.versions,)))
    left_out: dict[str, dict[str, int]] = {}
    for run in runs:
        for name, counts in run.left_out.items():
            left_out.setdefault(name, {}).update(counts)
    ran = {cell.target for cell, _ in cells.values() if cell.outcome != "not run"}
    left_out = {name: {t: n for t, n in counts.items() if t not in ran} for name, counts in left_out.items()}
    run = replace(runs[0], environments=found, left_out={name: counts for name, counts in left_out.items() if counts})
    return _joined(wholes, (cell for cell, _ in cells.values()), run)


def _joined(reports: Sequence[Report], cells: Iterable[Cell], run: Run) -> Report:
    # By file, as in a run: the matrix has a section for each.
    ordered = sorted(cells, key=lambda cell: cell.target.partition("::")[0])
    return Report(
        ordered,
        problems=dict.fromkeys(problem for report in reports for problem in report.problems),
        optional=dict.fromkeys(name for report in reports for name in report.optional),
        narrowed=any(report.narrowed for report in reports),
        inferred=next((report.inferred for report in reports if report.inferred is not None), None),
        run=run,
        unchanged=next((report.unchanged for report in reports if report.unchanged), ""),
    )


def _key(cell: Cell) -> _Key:
    return cell.target, cell.code, cell.check, cell.device

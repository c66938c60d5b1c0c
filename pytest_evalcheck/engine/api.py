"""The suite without pytest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.effort import EFFORTS
from pytest_evalcheck.engine.placing import devices_of, elsewhere, explained
from pytest_evalcheck.engine.preflight import MISDESCRIBED
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.engine.selection import Selection
from pytest_evalcheck.errors import UsageError, nearest, safe_text
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.reports.case_codec import decode_case
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.targets import device_spec, keywords
from pytest_evalcheck.targets.target import Target


def run(
    target: Target,
    device: str = "cpu",
    *,
    select: str = "",
    ignore: str = "",
    effort: str = "normal",
    replay: str = "",
    timeout: float | None = 60.0,
    fixtures: Mapping[str, Any] | None = None,
) -> Report:
    """Try the promises of one target and report the cells.

    The report has no truth value; ``run(target).raise_for_failures()`` is how a test requires that all is well.

    ``select`` and ``ignore`` are comma-separated codes, names or prefixes such as ``"EC20"``; ``effort`` is
    ``"quick"``, ``"normal"`` or ``"thorough"``; ``replay`` is the blob of a failure; ``timeout`` is in seconds a cell,
    or None for none.
    ``device`` is what ``--evalcheck-device`` takes, such as ``"sim:mps"`` or ``"auto"``; what is about accelerators is
    not tried on the CPU.
    ``fixtures`` are the values of the fixtures that the factory asks for.

    Raises:
        UsageError: when the target, or what it is asked for here, is not written as it should be.
        InvalidBlob: when ``replay`` is no blob.
    """
    if not isinstance(target, Target):
        got = safe_text(target)
        raise UsageError(f"run() takes a target, such as a function decorated with @ec.metric; got {got}")
    if target.problems:
        raise UsageError(f"{target.name}: " + "; ".join(target.problems))
    if target.isolated:
        raise UsageError(
            f"{target.name} is isolated, since it may take its process along; run it with pytest --evalcheck"
        )
    if effort not in EFFORTS:
        near = nearest(str(effort), list(EFFORTS))
        raise UsageError(f"effort {safe_text(effort)}; expected one of {', '.join(EFFORTS)}{near}")
    for name, value in {"device": device, "select": select, "ignore": ignore, "replay": replay}.items():
        if not isinstance(value, str):
            raise UsageError(f"{name}={safe_text(value)}; expected text, with commas between several")
    limit = _limit(timeout)
    asked = device_spec.parse(device)
    given = {"device": "", **(fixtures or {})}
    absent = [name for name in target.arguments if name not in given]
    if absent:
        raise UsageError(
            f"{target.name} asks for the fixture {absent[0]!r}; give it as fixtures={{{absent[0]!r}: ...}}"
        )
    arguments = {name: given[name] for name in target.arguments}
    chosen = Selection.parse(select, ignore, [*target.checks])
    code, fields = decode_case(replay) if replay else ("", None)
    cells: list[Cell] = []
    for check in target.checks:
        unasked = check.marks and check.code not in chosen.take  # real processes only when they are named
        if not chosen.takes(check) or unasked or (code and check.code != code):
            continue
        for one in devices_of(target, check, asked):
            plan = CellSpec(
                target=target,
                check=check,
                device=one,
                where=f"{relative(target.file)}::{target.name}",
                effort=EFFORTS[effort],
                timeout=limit,
                replay=fields,
                reproduce=partial(_reproduce, target, one),
            )
            placed = {**arguments, "device": device_spec.torch_name(one)} if "device" in arguments else arguments
            runner = CellRunner(plan)
            runner.reports_target = all(cell.cause != MISDESCRIBED for cell in cells)
            away = elsewhere(target, one)
            cell = runner.cell("not run", reason=away) if away else runner.run(placed)
            cells.append(explained(cell, plan, asked))
    return Report(cells)


def _reproduce(target: Target, device: str, blob: str) -> str:
    where = "" if device == "cpu" else f", {device!r}"
    replay = f", replay={blob!r}" if blob else ""
    return f"pytest_evalcheck.run({target.name}{where}{replay})"


def _limit(timeout: Any) -> float | None:
    problems: list[str] = []
    limit = keywords.timeout(timeout or None, problems)
    if problems:
        raise UsageError(problems[0])
    return limit

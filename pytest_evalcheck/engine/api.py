"""The suite without pytest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from hypothesis.reporting import with_reporter

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.effort import EFFORTS
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.engine.selection import Selection
from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.reports.case_codec import decode_case
from pytest_evalcheck.reports.results import Cell, Report
from pytest_evalcheck.targets import device_spec
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

    ``select`` and ``ignore`` are comma-separated codes, names or prefixes such as ``"EC20"``; ``effort`` is
    ``"quick"``, ``"normal"`` or ``"thorough"``; ``replay`` is the blob of a failure; ``timeout`` is in seconds a cell.
    ``device`` is what ``--evalcheck-device`` takes, such as ``"sim:mps"`` or ``"auto"``; what is about accelerators is
    not tried on the CPU.
    ``fixtures`` are the values of the fixtures that the factory asks for.

    Raises:
        UsageError: when the target, or what it is asked for here, is not written as it should be.
        InvalidBlob: when ``replay`` is no blob.
    """
    if not isinstance(target, Target):
        raise UsageError(f"run() takes a target, such as a function decorated with @ec.metric; got {target!r}")
    if target.problems:
        raise UsageError(f"{target.name}: " + "; ".join(target.problems))
    if target.isolated:
        raise UsageError(
            f"{target.name} is isolated, since it may take its process along; run it with pytest --evalcheck"
        )
    if effort not in EFFORTS:
        raise UsageError(f"effort {effort!r}{nearest(effort, list(EFFORTS))} expected one of {', '.join(EFFORTS)}")
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
    cells = []
    for check in target.checks:
        unasked = check.marks and check.code not in chosen.take  # real processes only when they are named
        if not chosen.takes(check) or unasked or (code and check.code != code):
            continue
        for one in device_spec.chosen(asked, accelerators_only=bool(check.accelerators)):
            plan = CellSpec(
                target=target,
                check=check,
                device=one,
                where=f"{relative(target.file)}::{target.name}",
                effort=EFFORTS[effort],
                timeout=timeout,
                replay=fields,
                reproduce=partial(_reproduce, target, one),
            )
            placed = {**arguments, "device": device_spec.torch_name(one)} if "device" in arguments else arguments
            cells.append(_cell(CellRunner(plan), placed))
    return Report(cells)


def _reproduce(target: Target, device: str, blob: str) -> str:
    where = "" if device == "cpu" else f", {device!r}"
    return f"pytest_evalcheck.run({target.name}{where}, replay={blob!r})"


def _cell(runner: CellRunner, arguments: Mapping[str, Any]) -> Cell:
    def trial(case: Any) -> None:
        runner.attempt(case, arguments)

    test: Any = runner.test(trial)
    # All cells share this function; the digest keeps their entries in the example database apart.
    test.hypothesis.inner_test._hypothesis_internal_add_digest = runner.spec.key.encode()
    with with_reporter(lambda _: None):  # what Hypothesis would print is in the cell
        return runner.run(test)

"""The suite without pytest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.check_selection import CheckSelection
from pytest_evalcheck.engine.device_selection import devices_of, other_device, with_missing
from pytest_evalcheck.engine.effort import EFFORTS
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.engine.target_errors import TargetErrorReporter, reports_faults
from pytest_evalcheck.errors import UsageError, nearest, safe_text
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.kinds.common.check import Check
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
    timeout: float | None = None,
    fixtures: Mapping[str, Any] | None = None,
) -> Report:
    """Try the checks of one target and report their cells.

    The report has no truth value; ``run(target).raise_for_failures()`` is how a test requires that all is well.

    ``select`` and ``ignore`` are comma-separated codes, names or prefixes such as ``"EC20"``; ``effort`` is
    ``"quick"``, ``"normal"`` or ``"thorough"``; ``replay`` is the blob of a failure; ``timeout`` is the limit in
    seconds a cell, 0 for none; by default 60, or what a slow target needs.
    ``device`` is what ``--evalcheck-device`` takes, such as ``"sim:mps"`` or ``"auto"``; what is about accelerators is
    not tried on the CPU.
    ``fixtures`` are the values of the fixtures that the factory asks for.

    Raises:
        UsageError: when the target, or what it is asked for here, is not written as it should be.
        InvalidBlob: when ``replay`` is no blob.
    """
    request = RunRequest.of(target, device, select=select, ignore=ignore, effort=effort, timeout=timeout)
    arguments = request.arguments(fixtures or {})
    if not isinstance(replay, str):
        raise UsageError(f"replay={safe_text(replay)}; expected the text that a failure prints")
    code, fields = decode_case(replay) if replay else ("", None)
    cells: list[Cell] = []
    for check, one in request.cells:
        if code and check.code != code:
            continue
        cells.append(request.run(check, one, arguments, replay=fields))
    return Report(cells)


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """One target, its checks and the effort, requested without a run of ``pytest --evalcheck``."""

    target: Target
    devices: tuple[str, ...]
    selection: CheckSelection
    effort: str
    limit: float | None
    """Seconds a cell, 0 for no limit; None where nobody gives one."""
    reproduce: Callable[[Target, str, str], str]
    """From the target, the device and a blob to the command that replays it."""
    reporter: TargetErrorReporter

    @classmethod
    def of(
        cls,
        target: Target,
        device: str,
        *,
        select: str,
        ignore: str,
        effort: str,
        timeout: float | None,
        reproduce: Callable[[Target, str, str], str] | None = None,
    ) -> RunRequest:
        """Return the request of a user.

        Raises:
            UsageError: when it is not written as it should be.
        """
        if not isinstance(target, Target):
            got = safe_text(target)
            raise UsageError(f"run() takes a target, such as a function decorated with @ec.metric; got {got}")
        if target.problems:
            raise UsageError(f"{target.name}: " + "; ".join(target.problems))
        if target.isolated:
            raise UsageError(f"{target.name} is isolated, since it may end its process; run it with pytest --evalcheck")
        if effort not in EFFORTS:
            near = nearest(str(effort), list(EFFORTS))
            raise UsageError(f"effort {safe_text(effort)}; expected one of {', '.join(EFFORTS)}{near}")
        for name, value in {"device": device, "select": select, "ignore": ignore}.items():
            if not isinstance(value, str):
                raise UsageError(f"{name}={safe_text(value)}; expected text, with commas between several")
        selection = CheckSelection.parse(select, ignore, [*target.checks])
        return cls(
            target=target,
            devices=device_spec.parse(device),
            selection=selection,
            effort=effort,
            limit=_limit(timeout),
            reproduce=reproduce or _reproduce,
            reporter=TargetErrorReporter(fault=reports_faults(filter(selection.selects, target.checks))),
        )

    @property
    def cells(self) -> list[tuple[Check, str]]:
        """The check and the device of every cell."""
        taken = [check for check in self.target.checks if self.selection.selects(check)]
        # Real processes only when they are named.
        asked = [check for check in taken if not check.marks or check.code in self.selection.select]
        return [(check, device) for check in asked for device in devices_of(self.target, check, self.devices)]

    def arguments(self, fixtures: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the factory.

        Raises:
            UsageError: when it asks for a fixture that is not given.
        """
        given = {"device": "", **fixtures}
        absent = [name for name in self.target.arguments if name not in given]
        if absent:
            raise UsageError(
                f"{self.target.name} asks for the fixture {absent[0]!r}; give it as fixtures={{{absent[0]!r}: ...}}"
            )
        return {name: given[name] for name in self.target.arguments}

    def run(
        self,
        check: Check,
        device: str,
        arguments: Mapping[str, Any],
        *,
        replay: Mapping[str, Any] | None = None,
    ) -> Cell:
        """The cell of one check on one device; ``replay`` has the fields of the one case to try."""
        target = self.target
        spec = CellSpec(
            target=target,
            check=check,
            device=device,
            where=f"{relative(target.file)}::{target.name}",
            effort=EFFORTS[self.effort],
            timeout=self.limit,
            replay=replay,
            reproduce=partial(self.reproduce, target, device),
        )
        placed = {**arguments, "device": device_spec.torch_name(device)} if "device" in arguments else arguments
        runner = CellRunner(spec)
        runner.reporter = self.reporter
        away = other_device(target, device)
        cell = runner.cell("not run", reason=away) if away else runner.run(placed)
        return with_missing(cell, spec, self.devices)


def _reproduce(target: Target, device: str, blob: str) -> str:
    where = "" if device == "cpu" else f", {device!r}"
    replay = f", replay={blob!r}" if blob else ""
    return f"pytest_evalcheck.run({target.name}{where}{replay})"


def _limit(timeout: Any) -> float | None:
    problems: list[str] = []
    limit = 0.0 if timeout == 0 and timeout is not False else keywords.timeout(timeout, problems)
    if problems:
        raise UsageError(problems[0])
    return limit

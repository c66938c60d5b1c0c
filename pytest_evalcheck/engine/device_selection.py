"""Devices on which the checks of a target are tried, and the names of what a cell that was not run needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.reports.results import Cell
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.target import Target

SKIPPED = "skipped"
"""The name of what a cell needs that a mark or ``pytest.skip`` skipped, for ``evalcheck_optional``."""


def devices_of(target: Target, check: Check, asked: Sequence[str]) -> list[str]:
    """Return the devices on which a check of a target has a cell, of those that a run asks for.

    A target that is for none of them has its cells nevertheless: they are not run, and say why.
    """
    found = device_spec.chosen(asked, accelerators_only=bool(check.accelerators))
    if target.devices is None:
        return found
    own = [device for device in found if device_spec.kind(device) in target.devices]
    if not own and device_spec.AUTO in asked and "cpu" not in target.devices:  # everything is tried where it belongs
        own = [device for device in device_spec.SIMULATED if device_spec.kind(device) in target.devices]
    return own if own or _has_place(target, asked) else found


def other_device(target: Target, device: str) -> str:
    """Return why a target is not run on a device: it is only for others. Empty where it is for this one."""
    if target.devices is None or device_spec.kind(device) in target.devices:
        return ""
    return f"only for {', '.join(target.devices)}; this run is on {device_spec.kind(device)}"


def with_missing(cell: Cell, spec: CellSpec, asked: Sequence[str], *, skipped: bool = False) -> Cell:
    """Add the names of what a cell needs that was not run; return every other cell as it is.

    ``auto`` asks for what the machine has: what it seemed to have and has not is not wanted.
    """
    if cell.outcome != "not run" or cell.missing:
        return cell
    if skipped:
        return replace(cell, missing=(SKIPPED,))
    if other_device(spec.target, spec.device):
        return replace(cell, missing=spec.target.devices or ())
    if spec.target.absent:
        return replace(cell, missing=tuple(name for name, _ in spec.target.absent))
    if cell.reason and cell.reason == device_spec.absent(spec.device):
        if spec.device not in asked:
            return replace(cell, outcome="not applicable", reason=f"{spec.device} is not here: {cell.reason}")
        return replace(cell, missing=(device_spec.kind(spec.device),))
    return cell


def _has_place(target: Target, asked: Sequence[str]) -> bool:
    only = {bool(check.accelerators) for check in target.checks}
    found = [device for one in only for device in device_spec.chosen(asked, accelerators_only=one)]
    return any(device_spec.kind(device) in (target.devices or ()) for device in found)

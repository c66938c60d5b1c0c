"""Stock pytest items of a target: a generated class with one function a check."""

from __future__ import annotations

import ast
import inspect
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.device_selection import devices_of
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.integration.choosing import inferring
from pytest_evalcheck.integration.choosing.selection import Selection
from pytest_evalcheck.integration.options import Options
from pytest_evalcheck.kinds.common.calling import relative
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.target import Target

RUNNERS = "evalcheck_runners"
"""The attribute of a generated function that holds its runners by device."""


class BadTarget(pytest.Collector):
    """A target that cannot be run; it says why, and the other targets of its file go on."""

    problem = ""

    def collect(self) -> Iterator[Any]:
        """Raise what is wrong, at the user's line."""
        raise self.CollectError(self.problem)


def bad_target(collector: Any, name: str, problem: str) -> BadTarget:
    """Return a node that fails to collect with this problem."""
    bad: BadTarget = BadTarget.from_parent(collector, name=name)
    bad.problem = problem
    return bad


def collected(
    collector: Any, name: str, target: Target, options: Options, selection: Selection
) -> tuple[pytest.Collector | None, dict[str, int]]:
    """Return the node of a target, a class of checks or an error, and how many cells are not selected, by reason.

    For what is not selected no node is made: in a run of a few targets the others would be most of what it collects.
    """
    marks = [getattr(mark, "mark", mark) for mark in (*getattr(target.factory, "pytestmark", []), *target.pytestmark)]
    markers = [mark.name for mark in (*collector.iter_markers(), *marks)]
    ignored: Counter[str] = Counter()
    try:
        _require_sound(collector, name, target)
        checks = selection.checks_of(target)
        place = _Place.of(collector, name, target)
        body = type(name, (), {"__doc__": target.factory.__doc__, "__module__": place.module, "__test__": True})
        for check, devices in checks:
            cells = len(devices)
            reason = selection.reason_against(collector.path, name, target, check, markers=markers, cells=cells)
            if reason:
                ignored[reason] += cells
            else:
                setattr(body, check.name, _function(place, target, check, devices, options))
        if not checks and options.selected_by_ini:
            raise UsageError(
                f"{options.selected_by_ini} exclude all of its checks; remove the target, or select a check"
            )
    except UsageError as error:
        return bad_target(collector, name, f"{relative(target.file)}:{target.line}: target {name}: {error}"), {}
    if checks and ignored.total() == sum(len(devices) for _, devices in checks):
        return None, ignored
    node: pytest.Class = pytest.Class.from_parent(collector, name=name)
    node.obj = body  # from_parent() has no parameter for it, so the marks are not taken from it either
    node.own_markers.extend(marks)
    node.keywords.update({mark.name: mark for mark in marks})
    return node, ignored


def _require_sound(collector: Any, name: str, target: Target) -> None:
    if target.problems:
        raise UsageError("\n".join(target.problems))
    if not isinstance(collector, pytest.Module):
        raise UsageError("it is an attribute of a class; move it to the top level of its file")
    twins = _lines_of(name, target.file)
    if len(twins) > 1:
        lines = ", ".join(map(str, twins))
        raise UsageError(f"{len(twins)} functions have this name (lines {lines}); only the last one would run")
    _require_fixtures(collector, target)


@dataclass(frozen=True)
class _Place:
    """Values that the functions of one target share."""

    name: str
    module: str
    where: str
    """The node id of the target."""
    printed: str
    """The same from where pytest was called, as a command line names it."""
    signature: inspect.Signature
    inferred: str
    """The options that ask for an inferred target; empty for one that has a file."""

    @classmethod
    def of(cls, collector: Any, name: str, target: Target) -> _Place:
        keyword = inspect.Parameter.KEYWORD_ONLY
        wanted = ["device", *(a for a in target.arguments if a != "device")]
        signature = inspect.Signature(
            [
                inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                *(inspect.Parameter(argument, keyword) for argument in wanted),
            ]
        )
        where = f"{collector.nodeid}::{name}"
        module = inferring.module_of(collector.config, collector.path)
        inferred = inferring.options(collector.config, module) if module else ""
        printed = where if inferred else f"{_from_invocation(collector)}::{name}"
        return cls(name, target.factory.__module__, where, printed, signature, inferred)


def _function(place: _Place, target: Target, check: Check, devices: list[str], options: Options) -> Any:
    usual = devices_of(target, check, [device_spec.AUTO])

    def reproduce(device: str) -> Any:
        command = f"pytest {place.inferred or '--evalcheck'} {shlex.quote(f'{place.printed}::{check.name}[{device}]')}"
        if device not in usual:
            command += f" --evalcheck-device={device}"
        marks = " ".join(f"-m {mark}" for mark in check.marks)
        return lambda blob: " ".join(p for p in (command, marks, f"--evalcheck-replay={blob}" if blob else "") if p)

    runners: dict[str, CellRunner] = {
        device: CellRunner(
            CellSpec(
                target=target,
                check=check,
                device=device,
                where=place.where,
                effort=options.effort,
                timeout=options.timeout,
                replay=options.replay[1] if options.replay else None,
                listed=options.baseline.of(place.where, check.code),
                reproduce=reproduce(device),
                fail_on=options.fail_on or ("error" if place.inferred else "cost"),
                strict_versions=options.strict_versions,
                inferred=bool(place.inferred),
            )
        )
        for device in devices
    }

    def test(*_: Any, **__: Any) -> None:
        raise AssertionError("pytest_pyfunc_call judges a check")

    test.__signature__ = place.signature  # type: ignore[attr-defined]
    test.__name__ = check.name
    test.__qualname__ = f"{place.name}.{check.name}"
    test.__doc__ = check.statement
    test.__module__ = place.module
    test.__test__ = True  # type: ignore[attr-defined]  # any name may be a test
    test.place_as = target.factory  # type: ignore[attr-defined]  # pytest reports the user's line
    setattr(test, RUNNERS, runners)
    setattr(test, check.code, True)  # pytest's way to give a function a word for -k
    parameters = [
        pytest.param(device, marks=[getattr(pytest.mark, mark) for mark in device_spec.marks(device)])
        for device in devices
    ]
    test = pytest.mark.parametrize("device", parameters)(test)
    test = pytest.mark.evalcheck(target=place.where, check=check.name, code=check.code)(test)
    for mark in check.marks:
        test = getattr(pytest.mark, mark)(test)
    return test


def _from_invocation(collector: Any) -> str:
    # Built here, since what pytest prints as an id changed between its releases.
    path = Path(collector.path)
    try:
        return path.relative_to(collector.config.invocation_params.dir).as_posix()
    except ValueError:
        return str(path)


def _lines_of(name: str, file: str) -> list[int]:
    """Return the lines at which a module defines a function of this name, in one scope."""
    try:
        found = Path(file).stat()
    except OSError:
        return []
    return _functions(file, found.st_mtime_ns, found.st_size).get(name, [])


@lru_cache(maxsize=16)
def _functions(file: str, *_: int) -> dict[str, list[int]]:
    """Return lines by name; what follows the file is its time and size, so that a changed file is read again."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, list[int]] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node.lineno)
    return found


def _require_fixtures(collector: Any, target: Target) -> None:
    manager = collector.session._fixturemanager
    node = collector if pytest.version_tuple >= (8, 1) else collector.nodeid
    for argument in target.arguments:
        if argument == "device" or manager.getfixturedefs(argument, node):
            continue
        # No public list of fixture names; the attribute was renamed in pytest 9.2.
        known = getattr(manager, "_arg2node2fixturedefs", None) or getattr(manager, "_arg2fixturedefs", {})
        hint = nearest(argument, ["device", *known], cutoff=0.6)
        raise UsageError(f"the factory asks for {argument!r}, which is neither `device` nor a fixture{hint}")

"""How a target becomes stock pytest items: a generated class with one function a check."""

from __future__ import annotations

import ast
import difflib
import inspect
import shlex
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.placing import devices_of
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.engine.selection import Selection
from pytest_evalcheck.errors import UsageError
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
    """A node that fails to collect with this problem."""
    bad: BadTarget = BadTarget.from_parent(collector, name=name)
    bad.problem = problem
    return bad


def collected(collector: Any, name: str, target: Target, options: Options) -> pytest.Collector:
    """The node of a target: a class of checks, or an error."""
    try:
        body = _body(collector, name, target, options)
    except UsageError as error:
        return bad_target(collector, name, f"{relative(target.file)}:{target.line}: target {name}: {error}")
    node: pytest.Class = pytest.Class.from_parent(collector, name=name)
    node.obj = body  # from_parent() has no parameter for it, so the marks are not taken from it either
    marks = [getattr(mark, "mark", mark) for mark in (*getattr(target.factory, "pytestmark", []), *target.pytestmark)]
    node.own_markers.extend(marks)
    node.keywords.update({mark.name: mark for mark in marks})
    return node


def _body(collector: Any, name: str, target: Target, options: Options) -> type:
    if target.problems:
        raise UsageError("\n".join(target.problems))
    if not isinstance(collector, pytest.Module):
        raise UsageError("it is an attribute of a class; move it to the top level of its file")
    twins = _lines_of(name, target.file)
    if len(twins) > 1:
        lines = ", ".join(map(str, twins))
        raise UsageError(f"{len(twins)} functions have this name (lines {lines}); only the last one would run")
    _require_fixtures(collector, target)
    chosen = Selection.of(options.take, options.leave)
    body: dict[str, Any] = {
        "__doc__": target.factory.__doc__,
        "__module__": target.factory.__module__,
        "__test__": True,
    }
    for check in target.checks:
        devices = devices_of(target, check, options.devices)
        if devices and chosen.takes(check) and (options.replay is None or options.replay[0] == check.code):
            body[check.name] = _function(collector, name, target, check, devices, options)
    if len(body) == _EMPTY and options.selected_by_ini:
        raise UsageError(f"{options.selected_by_ini} leave none of its checks; take it out, or select one of them")
    return type(name, (), body)


_EMPTY = 3
"""The names in the body of a class that has no check."""


def _function(collector: Any, name: str, target: Target, check: Check, devices: list[str], options: Options) -> Any:
    where = f"{collector.nodeid}::{name}"
    printed = f"{_from_invocation(collector)}::{name}"
    usual = device_spec.chosen([device_spec.AUTO], accelerators_only=bool(check.accelerators))

    def reproduce(device: str) -> Any:
        command = f"pytest --evalcheck {shlex.quote(f'{printed}::{check.name}[{device}]')}"
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
                where=where,
                effort=options.effort,
                timeout=options.timeout,
                replay=options.replay[1] if options.replay else None,
                reproduce=reproduce(device),
            )
        )
        for device in devices
    }

    def test(*_: Any, **__: Any) -> None:
        raise AssertionError("pytest_pyfunc_call judges a cell")

    keyword = inspect.Parameter.KEYWORD_ONLY
    wanted = ["device", *(a for a in target.arguments if a != "device")]
    test.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD),
            *(inspect.Parameter(argument, keyword) for argument in wanted),
        ]
    )
    test.__name__ = check.name
    test.__qualname__ = f"{name}.{check.name}"
    test.__doc__ = check.promise
    test.__module__ = target.factory.__module__
    test.__test__ = True  # type: ignore[attr-defined]  # any name may be a test
    test.place_as = target.factory  # type: ignore[attr-defined]  # pytest reports the user's line
    setattr(test, RUNNERS, runners)
    parameters = [
        pytest.param(device, marks=[getattr(pytest.mark, mark) for mark in device_spec.marks(device)])
        for device in devices
    ]
    test = pytest.mark.parametrize("device", parameters)(test)
    test = pytest.mark.evalcheck(target=where, check=check.name, code=check.code)(test)
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
    """The lines at which a module defines a function of this name, in one scope."""
    try:
        found = Path(file).stat()
    except OSError:
        return []
    return _functions(file, found.st_mtime_ns, found.st_size).get(name, [])


@lru_cache(maxsize=16)
def _functions(file: str, *_: int) -> dict[str, list[int]]:
    """By name; what follows the file is when it was changed, and its size: then it is read again."""
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
        near = difflib.get_close_matches(argument, ["device", *known], n=1, cutoff=0.6)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"the factory asks for {argument!r}, which is neither `device` nor a fixture{hint}")

"""The checks inside ordinary tests: a parameter of a test for each check, and one call that requires all of them.

Both work without ``--evalcheck``, and with every plugin that knows parametrised tests.
"""

from __future__ import annotations

import copy
import functools
import inspect
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest

from pytest_evalcheck import adapters
from pytest_evalcheck.engine.api import RunRequest
from pytest_evalcheck.engine.target_errors import was_reported_before
from pytest_evalcheck.errors import UsageError, safe_text
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.metric.record import Metric
from pytest_evalcheck.kinds.registry import kind_of, kinds
from pytest_evalcheck.reports.case_codec import decode_case
from pytest_evalcheck.reports.failure_text import format_failure
from pytest_evalcheck.reports.results import Cell, Report, VerdictError
from pytest_evalcheck.strategies.samples import SampleStrategy
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.keywords import factory_problems
from pytest_evalcheck.targets.making import decorator
from pytest_evalcheck.targets.target import Target

Test = TypeVar("Test", bound=Callable[..., Any])

_EXPECTED = "a target, a class, a function that returns a new object, or an object that can be copied"


def assert_passes(
    thing: Any,
    *,
    inputs: SampleStrategy | None = None,
    kind: str = "metric",
    device: str = "cpu",
    select: str = "",
    ignore: str = "",
    effort: str = "normal",
    timeout: float | None = None,
    replay: str = "",
    fixtures: Mapping[str, Any] | None = None,
    optional: Sequence[str] = (),
    **keywords: Any,
) -> Report:
    """Require that a thing passes every check that is tried on it.

    ``thing`` is a target, a class that is called without arguments, a function that returns a new object (its arguments
    are ``device`` and ``fixtures``), or an object, of which a copy is made for each use. ``inputs`` draws its samples;
    ``kind`` and ``keywords`` are those of the decorators of targets, such as ``tolerance``, ``reference``,
    ``known_failures``. A target brings its own and takes none of these here.

    ``device``, ``select``, ``ignore``, ``effort``, ``timeout``, ``replay`` and ``fixtures`` are those of `run`;
    ``optional`` names what may be missing: distributions, kinds of device. The report of all cells is returned.

    >>> import pytest_evalcheck as ec
    >>> from pytest_evalcheck import strategies as es
    >>> class Total:
    ...     def __init__(self):
    ...         self.total = 0.0
    ...
    ...     def update(self, value):
    ...         self.total += float(value.sum())
    ...
    ...     def compute(self):
    ...         return self.total
    >>> ec.assert_passes(Total, inputs=es.values(), select="EC201,EC205").counts
    '2 passed'

    Raises:
        VerdictError: where a check fails, a cell is incomplete or was not run, or no check was tried; it is an
            AssertionError, and its message has the screen of every failure.
        UsageError: where the thing, or what is requested here, is not written as it should be.
    """
    __tracebackhide__ = True
    target = _target(thing, "", _Described(kind, inputs, keywords), _caller())
    suite = _Suite(
        RunRequest.of(
            target, device, select=select, ignore=ignore, effort=effort, timeout=timeout, reproduce=_in_a_call
        )
    )
    cells = [suite.cell(*each, fixtures or {}, replay) for each in suite.request.cells if _is_for(each[0], replay)]
    report = Report(cells, optional=_names("optional", optional), narrowed=bool(replay))
    try:
        report.raise_for_failures()
    except VerdictError as error:
        raise VerdictError(str(error)) from None  # pytest shows the line of the test, and not where it was raised first
    return report


def parametrize_with_checks(
    things: Sequence[Any] | Mapping[str, Any],
    *,
    inputs: SampleStrategy | None = None,
    kind: str = "metric",
    device: str = "cpu",
    select: str = "",
    ignore: str = "",
    effort: str = "normal",
    timeout: float | None = None,
    optional: Sequence[str] = (),
    **keywords: Any,
) -> Callable[[Test], Test]:
    """Parametrise a test with every check of every thing: one item each, with the id ``MyMetric-EC201``.

    The test takes ``check``, or ``target`` and ``check``, and calls it::

        @ec.parametrize_with_checks([MyMetric, lambda: Other(k=3)], inputs=es.multiclass(classes=3))
        def test_metrics(check):
            check()

    ``things`` are what `assert_passes` takes, as a list or as a mapping from names; the other arguments are the same.
    ``check()`` fails with the screen of the failure. A known failure is xfailed, and fails once the check passes. A
    check that does not apply is skipped, with the reason. What was not run fails, unless ``optional`` names what is
    missing. Where no check of a thing can be tried, each of them fails. ``check(start=3)`` gives the fixture ``start``
    that a factory asks for; ``check(replay=...)`` tries one case.

    Raises:
        UsageError: where a thing, or what is requested here, is not written as it should be.
    """
    described, place = _Described(kind, inputs, keywords), _caller()
    missing, named = _names("optional", optional), _named(things)
    if all(isinstance(thing, Target) for thing in named.values()):
        described.require_nothing("targets, which have their own")
    parameters: dict[str, _BoundCheck] = {}
    for name, thing in named.items():
        target = _target(thing, name, described, place)
        request = RunRequest.of(
            target, device, select=select, ignore=ignore, effort=effort, timeout=timeout, reproduce=_in_a_test
        )
        if not request.cells:
            raise UsageError(f"{name}: no check matches select={select!r}, ignore={ignore!r} on {device}")
        suite = _Suite(request)
        for check, one in request.cells:
            where = "" if one == "cpu" else f"-{one}"
            parameters[f"{name}-{check.code}{where}"] = _BoundCheck(target, check, one, suite, missing)

    def decorate(test: Test) -> Test:
        taken = inspect.signature(test).parameters if inspect.isfunction(test) else {}
        if "check" not in taken:
            raise UsageError(
                f"@ec.parametrize_with_checks stands above {safe_text(test)}; expected a test function that takes "
                "`check`, or `target` and `check`"
            )
        names = [name for name in ("target", "check") if name in taken]
        marked = [
            pytest.param(
                *((each.target, each) if "target" in taken else (each,)),
                id=name,
                marks=[getattr(pytest.mark, mark) for mark in device_spec.marks(each.device)],
            )
            for name, each in parameters.items()
        ]
        decorated: Test = pytest.mark.parametrize(names, marked)(test)
        return decorated

    return decorate


@dataclass(frozen=True)
class _Described:
    """The description of things that are no targets."""

    kind: str
    inputs: SampleStrategy | None
    keywords: Mapping[str, Any]

    def require_nothing(self, why: str) -> None:
        """Require that nothing is said.

        Raises:
            UsageError: where something is.
        """
        given = [name for name, value in (("inputs", self.inputs), *self.keywords.items()) if value is not None]
        if given:
            raise UsageError(f"{given[0]}= cannot be combined with {why}; remove it")


@dataclass(eq=False)
class _Suite:
    """The checks of one target, and what the first of them have shown in this process."""

    request: RunRequest
    tried: bool = False

    def cell(self, check: Check, device: str, fixtures: Mapping[str, Any], replay: str = "") -> Cell:
        """Return the cell of one check."""
        fields = decode_case(replay)[1] if replay else None
        cell = self.request.run(check, device, self.request.arguments(fixtures), replay=fields)
        self.tried = self.tried or cell.executed or cell.outcome == "incomplete"
        return cell

    def _quick(self) -> _Suite:
        return _Suite(replace(self.request, effort="quick", reporter=replace(self.request.reporter)))

    def require_tried(self, cell: Cell, fixtures: Mapping[str, Any]) -> None:
        """Require that some check of the target applies: skips alone would be a green that means nothing.

        Raises:
            VerdictError: where none does.
        """
        __tracebackhide__ = True
        if self.tried:
            return
        quick = self._quick()
        for check, device in self.request.cells:
            if (check.code, device) != (cell.code, cell.device) and not quick.tried:
                quick.cell(check, device, fixtures)
        self.tried = quick.tried
        if not self.tried:
            name = self.request.target.name
            raise VerdictError(f"no check was tried of {name}: {cell.code} is {cell.outcome}: {cell.reason}")

    def require_varied(self, fixtures: Mapping[str, Any]) -> None:
        """Require that the thing gives different values in some checks, where the control could not say so.

        Raises:
            VerdictError: where all of them see one value.
        """
        __tracebackhide__ = True
        quick, values = self._quick(), set[str]()
        for check, device in self.request.cells:
            cell = quick.cell(check, device, fixtures)
            values |= {cell.value} - {""}
            if cell.varies or len(values) > 1 or cell.outcome in ("failed", "incomplete"):
                return  # what fails is an item of its own
        for value in values:
            name = self.request.target.name
            raise VerdictError(f"{name} gave {value} in all cases of all checks, which tests nothing (give wrong=)")


@dataclass(frozen=True, eq=False, repr=False)
class _BoundCheck:
    """One check of one target on one device, which a test calls."""

    target: Target
    check: Check
    device: str
    suite: _Suite
    optional: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        return f"<{self.check.code} of {self.target.name} on {self.device}>"

    def __call__(self, target: Target | None = None, /, *, replay: str = "", **fixtures: Any) -> Cell:
        """Try the check, and return its cell.

        Raises:
            VerdictError: where it fails, or could not be tried.
            UsageError: where another target, or a blob of another check, is given.
        """
        __tracebackhide__ = True
        if target is not None and target is not self.target:
            raise UsageError(f"check(target) checks {self.target.name}; got {safe_text(target)}")
        if not _is_for(self.check, replay):
            raise UsageError(f"the blob is for {decode_case(replay)[0]}, but this check is {self.check.code}")
        absent = [name for name in self.target.arguments if name not in ("device", *fixtures)]
        if absent:
            name = absent[0]
            raise UsageError(
                f"{self.target.name} asks for the fixture {name!r}; write check({name}={name}) in the test"
            )
        cell = self.suite.cell(self.check, self.device, fixtures, replay)
        if cell.outcome == "known":
            pytest.xfail(cell.reason)
            raise VerdictError(format_failure(cell))  # under --runxfail
        if was_reported_before(cell):
            pytest.skip(cell.reason)
        if cell.outcome == "not run" and not Report([cell], optional=self.optional).excuses(cell):
            wants = ", ".join(map(repr, cell.missing))
            hint = f"; where it may be missing, write optional=[{wants}]" if wants else ""
            raise VerdictError(f"{cell.code} of {self.target.name} was not run: {cell.reason}{hint}")
        if cell.outcome in ("not applicable", "not run"):
            if cell.outcome == "not applicable":
                self.suite.require_tried(cell, fixtures)
            if cell.outcome == "not applicable" and self.check.existential:
                self.suite.require_varied(fixtures)
            pytest.skip(f"{cell.outcome}: {cell.reason}")
        if cell.outcome != "passed":
            raise VerdictError(format_failure(cell) or cell.reason)
        return cell


def _is_for(check: Check, replay: str) -> bool:
    return not replay or decode_case(replay)[0] == check.code


def _named(things: Any) -> dict[str, Any]:
    """Return the things by names that differ."""
    if isinstance(things, Mapping):
        named = {str(name): thing for name, thing in things.items()}
    elif isinstance(things, (list, tuple)):
        names = [_name(thing, f"thing{index}") for index, thing in enumerate(things)]
        twice = {name for name in names if names.count(name) > 1}
        numbered = [f"{name}{index}" if name in twice else name for index, name in enumerate(names)]
        named = dict(zip(numbered, things, strict=True))
    else:
        raise UsageError(
            f"parametrize_with_checks takes a list of objects, or a mapping of names to them; got {safe_text(things)}"
        )
    if not named:
        raise UsageError(f"parametrize_with_checks got nothing to check; expected {_EXPECTED}")
    return named


def _name(thing: Any, otherwise: str = "") -> str:
    inner = thing.func if isinstance(thing, functools.partial) else thing
    own = getattr(inner, "__name__", None)
    if not isinstance(own, str):
        own = type(inner).__name__
    return otherwise if own == "<lambda>" and otherwise else own


def _target(thing: Any, name: str, described: _Described, place: tuple[str, int]) -> Target:
    if isinstance(thing, Target):
        if not name:
            described.require_nothing(f"the target {thing.name}, which has its own")
        return thing
    name = name or _name(thing)
    factory = _factory(thing, name, described.kind, place)
    keywords = {**described.keywords, "inputs": described.inputs}
    target = decorator(described.kind, keywords)(factory)
    if target.problems:
        raise UsageError(f"{name}: " + "; ".join(target.problems))
    return target


def _factory(thing: Any, name: str, kind: str, place: tuple[str, int]) -> Callable[..., Any]:
    """Return a function that makes a new object each time."""
    if inspect.isfunction(thing):
        if problems := factory_problems(thing):
            raise UsageError(f"{name}: " + "; ".join(problems))

        @functools.wraps(thing)
        def factory(*arguments: Any, **keywords: Any) -> Any:
            return _usable(kind, thing(*arguments, **keywords))

        factory.__name__ = name
        return factory
    is_called = inspect.isclass(thing) or inspect.ismethod(thing) or isinstance(thing, functools.partial)
    make = thing if is_called else _copies(thing, name, kind)

    def made() -> Any:
        return _usable(kind, make())

    # A failure names the line where the test says what is tried, not this one.
    made.__code__ = made.__code__.replace(co_filename=place[0], co_firstlineno=place[1])
    made.__name__ = name
    return made


def _copies(thing: Any, name: str, kind: str) -> Callable[[], Any]:
    """Return a function that copies an object as it is now.

    Raises:
        UsageError: where it cannot be copied, or cannot be described.
    """
    wanted = f"give a function that returns a new one each time: lambda: {type(thing).__name__}(...)"
    if any(isinstance(thing, each.record) for each in kinds()):
        raise UsageError(f"{name} is a record of callables, whose copy would use the same object; {wanted}")
    try:
        pristine = copy.deepcopy(thing)
        adapters.record(kind, _usable(kind, pristine))
    except TargetError as error:
        text = " ".join(part for part in (f"got {safe_text(thing)}; expected {_EXPECTED}", error.detail) if part)
        raise UsageError(text) from error
    except Exception as error:
        why = f"{type(error).__name__}: {safe_text(error, str)}"
        raise UsageError(
            f"the object {name} cannot be copied ({why}), so all checks would share it; {wanted}"
        ) from error
    if pristine is thing:
        raise UsageError(f"a copy of the object {name} is the object itself, so all checks would share it; {wanted}")
    return lambda: copy.deepcopy(pristine)


def _usable(kind: str, made: Any) -> Any:
    """Return an object as it is where an adapter knows it, or as the record of its ``update`` and ``compute``."""
    spec = kind_of(kind)
    if spec.record is not Metric or not all(callable(getattr(made, name, None)) for name in spec.methods):
        return made
    try:
        adapters.record(kind, made)
    except TargetError:
        return Metric.of(made)
    return made


def _caller() -> tuple[str, int]:
    """Return the file and the line of the test that calls a public function of this module."""
    frame = sys._getframe(2)
    return frame.f_code.co_filename, frame.f_lineno


def _names(keyword: str, given: Any) -> tuple[str, ...]:
    if isinstance(given, (list, tuple, set, frozenset)) and all(isinstance(name, str) for name in given):
        return tuple(given)
    raise UsageError(f"{keyword}={safe_text(given)}; expected a list of names, such as ['torchmetrics']")


def _in_a_call(target: Target, device: str, blob: str) -> str:
    where = "" if device == "cpu" else f", device={device!r}"
    replay = f", replay={blob!r}" if blob else ""
    name = target.name if target.name.isidentifier() else "..."
    return f"pytest_evalcheck.assert_passes({name}, ...{where}{replay})"


def _in_a_test(target: Target, device: str, blob: str) -> str:  # noqa: ARG001
    nodeid = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]
    command = f"pytest {shlex.quote(nodeid)}" if nodeid else ""
    call = f"check(replay={blob!r})" if blob else ""
    return ", or in the test: ".join(part for part in (command, call) if part)

"""One plain batch before the checks of a target: what fails there is a mistake in the target, or an error of a library.

With a mistake no check is tried. An error that a library raises, and that is no refusal, is a finding, and the checks
are tried where they can.
"""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis.errors import HypothesisException

from pytest_evalcheck.engine.cell_state import not_plain
from pytest_evalcheck.engine.target_errors import FAULT, TARGET_ERROR
from pytest_evalcheck.expectations.comparison import Raised, show
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable, NotImportable, TargetError
from pytest_evalcheck.expectations.origin import (
    callers_line,
    innermost_arguments,
    raised_by_library,
    raising_line,
)
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.call_facts import describe_value, recorded_calls
from pytest_evalcheck.kinds.common.calling import is_clear_refusal
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.kinds.common.subject import Subject
from pytest_evalcheck.reports.case_codec import is_plain
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.target import Target

_SIZES = (4, 3, 2)
"""Numbers of samples that are tried one after the other: some targets refuse some of them."""
_VARIED = 8
"""A number of samples of which some must differ: equal ones show no mistake of order, split or row."""


@dataclass(frozen=True)
class Preflight:
    """Results of the example call."""

    given: tuple[str, ...] = ()
    """Samples, arguments and result, a line each."""
    seconds: float = 0.0
    problem: CheckFailure | None = None
    """The mistake in the target; None where there is none."""
    fault: CheckFailure | None = None
    """The error of a library on ordinary data; None where there is none."""
    changed: tuple[str, ...] = ()
    """Changes that the call left in what all objects of the target share, a line each: a later call that writes the
    same again changes nothing."""


_done: weakref.WeakKeyDictionary[Target, dict[str, Preflight]] = weakref.WeakKeyDictionary()


def preflight(target: Target, subject_on: Callable[[str], Subject], device: str) -> Preflight:
    """The plain call of a target, on the CPU, made once in a process for each device of the run.

    What the simulation of that device refuses is nobody's mistake. A target that is about accelerators alone is not
    called: other checks are about that.
    """
    done = _done.setdefault(target, {})
    if device not in done:
        on_cpu = target.devices is None or "cpu" in target.devices
        done[device] = _preflight(target, subject_on("cpu"), device) if on_cpu else Preflight()
    return done[device]


def _preflight(target: Target, subject: Subject, device: str) -> Preflight:
    started, shared = time.monotonic(), _shared(subject)
    first: tuple[CheckFailure, tuple[str, ...]] | None = None
    for size in _SIZES:
        problem, given = _plain_call(target, subject, device, size)
        if problem is None:
            changed = () if shared is None else tuple(shared.changes())
            return Preflight(given, time.monotonic() - started, changed=changed)
        first = first or (problem, given)
    assert first is not None
    problem, given = first
    found = _remedy(target, subject)
    if problem.cause == FAULT and not found:
        return Preflight(given, time.monotonic() - started, fault=problem)
    lines = [line for line in (problem.detail, found) if line]
    wrong = TargetError(
        f"a mistake in the target: {problem.about}",
        expected=problem.expected,
        actual=problem.actual,
        detail="\n".join(lines),
        cause=TARGET_ERROR,
        origin=problem.origin,
    )
    wrong.__cause__ = problem.__cause__
    return Preflight(given, time.monotonic() - started, wrong)


def _shared(subject: Subject) -> Snapshot | None:
    """Return a snapshot of what all objects of the target share, before any call; None where nothing can be seen."""
    try:
        shared = subject.shared()
    except Exception:  # what is wrong with the target shows in its plain call
        return None
    return None if shared is None else Snapshot(shared, "configuration")


def _plain_call(
    target: Target, subject: Subject, device: str, size: int
) -> tuple[CheckFailure | None, tuple[str, ...]]:
    """Return the problem of an example call, or None, and its arguments and result."""
    shown, calls = "", []
    try:
        rows = target.inputs.fixed(max(size, target.inputs.min_samples))
        odd = next((row for row in rows if not is_plain(row)), None)
        if odd is not None:
            raise not_plain(repr(odd))
        varied = target.inputs.distinct is not None or len({repr(row) for row in target.inputs.fixed(_VARIED)}) > 1
        if not varied:
            raise TargetError(
                "the inputs draw the same sample every time", actual=show(rows[0])[:160], expected="samples that differ"
            )
        shown = f"{len(rows)} samples of {target.inputs.name}: {show(rows)[:160]}"
        with recorded_calls() as calls, isolated_process(), device_spec.placed_on(device):
            return _problem(target, subject, rows), (shown, *calls)
    except (KeyboardInterrupt, pytest.skip.Exception, pytest.exit.Exception, NotImportable):
        raise
    except NotApplicable:
        return None, ()
    except CheckFailure as failure:
        return failure, (shown, *calls) if shown else ()
    except (HypothesisException, ValueError) as error:
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
        problem = TargetError("the inputs of the target draw nothing that can be tried", actual=text, cause="inputs")
        return problem, ()


def _problem(target: Target, subject: Subject, rows: list[Any]) -> CheckFailure | None:
    result = subject.plain_result(rows)
    if isinstance(result, Raised):
        fault = _is_of_library(result.error, target)
        lines = (raising_line(result.error), callers_line(result.error), "" if fault else subject.data_in_words(rows))
        return TargetError(
            "a library fails on ordinary data" if fault else "an ordinary batch raises an error",
            actual=str(result),
            expected=f"what the {target.kind} returns",
            detail="\n".join(filter(None, lines)),
            cause=FAULT if fault else "",
            origin=result.origin,
        )
    nothing = no_value(result)
    if not nothing:
        return None
    return TargetError(
        f"an ordinary batch gives no value: {nothing}", actual=describe_value(result), expected="numbers"
    )


def _is_of_library(error: BaseException, target: Target) -> bool:
    """Return whether a library failed on data that it does not refuse: no statement of it says what is wrong with them.

    Where it was given a text or a container and an operation on that fails, the data are of another type than it takes.
    """
    if not raised_by_library(error, target.file) or is_clear_refusal(error):
        return False
    plain = (str, bytes, list, tuple, dict)
    if isinstance(error, AttributeError):
        return not isinstance(getattr(error, "obj", None), plain)
    return not (isinstance(error, TypeError) and any(isinstance(value, plain) for value in innermost_arguments(error)))


def no_value(result: Any) -> str:
    """Return a reason if a result is no value that could be right or wrong, else ''."""
    if result is None:
        return "None (does a function end without `return`?)"
    if type(result).__module__.startswith("unittest.mock"):
        return "a mock"
    if isinstance(result, (Mapping, list, tuple, str, bytes)) and len(result) == 0:
        return f"an empty {type(result).__name__}"
    if isinstance(result, (str, bytes)):
        return "a text"
    first = ""
    for leaf in _leaves(result):  # there may be millions
        if not (reason := _no_leaf(leaf)):
            return ""
        first = first or reason
    return first or "a container without values"


def _no_leaf(leaf: Any) -> str:
    if leaf is None:
        return "None alone"
    if type(leaf).__module__.startswith("unittest.mock"):
        return "a mock"
    try:
        numbers = leaf.reshape(-1).tolist() if hasattr(leaf, "reshape") else [leaf]
        bad = all(isinstance(number, float) and math.isnan(number) for number in numbers)
    except (TypeError, ValueError, RuntimeError):
        return ""
    if not numbers:
        return "empty arrays"
    return "NaN for every sample" if bad else ""


def _leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, Mapping):
        for value in result.values():
            yield from _leaves(value)
    elif isinstance(result, (list, tuple)):
        for value in result:
            yield from _leaves(value)
    else:
        yield result


def _remedy(target: Target, subject: Subject) -> str:
    """The change of the description with which the plain call returns a value; empty where none was found."""
    try:
        rows = target.inputs.fixed(max(_SIZES[0], target.inputs.min_samples))
        if not all(map(is_plain, rows)):
            return ""  # no change of what a metric is given mends that
        for text, call in subject.remedies(rows):
            with isolated_process():
                result = call()
            if not isinstance(result, Raised) and not no_value(result):
                return f"With one change it gives a value: {text}."
    except Exception:  # what is tried here is a guess about code that fails already
        return ""
    return ""

"""Checks: one property, one function, and its docstring as its documentation."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_evalcheck.kinds.common.case import Case
from pytest_evalcheck.kinds.common.subject import Subject
from pytest_evalcheck.reports.severity import SEVERITIES, Severity

CheckFunction = Callable[[Any, Any], None]
_CODE = r"[A-Z]{2,}\d{2,4}"


class CheckError(TypeError):
    """A check is not written as a check."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One property and the function that tries to break it."""

    code: str
    name: str
    function: CheckFunction
    kinds: tuple[str, ...]
    """The kinds of target that it is about."""
    case: type[Case]
    conditions: tuple[str, ...] = ()
    """Conditions that the cases must reach for a pass to mean something."""
    needs: tuple[str, ...] = ()
    """Fields of `SampleStrategy`, ``reference``, or keywords of the kind: without them the check is not applicable."""
    existential: bool = False
    """True for a property that something can happen: it passes as soon as one case shows it."""
    marks: tuple[str, ...] = ()
    """Pytest markers of its cells; those marked ``distributed`` run only when ``-m`` asks for it."""
    examples: int | None = None
    """Number of cases at normal effort, where the usual number would take too long."""
    accelerators: int = 0
    """Number of accelerators of one kind that it needs. Above 0 it is about them, and is not tried on the CPU."""
    streams: bool = False
    """True if missing waits between streams are looked for, where its accelerator is simulated."""
    after: tuple[str, ...] = ()
    """The codes of more basic checks, the most likely first. Where one of them failed on the same target and device,
    a failure of this check is taken to follow from it: the report lists it below that one."""
    ordinary: bool = False
    """True if it is about errors on ordinary data, so that it reports what a library raises there."""
    severity: Severity = "number"
    """The severity of its failures, except of those that are an error of the code under test."""
    outside: str = ""
    """Data that no ordinary run gives, which it is about: of inputs that were learned from runs, a failure says so."""
    decides: bool = False
    """True if inference tries the property, too, to tell what code is: what nobody has declared need not have it."""
    since: str = "0.1"

    @property
    def statement(self) -> str:
        """The first paragraph of the docstring."""
        return _section(self.function, "statement")

    @property
    def more(self) -> str:
        """Further paragraphs, such as the bound of the property."""
        return _section(self.function, "more")

    @property
    def rationale(self) -> str:
        """Reason why the property matters."""
        return _section(self.function, "why")

    @property
    def usual_cause(self) -> str:
        """Usual cause of a failure."""
        return _section(self.function, "usual cause")

    @property
    def fix(self) -> str:
        """An importable fix, or what to do."""
        return _section(self.function, "fix")


def check(
    code: str,
    *,
    since: str = "0.1",
    conditions: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    existential: bool = False,
    marks: tuple[str, ...] = (),
    examples: int | None = None,
    accelerators: int = 0,
    streams: bool = False,
    after: tuple[str, ...] = (),
    ordinary: bool = False,
    severity: Severity = "number",
    outside: str = "",
    decides: bool = False,
) -> Callable[[CheckFunction], Check]:
    """Make a check of ``function(subject, case)``: its kinds and its cases follow from the annotations.

    The docstring states the property, then paragraphs that start with ``Why:``, ``Usual cause:`` and ``Fix:``.
    ``after`` names the codes of more basic checks: where one of them fails too, this one fails for that reason.

    Raises:
        CheckError: when the code, the parameters, the docstring, ``after`` or ``severity`` is not as it should be.
    """
    if not re.fullmatch(_CODE, code):
        raise CheckError(f"code {code!r}; expected two or more capital letters and a number, such as 'XY101'")

    if isinstance(after, str) or not all(isinstance(other, str) and re.fullmatch(_CODE, other) for other in after):
        raise CheckError(f"after={after!r} of {code}; expected a tuple of codes, such as ('EC101',)")
    if severity not in SEVERITIES:
        raise CheckError(f"severity={severity!r} of {code}; expected one of {', '.join(SEVERITIES)}")
    if code in after:
        raise CheckError(f"after={after!r} of {code}; no check is more basic than itself")

    def decorate(function: CheckFunction) -> Check:
        kinds, case = _signature(function)
        made = Check(
            code=code,
            name=function.__name__,
            function=function,
            kinds=kinds,
            case=case,
            conditions=conditions,
            needs=needs,
            existential=existential,
            marks=marks,
            examples=examples,
            accelerators=accelerators,
            streams=streams,
            after=after,
            ordinary=ordinary,
            severity=severity,
            outside=outside,
            decides=decides,
            since=since,
        )
        if not made.statement:
            raise CheckError(f"{function.__name__} has no docstring; its first paragraph states the property")
        return made

    return decorate


def explain(made: Check) -> str:
    """The documentation of one check as text."""
    lines = [f"{made.code} {made.name}", "", made.statement, ""]
    if made.more:
        lines += [made.more, ""]
    for title, text in (("Why", made.rationale), ("Usual cause", made.usual_cause), ("Fix", made.fix)):
        if text:
            lines += [f"{title}: {text}", ""]
    if made.conditions:
        lines += [f"Cases reach: {', '.join(made.conditions)}.", ""]
    if made.needs:
        lines += [f"Needs: {', '.join(made.needs)}.", ""]
    return "\n".join(lines).rstrip()


def _signature(function: CheckFunction) -> tuple[tuple[str, ...], type[Case]]:
    name = getattr(function, "__name__", repr(function))
    parameters = list(inspect.signature(function).parameters)
    hints = typing.get_type_hints(function)
    if len(parameters) != 2 or not all(p in hints for p in parameters):
        raise CheckError(f"{name}{inspect.signature(function)}: expected two annotated parameters, (subject, case)")
    subject, case = (hints[p] for p in parameters)
    subjects = typing.get_args(subject) or (subject,)
    if not all(isinstance(item, type) and issubclass(item, Subject) and item.names() for item in subjects):
        raise CheckError(
            f"{name}: the first parameter is annotated {subject!r}; "
            "expected the subject of a kind, such as MetricSubject"
        )
    if not (isinstance(case, type) and hasattr(case, "strategy") and hasattr(case, "conditions")):
        raise CheckError(f"{name}: the second parameter is annotated {case!r}; expected a case, such as Stream")
    return tuple(kind for item in subjects for kind in item.names()), case


def _section(function: CheckFunction, wanted: str) -> str:
    return _sections(function).get(wanted, "")


@cache
def _sections(function: CheckFunction) -> dict[str, str]:
    found: dict[str, str] = {}
    title = "statement"
    for line in (inspect.getdoc(function) or "").splitlines():
        match = re.match(r"(Why|Usual cause|Fix): *(.*)", line)
        if match:
            title, line = match[1].lower(), match[2]
        elif not line.strip() and title == "statement" and found:
            title = "more"
        found[title] = f"{found.get(title, '')} {line.strip()}".strip()
    return found

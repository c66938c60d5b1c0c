"""The verdict on one cell: a pure function of its specification and of what its run has shown."""

from __future__ import annotations

import copy
import dis
import inspect
import traceback
from typing import Any

import pytest
from hypothesis.errors import Flaky, Unsatisfiable

from pytest_evalcheck import upstream
from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.cell_state import CellState, SearchOver, ledger_totals
from pytest_evalcheck.engine.known_failures import Finding, StaleEntry
from pytest_evalcheck.engine.timeout import CellTimeout
from pytest_evalcheck.errors import safe_text
from pytest_evalcheck.expectations.causes import fitting_causes
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure, DeviceLost, NotApplicable, NotCheckable, TargetError
from pytest_evalcheck.expectations.origin import absent_packages, missing_import, place_of
from pytest_evalcheck.fixes.patches.applying import is_mended
from pytest_evalcheck.fixes.scoring.dependencies import distributions
from pytest_evalcheck.kinds.common.calling import format_exception_location, relative
from pytest_evalcheck.reports.case_codec import case_fields, encode_case
from pytest_evalcheck.reports.results import DECLARED, REFUSES, Cell, Failure, Outcome
from pytest_evalcheck.reports.severity import Severity, rank


def judge(spec: CellSpec, state: CellState) -> Cell:
    """The cell of a run that is over."""
    ended, found, stats = state.ended_by, state.found, state.stats
    if ended is not None and not (found or state.known.findings) and (why := missing_import(ended)):
        return cell(spec, state, "not run", reason=why, missing=absent_packages(ended))
    if isinstance(ended, NotApplicable) and not (found or state.known.findings):
        # What cannot be tried on a simulated device says nothing about an entry.
        if not isinstance(ended, NotCheckable):
            return _unless_stale(spec, state, "not applicable", str(ended))
        if (kind := spec.declared_device) and not isinstance(ended, DeviceLost):
            return cell(spec, state, "not run", reason=str(ended), missing=(kind,))
        return cell(spec, state, "not applicable", reason=str(ended))
    if isinstance(ended, pytest.skip.Exception):
        return cell(spec, state, "not run", reason=str(ended))
    passable = spec.check.existential and found is not None and not found.failure.untestable
    if isinstance(ended, CellTimeout) and (found is None or passable):
        return _incomplete(spec, state)
    if found is not None and state.fault is not None and _shows_alone(found.failure, state.fault.origin):
        return failed(spec, state, found.failure if spec.check.ordinary else state.fault)
    if ended is not None and not isinstance(ended, (SearchOver, NotApplicable)):
        return failed(spec, state, *_failure_of(spec, state, ended))
    if found is not None and not (passable and state.passed_once):
        return failed(spec, state, _not_deterministic(found.failure) if state.flaky else found.failure)
    if state.known.findings and not (spec.check.existential and state.passed_once):
        return _known(spec, state)
    if not state.examples:
        return failed(spec, state, TargetError("no case was tried", cause="inputs"))
    if state.fault is not None and spec.check.ordinary:  # other cases than those of the example call gave a value
        return failed(spec, state, state.fault)
    if stats.compared:
        return _unless_stale(spec, state, "passed")
    if stats.refused and state.fault is not None:
        return failed(spec, state, state.fault)
    if stats.refused and (spec.inferred or spec.target.inputs.observed):  # nobody wrote these inputs
        return _unless_stale(spec, state, "not applicable", f"every case was refused: {stats.last_refusal}")
    if stats.refused:
        return failed(
            spec,
            state,
            TargetError(
                "every case was refused",
                actual=stats.last_refusal,
                expected="a value in at least one case",
                cause="refused",
                origin=stats.last_origin,
            ),
        )
    if stats.inconclusive:
        return _unless_stale(spec, state, "not applicable", stats.inconclusive)
    fault = TargetError("the check compared nothing", detail="Compare values with `ec.expect(...)`.", cause="check")
    return failed(spec, state, fault)


def cell(spec: CellSpec, state: CellState, outcome: Outcome, *, reason: str = "", **more: Any) -> Cell:
    """The cell as data."""
    if "ledger" not in more and state.ledger is not None:
        more["ledger"] = ledger_totals(state.ledger)
    counted = outcome in ("passed", "incomplete") and spec.replay is None
    return Cell(
        target=spec.where,
        kind=spec.target.kind,
        check=spec.check.name,
        code=spec.check.code,
        device=spec.device,
        outcome=outcome,
        reason=reason,
        seconds=round(state.seconds, 4),
        examples=state.examples,
        planned=state.planned,
        value=state.stats.value,
        varies=state.stats.varies,
        undeclared=state.undeclared,
        class_name=state.class_name,
        requires=spec.target.required,
        conditions={name: state.conditions[name] for name in state.offered(spec.check.conditions)} if counted else {},
        variants=tuple(row for row in state.stats.variants.values() if "speed" in row),
        file=_place(spec, state)[0],
        line=_place(spec, state)[1],
        **more,
    )


def _shows_alone(failure: CheckFailure, origin: str) -> bool:
    """Return whether a failure compares nothing but errors, of which one has this origin."""
    if failure.compared is None:
        return False
    values = [value for value in (failure.compared.actual, failure.compared.expected) if value is not None]
    return all(isinstance(value, Raised) for value in values) and any(value.origin == origin for value in values)


def _place(spec: CellSpec, state: CellState) -> tuple[str, int]:
    return state.place or (spec.target.file, spec.target.line)


def failed(spec: CellSpec, state: CellState, failure: CheckFailure, trace: str = "", *, with_case: bool = True) -> Cell:
    """The cell of a failure that nobody knows of."""
    if failure.cause == "killed":  # by the system or by somebody: that says nothing about the target
        reason = "its process was killed from outside, as by a system that has no memory or CPU time left"
        return cell(spec, state, "incomplete", reason=reason, cause="killed", failure=_data(spec, state, failure, None))
    if state.undeclared and not isinstance(failure, StaleEntry) and (why := _undecided(spec, failure)):
        return _unless_stale(spec, state, "not applicable", why)
    found = state.found if with_case else None
    # A difference that an error was judged before is reported beside it, and is the more severe of the two.
    shown = (failure, state.beside) if found and state.beside else (failure,)
    severity = min((severity_of(spec, each) for each in shown), key=rank)
    told = rank(severity) > rank(spec.fail_on)
    return cell(
        spec,
        state,
        "known" if told else "failed",
        reason=f"{severity}, which does not fail this run: {failure.headline}" if told else failure.headline,
        severity=severity,
        cause=failure.cause,
        signature=found.signature if found else "",
        failure=_data(spec, state, failure, found, trace),
        stale=(failure.entry.listed or spec.where,) if isinstance(failure, StaleEntry) else (),
        **_ledger(found),
    )


def _undecided(spec: CellSpec, failure: CheckFailure) -> str:
    """Return what a failure says of code that nobody has declared to be of its kind; empty where that does not matter.

    An error refuses rows that nobody said it takes, and a property that inference tries to tell what it is, in fewer
    cases than its check, decides that it is something else. An error of the check itself is neither.
    """
    if failure.cause in ("check", "error"):
        return ""
    if severity_of(spec, failure) == "error":
        return f"{REFUSES}: {failure.headline}"
    return f"{DECLARED}: {failure.headline} ({spec.check.code})" if spec.check.decides else ""


def severity_of(spec: CellSpec, failure: CheckFailure) -> Severity:
    """Return the severity of a failure: that of its check, unless it is an error, or a number beside a cost."""
    if failure.untestable or failure.origin:
        return "error"
    number = failure.compared is not None and failure.compared.form == "same"
    return "number" if number and spec.check.severity == "cost" else spec.check.severity


def _known(spec: CellSpec, state: CellState) -> Cell:
    """Return the cell of failures that are all known; the first one is shown."""
    if error := state.known.stale("known"):
        return failed(spec, state, error, with_case=False)
    first, *_ = state.known.findings.values()
    assert first.known is not None
    return cell(
        spec,
        state,
        "known",
        reason=state.known.reason,
        see=first.known.see,
        upstream=first.known.upstream,
        cause=first.failure.cause,
        severity=severity_of(spec, first.failure),
        signature=first.signature,
        failure=_data(spec, state, first.failure, first),
        **_ledger(first),
    )


def _ledger(found: Finding | None) -> dict[str, Any]:
    return {"ledger": found.ledger.as_dict()} if found and found.ledger is not None else {}


def _data(spec: CellSpec, state: CellState, failure: CheckFailure, found: Finding | None, trace: str = "") -> Failure:
    check, case = spec.check, found.case if found else None
    others = [f"Other cases show something else: {headline}" for headline in state.others.values()]
    unused = spec.unused_device_reason if state.takes_device else ""
    clauses = dict.fromkeys((*state.known.entries_out_of_range, unused, state.other_versions, _to_name(spec, found)))
    notes = [f"Note: {clause}." for clause in clauses if clause]
    return Failure(
        about=failure.about,
        expected=failure.expected,
        actual=failure.actual,
        detail="\n".join(line for line in (failure.detail, *others[:3], *notes) if line),
        untestable=failure.untestable,
        case=case_fields(case) if case is not None else None,
        statement=check.statement,
        usual_cause=fitting_causes(check.usual_cause, failure, case),
        fix=check.fix,
        given=state.given,
        transfers=tuple(found.ledger.summary().splitlines()) if found and found.ledger is not None else (),
        traceback=trace or state.traceback,
        origin=failure.origin,
        own="" if failure.untestable or not spec.target.requires else state.own,
        after=check.after,
        location=f"{relative(_place(spec, state)[0])}:{_place(spec, state)[1]}",
        reproduce=spec.reproduce(encode_case(check.code, case) if case is not None else ""),
    )


def _to_name(spec: CellSpec, found: Finding | None) -> str:
    """Return the upstream fault that the target has to name before its failure is known, as a clause; '' for none."""
    candidates = upstream.unnamed(found.signature) if found and found.known is None else []
    used = _libraries_used(spec.target.factory) if candidates else set()
    fault = next((each for each in candidates if each.library in used), None)
    if fault is None or fault.id in {entry.upstream for entry in spec.entries} or is_mended(fault.id):
        return ""
    report = f" ({fault.see})" if fault.see else ""
    entry = f'known_failures={{"{spec.check.code}": ec.KnownFailure(upstream="{fault.id}")}}'
    return f"{fault.library} is known for it{report}: {fault.reason}. Where its own code is at fault, write {entry}"


def _libraries_used(factory: Any) -> set[str]:
    """Return the distributions that a function imports, and those that what its module holds is from."""
    function = inspect.unwrap(factory)
    values, code = getattr(function, "__globals__", {}).values(), getattr(function, "__code__", None)
    names = [getattr(value, "__name__" if inspect.ismodule(value) else "__module__", "") for value in values]
    names += [step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME"] if code else []
    packages = {str(name).partition(".")[0] for name in names if name}
    return {library for package in packages for library in distributions().get(package, ())}


def _incomplete(spec: CellSpec, state: CellState) -> Cell:
    """The cell of a search that ran out of time."""
    tried = f"{state.examples} of {state.planned or spec.planned} cases were tried"
    # A limit around this one, such as that of pytest-timeout, is an alarm, too.
    own = not state.seconds or 0 < state.limit <= state.seconds
    within = (
        f"within {state.limit:g} seconds" if own else f"in {state.seconds:.2g} s, when another limit ended the check"
    )
    tried = f"{tried} {within}"
    missing = [name for name in state.offered(spec.check.conditions) if not state.tried[name]]
    conditions = f"; conditions not reached: {', '.join(missing)}" if missing else ""
    grows = "A limit ends what hangs; it grows with what the first case takes."
    whose = grows if spec.given_limit is None else "The limit is the given one."
    running = Finding(CheckFailure(tried), state.running, "") if state.running is not None else None
    failure = CheckFailure(
        "the check ran out of time",
        actual=tried,
        expected="all of them",
        detail=f"{whose} This case was running when it ended."
        if running
        else "The target was not built within the limit.",
    )
    return cell(
        spec,
        state,
        "incomplete",
        reason=tried + conditions,
        cause="timeout",
        failure=_data(spec, state, failure, running),
    )


def _unless_stale(spec: CellSpec, state: CellState, outcome: Outcome, reason: str = "") -> Cell:
    """Return a cell that did not fail, or the error of an entry that says it should."""
    if error := state.known.stale(outcome, reason):
        return failed(spec, state, error, with_case=False)
    return cell(spec, state, outcome, reason=reason)


def _not_deterministic(failure: CheckFailure) -> CheckFailure:
    return _noted(failure, "The same case passed another time: the target is not deterministic.")


def _noted(failure: CheckFailure, note: str) -> CheckFailure:
    noted = copy.copy(failure)
    noted.detail = f"{failure.detail}\n{note}".strip()
    return noted


def _failure_of(spec: CellSpec, state: CellState, error: BaseException) -> tuple[CheckFailure, str]:
    """Return the error that ended the search as a failure, with a traceback where nobody expects that error."""
    found = state.found
    if isinstance(error, CheckFailure):
        # The case that was found first may be smaller than the one that Hypothesis ended with.
        return (found.failure if found and not error.untestable else error), ""
    if found is not None and isinstance(error, CellTimeout):
        note = f"The limit of {state.limit:g} seconds ended another case: {safe_text(state.running)}"
        return _noted(found.failure, note), ""
    if isinstance(error, Flaky) and found is not None:
        return _not_deterministic(found.failure), ""
    if isinstance(error, Unsatisfiable):
        text = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        return TargetError("the inputs of the target draw nothing that can be tried", actual=text, cause="inputs"), ""
    where = format_exception_location(error, spec.target.file)
    fault = TargetError("the check ended in an error", actual=where, cause="error", origin=place_of(error))
    return fault, "".join(traceback.format_exception(error))

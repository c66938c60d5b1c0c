"""The verdict on one cell: a pure function of its specification and of what its run has shown."""

from __future__ import annotations

import copy
import traceback
from typing import Any

import pytest
from hypothesis.errors import FailedHealthCheck, Flaky, Unsatisfiable

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.cell_state import CellState, SearchOver, ledger_totals
from pytest_evalcheck.engine.timeout import CellTimeout
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable, NotCheckable, TargetError
from pytest_evalcheck.kinds.common.calling import format_exception_location, relative
from pytest_evalcheck.reports.case_codec import case_fields, encode_case
from pytest_evalcheck.reports.results import Cell, Failure, Outcome


def judge(spec: CellSpec, state: CellState) -> Cell:
    """The cell of a run that is over."""
    ended = state.ended_by
    if isinstance(ended, NotApplicable):
        # What cannot be tried on a simulated device says nothing about an entry.
        return _unless_stale(spec, state, "not applicable", str(ended), checkable=not isinstance(ended, NotCheckable))
    if isinstance(ended, pytest.skip.Exception):
        return cell(spec, state, "not run", reason=str(ended))
    if ended is not None:
        return failed(spec, state, *_failure_of(spec, state, ended))
    stats = state.stats
    if spec.check.existential and not state.kept_once and state.failure:
        return failed(spec, state, state.failure)
    if not state.examples:
        return failed(spec, state, TargetError("no case was tried", cause="inputs"))
    if stats.compared:
        return _unless_stale(spec, state, "kept", "")
    if stats.refused:
        return failed(
            spec,
            state,
            TargetError(
                "every case was refused", actual=stats.last_refusal, expected="a value from some", cause="refused"
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
    counted = outcome == "kept" and not spec.pinned_only
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
        regimes={name: state.regimes[name] for name in spec.check.regimes} if counted else {},
        variants=tuple(row for row in state.stats.variants.values() if "speed" in row),
        file=spec.target.file,
        line=spec.target.line,
        **more,
    )


def failed(spec: CellSpec, state: CellState, failure: CheckFailure, trace: str = "", *, with_case: bool = True) -> Cell:
    """The cell of a failure: known where the target lists it, else broken."""
    check, known = spec.check, spec.known
    case = state.case if with_case else None
    data = Failure(
        about=failure.about,
        expected=failure.expected,
        actual=failure.actual,
        detail=failure.detail,
        untestable=failure.untestable,
        case=case_fields(case) if case is not None else None,
        promise=check.promise,
        usual_cause=check.usual_cause,
        fix=check.fix,
        transfers=tuple(state.failing_ledger.summary().splitlines()) if state.failing_ledger is not None else (),
        traceback=trace or state.traceback,
        location=f"{relative(spec.target.file)}:{spec.target.line}",
        reproduce=spec.reproduce(encode_case(check.code, case) if case is not None else ""),
    )
    ledger = {"ledger": state.failing_ledger.as_dict()} if state.failing_ledger is not None else {}
    if known is not None and not failure.untestable:
        return cell(
            spec, state, "known", reason=known.reason, see=known.see, cause=failure.cause, failure=data, **ledger
        )
    return cell(spec, state, "broken", reason=failure.headline, cause=failure.cause, failure=data, **ledger)


def _unless_stale(spec: CellSpec, state: CellState, outcome: Outcome, reason: str, *, checkable: bool = True) -> Cell:
    """A cell that did not fail, unless the target lists it as a known failure: then the entry must go."""
    # A replayed case may well be kept; that says nothing about the entry.
    if spec.known is None or not checkable or spec.replay is not None:
        return cell(spec, state, outcome, reason=reason)
    seen = "the promise was kept" if outcome == "kept" else f"the check is not applicable ({reason})"
    return failed(
        spec,
        state,
        TargetError(
            f"{spec.check.code} is listed as a known failure, but {seen}",
            detail=f"the entry says: {spec.known.reason}\nTake the entry out of known_failures.",
            cause="stale known failure",
        ),
        with_case=False,
    )


def _failure_of(spec: CellSpec, state: CellState, error: BaseException) -> tuple[CheckFailure, str]:
    """What ended the search as a failure, with a traceback where it is nobody's expected error."""
    failure = state.failure
    if isinstance(error, CheckFailure):
        return error, ""
    if failure is not None and isinstance(error, (SearchOver, CellTimeout)):
        return failure, ""
    if isinstance(error, CellTimeout):
        limit = spec.target.timeout or spec.timeout
        return TargetError(f"the cell did not end within {limit:g} seconds", cause="timeout"), ""
    if isinstance(error, Flaky) and failure is not None:
        note = "The same case was kept another time: the target is not deterministic."
        noted = copy.copy(failure)
        noted.detail = f"{failure.detail}\n{note}".strip()
        return noted, ""
    if isinstance(error, (Unsatisfiable, FailedHealthCheck)):
        text = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        return TargetError("the inputs of the target draw nothing that can be tried", actual=text, cause="inputs"), ""
    where = format_exception_location(error, spec.target.file)
    fault = TargetError("the cell ended in an error", actual=where, cause="error")
    return fault, "".join(traceback.format_exception(error))

"""Trying one promise of one target on one device, and judging what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import FailedHealthCheck, Flaky, HypothesisException, Unsatisfiable

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.cell_state import CellState, SearchOver, ledger_totals, require_plain
from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.engine.timeout import CellTimeout, time_limit
from pytest_evalcheck.expectations.failures import (
    CheckFailure,
    ComparisonStats,
    NotApplicable,
    NotCheckable,
    collecting,
)
from pytest_evalcheck.kinds.common.calling import TargetError
from pytest_evalcheck.kinds.common.process_state import borrowed
from pytest_evalcheck.kinds.registry import SUBJECTS
from pytest_evalcheck.reports.case_codec import case_fields, encode_case, literal
from pytest_evalcheck.reports.failure_text import format_exception_location, relative, screen
from pytest_evalcheck.reports.results import Cell, Outcome
from pytest_evalcheck.targets import device_spec


class CellRunner:
    """One cell: its Hypothesis test, and the verdict on what that did."""

    def __init__(self, plan: CellSpec) -> None:
        self.plan = plan
        self.trial = self._new_trial()
        self._building = TargetFactory(plan.target)

    def test(self, run: Callable[..., None]) -> Callable[..., None]:
        """``run(case=..., **fixtures)`` as a Hypothesis test with the settings of this cell."""
        plan = self.plan
        made = given(case=self._strategy())(run)
        try:
            pinned = plan.pinned
        except TargetError:
            pinned = []  # told by judge(), as the verdict of this cell
        for case in pinned:
            made = hypothesis.example(case=case)(made)
        # Explaining traces every line of the code under test; the screen says what it would.
        left_out = {Phase.explain, *([Phase.shrink] if plan.known else [])}
        phases = [p for p in settings.default.phases if p not in left_out]  # type: ignore[union-attr]
        if plan.pinned_only:
            phases = [Phase.explicit]
        return settings(
            parent=settings.default,
            max_examples=plan.search.examples(plan.check.examples),
            phases=phases,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            # Fixtures are shared by the examples of a cell on purpose, and time has a limit of its own.
            suppress_health_check=[
                HealthCheck.function_scoped_fixture,
                HealthCheck.differing_executors,
                HealthCheck.too_slow,
                # Many samples are drawn by a seed of their own, once in a case.
                *([HealthCheck.nested_given] if hasattr(HealthCheck, "nested_given") else []),
                *settings.default.suppress_health_check,  # type: ignore[union-attr]
            ],
        )(made)

    def attempt(self, case: Any, arguments: Mapping[str, Any]) -> None:
        """Try one case."""
        trial, plan = self.trial, self.plan
        # Counted from the end of the first example, which may have imported the library of the target.
        if trial.violation is None and trial.examples and time.monotonic() - trial.warm > plan.search.seconds:
            return
        if trial.failed_at and time.monotonic() - trial.failed_at > plan.effort.shrink_seconds:
            raise SearchOver
        require_plain(case)
        compared = trial.evidence.compared
        try:
            self._without_leaks(case, arguments)
        except CheckFailure as violation:
            trial.examples += 1
            passable = plan.check.existential and not violation.fault
            # These are not shrunk, so that the smallest of those that were tried is the one to show.
            if not passable or trial.case is None or len(repr(case)) < len(repr(trial.case)):
                trial.violation, trial.case, trial.crossed = violation, case, trial.ledger
            if passable:
                return
            trial.failed_at = trial.failed_at or time.monotonic()
            raise
        trial.examples += 1
        trial.warm = trial.warm or time.monotonic()
        trial.witnessed = True
        if trial.evidence.compared > compared:  # a case that was refused or passed over has reached nothing
            trial.regimes.update(case.regimes)

    def judge(self, call: Callable[[], Any]) -> Cell:
        """Run the Hypothesis test with ``call`` and say what became of the promise."""
        plan = self.plan
        self.trial = self._new_trial()
        outcome, reason = self._before()
        checkable = True
        if outcome is None:
            try:
                plan.pinned  # noqa: B018 - a stale blob or example is told before anything runs
                with time_limit(plan.target.timeout or plan.timeout):
                    call()
            except NotApplicable as refusal:
                outcome, reason = "not applicable", str(refusal)
                checkable = not isinstance(refusal, NotCheckable)
            except pytest.skip.Exception as skipped:
                outcome, reason = "not run", str(skipped)
            except (KeyboardInterrupt, pytest.exit.Exception):
                raise
            except BaseException as error:
                self._blame(error)
            else:
                outcome, reason = self._after()
        # A replayed case may well be kept; that says nothing about the entry.
        stale = plan.known and checkable and plan.replay is None and outcome in ("kept", "not applicable")
        if outcome is None or stale:
            return self._failed(outcome, reason)
        return self.cell(outcome, reason=reason)

    def faulted(self, fault: TargetError, started: float) -> Cell:
        """The cell of a target that could not be judged here."""
        self.trial = CellState(ComparisonStats(self.plan.target.tolerance), started=started, violation=fault)
        return self._failed(None, "")

    def _new_trial(self) -> CellState:
        measuring = 0.0 if self.plan.pinned_only else self.plan.effort.measuring
        return CellState(ComparisonStats(self.plan.target.tolerance, seconds=measuring))

    def _strategy(self) -> Any:
        plan = self.plan
        if plan.lacks or plan.nowhere or plan.target.problems:
            return hypothesis.strategies.none()  # never drawn: the verdict is known without
        return plan.check.case.strategy(plan.target.inputs)

    def _before(self) -> tuple[Outcome | None, str]:
        plan = self.plan
        declared = plan.target.entry(plan.target.not_applicable, plan.check)
        if declared:
            return "not applicable", declared
        if plan.lacks or plan.nowhere:
            return "not applicable", plan.lacks or plan.nowhere
        if plan.target.missing():
            return "not run", plan.target.missing()
        why = device_spec.absent(plan.device)
        return ("not run", why) if why else (None, "")

    def _without_leaks(self, case: Any, arguments: Mapping[str, Any]) -> None:
        left: list[str] = []
        try:
            count = self.plan.check.accelerators
            with (
                borrowed() as left,
                collecting(self.trial.evidence),
                device_spec.on(self.plan.device, count=count) as ledger,
            ):
                self.trial.ledger = ledger
                self._check(case, arguments)
        except NotCheckable:
            left.clear()  # it was left half done
            raise
        finally:
            if left:  # what else went wrong may well follow from it
                raise TargetError(
                    "the target left the process changed",
                    actual=left[0],
                    expected="as it was found",
                    detail="\n".join(left[1:]),
                    cause=f"leak: {left[0].split(':')[0]}",
                )

    def _check(self, case: Any, arguments: Mapping[str, Any]) -> None:
        def subject_on(device: str) -> Any:
            there = {**arguments, "device": device} if "device" in arguments else arguments
            return SUBJECTS[self.plan.target.kind](
                build=lambda: self._building.record(there),
                inputs=self.plan.target.inputs,
                device=device,
                reference=self.plan.target.reference,
                tolerance=self.plan.target.tolerance,
                elsewhere=subject_on if "device" in arguments else None,
                ledger=self.trial.ledger,
                budget=self.plan.target.budget,
                variants=self.plan.target.variants,
            )

        subject = subject_on(device_spec.torch_name(self.plan.device))
        before = self._building.snapshot()
        try:
            self.plan.check.function(subject, case)
        except (CheckFailure, NotApplicable, HypothesisException):
            raise
        except AssertionError as error:  # an extra check may use plain asserts
            raise CheckFailure(
                str(error) or "an assert of the check does not hold", detail=format_exception_location(error, "")
            ) from error
        except Exception as error:
            self.trial.fault = traceback.format_exc()
            raise TargetError(
                "the check itself raised an error",
                actual=format_exception_location(error, self.plan.check.function.__code__.co_filename),
                expected="a CheckFailure, or nothing",
                cause="check",
            ) from error
        if before is not None and (changes := before.changes()):
            raise TargetError(
                "an example left something behind in the target, which is built once a cell",
                detail="\n".join(changes[:5]),
                cause="left behind",
            )

    def _blame(self, error: BaseException) -> None:
        """Turn whatever ended the search into the violation to report."""
        trial = self.trial
        if isinstance(error, CheckFailure):
            trial.violation = error
        elif isinstance(error, SearchOver) and trial.violation:
            pass
        elif isinstance(error, CellTimeout):
            if trial.violation is None:
                limit = self.plan.target.timeout or self.plan.timeout
                trial.violation = TargetError(f"the cell did not end within {limit:g} seconds", cause="timeout")
        elif isinstance(error, Flaky) and trial.violation:
            said = "The same case was kept another time: the target is not deterministic."
            trial.violation.detail = f"{trial.violation.detail}\n{said}".strip()
        elif isinstance(error, (Unsatisfiable, FailedHealthCheck)):
            trial.violation = TargetError(
                "the inputs of the target draw nothing that can be tried",
                actual=f"{type(error).__name__}: {str(error).splitlines()[0][:200]}",
                cause="inputs",
            )
        else:
            trial.violation = TargetError(
                "the cell ended in an error",
                actual=format_exception_location(error, self.plan.target.file),
                cause="error",
            )
            trial.fault = "".join(traceback.format_exception(error))

    def _after(self) -> tuple[Outcome | None, str]:
        trial = self.trial
        if self.plan.check.existential and not trial.witnessed and trial.violation:
            return None, ""
        evidence = trial.evidence
        if not trial.examples:
            trial.violation = TargetError("no case was tried", cause="inputs")
        elif not evidence.compared and evidence.refused:
            trial.violation = TargetError(
                "every case was refused", actual=evidence.last_refusal, expected="a value from some", cause="refused"
            )
        elif not evidence.compared and evidence.inconclusive:
            return "not applicable", evidence.inconclusive
        elif not evidence.compared:
            trial.violation = TargetError(
                "the check compared nothing", detail="Hold values with `ec.expect(...)`.", cause="check"
            )
        else:
            return "kept", ""
        return None, ""

    def _failed(self, outcome: Outcome | None, reason: str) -> Cell:
        plan, trial, known = self.plan, self.trial, self.plan.known
        if outcome is not None or trial.violation is None:
            assert known is not None
            said = "the promise was kept" if outcome == "kept" else f"the check is not applicable ({reason})"
            trial.case = None
            trial.violation = TargetError(
                f"{plan.check.code} is listed as a known failure, but {said}",
                detail=f"the entry says: {known.reason}\nTake the entry out of known_failures.",
                cause="stale known failure",
            )
        violation = trial.violation
        blob = encode_case(plan.check.code, trial.case) if trial.case is not None else ""
        reproduce = plan.reproduce(blob)
        text = screen(
            where=plan.where,
            made=plan.check,
            device=plan.device,
            violation=violation,
            case=trial.case,
            target=f"{relative(plan.target.file)}:{plan.target.line}",
            reproduce=reproduce,
            crossed=trial.crossed.summary() if trial.crossed is not None else "",
        )
        if trial.fault:
            text = f"{trial.fault}\n{text}"
        covered = known is not None and not violation.fault
        return self.cell(
            "known" if covered else "broken",
            reason=known.reason if covered and known else violation.headline,
            see=known.see if covered and known else "",
            cause=violation.cause,
            case=", ".join(f"{k}={literal(v)}" for k, v in case_fields(trial.case).items())
            if trial.case is not None
            else "",
            screen=text,
            reproduce=reproduce,
        )

    def cell(self, outcome: Outcome, **more: Any) -> Cell:
        """The cell as data."""
        plan, trial = self.plan, self.trial
        if "ledger" not in more and trial.ledger is not None:
            crossed = trial.crossed if outcome in ("broken", "known") else None
            more["ledger"] = crossed.as_dict() if crossed is not None else ledger_totals(trial.ledger)
        counted = (
            {} if plan.pinned_only or outcome != "kept" else {name: trial.regimes[name] for name in plan.check.regimes}
        )
        return Cell(
            target=plan.where,
            kind=plan.target.kind,
            check=plan.check.name,
            code=plan.check.code,
            device=plan.device,
            outcome=outcome,
            seconds=round(time.monotonic() - trial.started, 4),
            examples=trial.examples,
            regimes=counted,
            variants=tuple(row for row in trial.evidence.variants.values() if "speed" in row),
            file=plan.target.file,
            line=plan.target.line,
            **more,
        )

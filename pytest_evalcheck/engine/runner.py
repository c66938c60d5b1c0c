"""Running one cell: its Hypothesis test, one case after the other, and what they show."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import HypothesisException

from pytest_evalcheck.engine.cell_spec import CellSpec
from pytest_evalcheck.engine.cell_state import CellState, SearchOver, require_plain
from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.engine.judging import cell, failed, judge
from pytest_evalcheck.engine.timeout import time_limit
from pytest_evalcheck.expectations.failures import (
    CheckFailure,
    ComparisonStats,
    NotApplicable,
    NotCheckable,
    TargetError,
    counting,
)
from pytest_evalcheck.kinds.common.calling import format_exception_location
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.reports.results import Cell, Outcome
from pytest_evalcheck.targets import device_spec


class CellRunner:
    """One cell: its Hypothesis test, and the cases that were tried."""

    def __init__(self, spec: CellSpec) -> None:
        self.spec = spec
        self.state = self._new_state()
        self._factory = TargetFactory(spec.target)

    def test(self, run: Callable[..., None]) -> Callable[..., None]:
        """``run(case=..., **fixtures)`` as a Hypothesis test with the settings of this cell."""
        spec = self.spec
        test = given(case=self._strategy())(run)
        try:
            pinned = spec.pinned
        except TargetError:
            pinned = []  # run() reports it as the verdict of this cell
        for case in pinned:
            test = hypothesis.example(case=case)(test)
        # Explaining traces every line of the code under test; the failure shows what it would.
        omitted = {Phase.explain, *([Phase.shrink] if spec.known else [])}
        phases = [p for p in settings.default.phases if p not in omitted]  # type: ignore[union-attr]
        if spec.pinned_only:
            phases = [Phase.explicit]
        return settings(
            parent=settings.default,
            max_examples=spec.search.examples(spec.check.examples),
            phases=phases,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            # Fixtures are shared by the examples of a cell on purpose, and time has a limit of its own.
            suppress_health_check=[
                HealthCheck.function_scoped_fixture,
                HealthCheck.differing_executors,
                HealthCheck.too_slow,
                # Many samples are drawn from a seed of their own, once in a case.
                *([HealthCheck.nested_given] if hasattr(HealthCheck, "nested_given") else []),
                *settings.default.suppress_health_check,  # type: ignore[union-attr]
            ],
        )(test)

    def attempt(self, case: Any, arguments: Mapping[str, Any]) -> None:
        """Try one case."""
        state, spec = self.state, self.spec
        # Counted from the end of the first example, which may have imported the library of the target.
        if state.failure is None and state.examples and time.monotonic() - state.warm > spec.search.seconds:
            return
        if state.failed_at and time.monotonic() - state.failed_at > spec.effort.shrink_seconds:
            raise SearchOver
        require_plain(case)
        compared = state.stats.compared
        try:
            self._without_leaks(case, arguments)
        except CheckFailure as failure:
            state.examples += 1
            passable = spec.check.existential and not failure.untestable
            # These are not shrunk, so that the smallest of those that were tried is the one to show.
            if not passable or state.case is None or len(repr(case)) < len(repr(state.case)):
                state.failure, state.case, state.failing_ledger = failure, case, state.ledger
            if passable:
                return
            state.failed_at = state.failed_at or time.monotonic()
            raise
        state.examples += 1
        state.warm = state.warm or time.monotonic()
        state.kept_once = True
        if state.stats.compared > compared:  # a case that was refused or inconclusive has reached nothing
            state.regimes.update(case.regimes)

    def run(self, call: Callable[[], Any]) -> Cell:
        """Run the Hypothesis test with ``call``, and judge what it showed."""
        state, started = self._new_state(), time.monotonic()
        self.state = state
        outcome, reason = self._before()
        if outcome is not None:
            return self.cell(outcome, reason=reason)
        try:
            self.spec.pinned  # noqa: B018 - a stale blob or example is reported before anything runs
            with time_limit(self.spec.target.timeout or self.spec.timeout):
                call()
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:
            state.ended_by = error
        state.seconds = time.monotonic() - started
        return judge(self.spec, state)

    def cell(self, outcome: Outcome, *, reason: str) -> Cell:
        """The cell of this runner where its test did not run."""
        return cell(self.spec, self.state, outcome, reason=reason)

    def untestable(self, error: TargetError, started: float) -> Cell:
        """The cell of a target that could not be judged in this process."""
        seconds = time.monotonic() - started
        return failed(self.spec, CellState(ComparisonStats(self.spec.target.tolerance), seconds=seconds), error)

    def _new_state(self) -> CellState:
        measuring = 0.0 if self.spec.pinned_only else self.spec.effort.measuring
        return CellState(ComparisonStats(self.spec.target.tolerance, seconds=measuring))

    def _strategy(self) -> Any:
        spec = self.spec
        if spec.lacks or spec.nowhere or spec.target.problems:
            return hypothesis.strategies.none()  # never drawn: the verdict is known without
        return spec.check.case.strategy(spec.target.inputs)

    def _before(self) -> tuple[Outcome | None, str]:
        spec = self.spec
        declared = spec.target.entry(spec.target.not_applicable, spec.check)
        if declared:
            return "not applicable", declared
        if spec.lacks or spec.nowhere:
            return "not applicable", spec.lacks or spec.nowhere
        if spec.target.missing():
            return "not run", spec.target.missing()
        why = device_spec.absent(spec.device)
        return ("not run", why) if why else (None, "")

    def _without_leaks(self, case: Any, arguments: Mapping[str, Any]) -> None:
        changed: list[str] = []
        try:
            count = self.spec.check.accelerators
            on_device = device_spec.on(self.spec.device, count=count)
            with isolated_process() as changed, counting(self.state.stats), on_device as ledger:
                self.state.ledger = ledger
                self._check(case, arguments)
        except NotCheckable:
            changed.clear()  # the case was left half done
            raise
        finally:
            if changed:  # what else went wrong may well follow from it
                raise TargetError(
                    "the target left the process changed",
                    actual=changed[0],
                    expected="as it was found",
                    detail="\n".join(changed[1:]),
                    cause=f"leak: {changed[0].split(':')[0]}",
                )

    def _check(self, case: Any, arguments: Mapping[str, Any]) -> None:
        target = self.spec.target
        kind = kind_of(target.kind)

        def subject_on(device: str) -> Any:
            there = {**arguments, "device": device} if "device" in arguments else arguments
            return kind.subject(
                build=lambda: self._factory.record(there),
                inputs=target.inputs,
                device=device,
                reference=target.reference,
                tolerance=target.tolerance,
                elsewhere=subject_on if "device" in arguments else None,
                ledger=self.state.ledger,
                budget=target.budget,
                **target.options,
            )

        subject = subject_on(device_spec.torch_name(self.spec.device))
        before = self._factory.snapshot()
        try:
            self.spec.check.function(subject, case)
        except (CheckFailure, NotApplicable, HypothesisException):
            raise
        except AssertionError as error:  # an extra check may use plain asserts
            raise CheckFailure(
                str(error) or "an assert of the check does not hold", detail=format_exception_location(error, "")
            ) from error
        except Exception as error:
            self.state.traceback = traceback.format_exc()
            raise TargetError(
                "the check itself raised an error",
                actual=format_exception_location(error, self.spec.check.function.__code__.co_filename),
                expected="a CheckFailure, or nothing",
                cause="check",
            ) from error
        if before is not None and (changes := before.changes()):
            raise TargetError(
                "an example left something behind in the target, which is built once a cell",
                detail="\n".join(changes[:5]),
                cause="left behind",
            )

"""Running one cell: one case after the other, and what they show."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, core, given, settings
from hypothesis.errors import HypothesisException, Unsatisfiable, UnsatisfiedAssumption
from hypothesis.reporting import with_reporter

from pytest_evalcheck import upstream
from pytest_evalcheck.engine.cell_spec import USUAL_SECONDS, CellSpec
from pytest_evalcheck.engine.cell_state import CellState, SearchOver, left_changed, require_plain
from pytest_evalcheck.engine.constants import constants_of
from pytest_evalcheck.engine.effort import EFFORTS
from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.engine.judging import cell, failed, judge
from pytest_evalcheck.engine.known_failures import Finding, KnownFailures
from pytest_evalcheck.engine.other_process import call_elsewhere
from pytest_evalcheck.engine.preflight import Preflight, preflight
from pytest_evalcheck.engine.target_errors import TargetErrorReporter, reports_faults
from pytest_evalcheck.engine.timeout import time_limit
from pytest_evalcheck.expectations.failures import (
    CheckFailure,
    ComparisonStats,
    DeviceLost,
    NotApplicable,
    NotCheckable,
    TargetError,
    counting,
)
from pytest_evalcheck.expectations.ids import id_of_error
from pytest_evalcheck.expectations.origin import place_of
from pytest_evalcheck.kinds.common.calling import format_exception_location
from pytest_evalcheck.kinds.common.intervals import drawn_number
from pytest_evalcheck.kinds.common.process_state import drawn_since, isolated_process, random_states
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.live_objects import new_objects_only
from pytest_evalcheck.reports.results import Cell, Outcome
from pytest_evalcheck.targets import device_spec
from pytest_evalcheck.targets.target import KnownFailure


class CellRunner:
    """One cell: its cases, and what they have shown."""

    def __init__(self, spec: CellSpec) -> None:
        self.spec = spec
        self._factory = TargetFactory(spec.target)
        self.state = self._new_state()
        self.reporter = TargetErrorReporter()
        self._searching = False
        """Hypothesis draws the cases."""
        self._errors_only = False
        """A difference was found, and cases are tried for an error beside it."""
        self._changed: tuple[str, ...] = ()
        self._drawn_again: tuple[Any, ...] = ()
        """Cases that are tried with other random numbers, too, where code under test draws some."""

    def run(self, arguments: Mapping[str, Any]) -> Cell:
        """Try all cases with these arguments of the factory, and judge what they showed."""
        state, started = self._new_state(), time.monotonic()
        self.state, self._errors_only = state, False  # it may run again with other known failures
        if self.spec.inapplicable:
            state.ended_by = NotApplicable(self.spec.inapplicable)
            return judge(self.spec, state)
        if self.spec.not_placed:
            return self.cell("not run", reason=self.spec.not_placed)
        if missing := self.spec.target.missing() or device_spec.absent(self.spec.device):
            return self.cell("not run", reason=missing)
        # A limit that nobody gave only ends what hangs: the first is wide, and the next depends on what was measured.
        given = self.spec.given_limit
        state.limit = USUAL_SECONDS * _FIRST if given is None else given
        try:
            with new_objects_only(), time_limit(state.limit) as limit:
                ready = self.call_once(arguments)
                state.given = ready.given
                if ready.problem is not None:
                    raise ready.problem
                state.fault = ready.fault
                self._lengthen(limit, _SCALE * ready.seconds)
                self._try_all(arguments, limit)
        except (KeyboardInterrupt, pytest.exit.Exception):
            raise
        except BaseException as error:
            state.ended_by = error
        if state.error is not None:
            state.judge_first(state.error)
        state.class_name, state.own = self._factory.class_name, self._factory.own_code
        state.takes_device = self._factory.takes_device
        state.place = self._factory.place if self.spec.inferred else None
        state.undeclared = self.spec.is_guess and not self._factory.is_declared
        state.seconds = time.monotonic() - started
        return self.reporter.reported(judge(self.spec, state), self.spec.key)

    def call_once(self, arguments: Mapping[str, Any]) -> Preflight:
        """The plain call of the target, which is made before any case."""
        ready = preflight(self.spec.target, lambda device: self._subject(arguments, device), self.spec.device)
        self._changed = ready.changed
        return ready

    def _try_all(self, arguments: Mapping[str, Any], limit: Any) -> None:
        """The pinned cases, those of the author, the canonical ones, and then what Hypothesis draws."""
        spec, state = self.spec, self.state
        replayed, pinned = spec.replayed, state.known.pinned
        first = [] if replayed is not None else [*spec.given, *spec.canonical]
        self._drawn_again = (replayed, *(case for _, case in pinned), *first[:1])
        if replayed is not None:
            try:
                self.attempt(replayed, arguments)
            except CheckFailure:
                self._look_for_errors([replayed], arguments)
                raise
            return
        for entry, case in pinned:
            self._confirm(entry, case, arguments)
        drawn = max(spec.planned - len(first) + len(spec.given), _FEWEST)
        state.planned = len(pinned) + len(first) + drawn
        started, canonical_finding = time.monotonic(), None
        for index, case in enumerate(first):
            try:
                self.attempt(case, arguments)
            except CheckFailure:
                # What is drawn may show the same with a smaller case; the canonical one is not shrunk.
                self._look_for_errors(first[index:], arguments)
                state.failed_at = time.monotonic()
                canonical_finding = state.found
                break
            if index == 0:
                each = time.monotonic() - started
                self._lengthen(limit, _SCALE * state.planned * each)
        if state.passed_over and not (state.examples or state.known.findings):
            raise state.passed_over
        self._searching = True
        try:
            self._search(arguments, spec.planned if state.found else drawn)
        except Unsatisfiable:
            if not state.examples:
                raise
        finally:
            self._searching = False
        if state.found is not None and state.found is canonical_finding:
            # Hypothesis tries a failing case twice; nothing smaller was drawn, so this one is tried again here.
            try:
                self._without_leaks(state.found.case, arguments)
            except CheckFailure:
                return
            state.flaky = True

    def _look_for_errors(self, cases: Iterable[Any], arguments: Mapping[str, Any]) -> None:
        """Try cases from that on which showed a difference: an error behind it is reported first, and shrunk."""
        found = self.state.found
        if found is None or found.is_error:
            return
        self._errors_only = True
        try:
            for case in cases:
                self.attempt(case, arguments)
        except (CheckFailure, SearchOver):
            pass
        self._errors_only = self.state.found is not found

    def _confirm(self, entry: KnownFailure, case: Any, arguments: Mapping[str, Any]) -> None:
        """Try the pinned case of a known failure, which must still fail."""
        state = self.state
        require_plain(case)
        state.running = case
        others: list[Finding] = []

        def is_of_another(finding: Finding) -> bool:
            others.extend([finding] if (of_another := state.known.is_of_another(entry, finding)) else [])
            return of_another

        shown = None
        try:
            with self._passing_over(case, is_of_another):
                self._without_leaks(case, arguments)
        except CheckFailure as failure:
            shown = self._finding(failure, case)
        state.examples += 1
        if shown is None and others and not entry.signature:
            shown = others[0]
        if shown is None and entry.unverified:
            return
        if shown is None:
            seen = "its case shows another known failure alone" if others else "its case passes"
            raise state.known.stale_entry(entry, seen)
        if found := state.known.confirm(entry, shown):
            state.found, state.traceback = found, ""  # of the check, which is given what is no case of it
            raise found.failure

    def _search(self, arguments: Mapping[str, Any], count: int) -> None:
        spec = self.spec

        def trial(case: Any) -> None:
            self.attempt(case, arguments)

        test: Any = given(case=spec.check.case.strategy(spec.target.inputs))(trial)
        # All cells share this function; the digest keeps their entries in the example database apart.
        test.hypothesis.inner_test._hypothesis_internal_add_digest = spec.key.encode()
        seeded: dict[str, Any] = {}
        asked = core.global_force_seed is not None and not settings.default.derandomize
        if not asked and spec.effort is not EFFORTS["thorough"]:
            test = hypothesis.seed(spec.seed)(test)
            # What an earlier run has found must not change what this one shows.
            seeded = {"derandomize": False, "database": None}
        # Explaining traces every line of the code under test; the failure shows what it would.
        phases = [p for p in settings.default.phases if p not in (Phase.explain, Phase.explicit)]  # type: ignore[union-attr]
        search = settings(
            parent=settings.default,
            max_examples=count,
            phases=phases,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            # Fixtures are shared by the cases of a cell on purpose, and time has a limit of its own.
            suppress_health_check=list(HealthCheck),
            **seeded,
        )(test)
        # What Hypothesis would print is in the cell.
        with constants_of(self._modules()), with_reporter(lambda _: None):
            search()

    def _modules(self) -> tuple[str, ...]:
        """The names of the modules under test: that of the target, and that of what it makes."""
        made = (self.spec.target.factory, self._factory.adapted)
        return tuple(str(getattr(one, "__module__", "")) for one in made)

    def attempt(self, case: Any, arguments: Mapping[str, Any]) -> None:
        """Try one case.

        Raises:
            CheckFailure: where it shows what nobody knows of yet.
        """
        state, spec = self.state, self.spec
        if state.failed_at and time.monotonic() - state.failed_at > spec.effort.shrink_seconds:
            raise SearchOver
        require_plain(case)
        state.running = case
        stats = state.stats
        compared, not_offered = stats.compared, stats.not_offered
        try:
            with self._passing_over(case, self._should_pass_over):
                self._without_leaks(case, arguments)
        except NotCheckable:
            raise
        except NotApplicable as missing:
            self._pass_over(case, missing)
            return
        except UnsatisfiedAssumption:
            if not self._searching:
                return  # a canonical case that shows nothing for these inputs
            raise
        except CheckFailure as failure:
            state.examples += 1
            state.tried.update(case.conditions)
            self._note(self._finding(failure, case))
            return
        if stats.not_offered > not_offered:
            self._pass_over(case, NotApplicable(stats.inconclusive))
            return
        state.examples += 1
        state.tried.update(case.conditions)
        if stats.known_seen:
            state.conditions.update(case.conditions)
            return
        if stats.compared > compared:  # a case that was refused or inconclusive has reached nothing
            state.passed_once = True
            state.conditions.update(case.conditions)

    def _should_pass_over(self, finding: Finding) -> bool:
        return self.state.known.should_pass_over(finding) or (self._errors_only and not finding.is_error)

    def _finding(self, failure: CheckFailure, case: Any) -> Finding:
        observed = self.spec.target.inputs.observed
        outside = f"outside of what {observed}: {self.spec.check.outside}"
        if self.spec.check.outside and observed and outside not in failure.detail:
            failure.detail = "\n".join(filter(None, [failure.detail, outside]))
        return self.state.known.finding(failure, case, self.state.ledger)

    def _pass_over(self, case: Any, missing: NotApplicable) -> None:
        """A case that the target does not offer says nothing, unless it offers none of them.

        Raises:
            NotApplicable: where no case was tried yet, and all canonical ones were passed over.
        """
        state = self.state
        state.passed_over = state.passed_over or missing
        state.absent |= case.conditions
        if self._searching and not (state.examples or state.known.findings):
            raise state.passed_over

    def _note(self, finding: Finding) -> None:
        """Record a failure, and raise it where it is the one to report."""
        state, before = self.state, self.state.found
        if finding.failure.untestable and self._errors_only:  # what cannot be tried hides no difference
            state.others.setdefault(finding.signature, finding.failure.headline)
            return
        if finding.failure.untestable:
            state.found = finding
            state.failed_at = state.failed_at or time.monotonic()
            raise finding.failure
        state.conditions.update(finding.case.conditions)
        if self._should_pass_over(finding):
            return
        if before is not None and self._errors_only and not before.is_error:
            state.judge_first(finding)
            before = None
        if before is not None and before.signature != finding.signature:
            state.others.setdefault(finding.signature, finding.failure.headline)
            if finding.is_error and not before.is_error:  # Hypothesis goes on with what it has found first
                state.error = state.error or finding
            return
        # What Hypothesis shrinks gets smaller; a canonical case, or one that is not shrunk, may be smaller already.
        if before is None or finding.size <= before.size:
            state.found = finding
            state.other_versions = upstream.other_versions(finding.signature, self._factory.adapted)
        if self.spec.check.existential:
            return
        state.failed_at = state.failed_at or time.monotonic()
        raise finding.failure

    @contextmanager
    def _passing_over(self, case: Any, is_known: Callable[[Finding], bool]) -> Iterator[None]:
        """Continue after a known failure, so that later comparisons of the case still run."""
        stats = self.state.stats
        stats.known_seen = 0
        if not self.spec.check.existential:
            stats.should_pass_over = lambda failure: is_known(self._finding(failure, case))
        try:
            yield
        except Exception as error:
            # What a check does with a result that is wrong may be an error.
            if not (stats.known_seen and isinstance(error, TargetError) and error.cause == "check"):
                raise
            self.state.traceback = ""
        finally:
            stats.should_pass_over = None

    def _lengthen(self, limit: Any, seconds: float) -> None:
        """Count anew by what was measured, unless a user gave the limit."""
        if self.spec.given_limit is None:
            self.state.limit = max(USUAL_SECONDS, seconds)
            limit.extend(self.state.limit)

    def cell(self, outcome: Outcome, *, reason: str) -> Cell:
        """The cell of this runner where its test did not run."""
        return cell(self.spec, self.state, outcome, reason=reason)

    def untestable(self, error: TargetError, started: float) -> Cell:
        """The cell of a target that could not be judged in this process."""
        seconds, place = time.monotonic() - started, self._factory.place if self.spec.inferred else None
        return failed(self.spec, replace(self._new_state(), seconds=seconds, place=place), error)

    def _new_state(self) -> CellState:
        measuring = 0.0 if self.spec.replay is not None else self.spec.effort.measuring
        stats = ComparisonStats(self.spec.target.tolerance, seconds=measuring)
        return CellState(stats, KnownFailures(self.spec, self._factory))

    def _without_leaks(self, case: Any, arguments: Mapping[str, Any]) -> None:
        draws = self._draw(case, arguments, 0)
        check = self.spec.check
        again = draws and not check.existential and any(case is each for each in self._drawn_again)
        most = check.examples or _DRAWS
        for draw in range(1, most if again else 0):  # a value that is rare shows in one of them
            try:
                self._draw(case, arguments, draw)
            except CheckFailure as failure:
                failure.detail = f"{failure.detail}\nSeen in draw {draw} of random numbers of {most}.".strip()
                raise
            except (NotApplicable, UnsatisfiedAssumption):
                return  # what the case shows with the usual numbers stays

    def _draw(self, case: Any, arguments: Mapping[str, Any], draw: int) -> bool:
        """Try a case with the random numbers of a draw, and return whether it took any from the usual generators."""
        changed: list[str] = []
        try:
            check = self.spec.check
            on_device = device_spec.placed_on(self.spec.device, count=check.accelerators, check_streams=check.streams)
            # Libraries set variables where they find an accelerator. The checks on the CPU report what a target sets.
            variables = device_spec.kind(self.spec.device) == "cpu"
            with isolated_process(variables=variables, draw=draw) as changed:
                states = random_states()
                with counting(self.state.stats), on_device as ledger:
                    self.state.ledger = ledger
                    self._check(case, arguments, states)
                drawn = drawn_since(states)
        except NotCheckable:
            changed.clear()  # the case was left half done
            raise
        except Exception as error:
            if device_spec.lost():
                changed.clear()
                raise self._lost(error) from error
            raise
        finally:
            if changed:  # what else went wrong may well follow from it
                raise left_changed(changed)
        return bool(drawn)

    def _lost(self, error: Exception) -> Exception:
        """The error of a case after which a GPU takes no work of this process any more.

        It is a finding where the data is ordinary. Invalid values, which many checks give, are refused so by kernels.
        """
        text = format_exception_location(error, self.spec.target.file)
        if self.spec.check.ordinary:
            return CheckFailure("a kernel failed an assertion on ordinary data", id="device-lost", actual=text)
        return DeviceLost(f"not checkable on this device, which was lost: a kernel failed an assertion ({text})")

    def _check(self, case: Any, arguments: Mapping[str, Any], states: tuple[Any, Any, Any]) -> None:
        subject = self._subject(arguments, device_spec.torch_name(self.spec.device))
        before = self._factory.snapshot()
        try:
            self.spec.check.function(subject, case)
        except CheckFailure as failure:
            failure.id = failure.id or failure.cause or id_of_error(failure)
            if drawn_since(states) and (name := drawn_number(subject, failure)):
                raise NotApplicable(f"{name} is drawn at random, as ec.Interval(draws=...) says") from failure
            raise
        except (NotApplicable, HypothesisException):
            raise
        except AssertionError as error:  # an extra check may use plain asserts
            about = str(error) or "an assert of the check does not hold"
            failed_assert = CheckFailure(about, detail=format_exception_location(error, ""))
            failed_assert.id = id_of_error(error)
            raise failed_assert from error
        except Exception as error:
            self.state.traceback = traceback.format_exc()
            raise TargetError(
                "the check itself raised an error",
                actual=format_exception_location(error, self.spec.check.function.__code__.co_filename),
                expected="a CheckFailure, or nothing",
                cause="check",
                origin=place_of(error),
            ) from error
        if before is not None and (changes := before.changes()):
            raise TargetError(
                "an example left something behind in the target, which is built once for the check",
                detail="\n".join(changes[:5]),
                cause="left behind",
            )

    def _subject(self, arguments: Mapping[str, Any], device: str) -> Any:
        target = self.spec.target

        def subject_on(device: str) -> Any:
            return self._subject(arguments, device)

        there = {**arguments, "device": device} if "device" in arguments else arguments
        return kind_of(target.kind).subject(
            build=lambda **options: self._factory.record({**there, **options}),
            inputs=target.inputs,
            device=device,
            reference=target.reference,
            tolerance=target.tolerance,
            on_device=subject_on if "device" in arguments else None,
            ledger=self.state.ledger,
            budget=target.budget,
            elsewhere=partial(call_elsewhere, target) if set(there) <= {"device"} else None,
            changed=self._changed,
            **target.options,
        )


def choose_reporters(runners: Iterable[CellRunner]) -> None:
    """Let one cell of each target report a mistake in it: the same one in every order and in every worker."""
    targets: dict[str, list[CellRunner]] = {}
    for runner in runners:
        targets.setdefault(runner.spec.where, []).append(runner)
    for own in targets.values():
        first = min(own, key=lambda r: (bool(r.spec.inapplicable), r.spec.check.code, r.spec.device))
        reporter = TargetErrorReporter(first.spec.key, reports_faults(r.spec.check for r in own))
        for runner in own:
            runner.reporter = reporter


_FIRST = 5
"""The usual limits that a target may take until it was built and called once: it may import its library first."""
_SCALE = 20
"""The factor by which a case may be slower than the first one, before the cell counts as hanging."""
_DRAWS = 40
"""The number of times that one case is tried where code under test draws random numbers."""
_FEWEST = 2
"""The least number of drawn cases, whatever the canonical ones are."""

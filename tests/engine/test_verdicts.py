"""Verdicts depend on the code under test, and not on the clock, the seed, or what is known already."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import assume, core, settings
from hypothesis import strategies as st

import pytest_evalcheck as ec
from fixtures.gallery.metrics_plain import HandsOutItsState
from pytest_evalcheck import strategies as es
from pytest_evalcheck.engine import runner, timeout
from pytest_evalcheck.engine.target_errors import TARGET_ERROR
from pytest_evalcheck.expectations import comparison
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.metric.cases import Stream
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.reports.failure_text import format_failure

numbers = es.samples(st.integers(0, 9), collate=lambda rows: ([float(row) for row in rows],), name="numbers")


class Mean:
    delay = 0.0

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, values: list[float]) -> None:
        time.sleep(self.delay)
        self.total += sum(values)
        self.count += len(values)

    def compute(self) -> Any:
        return self.total / self.count if self.count else float("nan")


class MeanOfMeans(Mean):
    def update(self, values: list[float]) -> None:
        self.total += sum(values) / len(values)
        self.count += 1


class Slow(Mean):
    """Every call takes so long that a limit by the clock alone would end the search."""

    delay = 0.02


class SlowMeanOfMeans(MeanOfMeans):
    def update(self, values: list[float]) -> None:
        time.sleep(0.02)
        super().update(values)


def target(made: Any, **more: Any) -> ec.Target:
    def factory() -> ec.Metric:
        return ec.Metric.of(made())

    return ec.metric(inputs=numbers, **more)(factory)


def only(report: ec.Report) -> ec.Cell:
    (cell,) = report.cells
    return cell


@pytest.fixture
def other_seed() -> Iterator[None]:
    before = core.global_force_seed
    yield
    core.global_force_seed = before


@pytest.fixture
def usual_limit(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda seconds: monkeypatch.setattr(runner, "USUAL_SECONDS", seconds)


class TestTime:
    def test_a_slow_target_gets_the_verdict_of_a_quick_one(self, usual_limit: Callable[[float], None]) -> None:
        # Half a second is less than its cases take: the limit grows with what the first one took.
        usual_limit(0.5)
        for made, outcome in ((Mean, "passed"), (Slow, "passed"), (MeanOfMeans, "failed"), (SlowMeanOfMeans, "failed")):
            cell = only(ec.run(target(made), select="EC201", effort="quick"))
            assert cell.outcome == outcome, (made, cell.reason)
            if outcome == "passed":
                assert cell.examples >= cell.planned == 10

    def test_a_cell_that_hangs_in_a_later_case_is_incomplete(self) -> None:
        class Hangs(Mean):
            calls = 0

            def update(self, values: list[float]) -> None:
                Hangs.calls += 1
                if Hangs.calls > 20:
                    time.sleep(60)
                super().update(values)

        report = ec.run(target(Hangs, timeout=0.5), select="EC201", effort="quick")
        cell = only(report)
        assert cell.outcome == "incomplete"
        assert f"{cell.examples} of {cell.planned} cases were tried" in cell.reason
        assert 0 < cell.examples < cell.planned
        assert cell.failure is not None
        assert cell.failure.case is not None
        assert not report.ok

    def test_a_factory_that_hangs_is_incomplete(self) -> None:
        class NeverBuilt(Mean):
            def __init__(self) -> None:
                time.sleep(60)

        cell = only(ec.run(target(NeverBuilt, timeout=0.1), select="EC201", effort="quick"))
        assert (cell.outcome, cell.examples) == ("incomplete", 0)
        assert "conditions not reached: several batches" in cell.reason or "not reached" in cell.reason

    def test_building_takes_longer_than_the_limit_of_a_case(self, usual_limit: Callable[[float], None]) -> None:
        usual_limit(0.3)

        class ImportsMuch(Mean):
            started = False

            def __init__(self) -> None:
                if not ImportsMuch.started:
                    ImportsMuch.started = True
                    time.sleep(0.5)
                super().__init__()

        assert only(ec.run(target(ImportsMuch), select="EC201", effort="quick")).outcome == "passed"

    @pytest.mark.parametrize("own", [True, False], ids=["of the target", "of the call"])
    def test_a_given_limit_is_kept_by_a_target_that_is_slow(self, own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        announced: list[float | None] = []
        monkeypatch.setattr(timeout, "watchers", [announced.append])
        made, given = (target(Slow, timeout=0.2), None) if own else (target(Slow), 0.2)
        cell = only(ec.run(made, select="EC201", effort="quick", timeout=given))
        assert cell.outcome == "incomplete"
        assert "within 0.2 seconds" in cell.reason
        assert announced == [0.2, None]  # set once, and never longer
        assert cell.failure is not None
        assert "The limit is the given one." in cell.failure.detail

    def test_a_call_may_ask_for_no_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        announced: list[float | None] = []
        monkeypatch.setattr(timeout, "watchers", [announced.append])
        assert only(ec.run(target(Slow), select="EC201", effort="quick", timeout=0)).outcome == "passed"
        assert announced == [None, None]

    def test_many_numbers_are_not_compared_one_by_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Curve(Mean):
            def compute(self) -> Any:
                return [super().compute()] * 1000

        def compares_a_number(*_: Any) -> bool:
            raise AssertionError("a number is compared alone")

        monkeypatch.setattr(comparison, "close", compares_a_number)
        assert only(ec.run(target(Curve), select="EC201", effort="quick", timeout=0)).outcome == "passed"


class TestSeeds:
    def test_what_is_drawn_depends_on_the_name_of_the_cell_alone(self) -> None:
        seen: list[list[float]] = []

        class Watched(Mean):
            def update(self, values: list[float]) -> None:
                seen.append(list(values))
                super().update(values)

        runs = []
        for _ in range(2):
            seen.clear()
            assert ec.run(target(Watched, known_failures={}), select="EC201").ok
            runs.append(list(seen))
        # The plain call is made once for each target.
        assert runs[0][-40:] == runs[1][-40:]

    def test_another_seed_can_be_asked_for(self, other_seed: None) -> None:
        seen: list[list[float]] = []

        class Watched(Mean):
            def update(self, values: list[float]) -> None:
                seen.append(list(values))
                super().update(values)

        if settings.default.derandomize:  # type: ignore[union-attr]  # Hypothesis' own profile for CI
            pytest.skip("the profile in force asks for the same cases in every run")
        runs = []
        for seed in (1, 2):
            core.global_force_seed = seed
            seen.clear()
            assert ec.run(target(Watched), select="EC201").ok
            runs.append(list(seen))
        assert runs[0] != runs[1]


class TestRandomNumbers:
    class DropsOneInForty(Mean):
        def update(self, values: list[float]) -> None:
            if random.random() * 40 > 1:
                super().update(values)

    def test_what_happens_once_in_forty_calls_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        cell = only(ec.run(target(self.DropsOneInForty), select="EC201", effort="quick"))
        assert cell.outcome == "failed"
        assert cell.failure is not None
        assert re.search(r"Seen in draw \d+ of random numbers of 40\.", cell.failure.detail)
        blob = cell.reproduce.partition("replay='")[2].rstrip("')")
        again = only(ec.run(target(self.DropsOneInForty), select="EC201", replay=blob))
        assert (again.outcome, again.reason) == ("failed", cell.reason)
        monkeypatch.setattr(runner, "_DRAWS", 1)
        assert only(ec.run(target(self.DropsOneInForty), select="EC201", effort="quick")).outcome == "passed"

    def test_it_is_known_once_it_is_listed(self) -> None:
        cell = only(ec.run(target(self.DropsOneInForty), select="EC201", effort="quick"))
        assert cell.failure is not None
        entry = ec.KnownFailure("it drops some", example=cell.failure.case)
        known = {"EC201": entry}
        assert only(ec.run(target(self.DropsOneInForty, known_failures=known), select="EC201")).outcome == "known"

    @pytest.mark.parametrize("draws", [True, False])
    def test_one_case_is_repeated_where_numbers_are_drawn_and_no_other(self, draws: bool) -> None:
        class Counts(Mean):
            built = 0

            def __init__(self) -> None:
                Counts.built += 1
                super().__init__()

            def compute(self) -> Any:
                return super().compute() + 0 * (random.random() if draws else 1)

        assert only(ec.run(target(Counts), select="EC201", effort="quick")).outcome == "passed"
        assert (Counts.built > 80) == draws


class TestCode:
    def test_code_of_the_targets_file_is_told_from_a_library(self) -> None:
        cell = only(ec.run(target(MeanOfMeans, requires=("torch",)), select="EC201", effort="quick"))
        assert cell.failure is not None
        assert cell.failure.own == "MeanOfMeans"
        first = format_failure(cell).splitlines()[0]
        assert first == "EC201 splitting_a_stream_does_not_change_the_value (of MeanOfMeans in the target's file)"

    def test_code_of_a_library_is_not(self) -> None:
        @ec.metric(inputs=es.values(), requires=("torch",))
        def library_metric() -> Any:
            return ec.Metric.of(HandsOutItsState())

        cell = only(ec.run(library_metric, select="EC219", effort="quick"))
        assert cell.failure is not None
        assert cell.failure.own == ""

    def test_where_no_library_is_required_it_is_plain_whose_code_it_is(self) -> None:
        cell = only(ec.run(target(MeanOfMeans), select="EC201", effort="quick"))
        assert cell.failure is not None
        assert cell.failure.own == ""


class TestCanonicalCases:
    def test_they_find_a_bug_before_anything_is_drawn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from pytest_evalcheck.engine.runner import CellRunner

        monkeypatch.setattr(CellRunner, "_search", lambda *_: None)
        cell = only(ec.run(target(MeanOfMeans), select="EC201", effort="quick"))
        assert cell.outcome == "failed"
        assert cell.failure is not None
        assert cell.failure.case is not None

    def test_every_condition_is_reached_at_quick_effort(self) -> None:
        for cell in ec.run(target(Mean), effort="quick").of("passed"):
            assert not cell.unreached, cell


class TestKnownFailures:
    """A metric with two faults under one check."""

    class Twice(MeanOfMeans):
        def update(self, values: list[float]) -> None:
            if values == [7, 1]:
                raise IndexError("seven")
            super().update(values)

    example = {"samples": [0, 0, 1], "batches": [[0, 1], [2]]}

    def test_a_failure_of_another_signature_is_red(self) -> None:
        entry = ec.KnownFailure("a mean of means", example=self.example)
        assert only(ec.run(target(MeanOfMeans, known_failures={"EC201": entry}), select="EC201")).outcome == "known"
        twice = target(self.Twice, known_failures={"EC201": entry}, examples=[[7, 1, 2]])
        cell = only(ec.run(twice, select="EC201"))
        assert cell.outcome == "failed"
        assert "IndexError" in cell.reason

    def test_two_entries_cover_two_faults(self) -> None:
        entries = (
            ec.KnownFailure("a mean of means", example=self.example),
            ec.KnownFailure("seven", example={"samples": [7, 1, 2], "batches": [[0, 1], [2]]}),
        )
        cell = only(ec.run(target(self.Twice, known_failures={"EC201": entries}), select="EC201"))
        assert cell.outcome == "known", cell.reason
        assert cell.reason == "a mean of means; seven"

    def test_an_entry_whose_case_keeps_the_promise_is_stale(self) -> None:
        entry = ec.KnownFailure("even batches", example={"samples": [1, 2], "batches": [[0], [1]]})
        cell = only(ec.run(target(MeanOfMeans, known_failures={"EC201": entry}), select="EC201"))
        assert (cell.outcome, cell.cause) == ("failed", "stale known failure")

    def test_the_first_of_two_stale_entries_is_named(self) -> None:
        entries = tuple(ec.KnownFailure(f"why {number}", see=f"a/b#{number}") for number in (1, 2))
        cell = only(ec.run(target(Mean, known_failures={"EC201": entries}), select="EC201"))
        assert (cell.outcome, cell.cause) == ("failed", "stale known failure")
        assert cell.failure is not None
        assert "why 1" in str(cell.failure), cell.failure

    def test_a_case_that_is_not_plain_is_an_error(self) -> None:
        entry = ec.KnownFailure("a mean of means", example={"samples": [object(), 2], "batches": [[0], [1]]})
        cell = only(ec.run(target(MeanOfMeans, known_failures={"EC201": entry}), select="EC201"))
        assert (cell.outcome, "is not plain Python: samples=[<object" in cell.reason) == ("failed", True), cell.reason

    def test_an_entry_without_a_case_covers_one_signature(self) -> None:
        entry = ec.KnownFailure("a mean of means")
        assert only(ec.run(target(MeanOfMeans, known_failures={"EC201": entry}), select="EC201")).outcome == "known"
        twice = target(self.Twice, known_failures={"EC201": entry}, examples=[[7, 1, 2]])
        assert only(ec.run(twice, select="EC201")).outcome == "failed"


class TestCases:
    def test_cases_that_a_target_does_not_offer_take_nothing_from_the_others(self) -> None:
        @ec.check("ACME901")
        def some_lengths_alone(metric: MetricSubject, case: Stream) -> None:
            """Batches of an even number of samples have a value."""
            if len(case.samples) % 2:
                raise NotApplicable("an odd number of samples")
            ec.expect(metric.value([case.samples])).holds(True, about="it has a value")

        cell = only(ec.run(target(Mean, extra_checks=[some_lengths_alone]), select="ACME901", effort="quick"))
        assert cell.outcome == "passed", cell.reason

    def test_canonical_cases_may_all_show_nothing(self) -> None:
        seen: list[int] = []

        @ec.check("ACME902")
        def later_cases_alone(metric: MetricSubject, case: Stream) -> None:
            """The first cases do not meet an assumption."""
            seen.append(len(case.samples))
            assume(len(seen) > 8)
            ec.expect(metric.value([case.samples])).holds(True, about="it has a value")

        made = target(Mean, extra_checks=[later_cases_alone])
        cell = only(ec.run(made, select="ACME902", effort="normal"))
        assert cell.outcome == "passed", cell.reason

    def test_the_smallest_case_is_reported_also_where_it_is_a_canonical_one(self) -> None:
        first: list[Any] = []

        @ec.check("ACME904")
        def small_or_large(metric: MetricSubject, case: Stream) -> None:
            """Fails for one small case, and for all large ones."""
            first[:] = first or [case.samples]
            count = len(case.samples)
            good = case.samples != first[0] and count <= len(first[0])
            ec.expect(count).holds(good, about=f"{count} samples are too many")

        made = target(Mean, extra_checks=[small_or_large])
        cell = only(ec.run(made, select="ACME904", effort="normal"))
        assert cell.failure is not None
        assert cell.failure.case["samples"] == first[0]
        assert cell.failure.about == f"{len(first[0])} samples are too many"

    def test_an_error_of_a_check_has_its_traceback(self) -> None:
        @ec.check("ACME903")
        def divides(metric: MetricSubject, case: Stream) -> None:
            """Raises an error."""
            ec.expect(metric.value(case.split)).holds(1 / 0, about="it has a value")

        cell = only(ec.run(target(Mean, extra_checks=[divides]), select="ACME903", effort="quick"))
        assert cell.failure is not None
        assert "ZeroDivisionError" in cell.failure.traceback


class TestControls:
    """A control is kept where one case shows the difference; a case that does not is no failure."""

    def judged(self, honest_after: int) -> ec.Cell:
        built = [0]

        class Late(Mean):
            def __init__(self) -> None:
                super().__init__()
                built[0] += 1
                self.honest = built[0] > honest_after

            def compute(self) -> Any:
                return super().compute() if self.honest else 0.5

        made = es.samples(
            st.integers(0, 9),
            collate=lambda rows: ([float(row) for row in rows],),
            name="numbers",
            wrong=lambda row: row + 1,
            contrast=(1, 2),
        )
        late = ec.metric(inputs=made)(lambda: ec.Metric.of(Late()))
        return only(ec.run(late, select="EC218", effort="quick"))

    def test_a_later_case_may_show_it(self) -> None:
        assert self.judged(honest_after=4).outcome == "passed"

    def test_no_case_shows_it(self) -> None:
        assert self.judged(honest_after=10**6).outcome == "failed"


class TestPlainCall:
    @pytest.mark.parametrize("value", [None, {}, [], "", "ok", float("nan"), {"a": None}, [float("nan")]])
    def test_a_value_that_is_none_is_one_error(self, value: Any) -> None:
        class Nothing(Mean):
            def compute(self) -> Any:
                return value

        report = ec.run(target(Nothing), effort="quick")
        broken = report.of("failed")
        assert len(broken) == 1
        assert broken[0].cause == TARGET_ERROR
        assert broken[0].failure is not None
        assert any(line.startswith("update(values=") for line in broken[0].failure.given)
        assert {cell.outcome for cell in report.cells} <= {"failed", "not run", "not applicable"}
        assert not report.ok

    def test_two_different_samples_are_enough(self) -> None:
        coins = es.samples(st.booleans(), collate=lambda rows: ([float(row) for row in rows],), name="coins")
        share = ec.metric(inputs=coins)(lambda: ec.Metric.of(Mean()))
        assert only(ec.run(share, select="EC201", effort="quick")).outcome == "passed"

    def test_a_batch_that_is_refused_names_what_was_given(self) -> None:
        class TwoArguments(Mean):
            def update(self, preds: Any, target: Any) -> None:  # type: ignore[override]
                raise AssertionError("never reached")

        (broken,) = ec.run(target(TwoArguments), effort="quick").of("failed")
        assert broken.failure is not None
        assert "update raised TypeError" in broken.reason

    def test_the_remedy_is_tried(self) -> None:
        class Strict:
            def __init__(self) -> None:
                self.right = 0.0

            def update(self, preds: Any, target: Any) -> None:
                if preds.dim() != 2 or target.dim() != 1:
                    raise ValueError("preds of [N, C] and target of [N] are expected")
                self.right += float((preds.argmax(-1) == target).sum())

            def compute(self) -> float:
                return self.right

        import torch

        swapped = es.samples(
            st.integers(0, 2),
            collate=lambda rows: (torch.tensor(rows), torch.eye(3)[torch.tensor(rows, dtype=torch.int64)]),
        )

        @ec.metric(inputs=swapped)
        def strict() -> ec.Metric:
            return ec.Metric.of(Strict())

        (broken,) = ec.run(strict, effort="quick").of("failed")
        assert broken.failure is not None
        assert "exchange the two arguments" in broken.failure.detail
        assert "update(preds=int64[4], target=float32[4, 3])" in "\n".join(broken.failure.given)

    def test_a_failure_shows_what_was_given(self) -> None:
        cell = only(ec.run(target(MeanOfMeans), select="EC201", effort="quick"))
        assert cell.failure is not None
        assert cell.failure.given[0].startswith("4 samples of numbers")
        assert "update(values=list of 4 float)" in cell.failure.given[1]


@pytest.mark.parametrize(
    ("body", "noted"),
    [
        ("return OnTheCPU()", True),
        ("return OnTheCPU(device)", False),
        ("return (lambda: OnTheCPU(device))()", False),
        ("return [OnTheCPU(device) for _ in 'a'][0]", False),
        ("return OnTheCPUAlone()", False),  # nothing would put it there, as `write` has found out
    ],
)
def test_a_factory_that_leaves_its_device_out_is_told_so(body: str, noted: bool) -> None:
    names: dict[str, Any] = {"OnTheCPU": OnTheCPU, "OnTheCPUAlone": OnTheCPUAlone, "ec": ec}
    exec(f"def made(device):\n    {body}\n", names)
    report = ec.run(ec.metric(inputs=es.regression())(names["made"]), select="EC603", device="sim:cuda")
    (cell,) = report.cells
    assert cell.outcome == "failed"
    assert cell.failure is not None
    assert ("Note: the factory does not use its argument `device`" in cell.failure.detail) is noted


class OnTheCPU:
    """A metric whose state stays on the CPU."""

    def __init__(self, device: str = "cpu") -> None:
        del device
        self.total = torch.zeros((), device="cpu")

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        self.total += (preds - target).sum()

    def compute(self) -> torch.Tensor:
        return self.total


class OnTheCPUAlone(OnTheCPU):
    """The same metric without an argument for a device."""

    def __init__(self) -> None:
        super().__init__()

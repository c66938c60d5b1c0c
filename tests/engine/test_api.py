"""The suite without pytest."""

from __future__ import annotations

import functools
import os
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

numbers = es.samples(st.integers(0, 9), collate=lambda rows: ([float(row) for row in rows],), name="numbers")


class Mean:
    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, values: list[float]) -> None:
        self.total += sum(values)
        self.count += len(values)

    def compute(self) -> float:
        return self.total / self.count if self.count else float("nan")


class MeanOfMeans(Mean):
    def update(self, values: list[float]) -> None:
        self.total += sum(values) / len(values)
        self.count += 1


def target(made: Any, **more: Any) -> ec.Target:
    def factory() -> ec.Metric:
        return ec.Metric.of(made())

    return ec.metric(inputs=numbers, **more)(factory)


def test_cells_come_back_as_data() -> None:
    report = ec.run(target(MeanOfMeans), select="EC201,EC205")
    assert [(cell.code, cell.outcome) for cell in report.cells] == [("EC201", "failed"), ("EC205", "passed")]
    assert report.denominator.startswith("1 target, 2 checks: 1 passed, 1 failed")
    broken = report.cells[0]
    assert broken.failure is not None
    assert broken.failure.case == {"samples": [0, 0, 1], "batches": [[0, 1], [2]]}
    assert (broken.failure.expected, broken.failure.actual) == ("0.333333333", "0.5")
    assert not report.ok
    assert report.cells[1].conditions["several batches"] > 0


def test_a_blob_replays() -> None:
    broken = target(MeanOfMeans)
    (cell,) = ec.run(broken, select="EC201").cells
    blob = cell.reproduce.split("replay='")[1].rstrip("')")
    (again,) = ec.run(broken, replay=blob).cells
    assert (again.outcome, again.failure, again.examples) == ("failed", cell.failure, 2)  # once more, for errors alone
    assert ec.run(target(Mean), replay=blob).cells[0].outcome == "passed"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ec.run(Mean), "takes a target"),
        (lambda: ec.run(target(Mean), effort="fast"), "expected one of quick, normal, thorough"),
        (lambda: ec.run(target(Mean), select="EC9"), "no check matches"),
        (lambda: ec.run(target(Mean, known_failure={})), "did you mean 'known_failures'"),
        (lambda: ec.run(ec.metric(inputs=numbers)(lambda tmp_path: None)), "asks for the fixture 'tmp_path'"),
        (lambda: ec.run(target(Mean), replay="x"), "is not a replay blob"),
    ],
)
def test_what_cannot_be_meant_is_said(call: Any, said: str) -> None:
    with pytest.raises((ec.UsageError, ValueError), match=said):
        call()


def test_fixtures_are_given_by_name() -> None:
    seen = []

    @ec.metric(inputs=numbers)
    def started(device: str, start: float) -> ec.Metric:
        seen.append((device, start))
        return ec.Metric.of(Mean())

    assert ec.run(started, select="EC201", fixtures={"start": 2.0}).ok
    assert set(seen) == {("cpu", 2.0)}


def test_effort_is_a_share_of_the_profile() -> None:
    counts = {
        effort: ec.run(target(Mean), select="EC201", effort=effort).cells[0].examples for effort in ("quick", "normal")
    }
    assert counts == {"quick": 10, "normal": 25}


def test_a_known_failure_is_looked_for_with_normal_effort_at_least() -> None:
    entry = {"EC201": ec.KnownFailure("it was mended")}
    for effort in ("quick", "normal"):
        (cell,) = ec.run(target(Mean, known_failures=entry), select="EC201", effort=effort).cells
        assert (cell.cause, cell.examples) == ("stale known failure", 25)


def test_a_target_that_is_built_once_a_cell_is_copied() -> None:
    built = []

    class Counted(Mean):
        def __init__(self) -> None:
            built.append(1)
            super().__init__()

    assert ec.run(target(Counted, fresh="check"), select="EC201,EC204").ok
    assert len(built) == 2


def test_a_target_that_shares_state_between_copies_is_found() -> None:
    class Shared(Mean):
        def __init__(self) -> None:
            self.log: list[float] = []
            super().__init__()

        def __deepcopy__(self, memo: Any) -> Shared:
            twin = Shared()
            twin.log = self.log
            return twin

        def update(self, values: list[float]) -> None:
            super().update(values)
            self.log.append(1.0)

    (cell,) = ec.run(target(Shared, fresh="check"), select="EC201").cells
    assert (cell.outcome, cell.cause) == ("failed", "left behind")


def test_examples_start_from_the_same_process_and_it_is_given_back() -> None:
    seen = []

    class Hungry(Mean):
        def update(self, values: list[float]) -> None:
            seen.append(float(torch.rand(1)))
            super().update(values)

    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    assert ec.run(target(Hungry), select="EC202").ok
    assert torch.equal(torch.rand(3), expected)
    assert len(set(seen)) < len(seen)


@pytest.mark.parametrize(
    ("leak", "cause"),
    [
        (lambda: torch.set_default_dtype(torch.float64), "leak: the default dtype"),
        (lambda: torch.set_grad_enabled(False), "leak: the grad mode"),
        (lambda: torch.manual_seed(0), "leak: the torch seed"),
        (lambda: os.environ.update(EVALCHECK_LEAK="1"), "leak: the environment variable EVALCHECK_LEAK"),
        (lambda: torch.set_default_device("meta"), "leak: the default device"),
        (lambda: os.chdir("/"), "leak: the working folder"),
    ],
)
def test_a_leak_is_named_and_mended(leak: Any, cause: str) -> None:
    class Leaky(Mean):
        def update(self, values: list[float]) -> None:
            leak()
            super().update(values)

    report = ec.run(target(Leaky), select="EC201,EC205")
    assert {(cell.outcome, cell.cause) for cell in report.cells} == {("failed", cause)}
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()
    assert "EVALCHECK_LEAK" not in os.environ
    assert ec.run(target(Mean), select="EC201").ok


def test_a_factory_may_seed_and_gets_the_same_numbers_every_time() -> None:
    drawn = []

    class Seeds(Mean):
        def __init__(self) -> None:
            drawn.append(torch.rand(()).item())
            torch.manual_seed(0)
            super().__init__()

    assert ec.run(target(Seeds), select="EC201").ok
    assert len(drawn) > 2
    assert len(set(drawn)) == 1


def test_values_that_change_by_themselves_are_called_not_deterministic() -> None:
    answers = iter(range(10**9))

    class Drifts(Mean):
        def compute(self) -> float:
            return float(next(answers) // 7 % 2)

    (cell,) = ec.run(target(Drifts), select="EC201").cells
    assert cell.outcome == "failed"


def test_a_tolerance_is_the_targets() -> None:
    class Rounds(Mean):
        def reset(self) -> None:
            super().reset()
            self.updates = 0

        def update(self, values: list[float]) -> None:
            super().update(values)
            self.updates += 1

        def compute(self) -> float:
            return super().compute() * (1 + 1e-3 * self.updates)

    assert not ec.run(target(Rounds), select="EC201").ok
    assert ec.run(target(Rounds, tolerance=1e-2), select="EC201").ok


def test_a_record_of_a_wrapper_cannot_be_built_once_a_cell() -> None:
    def factory() -> ec.Wrapper:
        return ec.Wrapper.of(torch.nn.Linear(2, 2))

    (cell,) = ec.run(ec.wrapper(inputs=es.causal_lm(vocab=9), fresh="check")(factory), select="EC102").cells
    assert cell.outcome == "failed"
    assert "cannot be copied" in cell.reason


def mean_of_pairs(preds: Any, target: Any) -> float:
    return float((preds - target).mean()) if len(preds) else float("nan")


class Shifted:
    def mean(self, preds: Any, target: Any) -> float:
        return mean_of_pairs(preds, target)


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (lambda: mean_of_pairs, "mean_of_pairs"),
        (lambda: functools.partial(functools.partial(mean_of_pairs)), "mean_of_pairs"),
        (lambda: Shifted().mean, "Shifted.mean"),
    ],
)
def test_a_function_is_named_by_itself_and_not_by_what_python_calls_functions(made: Any, name: str) -> None:
    # Failures of one class are one cause: those of two functions are not, and each is a function of its library.
    (cell,) = ec.run(ec.metric(inputs=es.regression())(made), select="EC205").cells
    assert (cell.outcome, cell.class_name) == ("passed", f"{__name__}.{name}")

"""The parts of the subject of loops that count, compare and name, one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable, TargetError
from pytest_evalcheck.kinds.loop import checks_variants
from pytest_evalcheck.kinds.loop.record import Evaluated, Loop
from pytest_evalcheck.kinds.loop.subject import (
    LoopRun,
    _describe,
    comparable,
    counts_non_finite,
    first_eight,
    format_config,
    ids_of,
    miscounted,
    non_finite,
)
from pytest_evalcheck.variants import Variant
from pytest_evalcheck.variants.measurement import Cost
from pytest_evalcheck.variants.paired_difference import Loss, loss


@pytest.mark.parametrize(
    ("count", "text"),
    [(2, "0, 1"), (8, "0, 1, 2, 3, 4, 5, 6, 7"), (10, "0, 1, 2, 3, 4, 5, 6, 7 and 2 more")],
)
def test_eight_items_are_shown(count: int, text: str) -> None:
    assert first_eight(list(range(count))) == text


@pytest.mark.parametrize(
    ("ids", "problems"),
    [
        ([0, 1, 2], []),
        ([2, 1, 0], []),
        ([0, 2], ["never counted: 1"]),
        ([0, 1, 1, 1, 2], ["counted more than once: 1 (3 times)"]),
        ([0, 1, 2, 3], ["no id of the data: 3"]),
        ([0, 1, 2, -1], ["no id of the data: -1"]),
        ([1, 1], ["never counted: 0, 2", "counted more than once: 1 (2 times)"]),
    ],
)
def test_samples_that_are_not_counted_once_are_named(ids: list[int], problems: list[str]) -> None:
    assert [*miscounted(ids, 3).values()] == problems


def test_a_call_starts_from_the_same_random_numbers_unless_it_is_in_the_middle_of_training() -> None:
    run = LoopRun(Loop(evaluate=lambda data: {}), lambda size: size)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = (run.attempt("evaluate()", lambda: torch.rand(3).tolist()) for _ in range(2))
    assert first == second
    assert torch.equal(torch.get_rng_state(), before)
    third, fourth = (run.attempt("evaluate()", lambda: torch.rand(3).tolist(), reseed=False) for _ in range(2))
    assert third != fourth
    assert not torch.equal(torch.get_rng_state(), before)


def test_records_are_compared_by_their_ids() -> None:
    fields: list[dict[str, Any]] = [{"x": 1}, {"x": 0}]
    both = [Evaluated({"n": 1.0}, records=records) for records in ([(0, fields[0]), (1, fields[1])],)]
    turned = Evaluated({"n": 1.0}, records=[(1, fields[1]), (0, fields[0])])
    assert (
        comparable(both[0]) == comparable(turned) == {"numbers": {"n": 1.0}, "records": [(0, {"x": 1}), (1, {"x": 0})]}
    )
    assert comparable(Evaluated({"n": 1.0})) == {"n": 1.0}
    assert ids_of(turned.records or ()) == [1, 0]


@pytest.mark.parametrize(
    ("numbers", "counts"),
    [
        ({"nans": 1}, True),
        ({"nans": 0}, False),
        ({"loss": 1.0}, False),
        ({"n_skipped": 2, "loss": 1.0}, True),
        ({"finance": 3}, False),
        ({"eval/NaN": 1}, True),
    ],
)
def test_a_number_that_counts_samples_left_out(numbers: dict[str, float], counts: bool) -> None:
    assert counts_non_finite(numbers) == counts


def test_numbers_that_are_not_finite_are_named() -> None:
    assert non_finite({"a": 1.0, "b": float("nan"), "c": float("inf")}) == ["b", "c"]


def test_a_configuration_is_text() -> None:
    assert format_config({"batch_size": 2, "name": "x"}) == "batch_size=2, name='x'"


def test_a_value_is_described_by_type_and_shape() -> None:
    assert _describe(torch.ones(2, 3)).startswith("Tensor of shape (2, 3): ")
    assert _describe(torch.tensor(1.0)).startswith("Tensor: ")
    assert _describe("text").startswith("str: ")


class TestVariants:
    """The parts of EC520 and EC521."""

    def test_a_row_of_the_report(self) -> None:
        cost, base = Cost(seconds=2.0, memory=30, rounds=4), Cost(seconds=1.0, memory=60, rounds=4)
        row = checks_variants._row("fast", 8, cost, {"a": 1.5, "b": math.inf, "c": 3.0}, base, {"a": 1.0, "c": 4.0})
        assert row == {
            "name": "fast",
            "samples": 8,
            "rounds": 4,
            "speed": 4.0,
            "speedup": 0.5,
            "memory": 30,
            "memory_ratio": 0.5,
            "numbers": {"a": 1.5, "b": None, "c": 3.0},
            "drift": 0.5,
        }
        small = checks_variants._row("x", 8, cost, {"a": 0.25, "n": 1.0}, base, {"a": 0.5, "other": 1.0})
        assert small["drift"] == 0.25
        unknown = Cost(seconds=1.0, memory=None, rounds=4)
        assert checks_variants._row("x", 8, unknown, {}, base, {})["memory_ratio"] is None
        assert checks_variants._row("x", 8, cost, {}, unknown, {})["memory_ratio"] is None
        assert checks_variants._row("x", 8, cost, {}, base, {})["drift"] is None

    @pytest.mark.parametrize(("less", "change", "low", "high"), [(True, 0.5, 0.25, None), (False, -0.5, None, -0.25)])
    def test_a_loss_is_reported_with_its_sign(
        self, monkeypatch: pytest.MonkeyPatch, less: bool, change: float, low: Any, high: Any
    ) -> None:
        class Stats:
            variants: dict[str, dict[str, Any]] = {"fast": {"name": "fast"}}

        monkeypatch.setattr(checks_variants, "current_stats", Stats)
        lost = Loss(mean=0.5, low=0.25, high=math.inf, samples=4, worse=1, better=0, method="x")
        variant = Variant({"dtype": "x"}, budget=0.75, number="n", less_is_better=less)
        checks_variants._add_to_report("fast", variant, "n", checks_variants.Group(" where y is 1", lost, 0))
        assert Stats.variants["fast"] == {
            "name": "fast",
            "number": "n where y is 1",
            "change": change,
            "low": low,
            "high": high,
            "budget": 0.75,
            "verdict": "undecided",
        }
        checks_variants._add_to_report("other", variant, "n", checks_variants.Group("", lost, 0))
        assert list(Stats.variants) == ["fast"]

    def test_samples_that_differ_are_named_on_their_side(self) -> None:
        plain, fast = (Evaluated({}, records=[(i, {}) for i in ids]) for ids in ([0, 1, 2], [0, 2, 2, 3]))
        with pytest.raises(CheckFailure) as caught:
            checks_variants._expect_same_samples("fast", fast, plain)
        assert "left out: 1" in str(caught.value)
        assert "counted in addition: 2, 3" in str(caught.value)
        checks_variants._expect_same_samples("fast", plain, plain)

    def test_keywords_that_evaluate_does_not_take(self) -> None:
        def evaluate(data: Any, dtype: str = "") -> None: ...

        assert checks_variants._wrong_keywords(evaluate, Variant({"dtype": "x"})) == ""
        assert checks_variants._wrong_keywords(evaluate, Variant({"dtyp": "x"})).endswith("evaluate takes dtype")
        assert checks_variants._wrong_keywords(lambda data: None, Variant({"a": 1})).endswith("takes no keywords")
        assert checks_variants._wrong_keywords(type, Variant({"a": 1})) == ""
        assert checks_variants._wrong_keywords("no callable", Variant({"a": 1})) == ""

    def test_the_one_name_that_numbers_and_records_share(self) -> None:
        result = Evaluated({"a": 1.0, "b": 2.0}, records=[(0, {"a": 1, "x": 2}), (1, {"y": 1})])
        assert checks_variants._shared_name("fast", result) == "a"
        for records in ([(0, {"x": 1})], [(0, {"a": 1, "b": 2})]):
            with pytest.raises(TargetError, match="does not match the records"):
                checks_variants._shared_name("fast", Evaluated({"a": 1.0, "b": 2.0}, records=records))

    @pytest.mark.parametrize(("less", "mean", "worst"), [(False, 0.5, 0), (True, -0.5, 1)])
    def test_losses_are_by_sample_and_by_group(self, less: bool, mean: float, worst: int) -> None:
        def result(scores: list[float]) -> Evaluated:
            return Evaluated({"n": 0.0}, records=[(i, {"n": s, "by": i // 2}) for i, s in enumerate(scores)][::-1])

        plain, fast = result([1.0, 0.0, 1.0, 1.0]), result([0.0, 0.0, 0.0, 1.0])
        whole = list(
            checks_variants._losses(
                "f", Variant({"dtype": "x"}, budget=1.0, number="n", less_is_better=less), "n", fast, plain
            )
        )
        assert [(group.where, group.lost.mean, group.lost.samples) for group in whole] == [("", mean, 4)]
        assert whole[0].worst == worst
        grouped = Variant({"dtype": "x"}, budget=1.0, number="n", less_is_better=less, by="by")
        both = list(checks_variants._losses("f", grouped, "n", fast, plain))
        assert [group.where for group in both] == [" where by is 0", " where by is 1"]
        assert both[0].lost.samples == 2
        alone = (
            loss([1.0, 0.0], [0.0, 0.0], confidence=0.975)
            if not less
            else loss([0.0, 0.0], [1.0, 0.0], confidence=0.975)
        )
        assert (both[0].lost.low, both[0].lost.high) == (alone.low, alone.high)

    def test_a_score_that_is_not_finite_is_named(self) -> None:
        def result(score: Any) -> Evaluated:
            return Evaluated({"n": 0.0}, records=[(0, {"n": score}), (1, {"n": 1.0})])

        variant = Variant({"dtype": "x"}, budget=1.0, number="n")
        with pytest.raises(CheckFailure, match=r"no finite 'n' of the samples \[0\]"):
            list(checks_variants._losses("fast", variant, "n", result(math.nan), result(1.0)))
        with pytest.raises(NotApplicable, match="is not finite"):
            list(checks_variants._losses("fast", variant, "n", result(1.0), result(math.nan)))
        with pytest.raises(TargetError, match="does not match the records"):
            list(checks_variants._losses("fast", variant, "n", result("text"), result(1.0)))

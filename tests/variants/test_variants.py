"""Variants as they are declared, the interval of their losses, and how they are measured."""

from __future__ import annotations

from math import comb, inf, nan
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.variants import measurement, read
from pytest_evalcheck.variants.measurement import peak_memory, side_by_side
from pytest_evalcheck.variants.paired_difference import loss, samples_needed, score_interval


class TestDeclared:
    def test_a_float_is_both_tolerances(self) -> None:
        assert ec.Variant({"a": 1}, within=0.5).tolerance == Tolerance(rtol=0.5, atol=0.5)
        assert ec.Variant({"a": 1}, within=Tolerance(rtol=0.1)).tolerance == Tolerance(rtol=0.1)
        assert ec.Variant({"a": 1}).tolerance is None

    def test_a_variant_without_declarations_is_lossless(self) -> None:
        assert ec.Variant({"a": 1}).lossless
        assert not ec.Variant({"a": 1}, within=0.0).lossless
        assert not ec.Variant({"a": 1}, budget=0.0).lossless

    def test_the_configuration_is_copied(self) -> None:
        config = {"batch_size": 4}
        made = ec.Variant(config)
        config["batch_size"] = 5
        assert made.config == {"batch_size": 4}

    @pytest.mark.parametrize(
        ("config", "more", "message"),
        [
            (3, {}, "expected keywords of evaluate"),
            ({1: 2}, {}, "expected keywords of evaluate"),
            ({}, {}, "plain configuration"),
            ({"a": 1}, {"within": -1}, "within=-1"),
            ({"a": 1}, {"within": nan}, "within=nan"),
            ({"a": 1}, {"within": True}, "within=True"),
            ({"a": 1}, {"budget": inf}, "budget=inf"),
            ({"a": 1}, {"budget": -0.1}, "budget=-0.1"),
            ({"a": 1}, {"number": "accuracy"}, "expected budget="),
            ({"a": 1}, {"by": "label"}, "expected budget="),
            ({"a": 1}, {"less_is_better": True}, "expected budget="),
            ({"a": 1}, {"budget": 0.1, "number": 3}, "number=3"),
        ],
    )
    def test_invalid_fields_are_refused(self, config: Any, more: dict[str, Any], message: str) -> None:
        with pytest.raises((TypeError, ValueError), match=message):
            ec.Variant(config, **more)

    @pytest.mark.parametrize(
        ("declared", "message"),
        [
            ([1], "expected them by name"),
            ({"": {"a": 1}}, "the name ''"),
            ({"plain": {"a": 1}}, "the name 'plain'"),
            ({"x": 3}, "expected ec.Variant"),
            ({"x": {}}, "plain configuration"),
            ({"x": {"batch_size": 3, "within": 1}}, "did you mean ec.Variant({'batch_size': 3}, within=...)?"),
        ],
    )
    def test_a_problem_is_collected_and_not_raised(self, declared: Any, message: str) -> None:
        problems: list[str] = []
        assert read(declared, problems) == {}
        assert len(problems) == 1
        assert message in problems[0]

    def test_a_target_lists_the_problems(self) -> None:
        target = ec.loop(inputs=es.tabular(features=2, classes=2), variants={"a": {"b": 1}, "c": 4})(lambda: None)
        assert list(target.options["variants"]) == ["a"]
        assert any("variants['c']" in problem for problem in target.problems)


class TestLoss:
    def test_the_score_interval_is_that_of_the_literature(self) -> None:
        # Tango 1998: of 44 pairs one differs.
        low, high = score_interval(0, 1, 44)
        assert (round(low, 3), round(high, 3)) == (-0.118, 0.059)

    @pytest.mark.parametrize(("worse", "better"), [(0.02, 0.02), (0.1, 0.02), (0.2, 0.05), (0.3, 0.3)])
    @pytest.mark.parametrize("count", [20, 50])
    def test_it_covers_the_truth_as_often_as_it_says(self, worse: float, better: float, count: int) -> None:
        covered = total = 0.0
        for first in range(count + 1):
            for second in range(count + 1 - first):
                ways = comb(count, first) * comb(count - first, second)
                chance = ways * worse**first * better**second * (1 - worse - better) ** (count - first - second)
                if chance < 1e-7:
                    continue
                low, high = score_interval(first, second, count)
                total += chance
                covered += chance * (low <= worse - better <= high)
        assert total > 0.999
        assert covered > 0.93

    def test_pairs_that_do_not_differ_leave_doubt(self) -> None:
        found = loss([1, 0] * 20, [1, 0] * 20)
        assert (found.mean, found.worse, found.better) == (0, 0, 0)
        assert found.low < 0 < found.high
        assert found.verdict(0.01) == "undecided"
        assert found.verdict(0.2) == "within"

    @pytest.mark.parametrize("budget", [0.01, 0.02, 0.1])
    def test_the_number_of_samples_needed_is_exact(self, budget: float) -> None:
        enough = samples_needed(budget)
        assert loss([1] * enough, [1] * enough).verdict(budget) == "within"
        assert loss([1] * (enough - 2), [1] * (enough - 2)).verdict(budget) == "undecided"
        assert samples_needed(0) == 0

    def test_a_loss_on_one_side_is_seen(self) -> None:
        plain, variant = [1] * 100, [0] * 8 + [1] * 92
        assert loss(plain, variant).verdict(0.01) == "beyond"
        # The same averages of other samples would be no news.
        assert loss([0] * 46 + [1] * 54, [1] * 46 + [0] * 54).verdict(0.05) == "undecided"

    def test_other_scores_are_resampled_and_always_the_same_way(self) -> None:
        generator = torch.Generator().manual_seed(1)
        plain = torch.rand(200, generator=generator).tolist()
        variant = [score - 0.05 + 0.02 * (place % 5) for place, score in enumerate(plain)]
        found = loss(plain, variant)
        assert found == loss(plain, variant)
        assert found.low < found.mean < found.high
        assert found.high - found.low < 0.01
        assert found.verdict(0.0) == "beyond"
        assert "bootstrap" in found.basis

    def test_the_bootstrap_covers_the_truth_as_often_as_it_says(self) -> None:
        generator = torch.Generator().manual_seed(3)
        covered = 0
        for _ in range(60):
            differences = torch.empty(60).exponential_(generator=generator)  # of mean 1, and skewed
            found = loss(differences.tolist(), [0.0] * 60)
            covered += found.low <= 1 <= found.high
        assert covered >= 51

    def test_few_scores_say_nothing(self) -> None:
        assert loss([0.5] * 19, [0.25] * 19).verdict(1e9) == "undecided"
        assert loss([0.5] * 20, [0.25] * 20).verdict(0.25) == "within"

    @pytest.mark.parametrize(("plain", "variant"), [([], []), ([1], [1, 1]), ([nan], [1])])
    def test_what_cannot_be_paired_is_refused(self, plain: list[float], variant: list[float]) -> None:
        with pytest.raises(ValueError, match="expected"):
            loss(plain, variant)


class TestMeasuring:
    def test_memory_is_exact_and_of_the_peak(self) -> None:
        def allocate(floats: int) -> Any:
            def call() -> None:
                for _ in range(3):
                    torch.empty(floats)

            return call

        assert [peak_memory(allocate(count)) for count in (1024, 2048, 1024)] == [4096, 8192, 4096]

    def test_two_that_live_together_add_up(self) -> None:
        assert peak_memory(lambda: [torch.empty(1024), torch.empty(1024)]) == 8192

    def test_a_profiler_that_runs_already_is_left_alone(self) -> None:
        from torch.autograd.profiler_legacy import profile

        with profile(profile_memory=True):
            assert peak_memory(lambda: torch.empty(8)) is None

    def test_every_call_has_as_many_turns(self) -> None:
        turns: list[str] = []
        found = side_by_side({"a": lambda: turns.append("a"), "b": lambda: turns.append("b")}, seconds=0.01)
        assert turns.count("a") == turns.count("b") == found["a"].rounds + 2
        assert found["a"].rounds >= 3

    def test_the_cost_of_a_call_is_the_median_of_its_rounds(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = Clock()
        monkeypatch.setattr(measurement, "time", clock)
        late = iter([0.0, 0.0, 0.0, 90.0, *[0.0] * 99])  # a machine that stands still for once
        calls = {"once": lambda: clock.pass_by(1.0), "often": lambda: clock.pass_by(8.0 + next(late))}
        found = side_by_side(calls, seconds=100.0)
        assert (found["once"].seconds, found["often"].seconds) == (1.0, 8.0)


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += seconds

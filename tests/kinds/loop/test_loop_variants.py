"""EC520 and EC521: what they report, what they accept, and their errors for a target that cannot be tried."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.loop import checks_variants
from pytest_evalcheck.kinds.loop.cases import UnselectedSamples, unselected
from pytest_evalcheck.reports.failure_text import format_failure

VALUES = es.samples(
    st.integers(0, 9), collate=list, name="values", bulk=lambda wanted: [i % 10 for i in range(wanted.rows)]
)


def evaluate(
    data: Any,
    batch_size: int = 2,
    *,
    shift: float = 0.0,
    lost: int = 0,
    won: int = 0,
    backwards: bool = False,
    without: int = -1,
    twice: int = -1,
    kind: Any = float,
    field: str = "accuracy",
    fails: bool = False,
) -> ec.Evaluated:
    """Right for values below 8; a variant may lose or win some of them, shift the loss, or count others."""
    if fails:
        raise RuntimeError("out of memory")
    assert batch_size > 0
    records = []
    for place in data.ids:
        value = data[place]
        if value == without:
            continue
        right = kind(won > value or (lost <= value < 8))
        entry = {field: right, "loss": value / 4 + shift, "label": value % 2, "predicted": value}
        records += [(place, entry)] * (2 if value == twice else 1)
    count = max(1, len(records))
    numbers = {
        name: sum(float(str(one[name]) != "?" and one[name]) for _, one in records) / count for name in (field, "loss")
    }
    return ec.Evaluated(numbers, records[::-1] if backwards else records)


def cell(code: str, variants: Any = None, *, inputs: Any = VALUES, made: Any = None, **more: Any) -> ec.Cell:
    target = ec.loop(inputs=inputs, variants=variants, **more)(made or (lambda: ec.Loop(evaluate=evaluate)))
    (found,) = ec.run(target, select=code, effort="quick").cells
    return found


def variant(config: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"fast": ec.Variant(config, **more)}


class TestTheSameNumbers:
    @pytest.mark.parametrize(
        "variants",
        [
            variant({"batch_size": 5}),
            variant({"backwards": True}),
            variant({"shift": 1e-3}, within=1e-2),
            variant({"shift": 1e-3, "lost": 9}, within=1e-2, budget=1.0, number="accuracy"),
        ],
    )
    def test_what_is_within_the_tolerance_is_kept(self, variants: Any) -> None:
        found = cell("EC520", variants)
        assert found.outcome == "passed", format_failure(found)

    @pytest.mark.parametrize(
        ("variants", "message"),
        [
            (variant({"shift": 1e-2}), "the numbers of 'fast'"),
            (variant({"shift": 0.1}, within=1e-2), "the numbers of 'fast'"),
            (variant({"lost": 1}, within=1e-2), "the numbers of 'fast'"),
            (variant({"shift": 0.1}, within=1e-2, budget=1.0, number="accuracy"), "the numbers of 'fast'"),
            (variant({"without": 3}), "the numbers of 'fast'"),
            (variant({"without": 0}, within=10.0), "the samples that 'fast' counts"),
            (variant({"twice": 0}, within=10.0), "the samples that 'fast' counts"),
            (variant({"fails": True}), "the result of 'fast'"),
            (variant({"field": "hits"}), "the numbers of 'fast'"),
        ],
    )
    @pytest.mark.slow(every=3)
    def test_a_difference_beyond_it_is_broken(self, variants: Any, message: str) -> None:
        found = cell("EC520", variants)
        assert (found.outcome, found.cause) == ("failed", ""), format_failure(found)
        assert message in format_failure(found)

    def test_samples_that_are_left_out_are_named(self) -> None:
        assert "left out: 0" in format_failure(cell("EC520", variant({"without": 0}, within=10.0)))

    def test_a_number_that_jumps_is_explained(self) -> None:
        assert "needs budget=" in format_failure(cell("EC520", variant({"lost": 1}, within=1e-2)))

    def test_a_sum_that_goes_wrong_in_a_hundred_steps_is_seen(self) -> None:
        def evaluate(data: Any, batch_size: int = 2, stops: int = 10**9) -> dict[str, float]:
            del batch_size
            return {"count": float(min(stops, len(data)))}

        made = lambda: ec.Loop(evaluate=evaluate)  # noqa: E731
        assert cell("EC520", variant({"stops": 100}), made=made).outcome == "failed"
        assert cell("EC520", variant({"stops": 1000}), made=made).outcome == "passed"

    def test_predictions_may_change_where_a_variant_declares_a_tolerance(self) -> None:
        def evaluate(data: Any, other: int = 0) -> ec.Evaluated:
            return ec.Evaluated({"loss": 1.0}, [(place, {"loss": 1.0, "predicted": other}) for place in data.ids])

        made = lambda: ec.Loop(evaluate=evaluate)  # noqa: E731
        assert cell("EC520", variant({"other": 1}), made=made).outcome == "failed"
        assert cell("EC520", variant({"other": 1}, within=1e-2), made=made).outcome == "passed"


class TestTheBudget:
    def test_a_loss_within_it_is_kept_with_its_interval(self) -> None:
        found = cell("EC521", variant({"lost": 1}, budget=0.2, number="accuracy"))
        assert found.outcome == "passed", format_failure(found)
        row = found.variants[1]
        assert (row["number"], row["verdict"], row["budget"]) == ("accuracy", "within", 0.2)
        assert row["change"] == pytest.approx(-26 / 256)
        assert row["low"] < row["change"] < row["high"] < 0

    def test_a_loss_beyond_it_is_broken_with_a_sample(self) -> None:
        found = cell("EC521", variant({"lost": 3}, budget=0.2, number="accuracy"))
        assert (found.outcome, found.cause) == ("failed", ""), format_failure(found)
        assert "78 worse, 0 better" in format_failure(found)
        assert "for example sample 0: 0" in format_failure(found)
        assert found.variants[1]["verdict"] == "beyond"

    def test_a_loss_that_is_undecided_is_neither(self) -> None:
        found = cell("EC521", variant({"lost": 1}, budget=0.11, number="accuracy"))
        assert found.outcome == "not applicable"
        assert "too few samples to decide: 'fast' loses +0.1016 per sample" in found.reason
        assert found.variants[1]["verdict"] == "undecided"

    def test_an_undecided_variant_does_not_hide_a_broken_one(self) -> None:
        near = ec.Variant({"lost": 1}, budget=0.11, number="accuracy")
        far = ec.Variant({"lost": 5}, budget=0.11, number="accuracy")
        assert cell("EC521", {"near": near, "far": far}).outcome == "failed"

    def test_the_same_average_may_hide_a_group(self) -> None:
        def evaluate(data: Any, swaps: bool = False) -> ec.Evaluated:
            records = [
                (place, {"accuracy": float(data[place] % 2 == swaps), "label": data[place] % 2}) for place in data.ids
            ]
            return ec.Evaluated({"accuracy": sum(one["accuracy"] for _, one in records) / len(data)}, records)

        made = lambda: ec.Loop(evaluate=evaluate)  # noqa: E731
        whole = variant({"swaps": True}, budget=0.3)
        assert cell("EC521", whole, made=made).outcome == "passed"
        found = cell("EC521", variant({"swaps": True}, budget=0.3, by="label"), made=made)
        assert found.outcome == "failed"
        assert "where label is 0" in found.reason

    def test_a_rise_may_be_a_loss(self) -> None:
        rises = {"number": "loss", "less_is_better": True}
        assert cell("EC521", variant({"shift": 0.5}, budget=0.2, **rises)).outcome == "failed"
        found = cell("EC521", variant({"shift": 0.1}, budget=0.2, **rises))
        assert found.outcome == "passed", format_failure(found)
        assert found.variants[1]["change"] == pytest.approx(0.1)
        assert cell("EC521", variant({"shift": -0.5}, budget=0.2, **rises)).outcome == "passed"

    def test_examples_of_the_target_are_unselected_samples(self) -> None:
        # Of the value 0, which is lost, there are but few; the examples are all of it.
        inputs = es.samples(st.integers(0, 9), collate=list, name="values", bulk=lambda wanted: [5] * wanted.rows)
        lossy = variant({"lost": 1}, budget=0.1, number="accuracy")
        assert cell("EC521", lossy, inputs=inputs).outcome == "passed"
        assert cell("EC521", lossy, inputs=inputs, examples=[[0] * 40]).outcome == "failed"

    @pytest.mark.parametrize(
        ("variants", "message"),
        [
            (variant({"lost": 1}, budget=0.5), "number=, one of both"),
            (variant({"lost": 1}, budget=0.5, number="acuracy"), "the field 'acuracy'"),
            (variant({"lost": 1}, budget=0.5, number="accuracy", by="labl"), "the field 'labl'"),
            (variant({"kind": lambda right: "?"}, budget=0.5, number="accuracy"), "a number for every sample"),
        ],
    )
    def test_a_budget_without_its_number_is_an_error(self, variants: Any, message: str) -> None:
        found = cell("EC521", variants)
        assert found.outcome == "failed"
        assert message in format_failure(found)

    def test_scores_that_are_not_finite_are_reported(self) -> None:
        found = cell("EC521", variant({"kind": lambda right: float("nan")}, budget=0.5, number="accuracy"))
        assert "gives no finite 'accuracy' of the samples [0, 1, 2" in format_failure(found)

    def test_without_records_there_is_nothing_to_pair(self) -> None:
        made = lambda: ec.Loop(evaluate=lambda data, fast=False: {"accuracy": 1.0})  # noqa: E731
        found = cell("EC521", variant({"fast": True}, budget=0.5), made=made)
        assert found.outcome == "not applicable"
        assert "no records" in found.reason


class TestDeclared:
    def test_without_variants_neither_applies(self) -> None:
        assert {cell(code).reason for code in ("EC520", "EC521")} == {"the target names no variants"}

    def test_each_check_takes_its_own_variants(self) -> None:
        assert cell("EC521", variant({"lost": 1})).reason == "no variant declares a budget"
        assert cell("EC520", variant({"lost": 1}, budget=1.0)).reason == "all variants declare a budget alone"

    def test_a_keyword_that_evaluate_does_not_take_is_an_error(self) -> None:
        found = cell("EC520", variant({"batchsize": 3}))
        assert found.cause == "variants"
        assert "unexpected keyword argument 'batchsize'" in format_failure(found)
        assert "batch_size" in format_failure(found)

    def test_the_record_may_have_variants(self) -> None:
        found = cell("EC520", made=lambda: ec.Loop(evaluate=evaluate, variants={"own": {"shift": 1.0}}))
        assert "'own'" in found.reason
        wrong = cell("EC520", made=lambda: ec.Loop(evaluate=evaluate, variants={"own": 3}))
        assert "variants['own']: 3" in format_failure(wrong)

    def test_a_batch_size_of_a_variant_is_not_rounded(self) -> None:
        seen = []

        def evaluate(data: Any, batch_size: int = 2) -> dict[str, float]:
            seen.append(batch_size)
            return {"count": float(len(data))}

        cell(
            "EC520",
            variant({"batch_size": 77}),
            made=lambda: ec.Loop(evaluate=evaluate, options={"batch_size": (1, 2)}),
        )
        assert {77} < set(seen) <= {1, 2, 77}


class TestMeasured:
    def test_every_variant_is_measured_beside_the_plain_one(self) -> None:
        found = cell("EC520", {"one": {"shift": 1e-9}, "two": {"batch_size": 5}})
        assert [row["name"] for row in found.variants] == ["plain", "one", "two"]
        assert found.variants[0]["speedup"] == 1.0
        for row in found.variants:
            assert row["speed"] > 0
            assert row["rounds"] >= 3
            assert row["memory"] is not None
            assert set(row["numbers"]) == {"accuracy", "loss"}
        assert 0 < found.variants[1]["drift"] < 1e-8
        json.dumps(found.as_json(), allow_nan=False)

    def test_a_variant_is_measured_once_and_where_it_is_judged(self) -> None:
        calls: list[int] = []

        def counted(data: Any, batch_size: int = 2, lost: int = 0) -> ec.Evaluated:
            calls.append(len(data))
            return evaluate(data, batch_size, lost=lost)

        lossy = variant({"lost": 1}, within=1e-3, budget=0.3, number="accuracy")
        made = lambda: ec.Loop(evaluate=counted)  # noqa: E731
        first = cell("EC520", lossy, made=made)
        assert first.variants == ()
        assert set(calls) - set(range(9)) <= set(range(130, 150))
        assert len(cell("EC521", lossy, made=made).variants) == 2

    def test_a_variant_that_raises_is_left_out(self) -> None:
        found = cell("EC520", {"good": {"batch_size": 5}, "bad": {"fails": True}})
        assert found.outcome == "failed"
        assert [row["name"] for row in found.variants] == ["plain", "good"]

    def test_a_slow_loop_is_measured_on_few_samples(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [0.0]

        class Clock:
            @staticmethod
            def perf_counter() -> float:
                return now[0]

        def slow(data: Any, batch_size: int = 2) -> dict[str, float]:
            now[0] += 0.01 * len(data)
            return {"count": float(len(data))}

        monkeypatch.setattr(checks_variants, "time", Clock)
        found = cell("EC520", variant({"batch_size": 5}), made=lambda: ec.Loop(evaluate=slow))
        assert {row["samples"] for row in found.variants} == {32}

    def test_a_replay_measures_nothing(self) -> None:
        target = ec.loop(inputs=VALUES, variants=variant({"shift": 1.0}))(lambda: ec.Loop(evaluate=evaluate))
        (found,) = ec.run(target, select="EC520").cells
        blob = found.reproduce.partition("replay=")[2].strip("')")
        (again,) = ec.run(target, replay=blob).cells
        assert (again.outcome, again.variants) == ("failed", ())
        assert found.variants

    def test_costs_are_part_of_the_report(self, tmp_path: Path) -> None:
        from pytest_evalcheck.reports.json import load, write

        found = cell("EC521", variant({"lost": 1}, budget=0.2, number="accuracy"))
        write(ec.Report([found]), tmp_path / "report.json")
        assert load(tmp_path / "report.json") == ec.Report([found])


class TestUnselected:
    def test_the_same_samples_whatever_the_seed(self) -> None:
        rows = unselected(es.tabular(features=3, classes=4), 64)
        assert rows == unselected(es.tabular(features=3, classes=4), 64)
        assert rows != unselected(es.tabular(features=3, classes=4), 64, seed=1)
        assert len(rows) == len(set(rows)) >= 32

    def test_a_distribution_takes_precedence(self) -> None:
        inputs = es.tabular(features=1, classes=1).replace(bulk=lambda wanted: [(0, (1.0,))] * wanted.rows)
        assert unselected(inputs, 5) == [(0, (1.0,))] * 5

    def test_few_different_samples_are_all_there_is(self) -> None:
        assert sorted(unselected(es.samples(st.integers(0, 3), collate=list), 200)) == [0, 1, 2, 3]

    def test_an_example_with_few_samples_is_not_used(self) -> None:
        inputs = es.tabular(features=1, classes=2)
        assert UnselectedSamples.of(inputs, [(0, (1.0,))] * 19) is None
        case = UnselectedSamples.of(inputs, [(0, (1.0,))] * 20)
        assert case is not None
        assert case.rows_for(inputs) == [(0, (1.0,))] * 20

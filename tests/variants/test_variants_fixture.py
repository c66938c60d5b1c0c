"""The fixture that runs one evaluation in several configurations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.testing import Project
from pytest_evalcheck.variants.runs import variants

SAMPLES = [(place % 3, place / 50) for place in range(100)]


def evaluate(samples: Any, *, shift: float = 0.0, wrong: int = 0, batch_size: int = 1) -> dict[str, Any]:
    del batch_size
    right = [float(place >= wrong) for place in range(len(samples))]
    return {"mean": sum(value for _, value in samples) / len(samples) + shift, "right": right}


def test_variants_that_agree_give_the_plain_value() -> None:
    found = variants(evaluate, SAMPLES, {"by 4": {"batch_size": 4}, "near": ec.Variant({"shift": 1e-3}, within=1e-2)})
    assert found.agree() == evaluate(SAMPLES)
    assert [run.name for run in found] == ["plain", "by 4", "near"]
    assert found["near"].value["mean"] == pytest.approx(0.991)


def test_a_variant_that_differs_is_named_with_both_values() -> None:
    found = variants(evaluate, SAMPLES, {"far": {"shift": 0.5}, "farther": {"shift": 0.7}, "by 4": {"batch_size": 4}})
    with pytest.raises(CheckFailure, match="the value of 'far' at") as raised:
        found.agree()
    assert "0.99" in raised.value.expected
    assert "1.49" in raised.value.actual
    assert "also the value of 'farther'" in raised.value.detail
    assert found.agree(within=1.0) == evaluate(SAMPLES)


def test_an_error_of_a_variant_is_reported_for_that_variant() -> None:
    found = variants(evaluate, SAMPLES, {"typo": {"shft": 0.5}, "by 4": {"batch_size": 4}})
    with pytest.raises(CheckFailure, match="'typo' raised an error") as raised:
        found.agree()
    assert isinstance(raised.value.__cause__, TypeError)
    assert "typo" not in found.costs
    assert "shft" in found.table()


def test_an_error_of_the_plain_one_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        variants(lambda samples, **config: 1 / 0, SAMPLES, {"a": {"b": 1}})


def test_a_budget_is_judged_by_pairs_and_the_rest_by_the_tolerance() -> None:
    budget = {"budget": 0.1, "number": "right"}
    assert variants(evaluate, SAMPLES, {"a": ec.Variant({"wrong": 2, "shift": 1.0}, **budget)}).agree()
    with pytest.raises(CheckFailure, match="loses more than its budget"):
        variants(evaluate, SAMPLES, {"a": ec.Variant({"wrong": 40}, **budget)}).agree()
    with pytest.raises(CheckFailure, match="may lose more than its budget"):
        variants(evaluate, SAMPLES, {"a": ec.Variant({"wrong": 8}, **budget)}).agree()
    both = ec.Variant({"wrong": 2, "shift": 1.0}, within=0.1, **budget)
    with pytest.raises(CheckFailure, match=r"the value of 'a' at \['mean'\]"):
        variants(evaluate, SAMPLES, {"a": both}).agree()


def test_records_are_paired_by_id() -> None:
    def recorded(samples: Any, backwards: bool = False, lost: int = 0) -> ec.Evaluated:
        records = [(place, {"right": float(place >= lost)}) for place in range(len(samples))]
        return ec.Evaluated({"right": 1 - lost / len(samples)}, records[::-1] if backwards else records)

    found = variants(recorded, SAMPLES, {"backwards": {"backwards": True}})
    assert found.agree() is found["plain"].value
    lost = variants(recorded, SAMPLES, {"a": {"lost": 30, "backwards": True}}).loss("a", "right")
    assert (lost.worse, lost.better, lost.mean) == (30, 0, pytest.approx(0.3))


def test_scores_may_be_a_tensor() -> None:
    found = variants(lambda samples, shift=0.0: torch.ones(len(samples)) - shift, SAMPLES, {"a": {"shift": 0.25}})
    assert found.loss("a").mean == pytest.approx(0.25)
    assert found.loss("a", less_is_better=True).mean == pytest.approx(-0.25)


def test_the_table_has_a_line_per_configuration() -> None:
    found = variants(evaluate, SAMPLES, {"by 4": {"batch_size": 4}, "far": {"shift": 0.5}}, seconds=0.01)
    head, *lines = found.table().splitlines()
    assert head.split() == ["samples/s", "speed-up", "memory", "difference"]
    assert [line.split("  ")[0] for line in lines] == ["plain", "by 4", "far"]
    assert lines[1].endswith("none")
    assert "for 0.99 at ['mean']" in lines[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, SAMPLES, {"a": {"b": 1}}), "evaluate is 3"),
        ((evaluate, iter(SAMPLES), {"a": {"b": 1}}), "without a length"),
        ((evaluate, [], {"a": {"b": 1}}), "no samples"),
        ((evaluate, SAMPLES, {}), "no configurations"),
        ((evaluate, SAMPLES, [1]), "expected them by name"),
        ((evaluate, SAMPLES, {"a": 3}), r"variants\['a'\]"),
        ((lambda samples: None, SAMPLES, {"a": {"b": 1}}), "returned None"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        variants(*arguments)


def test_missing_scores_are_an_error() -> None:
    found = variants(evaluate, SAMPLES, {"a": {"wrong": 1}})
    with pytest.raises(TypeError, match="expected a list as 'rigth' of 100 scores"):
        found.loss("a", "rigth")
    with pytest.raises(KeyError, match="there are plain, a"):
        found.loss("b")


def test_the_example_of_the_documentation_runs(project: Project) -> None:
    text = (Path(__file__).parents[2] / "docs" / "fixtures.md").read_text(encoding="utf-8")
    (example,) = [
        body for body in re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S) if "# test_faster.py" in body
    ]
    project.write(example, name="test_faster.py", header="")
    result = project.run("-s", code=0, evalcheck=False)
    assert result.outcomes == {"passed": 1}
    result.shows("samples/s")


def test_it_is_a_fixture(project: Project) -> None:
    project.write(
        """
        def evaluate(samples, times=1):
            return sum(samples) * times

        def test_kept(evalcheck_variants):
            assert evalcheck_variants(evaluate, [1.0, 2.0], {"once": {"times": 1}}).agree() == 3.0

        def test_broken(evalcheck_variants):
            evalcheck_variants(evaluate, [1.0, 2.0], {"twice": {"times": 2}}).agree()
        """,
        name="test_ordinary.py",
        header="",
    )
    result = project.run(code=1, evalcheck=False)
    assert result.outcomes == {"passed": 1, "failed": 1}
    result.shows("the value of 'twice'")

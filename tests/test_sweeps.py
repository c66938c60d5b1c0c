"""The sweeps over wrappers, collections, options and lm-eval judge what they try: planted bugs are red, what is known is not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.discovery.inputs import ES

pytest.importorskip("torchmetrics")
BENCHMARKS = str(Path(__file__).parent.parent / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import sweep_families
    import sweep_options
    import sweeps
    from sweep_members import Member
    from sweep_options import configured
finally:  # a module there has the name of one of the tests
    sys.path.remove(BENCHMARKS)

from torchmetrics.wrappers import LambdaInputTransformer  # noqa: E402

HOME = ("from torchmetrics.classification import BinaryAccuracy, BinaryROC, BinaryPrecisionRecallCurve",)
ACCURACY = Member("BinaryAccuracy()", HOME, ES.binary())


class KeepsWhatItWraps(LambdaInputTransformer):
    """A reset does not reach what is wrapped (Lightning-AI/torchmetrics#3122)."""

    def reset(self) -> None:
        super(LambdaInputTransformer.__mro__[1], self).reset()


def wrapped_by(monkeypatch: pytest.MonkeyPatch, cls: Any, codes: str) -> Any:
    (usual,) = (each for each in sweep_families.WRAPPINGS if each.name == "LambdaInputTransformer")
    same = sweep_families._identity
    monkeypatch.setattr(sweep_families, "WRAPPINGS", (replace(usual, make=lambda make: cls(make(), same, same)),))
    monkeypatch.setattr(sweeps, "CODES", codes)
    return sweeps.sweep_wrappers([ACCURACY], bool)


def test_a_wrapper_that_does_not_reset_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = wrapped_by(monkeypatch, KeepsWhatItWraps, "EC201,EC204,EC217")
    assert {place.split(":")[1].strip() for place in sweep.red} == {"EC204"}
    assert sweep.targets == 2


def test_a_wrapper_that_resets_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = wrapped_by(monkeypatch, LambdaInputTransformer, "EC201,EC204,EC217")
    assert not sweep.red
    assert sweep.outcomes["passed"] == 5


def test_what_a_metric_breaks_alone_is_not_tried_in_a_wrapper(monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = wrapped_by(monkeypatch, LambdaInputTransformer, "EC219")
    assert sweep.known == {"torchmetrics-compute-returns-its-cache": 1}
    assert sum(sweep.outcomes.values()) == 1


def test_what_is_known_of_the_class_of_a_metric_is_not_tried_in_a_wrapper() -> None:
    home = ("from torchmetrics.segmentation import GeneralizedDiceScore",)
    dice = Member("GeneralizedDiceScore(num_classes=3)", home, ES.segmentation(classes=3))
    left = sweeps._left([{}], [dice]).split(",")
    assert not {"EC201", "EC208", "EC217"} & {*left}
    assert {"EC204", "EC209"} <= {*left}
    assert "EC217" in sweeps._left([{}], [ACCURACY])


def test_a_running_metric_of_averaged_states_is_told_by_them() -> None:
    home = ("from torchmetrics.image import PeakSignalNoiseRatio",)
    averaged = Member("PeakSignalNoiseRatio(data_range=1.0)", home, ES.image_pairs())
    assert sweeps._running_excuse(averaged) == sweeps.OF_MEANS
    assert sweeps._running_excuse(ACCURACY) == ""


def test_what_a_metric_refuses_its_wrapper_refuses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    home = ("from torchmetrics.clustering import DunnIndex",)
    points = ES.rows([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0]], [0, 0, 1], dtypes=("float32", "int64")).replace(
        min_samples=3
    )
    monkeypatch.setattr(sweeps, "CODES", "EC217")
    sweep = sweeps.sweep_wrappers([Member("DunnIndex(p=2)", home, points)], lambda name: name.startswith("MinMax"))
    assert not sweep.red
    assert sweep.outcomes["passed"] == 1


def test_pairs_have_states_that_look_alike() -> None:
    roc, curve = (Member(f"Binary{name}(thresholds=5)", HOME, ES.binary()) for name in ("ROC", "PrecisionRecallCurve"))
    ((_, members, _),) = sweep_families.pairs([ACCURACY, roc, curve], bool)
    assert members == (roc, curve)


def test_options_get_values_that_bite() -> None:
    made = dict(configured([ACCURACY], bool))
    assert {"BinaryAccuracy(threshold=0.0625)", "BinaryAccuracy(ignore_index=0)"} <= made.keys()
    assert made["BinaryAccuracy(ignore_index=0)"].inputs.ignored is not None


def test_an_option_takes_the_place_of_the_one_that_was_given() -> None:
    home = ("from torchmetrics.classification import JaccardIndex", "from torchmetrics.regression import *")
    distance = Member("MinkowskiDistance(3)", home, ES.regression())
    assert sweep_options._with_option(distance, "p", 1).construction == "MinkowskiDistance(1)"
    masks = Member("JaccardIndex(task='multiclass', num_classes=3)", home, ES.segmentation(classes=3, size=(4, 4)))
    changed = replace(masks, construction="BinaryAccuracy()", imports=HOME)
    assert sweep_options._with_option(changed, "ignore_index", 0).source == (
        ES.segmentation(classes=3, size=(4, 4), ignore_index=0)
    )


def test_an_option_that_ends_in_an_error_by_accident_is_tried_and_one_that_is_refused_is_not() -> None:
    home = ("from torchmetrics.classification import MulticlassAccuracy, MulticlassRecallAtFixedPrecision",)
    labels = Member("MulticlassAccuracy(num_classes=4)", home, ES.multiclass(classes=4, of="labels"))
    assert sweep_options.fails(sweep_options._with_option(labels, "top_k", 2))
    assert not sweep_options.fails(labels)
    recall = Member("MulticlassRecallAtFixedPrecision(num_classes=5, min_precision=0.5)", home, ES.binary())
    assert not sweep_options.fails(recall)  # it refuses such scores
    assert "MulticlassAccuracy(num_classes=4, top_k=2)" in dict(configured([labels], bool))


@pytest.mark.parametrize(
    ("code", "error", "excused"),
    [
        ("EC215", "IndexError: index is out of bounds for dimension with size 0", sweeps.NOTHING_LEFT),
        ("EC215", "KeyError: 0", ""),
        ("EC213", "ValueError: no class is left", "undefined"),
    ],
)
def test_a_label_with_nothing_left_is_the_known_error_of_exact_curves(code: str, error: str, excused: str) -> None:
    (kept,) = sweeps.run(sweeps.Sweep("options"), sweep_families.alone(ACCURACY), code)
    reason = f"every case was refused: forward raised {error}, expected a value in at least one case"
    cell = replace(kept, outcome="failed", reason=reason)
    assert sweeps.excuse(cell) == excused
    assert sweeps.excuse(replace(cell, reason="another")) == ""
    sweep = sweeps.Sweep("options")
    sweep.add("option", "name", cell, sweeps.excuse(cell))
    assert bool(sweep.red) == (not excused)
    assert bool(sweep.known) == (excused == sweeps.NOTHING_LEFT)


def test_parts_of_a_sweep_are_all_of_it_and_time_that_is_over_is_counted() -> None:
    names = [f"Metric{i}()" for i in range(40)]
    parts = [[name for name in names if sweeps.Chosen("", f"{i}/3", None, 1)(name)] for i in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(names)
    assert all(parts)
    late = sweeps.Chosen("Metric1", "1/1", None, minutes=-1)
    assert not any(map(late, names))
    assert late.left_out == 11
    few = sweeps.Chosen("", "1/1", 3, 1)
    assert [few(name) for name in names].count(True) == 3
    assert few.left_out == 0


def test_the_value_of_a_window_of_updates_is_not_compared_with_that_of_one_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = ("from torchmetrics.aggregation import RunningSum",)
    member = Member("RunningSum(window=2)", home, ES.values(), by_design=frozenset({"EC201"}))
    monkeypatch.setattr(sweeps, "CODES", "EC201,EC217")
    sweep = sweeps.sweep_wrappers([member], lambda name: name.startswith("MinMaxMetric"))
    assert sweep.targets == 2
    assert not sweep.red


@pytest.fixture
def lm_eval_sweep(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The targets of the registries of lm-evaluation-harness, without its tasks, which take longer."""
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    # The marks of targets are those of runs with --evalcheck; this one has no list of marks.
    monkeypatch.setattr(pytest, "mark", pytest.MarkGenerator(_ispytest=True))
    monkeypatch.syspath_prepend(BENCHMARKS)
    import sweep_lm_eval

    return sweep_lm_eval


def test_every_filter_and_aggregation_of_lm_eval_is_swept(lm_eval_sweep: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from lm_eval.api.registry import aggregation_registry

    names = [name for name, _ in lm_eval_sweep.aggregations()]
    assert {*names} == {f"aggregation {name}" for name in aggregation_registry if name != "bypass"}
    assert len([*lm_eval_sweep.filters()]) > 90
    assert len({name for name, _ in lm_eval_sweep.filters()}) == len([*lm_eval_sweep.filters()])
    monkeypatch.delitem(lm_eval_sweep.FILTERS, "take_first")
    with pytest.raises(AssertionError, match="take_first"):
        next(lm_eval_sweep.filters())


def test_a_filter_of_lm_eval_that_looks_at_its_neighbours_is_red(
    lm_eval_sweep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first_of_all(responses: Any, _documents: Any) -> list[Any]:
        return [responses[0][-1:] for _ in responses]

    inputs, _ = lm_eval_sweep.FILTERS["custom"]
    monkeypatch.setitem(lm_eval_sweep.FILTERS, "custom", (inputs, [{"filter_fn": first_of_all}]))
    red = sweeps.sweep_lm_eval([], lambda name: name == "custom(filter_fn='first_of_all')").red
    assert {place.split(":")[1].strip() for place in red} >= {"EC407"}
    assert not sweeps.sweep_lm_eval([], lambda name: name.startswith("take_first_k(k=1)")).red

"""Draws of strategies: samples that collate, and cases that reach their conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.common.case import canonical_cases
from pytest_evalcheck.kinds.metric.cases import EmptyBatches, Ignored, Reordered, Shards, Stream
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports.case_codec import is_plain
from pytest_evalcheck.strategies import Arguments, Bulk, SampleStrategy

ALL: dict[str, SampleStrategy] = {
    "binary probabilities": es.binary(ignore_index=-1),
    "binary logits": es.binary(of="logits"),
    "binary labels": es.binary(of="labels"),
    "multiclass labels": es.multiclass(classes=3, ignore_index=-100),
    "multiclass logits": es.multiclass(classes=4, of="logits"),
    "multiclass probabilities": es.multiclass(classes=3, of="probabilities", ignore_index=0),
    "multilabel": es.multilabel(labels=3, ignore_index=-1),
    "segmentation": es.segmentation(classes=3, ignore_index=255),
    "segmentation large": es.segmentation(classes=3, size=(12, 20)),
    "regression": es.regression(),
    "regression outputs": es.regression(outputs=2, positive=True, min_samples=2),
    "values": es.values(),
    "weighted values": es.values(weighted=True),
    "clusters": es.clusters(),
    "forecasts": es.forecasts(),
    "survival": es.survival().packed(2, 1, 0),
    "tokens": es.tokens(ignore_index=-100),
    "text pairs": es.text_pairs(),
    "text pairs references": es.text_pairs(references=2, min_words=0),
    "retrieval": es.retrieval(),
    "image pairs": es.image_pairs(height=11, width=12),
    "image pairs of whole numbers": es.image_pairs(channels=1, value_range=(0, 255), whole=True),
    "audio": es.audio(),
    "audio of speakers": es.audio(length=16, speakers=2),
    "masks": es.masks(classes=3, ignore_index=255),
    "masks one-hot": es.masks(classes=2, form="onehot"),
    "masks large": es.masks(classes=3, height=12, width=20),
    "boxes": es.boxes(),
    "boxes of one class": es.boxes(classes=1, max_boxes=8, format="cxcywh"),
    "caption pairs": es.caption_pairs(),
    "rankings": es.rankings(),
    "rankings of levels": es.rankings(length=6, levels=4),
    "text lists": es.text_lists(),
    "text lists aligned": es.text_lists(words=("O", "B", "I"), aligned=True),
    "regression wide": es.regression(spread="wide"),
    "regression offset": es.regression(spread="offset", positive=True),
    "values wide": es.values(spread="wide"),
}
every_kind = pytest.mark.parametrize("inputs", ALL.values(), ids=ALL)
light = settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)


def minimal(strategy: st.SearchStrategy[Any], condition: Callable[[Any], bool] = lambda _: True) -> Any:
    """The simplest thing that a strategy draws and that meets a condition."""
    return find(
        strategy, condition, settings=settings(max_examples=2000, database=None, phases=[Phase.generate, Phase.shrink])
    )


def _lengths(arguments: Arguments) -> set[int]:
    return {len(value) for value in (*arguments.args, *arguments.kwargs.values())}


@every_kind
def test_samples_are_plain_and_collate_to_rows_of_one_length(inputs: SampleStrategy) -> None:
    @light
    @given(inputs.rows(max_size=4))
    def check(rows: list[Any]) -> None:
        assert is_plain(rows)
        arguments = Arguments.of(inputs.collate(rows))
        assert _lengths(arguments) == {len(rows)}

    check()


@every_kind
def test_the_empty_batch_has_the_dtypes_and_ranks_of_any_other(inputs: SampleStrategy) -> None:
    row = minimal(inputs.sample)
    for empty, one in zip(Arguments.of(inputs.collate([])).args, Arguments.of(inputs.collate([row])).args, strict=True):
        if isinstance(one, torch.Tensor):
            assert (empty.dtype, empty.shape[1:]) == (one.dtype, one.shape[1:])
            assert empty.shape[0] == 0


@every_kind
def test_what_is_derived_of_a_sample_is_a_sample(inputs: SampleStrategy) -> None:
    @light
    @given(inputs.sample)
    def check(row: Any) -> None:
        for change in (inputs.right, inputs.wrong, inputs.corrupted and (lambda r: inputs.corrupted(r, float("nan")))):
            if change:
                changed = change(row)
                assert is_plain(changed)
                assert _lengths(Arguments.of(inputs.collate([row, changed]))) == {2}
        if inputs.corrupted:
            assert "nan" in repr(inputs.corrupted(row, float("nan")))

    check()


@every_kind
def test_right_and_wrong_predictions_differ_on_the_contrast(inputs: SampleStrategy) -> None:
    if inputs.wrong is None:
        pytest.skip("no wrong prediction is known")
    right = inputs.right or (lambda row: row)
    assert inputs.contrast
    assert any(right(row) != inputs.wrong(row) for row in inputs.contrast)
    assert all(right(row) == right(right(row)) for row in inputs.contrast)


@pytest.mark.parametrize("outputs", [None, 1, 3])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("spread", ["small", "wide", "offset", "narrow"])
def test_a_wrong_number_is_no_linear_or_monotonic_function_of_its_target(
    spread: Any, positive: bool, outputs: int | None
) -> None:
    """A squared correlation of predictions that are merely reversed is 1, as of right ones."""
    inputs = es.regression(spread=spread, positive=positive, outputs=outputs)
    assert inputs.wrong
    wrong = [inputs.wrong(row) for row in inputs.contrast]
    assert [row[1] for row in wrong] == [row[1] for row in inputs.contrast]
    predicted, target = (np.array([row[i] for row in wrong]).reshape(len(wrong), -1) for i in range(2))
    for column in range(outputs or 1):
        given, expected = predicted[:, column], target[:, column]
        ranks = [np.argsort(np.argsort(numbers)) for numbers in (given, expected)]
        assert np.corrcoef(given, expected)[0, 1] ** 2 < 0.9
        assert np.corrcoef(*ranks)[0, 1] ** 2 < 0.9
        assert positive or spread in ("offset", "narrow") or (np.sign(given) != np.sign(expected)).any()


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("spread", ["small", "wide", "offset"])
def test_a_wrong_number_is_never_its_target(spread: Any, positive: bool) -> None:
    inputs = es.regression(spread=spread, positive=positive)
    assert inputs.wrong
    lowest, highest = {"small": (-4, 4), "wide": (-250, 250), "offset": (9_996, 10_004)}[spread]
    for eighth in range(max(8 * lowest, 1 if positive else 8 * lowest), 8 * highest + 1):
        prediction, target = inputs.wrong((0.0, eighth / 8))
        assert abs(prediction - target) >= 0.5
        assert prediction > 0 or not positive


@every_kind
def test_bulk_rows_are_repeatable_and_follow_their_parameters(inputs: SampleStrategy) -> None:
    if inputs.bulk is None:
        pytest.skip("no distribution is known")
    bulk = Bulk(seed=1, rows=50, scale=2.0, offset=10.0, drift=1.0)
    rows = inputs.bulk(bulk)
    assert len(rows) == 50
    assert rows == inputs.bulk(bulk) != inputs.bulk(Bulk(seed=2, rows=50, scale=2.0, offset=10.0, drift=1.0))
    assert _lengths(Arguments.of(inputs.collate(list(rows)))) == {50}


def _inputs(made: Any) -> SampleStrategy:
    if "wrapper" in made.kinds:
        return es.causal_lm(vocab=5)
    if {"decoder", "engine"} & set(made.kinds):
        return es.prompts(vocab=9)
    if "loop" in made.kinds:
        return es.tabular(features=2, classes=3)
    if "task" in made.kinds:
        return es.documents()
    if "scorer" in made.kinds:
        return es.responses(max_repeats=3)
    if "partly_ignored" in made.needs:
        return ALL["tokens"]
    return ALL["binary probabilities"] if "ignored" in made.needs else ALL["multiclass logits"]


CONDITIONS = [(made, condition) for made in shipped() for condition in made.conditions]


@pytest.mark.parametrize(("made", "condition"), CONDITIONS, ids=[f"{m.code} {r}" for m, r in CONDITIONS])
@pytest.mark.slow(every=4)
def test_every_condition_of_every_check_is_reached(made: Any, condition: str) -> None:
    drawn = made.case.strategy(_inputs(made))
    always = getattr(made.case, "always", list)()
    if not any(condition in case.conditions for case in always):
        assert condition in minimal(drawn, lambda case: condition in case.conditions).conditions


@pytest.mark.parametrize("made", shipped(), ids=lambda made: made.code)
@pytest.mark.slow(every=4)
def test_cases_are_plain_and_print(made: Any) -> None:
    from pytest_evalcheck.reports.case_codec import case_fields, decode_case, encode_case

    inputs = ALL["binary probabilities"] if "metric" in made.kinds else _inputs(made)
    if "partly_ignored" in made.needs:
        inputs = ALL["tokens"]

    def check(case: Any) -> None:
        assert is_plain(list(case_fields(case).values()))
        _, values = decode_case(encode_case(made.code, case))
        assert repr(made.case(**values)) == repr(case)

    drawn = made.case.strategy(inputs)
    if drawn.is_empty:  # a case that is always the same one
        cases = canonical_cases(made.case, inputs, made.conditions)
        assert cases
        for case in cases:
            check(case)
    else:
        light(given(drawn)(check))()


def test_streams_shrink_to_one_sample_in_one_batch() -> None:
    case = minimal(Stream.strategy(ALL["multiclass labels"]))
    assert (case.samples, case.batches) == ([(0, 0)], [[0]])
    several = minimal(Stream.strategy(ALL["multiclass labels"]), lambda c: "several batches" in c.conditions)
    assert several.batches == [[0], [1]]


@every_kind
@pytest.mark.slow(every=3)
def test_plans_use_every_sample_once_and_in_order(inputs: SampleStrategy) -> None:
    @light
    @given(Stream.strategy(inputs), EmptyBatches.strategy(inputs), Shards.strategy(inputs))
    def check(stream: Stream, gaps: EmptyBatches, shards: Shards) -> None:
        for samples, plan in (
            (stream.samples, stream.batches),
            (gaps.samples, gaps.batches),
            (shards.samples, [batch for rank in shards.shards for batch in rank]),
        ):
            assert [i for batch in plan for i in batch] == list(range(len(samples)))
        assert [] in gaps.batches
        assert len(shards.shards) in (2, 3)
        assert len(stream.samples) >= inputs.min_samples

    check()


@given(Reordered.strategy(es.multiclass(classes=3)))
@light
def test_another_order_keeps_the_batches_together(case: Reordered) -> None:
    assert sorted(map(sorted, case.order)) == sorted(map(sorted, case.batches))


@given(Ignored.strategy(ALL["binary probabilities"]))
@light
def test_ignored_samples_are_the_ones_with_the_ignored_label(case: Ignored) -> None:
    assert case.ignored == [i for i, (_, label) in enumerate(case.samples) if label == -1]
    assert sum(map(len, case.counted)) == len(case.samples) - len(case.ignored)


PARTLY = {name: inputs for name, inputs in ALL.items() if inputs.partly_ignored is not None}
IGNORE = {"multilabel": -1, "segmentation": 255, "tokens": -100, "masks": 255}


def labels_of(sample: Any) -> list[int]:
    """The labels of a sample, in one list."""
    return np.asarray(sample[1]).reshape(-1).tolist()


@pytest.mark.parametrize("name", IGNORE)
def test_samples_have_ignored_labels_among_others(name: str) -> None:
    assert [*PARTLY] == [*IGNORE]
    inputs, ignore = ALL[name], IGNORE[name]

    def is_mixed(sample: Any) -> bool:
        return {ignore} < set(labels_of(sample))

    assert is_mixed(minimal(inputs.sample, is_mixed))
    assert any(map(is_mixed, inputs.fixed(12)))
    for change in (inputs.right, inputs.wrong):
        assert change
        assert all(ignore not in np.asarray(change(sample)[0]).reshape(-1).tolist() for sample in inputs.fixed(12))


@pytest.mark.parametrize("name", IGNORE)
def test_partly_ignored_samples_differ_in_ignored_positions_alone(name: str) -> None:
    inputs, ignore = ALL[name], IGNORE[name]
    pairs = inputs.fixed_partly_ignored(9)
    for one, other in pairs:
        assert {ignore} < set(labels_of(one))
        assert [label for label in labels_of(one) if label != ignore] == [
            label for label in labels_of(other) if label != ignore
        ]
    several = [inputs.collate(rows) for rows in zip(*pairs, strict=True)]
    assert all(len(batch[1]) == 9 for batch in several)
    if name == "multilabel":
        for (one, labels), (other, _) in pairs:
            places = zip(one, other, labels, strict=True)
            assert all(a == b for a, b, label in places if label != ignore)
        assert any(one != other for (one, _), (other, _) in pairs)
    else:
        assert several[0][1].shape[-1] > several[1][1].shape[-1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: es.binary(of="scores"), "expected 'labels', 'probabilities' or 'logits'"),
        (lambda: es.multiclass(classes=1), "classes=1; expected a whole number of at least 2"),
        (lambda: es.multilabel(labels=0), "labels=0"),
    ],
)
def test_parameters_are_validated(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_samples_need_a_strategy() -> None:
    with pytest.raises(TypeError, match="must be a Hypothesis strategy"):
        es.samples([1, 2, 3], collate=tuple)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["collate", "distinct", "right", "wrong", "corrupted", "bulk"])
@pytest.mark.parametrize("given", [st.integers(), 3], ids=["a strategy", "a number"])
def test_what_must_be_a_function_is_refused_with_its_meaning(name: str, given: Any) -> None:
    known: dict[str, Any] = {"collate": lambda rows: (rows,), name: given}
    with pytest.raises(TypeError, match=f"mine: {name} must be a function, from a .*, got"):
        es.samples(st.integers(), name="mine", **known)


@pytest.mark.parametrize(
    ("name", "what"), [("ignored", "one sample"), ("odd", "one sample"), ("partly_ignored", "two samples")]
)
def test_what_must_be_a_strategy_is_refused_with_its_meaning(name: str, what: str) -> None:
    with pytest.raises(TypeError, match=f"mine: {name} must be a Hypothesis strategy of {what}, got 3"):
        es.samples(st.integers(), collate=lambda rows: (rows,), name="mine", **{name: 3})


def test_a_misspelt_strategy_names_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'multi_class'; did you mean 'multiclass'\?"):
        es.multi_class  # noqa: B018
    assert not hasattr(es, "__wrapped__")

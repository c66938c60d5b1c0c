"""The options that are tried, and the strategies that may fit what an example has shown."""

import inspect
import itertools
import pickle
from functools import partial
from typing import Literal

import numpy as np
import pytest
import torch

from pytest_evalcheck.discovery import options
from pytest_evalcheck.discovery.forms import FORMS, Known, by_example, by_words, in_arrays
from pytest_evalcheck.discovery.inputs import ES
from pytest_evalcheck.discovery.schemas import Schema
from pytest_evalcheck.kinds.common.combinations import covering


def parameters(function):
    return list(inspect.signature(function).parameters.values())


def test_options_are_varied_by_annotation_by_type_and_by_name():
    def made(
        num_classes,
        average: Literal["micro", "macro"] | None = "micro",
        squared: bool = True,
        threshold=0.5,
        compute_on_cpu: bool = False,
        from_logits: bool = False,
        name=None,
    ): ...

    annotations = {"average": Literal["micro", "macro"] | None, "squared": bool}
    assert options.varied(parameters(made), annotations) == {
        "average": ("micro", "macro"),
        "squared": (True, False),
        "threshold": (0.5, 0.25),
    }
    assert options.required(parameters(made), annotations) == {"num_classes": 3}


def test_a_required_argument_of_which_no_value_is_known():
    with pytest.raises(options.MissingArgument) as caught:
        options.required(parameters(lambda tokenizer: ...), {})
    assert str(caught.value) == "tokenizer"


@pytest.mark.parametrize("sizes", [(3, 2, 2), (4, 3, 2, 2), (2,), (5,), (2, 2)])
def test_every_pair_of_values_is_in_one_configuration(sizes):
    table = {f"option{i}": tuple(range(size)) for i, size in enumerate(sizes)}
    chosen, cut = covering(table, 100)
    assert (chosen[0], cut) == ({}, 0)
    full = [{name: each.get(name, 0) for name in table} for each in chosen]
    for first, second in itertools.combinations(table, 2):
        pairs = {(row[first], row[second]) for row in full}
        assert pairs == set(itertools.product(table[first], table[second]))
    for name in table:
        assert {row[name] for row in full} == set(table[name])
    assert len(chosen) <= np.prod(sizes)
    assert covering(table, 2) == (chosen[:2], len(chosen) - 2)


def from_example(arguments, name="", near=False, **options):
    return map(str, by_example(Known(name=name, options=options), arguments, near=near))


def from_words(name, *parameters, tensors=True, **options):
    return map(str, by_words(Known(name=name, parameters=parameters, options=options), tensors=tensors))


def first(arguments, **given):
    return next(from_example(arguments, **given))


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        ({"preds": torch.tensor([0.1, 0.8]), "target": torch.tensor([0, 1])}, 'es.binary(of="probabilities")'),
        ({"preds": torch.tensor([-2.0, 3.0]), "target": torch.tensor([0, 1])}, 'es.binary(of="logits")'),
        ({"preds": torch.tensor([0, 1]), "target": torch.tensor([1, 1])}, 'es.binary(of="labels")'),
        ({"preds": torch.tensor([0, 3]), "target": torch.tensor([1, 1])}, 'es.multiclass(classes=4, of="labels")'),
        (
            {"preds": torch.tensor([[0.2, 0.3, 0.5]] * 2), "target": torch.tensor([1, 1])},
            'es.multiclass(classes=3, of="probabilities")',
        ),
        (
            {"preds": torch.tensor([[0.2, 0.9], [0.3, 0.5]]), "target": torch.tensor([[1, 1], [0, 1]])},
            'es.multilabel(labels=2, of="probabilities")',
        ),
        ({"preds": torch.tensor([0.5, 2.5]), "target": torch.tensor([0.1, 2.0])}, "es.regression()"),
        ({"y_true": np.array([0.5, 2.5]), "y_pred": np.array([0.1, 2.0])}, "es.regression().swapped().as_numpy()"),
        ({"y_true": [0, 2, 1], "y_pred": [0, 1, 1]}, 'es.multiclass(classes=3, of="labels").swapped().as_list()'),
        ({"preds": ["a b"], "target": ["a c"]}, "es.text_pairs()"),
        ({"preds": ["a b"], "target": [["a c", "b"]]}, "es.text_pairs(references=2)"),
        ({"value": torch.tensor([1.0, -2.0])}, "es.values()"),
        (
            {"preds": torch.tensor([0.1, 0.4]), "target": torch.tensor([0, 1]), "indexes": torch.tensor([0, 0])},
            "es.retrieval()",
        ),
        (
            {"preds": torch.rand(2, 3, 64, 64), "target": torch.rand(2, 3, 64, 64)},
            "es.image_pairs(channels=3, height=64, width=64)",
        ),
        (
            {"preds": torch.rand(2, 3, 64, 64, 2), "target": torch.rand(2, 3, 64, 64, 2)},
            "es.arrays((3, 64, 64, 2), (3, 64, 64, 2), dtypes=('float32', 'float32'), ranges=((0.0, 1.0), (0.0, 1.0)))",
        ),
        ({"preds": [["a", "b"]], "target": [["a", "c"]]}, "es.text_lists()"),
    ],
)
def test_the_first_guess_of_an_example(arguments, source):
    assert first(arguments) == source


def test_options_of_the_constructor_are_seen():
    labels = {"preds": torch.tensor([0, 1]), "target": torch.tensor([1, 1])}
    assert first(labels, num_classes=5) == 'es.multiclass(classes=5, of="labels")'
    assert first(labels, ignore_index=-1) == 'es.binary(of="labels", ignore_index=-1)'
    floats = {"preds": torch.tensor([0.5, 2.5]), "target": torch.tensor([0.1, 2.0])}
    assert first(floats, num_outputs=2) == "es.regression(outputs=2)"


def test_float_labels_are_a_guess():
    pairs = {"preds": torch.tensor([0.1, 0.8]), "target": torch.tensor([0.0, 1.0])}
    assert 'es.binary(of="probabilities").as_float(1)' in from_example(pairs)


def test_distributions_stay_distributions():
    rows = {"p": torch.tensor([[0.36, 0.48, 0.16]]), "q": torch.tensor([[0.25, 0.5, 0.25]])}
    (source,) = from_example(rows)
    assert source.startswith("es.rows([[0.36, 0.48, 0.16], [0.25, 0.5, 0.25]]")  # float32 in its own digits


def test_the_name_of_a_metric_orders_the_guesses():
    assert next(from_words("BinaryF1Score", "preds", "target")) == 'es.binary(of="probabilities")'
    assert next(from_words("WordErrorRate", "preds", "target")) == "es.text_pairs()"
    assert next(from_words("MeanSquaredError", "y_true", "y_pred")) == "es.regression().swapped()"
    assert next(from_words("MeanMetric", "value", "weight")) == "es.values()"


def test_schemas():
    assert Schema.of("text").container == "texts"
    assert Schema.of(np.array(["cat", "dog"])).values == ["cat", "dog"]
    assert Schema.of([{"boxes": torch.zeros(1, 4)}]).container == "objects"
    assert Schema.of([{0: 0.25, 1: 0.75}]).container == "mappings"
    assert Schema.of(torch.tensor([1.5], dtype=torch.bfloat16)).kind == "float"
    assert Schema.of(np.array([True])).kind == "bool"
    assert Schema.of([[1, 2], [3]]).container == "objects"
    assert Schema.of(3).container == "number"
    assert Schema.of(torch.zeros(0)).rows == 0


def test_two_dicts_of_the_same_names_are_tasks():
    preds = {"kind": torch.tensor([0, 0, 1]), "size": torch.tensor([3.0, 5.0, 2.5])}
    target = {"kind": torch.tensor([0, 1, 0]), "size": torch.tensor([2.5, 5.0, 4.0])}
    assert first({"preds": preds, "target": target}) == (
        "es.tasks({'kind': es.binary(of=\"labels\"), 'size': es.regression()})"
    )


def test_a_dict_beside_an_array_is_taken_apart():
    target = {"low": torch.rand(16, 3, 8, 8), "high": torch.rand(16, 3, 16, 16)}
    assert first({"preds": torch.rand(16, 3, 16, 16), "target": target}) == (
        "es.arrays((3, 16, 16), (3, 8, 8), (3, 16, 16), dtypes=('float32', 'float32', 'float32'), "
        "ranges=((0.0, 1.0), (0.0, 1.0), (0.0, 1.0))).packed(0, {'low': 1, 'high': 2})"
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_scores_of_candidates_have_no_ties(dtype):
    labels = torch.tensor([1, 0, 1], dtype=dtype)
    fed = {"0": torch.tensor([0.9, 0.8, 0.9]), "1": labels, "2": torch.tensor([0, 0, 1])}
    assert first(fed).endswith(".replace(distinct=lambda sample: sample[0])")
    assert "distinct" not in first({**fed, "2": torch.tensor([0.5, 0.1, 1.5])})


def test_candidates_with_two_ranks_alike_get_a_strategy_without_ties():
    fed = {
        "input": torch.tensor([0.9, 0.8, 0.9]),
        "target": torch.tensor([1, 0, 1]),
        "indexes": torch.tensor([0, 0, 1]),
    }
    assert first(fed) == "es.retrieval().named('input', 'target', 'indexes')"
    for source in from_example({name: fed[name] for name in ("input", "target")}, "RetrievalOfTen"):
        assert "distinct" in source or "retrieval" in source


def test_classes_before_places_are_no_tokens():
    logits, labels = torch.randn(2, 5, 3), torch.zeros(2, 3, dtype=torch.int64)
    assert first({"0": logits, "1": labels}).startswith("es.rows")
    assert first({"0": logits.transpose(1, 2), "1": labels}) == "es.tokens(vocab=5, length=3)"


@pytest.mark.parametrize(
    ("name", "shape", "source"),
    [
        ("SignalNoiseRatio", (8,), "es.audio()"),
        ("SourceAggregatedSignalDistortionRatio", (2, 5), "es.audio(speakers=2)"),
        ("ScaleInvariantSignalDistortionRatio", (3, 16), "es.audio()"),
        ("MeanSquaredError", (8,), "es.regression()"),
    ],
)
def test_the_time_of_a_signal_is_no_axis_of_samples(name, shape, source):
    pair = {"preds": torch.randn(shape), "target": torch.randn(shape)}
    assert next(from_example(pair, name)) == source
    if "Signal" in name:
        assert all("audio" in guess for guess in from_words(name, "preds", "target"))


def test_a_number_beside_the_words_of_an_option():
    def made(nan_strategy: Literal["error", "warn", "ignore", "disable"] | float = "warn"): ...

    annotations = {"nan_strategy": Literal["error", "warn", "ignore", "disable"] | float}
    assert options.varied(parameters(made), annotations) == {
        "nan_strategy": ("warn", "ignore", 0.0, "error", "disable"),
    }


def test_whole_numbers_beside_labels_are_labels():
    pair = {"preds": torch.tensor([0, 3, 2]), "target": torch.tensor([1.0, 2.0, 3.0])}
    found = list(from_example(pair))
    assert found[0] == 'es.multiclass(classes=4, of="labels")'
    assert 'es.multiclass(classes=4, of="labels").as_float(1)' in found
    assert not any("regression" in each for each in found)


def test_arrays_come_first_where_a_library_knows_no_tensors():
    words = partial(from_words, "mean_error", "y_true", "y_pred")
    assert next(words()) == "es.regression().swapped()"
    assert next(words(tensors=False)) == "es.regression().swapped().as_numpy()"
    assert {*words()} <= {*words(tensors=False)}


def test_places_of_samples_are_no_predictions():
    assert not [*from_words("LinkPrediction", "pred_index_mat", "edge_label_index")]


def test_what_is_compared_with_pos_label_is_a_label():
    found = {*from_words("selection_rate", "y_true", "y_pred", pos_label=1)}
    assert found
    assert not [guess for guess in found if not guess.startswith(("es.binary", "es.multiclass"))]


def test_scores_are_no_labels_and_no_numbers_to_be_measured():
    by_name = {*from_words("HitrateMetric", "logits", "targets")}
    by_option = {*from_words("IOUMetric", "outputs", "targets", threshold=0.5)}
    for found in (by_name, by_option):
        assert 'es.multilabel(labels=3, of="probabilities")' in found
        assert not [guess for guess in found if 'labels"' in guess or "regression" in guess or "segmentation" in guess]
    assert "es.rankings()" in by_name
    assert 'es.masks(classes=3, height=8, width=8, form="onehot")' in by_option


def test_what_is_like_an_example_has_arrays_where_a_library_knows_no_tensors():
    rows = ES.rows([0, 1], dtypes=("int64",))
    assert in_arrays(rows) == [rows.as_numpy(), rows]
    assert in_arrays(ES.binary().as_list()) == [ES.binary().as_list()]
    assert in_arrays(ES.text_pairs()) == [ES.text_pairs()]


@pytest.mark.parametrize("form", FORMS)
def test_every_row_of_the_table_gives_strategies_that_collate_what_its_words_say(form):
    found = [*form.strategies(Known(name="Score", parameters=("preds", "target")))] if form.names else []
    assert all(each.collated for each in found)
    assert bool(found) == bool(form.names)


def test_inputs_are_their_source_and_survive_pickle():
    made = ES.binary(of="labels", ignore_index=-100).swapped().replace(min_samples=2)
    assert str(made) == 'es.binary(of="labels", ignore_index=-100).swapped().replace(min_samples=2)'
    again = pickle.loads(pickle.dumps(made))
    assert (again, again.strategy) == (made, made.strategy)
    assert made.strategy.min_samples == 2
    assert str(made.ignoring(None)) == 'es.binary(of="labels").swapped().replace(min_samples=2)'
    assert made.ignoring(-1).strategy.fixed_ignored[0][1] == -1
    assert ES.regression().ignoring(-1) == ES.regression()
    tasks = ES.tasks({"kind": ES.binary(), "size": ES.regression()})
    assert sorted(tasks.strategy.example(2)[0]) == ["kind", "size"]


def test_other_strategies_of_such_shapes_and_of_a_dimension_less():
    assert "es.values()" in from_example({"input": torch.tensor([[1, 2], [3, 4]])}, near=True)
    pair = {"preds": [[0, 1], [0, 0]], "target": [[0, 1], [1, 0]]}
    assert first(pair) == 'es.multilabel(labels=2, of="labels").as_list()'
    others = [*from_example(pair, near=True)]  # scores, where labels are not enough
    assert 'es.multilabel(labels=3, of="probabilities").as_list()' in others
    assert not any("regression" in each or "text" in each for each in others)
    weighted = {**pair, "weights": [0.5, 1.5]}
    assert not [*from_example(weighted, near=True)]  # no queries by their name


@pytest.mark.parametrize("near", [False, True])
def test_an_example_of_one_argument_has_no_strategy_of_two(near: bool) -> None:
    """A second parameter has a default: values of it would be guessed (false alarm on a drawn project)."""
    outcomes = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 1, 1]])
    found = [*by_example(Known(name="interval"), {"outcomes": outcomes}, near=near)]
    assert {len(each.collated) for each in found} <= {1}

"""Filters, functions and tasks of lm-evaluation-harness become records that run the real thing."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import adapters, strategies
from pytest_evalcheck.adapters.lm_eval import scorer as adapter

# Read at the import: nothing is written beside its code.
os.environ.setdefault("LM_HARNESS_CACHE_PATH", os.path.join(tempfile.gettempdir(), "lm_eval"))
harness = pytest.importorskip("lm_eval", reason="lm_eval is not installed")
datasets = pytest.importorskip("datasets")

DOCUMENTS = [{"question": f"q{i}", "answer": answer} for i, answer in enumerate(["4", "5", "12"])]
RIGHT, WRONG = [["4"], ["5"], ["12"]], [["5"], ["5"], ["12"]]


def task(output_type: str = "generate_until", **config: Any) -> Any:
    from lm_eval.api.task import ConfigurableTask

    choices = {"doc_to_choice": "choices"} if output_type == "multiple_choice" else {}
    row = {**DOCUMENTS[0], "choices": ["a", "b"], "answer": 0} if choices else DOCUMENTS[0]
    plain = {
        "task": "plain",
        "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list([row])},
        "test_split": "test",
        "output_type": output_type,
        "doc_to_text": "question",
        "doc_to_target": "answer",
        **choices,
    }
    return ConfigurableTask(config={**plain, **config})


def averaged(*metrics: Any) -> list[dict[str, Any]]:
    return [{"metric": metric, "aggregation": "mean", "higher_is_better": True} for metric in metrics]


def recorded(made: Any) -> ec.Scorer:
    return adapters.record("scorer", made)


@pytest.fixture
def answers() -> ec.Scorer:
    """A task that compares a text with its answer."""
    return recorded(task(metric_list=averaged("exact_match")))


def test_a_filter_gives_what_it_leaves_of_each_document() -> None:
    from lm_eval.filters.extraction import RegexFilter

    made = recorded(RegexFilter(regex_pattern=r"#### (\d+)"))
    assert list(made.score([["#### 4", "none"], ["#### 5"]], DOCUMENTS[:2])) == [["4", "[invalid]"], ["5"]]
    assert made.iterators
    assert made.configuration is not None
    assert made.configuration()["fallback"] == "[invalid]"


def test_a_pipeline_runs_its_filters_one_after_the_other() -> None:
    from lm_eval.filters import build_filter_ensemble

    steps: list[Any] = [("map", {"mapping_dict": {"a": "b"}}), ("majority_vote", None), ("take_first", None)]
    made = recorded(build_filter_ensemble("steps", steps))
    assert made.score([["a", "c", "a"], ["a"]], DOCUMENTS[:2]) == ["b", "b"]
    assert made.configuration is not None
    assert made.configuration()[0] == {"mapping_dict": {"a": "b"}}


def test_a_metric_function_is_called_as_by_a_task() -> None:
    def seen(references: Any, predictions: Any, **more: Any) -> Any:
        return references, predictions, more

    assert adapter.metric(seen, ignore=1).score([["4", "5"]], [{"answer": "6"}]) == [(["6"], ["4"], {"ignore": 1})]
    every = adapter.metric(seen, target=lambda document: document["answer"] * 2, repeats=True)
    assert every.score([["4", "5"]], [{"answer": "6"}]) == [(["66"], [["4", "5"]], {})]


def test_process_results_get_the_document_first() -> None:
    def seen(document: Any, results: Any) -> Any:
        return {"document": document, "results": results}

    assert adapter.process_results(seen).score([["4"]], ["a"]) == [{"document": "a", "results": ["4"]}]
    repeated = adapter.process_results(seen, repeats=True)
    assert repeated.score([["4", "5"]], ["a"]) == [{"document": "a", "results": [["4", "5"]]}]


@pytest.mark.parametrize("make", [adapter.metric, adapter.process_results])
def test_what_is_no_function_is_refused(make: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="'exact_match' is not a function; expected function"):
        make("exact_match")


def test_a_missing_target_is_named_with_the_fields_that_are_there() -> None:
    with pytest.raises(KeyError, match=r"target='gold' is no field of a document with \['question', 'answer'\]"):
        adapter.metric(lambda references, predictions: 0.0, target="gold").score([["4"]], DOCUMENTS[:1])


def test_no_response_is_named_with_its_document() -> None:
    with pytest.raises(ValueError, match=r"no response to the document {'question': 'q0'"):
        adapter.metric(lambda references, predictions: 0.0).score([[]], DOCUMENTS[:1])


def test_a_task_scores_the_documents_that_it_is_given(answers: ec.Scorer) -> None:
    assert answers.score(WRONG, DOCUMENTS) == [{"exact_match,none": score} for score in (0.0, 1.0, 1.0)]


def test_a_run_of_the_record_gives_what_a_call_by_hand_gives(answers: ec.Scorer) -> None:
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    class Model(LM):  # type: ignore[misc]
        def generate_until(self, requests: Any) -> Any:
            return [WRONG[request.doc_id][0] for request in requests]

        loglikelihood = loglikelihood_rolling = generate_until

    whole = task(
        metric_list=averaged("exact_match"), custom_dataset=lambda **_: {"test": datasets.Dataset.from_list(DOCUMENTS)}
    )
    index = TaskManager(include_defaults=False)
    results = harness.simple_evaluate(model=Model(), tasks=[whole], task_manager=index, bootstrap_iters=0)
    scores = [{"exact_match,none": sample["exact_match"]} for sample in results["samples"]["plain"]]
    assert scores == answers.score(WRONG, DOCUMENTS)


def test_a_multiple_choice_has_a_response_a_choice() -> None:
    made = recorded(task("multiple_choice", metric_list=averaged("acc")))
    documents = [{"question": f"q{i}", "choices": ["a", "b"], "answer": i} for i in range(2)]
    best = [(-1.0, False), (-2.0, False)]
    assert made.score([best, best], documents) == [{"acc,none": 1.0}, {"acc,none": 0.0}]
    assert made.numbers is None


def test_log_likelihoods_are_scored() -> None:
    made = recorded(task("loglikelihood"))
    assert made.score([[(-2.0, True)]], DOCUMENTS[:1]) == [{"perplexity,none": -2.0, "acc,none": 1}]


def test_rolling_log_likelihoods_are_numbers() -> None:
    made = recorded(task("loglikelihood_rolling"))
    (scores,) = made.score([[-2.0]], [{"question": "", "answer": "a bc"}])
    per_byte, per_word = (-2.0, 4), (-2.0, 2)
    assert scores == {
        "word_perplexity,none": per_word,
        "byte_perplexity,none": per_byte,
        "bits_per_byte,none": per_byte,
    }


@pytest.fixture
def voted() -> ec.Scorer:
    """A task with three repeats and two filters."""
    vote = {"name": "vote", "filter": [{"function": "majority_vote"}, {"function": "take_first"}]}
    first = {"name": "first", "filter": [{"function": "take_first"}]}
    return recorded(task(repeats=3, metric_list=averaged("exact_match"), filter_list=[vote, first]))


def test_filters_are_the_parts_of_a_task_that_has_several(voted: ec.Scorer) -> None:
    responses = [["5", "4", "4"]]
    assert voted.parts == ("vote", "first")
    assert voted.score(responses, DOCUMENTS[:1]) == [{"exact_match,vote": 1.0, "exact_match,first": 0.0}]
    assert voted.together is not None
    alone = voted.together(("first",), responses, DOCUMENTS[:1])
    assert list(alone) == [{"first": {"exact_match,first": 0.0}}]


def test_metrics_are_the_parts_otherwise() -> None:
    def length(references: Any, predictions: Any) -> float:
        return float(len(predictions[0]))

    made = recorded(task(metric_list=averaged("exact_match", length)))
    assert made.parts == ("exact_match", "length")
    assert made.together is not None
    (seen,) = made.together(("length", "exact_match"), [["12"]], DOCUMENTS[:1])
    assert seen == {"length": {"length,none": 2.0}, "exact_match": {"exact_match,none": 0.0}}


def test_too_few_responses_are_named(voted: ec.Scorer) -> None:
    with pytest.raises(ValueError, match=r"asks for 3 responses to {'question': 'q0'.*drawn with 1"):
        voted.score([["4"]], DOCUMENTS[:1])


def test_a_document_that_is_no_mapping_is_named(answers: ec.Scorer) -> None:
    with pytest.raises(TypeError, match="a mapping of its fields; got 'q0'"):
        answers.score([["4"]], ["q0"])


def test_documents_that_the_task_drops_are_told() -> None:
    first = task(metric_list=averaged("exact_match"), process_docs=lambda rows: rows.select([0]))
    with pytest.raises(ValueError, match="of 3 drawn documents the task has 1: see its process_docs"):
        recorded(first).score(RIGHT, DOCUMENTS)


def test_process_docs_are_run() -> None:
    shifted = task(
        metric_list=averaged("exact_match"),
        process_docs=lambda rows: rows.map(lambda row: {**row, "answer": row["answer"] + "!"}),
    )
    made = recorded(shifted)
    assert made.score([["4!"], ["5"], ["12"]], DOCUMENTS) == [{"exact_match,none": s} for s in (1.0, 0.0, 0.0)]


def test_ranks_give_the_same_scores(answers: ec.Scorer) -> None:
    assert list(answers.parallel["ranks"](WRONG, DOCUMENTS)) == answers.score(WRONG, DOCUMENTS)


def test_the_error_of_a_rank_ends_the_others() -> None:
    from pytest_evalcheck.adapters.lm_eval.runs import on_two_ranks

    made = on_two_ranks(task(metric_list=averaged("exact_match")))
    with pytest.raises(ValueError, match="did not find any docs"):
        made.parallel["2 ranks"](RIGHT[:1], DOCUMENTS[:1])


def test_process_results_have_an_aggregation_a_number() -> None:
    made = recorded(task(process_results=lambda document, results: {"length": 0.0}, metric_list=averaged("length")))
    several = ec.Several(
        function=lambda responses, document: {"longest": len(responses[0]), "count": 1},
        aggregations={"longest": max, "count": sum},
    )
    assert made.numbers is not None
    assert made.numbers([several], RIGHT, DOCUMENTS) == {"longest": 2, "count": 3}
    with pytest.raises(ValueError, match="one process_results; got 2 functions"):
        made.numbers([several, several], RIGHT, DOCUMENTS)


def test_a_metric_function_has_one_aggregation(answers: ec.Scorer) -> None:
    several = ec.Several(function=lambda responses, document: {"a": 1, "b": 2}, aggregations={"a": sum, "b": max})
    assert answers.numbers is not None
    assert answers.numbers([several], RIGHT, DOCUMENTS) == {"a": 3, "b": 6}


def test_settings_are_told_apart_without_a_cache(answers: ec.Scorer, tmp_path: Path) -> None:
    assert answers.cached is not None
    seen = [list(answers.cached(setting, tmp_path)[0](RIGHT, DOCUMENTS)) for setting in answers.settings]
    assert len({str(scores) for scores in seen}) == len(answers.settings) == 3


def test_what_was_cached_is_given_again(answers: ec.Scorer, tmp_path: Path) -> None:
    assert answers.cached is not None
    _, cached = answers.cached("", tmp_path)
    before = list(cached(WRONG, DOCUMENTS))
    assert list(cached(RIGHT, DOCUMENTS)) == before
    assert [path.name for path in tmp_path.iterdir()] == ["responses_rank0.db"]


def test_requests_are_cached_in_the_folder(tmp_path: Path) -> None:
    from pytest_evalcheck.adapters.lm_eval.runs import with_cached_requests

    made = with_cached_requests(task(metric_list=averaged("exact_match")))
    assert made.cached is not None
    plain, cached = made.cached("", tmp_path)
    assert list(cached(WRONG, DOCUMENTS)) == list(plain(WRONG, DOCUMENTS))
    (kept,) = tmp_path.iterdir()
    assert kept.name.startswith("requests-plain")
    with pytest.raises(LookupError, match="which is not document 0 of this run"):
        list(cached(RIGHT[1:], DOCUMENTS[1:]))


def test_a_task_is_a_target() -> None:
    @ec.scorer(inputs=strategies.responses())
    def exact() -> Any:
        return task(metric_list=averaged("exact_match"))

    report = ec.run(exact, select="EC401,EC402,EC407,EC409", effort="quick")
    assert [cell.outcome for cell in report.cells] == ["passed"] * 4


def test_numbers_of_a_task_whose_target_is_a_place_among_choices() -> None:
    def place(document: Any) -> int:
        return ["4", "5", "12"].index(document["answer"])

    choices = {"doc_to_choice": lambda _: ["4", "5", "12"], "doc_to_target": place}
    made = recorded(task(metric_list=averaged("exact_match"), **choices))
    several = ec.Several(
        function=lambda responses, document: {"right": float(document["answer"] == responses[0])},
        aggregations={"right": sum},
    )
    assert made.score(RIGHT, DOCUMENTS) == [{"exact_match,none": 1.0}] * 3
    assert made.numbers is not None
    assert made.numbers([several], WRONG, DOCUMENTS) == {"right": 2.0}

from __future__ import annotations

import functools
import importlib.util
import sys
import warnings

import pytest
import scoring_lm_eval as lm

from pytest_evalcheck.fixes.scoring import Number, NumberError, Numbers, ScoringError

if importlib.util.find_spec("lm_eval") is None:
    pytest.skip("lm_eval is not installed", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # those of lm-eval and datasets are not ours


@pytest.fixture(scope="module", autouse=True)
def harness(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in lm.environment(tmp_path_factory.mktemp("lm_eval")).items():
            patch.setenv(name, value)
        import lm_eval.evaluator

        from pytest_evalcheck.fixes.scoring import harness

        # They describe the machine and the checkout with other programs, which takes longer than the evaluation.
        patch.setattr(lm_eval.evaluator, "add_env_info", lambda results: None)
        patch.setattr(lm_eval.evaluator, "get_git_commit_hash", lambda: None)
        yield harness


@pytest.fixture
def counted(tmp_path):
    return lm.Counted(tmp_path, lm.passes)


NAMES = [f"pass@{k}" for k in lm.KS]


def numbers(**options):
    return Numbers({name: Number() for name in NAMES}, **options)


def parallel_task(score, *, name="scored", numbers=None, **options):
    numbers = numbers or globals()["numbers"]()
    return lm.task(
        filter_list=[{"name": name, "filter": [{"function": "parallel", "score": score, **options}]}],
        process_results=numbers.process_results,
        metric_list=numbers.metric_list(),
    )


def values(results, filters="scored"):
    return {name: results["results"]["sums"][f"{name},{filters}"] for name in NAMES}


# The three roads to several numbers, and ours


def one_filter_per_metric(counted, tmp_path):
    def only(name, responses, document):
        return counted(responses, document)[name]

    def each_score(scored_by):
        # One pipeline a number: every one of them computes all.
        return [functools.partial(scored_by, name) for name in NAMES]

    def applied(score, resps, docs):
        return [score(resp, doc) for resp, doc in zip(resps, docs, strict=True)]

    task = lm.task(
        filter_list=[
            {"name": name, "filter": [{"function": "custom", "filter_fn": functools.partial(applied, score)}]}
            for name, score in zip(NAMES, each_score(only), strict=True)
        ],
        process_results=lambda doc, results: {"score": results[0]},
        metric_list=[{"metric": "score", "aggregation": "mean", "higher_is_better": True}],
    )
    found = lm.evaluated(task)["results"]["sums"]
    return {name: found[f"score,{name}"] for name in NAMES}


def computed_once_and_kept(counted, tmp_path):
    keep = {}

    def number(name, references, predictions):
        key = repr((references, predictions))
        if key not in keep:
            (responses,), (gold,) = predictions, references
            keep[key] = counted(responses, {"a": gold})
        return keep[key][name]

    metrics = []
    for name in NAMES:
        metric = functools.partial(number, name)
        metric.__name__ = name
        metrics.append({"metric": metric, "aggregation": "mean", "higher_is_better": True})
    filters = [{"name": "scored", "filter": [{"function": "custom", "filter_fn": lambda resps, docs: resps}]}]
    return values(lm.evaluated(lm.task(filter_list=filters, metric_list=metrics)))


def predicted_then_scored(counted, tmp_path):
    from pytest_evalcheck.fixes.scoring.harness import score_samples

    filters = [{"name": "scored", "filter": [{"function": "custom", "filter_fn": lambda resps, docs: resps}]}]
    results = lm.evaluated(lm.task(filter_list=filters), predict_only=True)
    scores = score_samples(results["samples"]["sums"], counted, backend="processes", n_jobs=2)
    return numbers().aggregate(scores).values


def parallel_filter(counted, tmp_path):
    return values(lm.evaluated(parallel_task(counted, backend="processes", n_jobs=2)))


def parallel_filter_kept_on_disk(counted, tmp_path):
    task = functools.partial(parallel_task, counted, cache=tmp_path / "scores", depends_on={"model": "scripted"})
    first, again = (values(lm.evaluated(task())) for _ in range(2))
    assert first == again
    return again


@pytest.mark.parametrize(
    ("road", "computations"),
    [
        (one_filter_per_metric, len(NAMES)),
        (computed_once_and_kept, 1),
        (predicted_then_scored, 1),
        (parallel_filter, 1),
        (parallel_filter_kept_on_disk, 1),
    ],
)
def test_all_roads_give_the_same_numbers(road, computations, counted, tmp_path):
    assert road(counted, tmp_path) == pytest.approx(lm.expected())
    assert counted.calls == computations * len(lm.DOCUMENTS)


def test_every_number_keeps_its_aggregation_and_direction(counted):
    both = Numbers({"pass@1": Number(min, higher_is_better=False), "pass@3": Number("median")})
    results = lm.evaluated(parallel_task(counted, numbers=both))
    scored = [lm.passes(lm.responses(each["q"]), each) for each in lm.DOCUMENTS]
    assert values(results) == both.aggregate(scored).values
    assert results["higher_is_better"]["sums"] == {"pass@1": False, "pass@3": True}


def sometimes(responses, document):
    if document["id"] == "q3":
        raise ValueError("no simulator")
    if document["id"] == "q4":
        return {"pass@1": 1.0}
    return {"pass@1": 1.0, "pass@3": 1.0}


def test_documents_without_a_number_count_as_declared():
    lenient = Numbers({"pass@1": Number(), "pass@3": Number(missing="skip")}, failed={"pass@1": 0.0, "pass@3": 0.0})
    results = lm.evaluated(parallel_task(sometimes, numbers=lenient, errors="record"))
    assert values(results) == pytest.approx({"pass@1": 11 / 12, "pass@3": 10 / 11})
    lengths = {name: sum(name in each for each in results["samples"]["sums"]) for name in NAMES}
    assert lengths == {"pass@1": 12, "pass@3": 11}


def test_errors_name_the_document():
    with pytest.raises(ScoringError, match=r"document 3 \(id 'q3'\): ValueError: no simulator"):
        lm.evaluated(parallel_task(sometimes))
    with pytest.raises(NumberError, match="document 'q4': the score lacks 'pass@3'"):
        lm.evaluated(parallel_task(sometimes, errors="record", numbers=numbers(failed="skip")))


YAML = """
task: sums_from_yaml
custom_dataset: !function utils.documents
test_split: test
output_type: generate_until
doc_to_text: "{{q}}"
doc_to_target: a
repeats: 5
generation_kwargs:
  until: ["\\n"]
filter_list:
  - name: scored
    filter:
      - function: parallel
        score: !function utils.score
        backend: processes
        n_jobs: 2
        timeout: 30
        report: !function utils.reports
process_results: !function utils.process_results
metric_list: !function utils.metric_list
"""
UTILS = """
from pytest_evalcheck.fixes.scoring import Number, Numbers, pass_at
from pytest_evalcheck.fixes.scoring.harness import ParallelFilter
from scoring_lm_eval import documents

RUNS = []
reports = RUNS.append
numbers = Numbers({"pass@1": Number(), "pass@3": Number()})
process_results = numbers.process_results
metric_list = numbers.metric_list()

def right(response, document):
    return response == document["a"]

def score(responses, document):
    return pass_at([right(response, document) for response in responses], (1, 3))
"""


def test_a_task_in_yaml_is_scored_in_processes(tmp_path):
    (tmp_path / "sums.yaml").write_text(YAML)
    (tmp_path / "utils.py").write_text(UTILS)
    results = lm.evaluated("sums_from_yaml", str(tmp_path))
    found = {name: results["results"]["sums_from_yaml"][f"{name},scored"] for name in NAMES}
    assert found == pytest.approx(lm.expected())
    (run,) = sys.modules[str(tmp_path / "utils")].RUNS
    assert (run.backend, run.documents) == ("processes", 12)


def test_the_filter_refuses_what_it_cannot_use(harness):
    with pytest.raises(TypeError, match="score: expected a function of responses and a document, got nothing"):
        harness.ParallelFilter()
    with pytest.raises(TypeError, match="no option 'njobs'; did you mean 'n_jobs'"):
        harness.ParallelFilter(score=lm.passes, njobs=2)
    with pytest.raises(ValueError, match="got 1 of them for 2 documents: an earlier filter"):
        harness.ParallelFilter(score=lm.passes).apply([["a"]], lm.DOCUMENTS[:2])
    with pytest.raises(ValueError, match="sample 0: expected a logged sample of lm-eval, it lacks resps"):
        harness.score_samples([{"doc": {}}], lm.passes)
    assert harness.ParallelFilter(score=lm.passes).apply(iter([]), []) == []


def test_the_filter_is_found_beside_the_other_fixes(harness):
    from pytest_evalcheck.fixes import scoring

    assert scoring.ParallelFilter is harness.ParallelFilter
    with pytest.raises(AttributeError, match="no attribute 'ParalelFilter'"):
        _ = scoring.ParalelFilter

"""The registered faults of tasks, on the real libraries: examples of lm_eval and lighteval, answers of inspect_ai."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck import upstream
from pytest_evalcheck.strategies.documents import REWRITINGS

os.environ.setdefault("LM_HARNESS_CACHE_PATH", os.path.join(tempfile.gettempdir(), "lm_eval"))


def shown(made: Any, code: str, fault: str, **keywords: Any) -> ec.Cell:
    """The cell of a check of a task with a known failure."""

    @ec.task(known_failures={code: ec.KnownFailure(upstream=fault)}, **keywords)
    def target() -> Any:
        return made()

    assert upstream.find(fault) is not None
    (cell,) = ec.run(target, select=code, effort="quick", timeout=0).cells
    return cell


def few_shot_task(*splits: str, **config: Any) -> Any:
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    sets = {
        name: Dataset.from_list([{"question": f"{name} {n}", "answer": f"answer {n}"} for n in range(6)])
        for name in splits
    }
    plain = {
        "task": "own",
        "custom_dataset": lambda **_: sets,
        "output_type": "generate_until",
        "doc_to_text": "question",
        "doc_to_target": "answer",
        "num_fewshot": 2,
    }
    return ConfigurableTask(config={**plain, **config})


@pytest.mark.parametrize(
    ("code", "fault", "splits", "config"),
    [
        ("EC709", "lm-eval-document-among-its-examples", ["rows"], {"test_split": "rows"}),
        (
            "EC710",
            "lm-eval-examples-by-order",
            ["train", "test"],
            {"training_split": "train", "test_split": "test"},
        ),
    ],
)
def test_examples_of_lm_eval(code: str, fault: str, splits: list[str], config: dict[str, Any]) -> None:
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    cell = shown(lambda: few_shot_task(*splits, **config), code, fault)
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def test_numbers_without_their_punctuation_in_lm_eval() -> None:
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    metric = {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, "ignore_punctuation": True}

    def made() -> Any:
        # the answers are numbers
        config = {"doc_to_target": "{{answer[7:]}}8", "metric_list": [metric], "num_fewshot": 0}
        return few_shot_task("rows", test_split="rows", **config)

    cell = shown(made, "EC704", "lm-eval-punctuation-of-numbers")
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def test_answers_without_a_number_in_agieval() -> None:
    utils = pytest.importorskip("lm_eval.tasks.agieval.utils", reason="lm_eval is not installed")
    metric = {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
    config = {"doc_to_target": "{{answer[:6]}}", "metric_list": [metric], "num_fewshot": 0}

    def results(document: Any, responses: Any) -> Any:
        return utils.process_results({"answer": document["answer"][:6]}, responses)  # without its number

    config["process_results"] = results
    cell = shown(
        lambda: few_shot_task("rows", test_split="rows", **config), "EC705", "lm-eval-answers-without-a-number"
    )
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


@pytest.mark.parametrize("code", ["EC706", "EC707"])
def test_a_chat_of_inspect_ai_begins_twice(code: str, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    transformers = pytest.importorskip("transformers")
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import get_model

    from fixtures.targets._tokenizers import tokenizer
    from pytest_evalcheck.adapters.inspect_ai.tokens import with_model

    tokens = tokenizer("bytes_that_begin")
    sizes = {"vocab_size": len(tokens), "n_embd": 8, "n_layer": 1, "n_head": 1}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(tmp_path)
    tokens.save_pretrained(tmp_path)
    model = get_model("hf/local", model_path=str(tmp_path), device="cpu")
    own = Task(dataset=MemoryDataset([Sample(input="What is the capital of France?", target="Paris")]))
    cell = shown(lambda: with_model(own, model), code, "inspect-ai-chat-begins-twice")
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


@pytest.mark.parametrize("code", ["EC701", "EC704", "EC715"])
def test_the_best_choice_of_mutual(code: str) -> None:
    utils = pytest.importorskip("lm_eval.tasks.mutual.utils", reason="lm_eval is not installed")
    metric = {"metric": "r@1", "aggregation": "mean", "higher_is_better": True}
    config: dict[str, Any] = {"output_type": "multiple_choice", "doc_to_choice": "{{options}}"}
    config["process_docs"] = lambda rows: rows.map(
        lambda _: {"options": ["alpha", "beta", "gamma", "delta"], "place": 0}
    )
    config |= {"doc_to_target": "place", "metric_list": [metric], "num_fewshot": 0}
    config["process_results"] = lambda row, pairs: utils.process_results({"answers": "ABCD"[row["place"]]}, pairs)
    cell = shown(lambda: few_shot_task("rows", test_split="rows", **config), code, "lm-eval-mutual-of-pairs")
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def test_another_text_in_cb() -> None:
    utils = pytest.importorskip("lm_eval.tasks.super_glue.cb.t5_utils", reason="lm_eval is not installed")
    metric = {"metric": utils.mean_3class_f1, "aggregation": utils.agg_mean_3class_f1, "higher_is_better": True}
    labels = ["entailment", "contradiction", "neutral"]
    config = {"doc_to_choice": labels, "doc_to_target": 0, "metric_list": [metric], "num_fewshot": 0}
    cell = shown(lambda: few_shot_task("rows", test_split="rows", **config), "EC705", "lm-eval-cb-other-texts")
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def test_a_number_without_a_sign_in_agieval() -> None:
    utils = pytest.importorskip("lm_eval.tasks.agieval.utils", reason="lm_eval is not installed")
    metric = {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
    config: dict[str, Any] = {"metric_list": [metric], "num_fewshot": 0, "process_results": utils.process_results}
    config["process_docs"] = lambda rows: rows.map(lambda row: {"answer": str(18 + int(row["answer"][-1]))})
    made = lambda: few_shot_task("rows", test_split="rows", **config)  # noqa: E731
    cell = shown(made, "EC704", "lm-eval-answers-without-a-sign")
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def test_a_run_of_cabbq_without_an_ambiguous_question() -> None:
    utils = pytest.importorskip("lm_eval.tasks.cabbq.utils", reason="lm_eval is not installed")
    kinds = {"acc_ambig": utils.acc_ambig_agg, "acc_disambig": utils.acc_disambig_agg}
    metrics = [{"metric": name, "aggregation": each, "higher_is_better": True} for name, each in kinds.items()]
    config: dict[str, Any] = {"output_type": "multiple_choice", "doc_to_choice": ["one", "two", "unknown"]}
    config |= {"doc_to_target": "label", "metric_list": metrics, "num_fewshot": 0}
    fields = {"label": 0, "context_condition": "disambig", "question_type": "pro-stereo"}
    config |= {"process_docs": lambda rows: rows.map(lambda _: fields), "process_results": utils.process_results}
    made = lambda: few_shot_task("rows", test_split="rows", **config)  # noqa: E731
    cell = shown(made, "EC718", "lm-eval-bbq-without-a-kind")
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def test_a_space_before_the_answer_of_boolq() -> None:
    pytest.importorskip("lm_eval", reason="lm_eval is not installed")
    options = {"ignore_case": True, "ignore_punctuation": True, "higher_is_better": True, "aggregation": "mean"}
    config: dict[str, Any] = {"doc_to_choice": [" no", " yes"], "doc_to_target": 1, "num_fewshot": 0}
    config["metric_list"] = [{"metric": "exact_match", **options}]
    others = [name for name in REWRITINGS if name != "stripped"]
    inputs = es.documents(unequal=dict.fromkeys(others, "another finding"))
    made = lambda: few_shot_task("rows", test_split="rows", **config)  # noqa: E731
    cell = shown(made, "EC702", "lm-eval-space-before-the-answer", inputs=inputs)
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def test_the_template_of_xlsum_has_no_field() -> None:
    tasks = pytest.importorskip("lm_eval.tasks", reason="lm_eval is not installed")
    from lm_eval.tasks._yaml_loader import load_yaml

    file = Path(tasks.__file__).parent / "afrobench" / "xlsum" / "prompt_1" / "xlsum_amharic.yaml"
    template = load_yaml(file, resolve_func=False)["doc_to_text"]
    cell = shown(
        lambda: few_shot_task("rows", test_split="rows", doc_to_text=template, num_fewshot=0),
        "EC708",
        "lm-eval-xlsum-without-a-document",
    )
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


@pytest.mark.parametrize(
    ("fault", "pattern", "target", "tried"),
    [
        ("inspect-ai-white-space-behind-the-line", "line", "Paris", ("spaces",)),
        ("inspect-ai-letter-in-parentheses", "letter", "A", ("parentheses", "bold")),
    ],
)
def test_answers_of_inspect_ai(fault: str, pattern: str, target: str, tried: tuple[str, ...]) -> None:
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
    import asyncio
    from types import SimpleNamespace

    from inspect_ai.scorer import Target, answer

    score = answer(pattern)

    def marked(document: Any, responses: Any) -> float:
        state: Any = SimpleNamespace(output=SimpleNamespace(completion=responses[0]))
        made: Any = asyncio.run(score(state, Target(document["answer"])))
        return float(made.value == "C")

    def made() -> ec.Task:
        return ec.Task(
            requests=lambda documents: [[ec.Request(prompt=each["question"])] for each in documents],
            gold=lambda document: document["answer"],
            response=lambda _, text: f"ANSWER: {text}",
            score=marked,
        )

    others = {name: "this is about another form" for name in REWRITINGS if name not in tried}
    inputs = es.documents([{"question": "Which one?", "answer": target}], unequal=others)
    cell = shown(made, "EC703", fault, inputs=inputs)
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"


def rooms(**options: Any) -> Any:
    """A task of lighteval over six rows, of which the first are its examples."""
    from lighteval.metrics.metrics import Metrics
    from lighteval.tasks.lighteval_task import LightevalTask, LightevalTaskConfig
    from lighteval.tasks.requests import Doc

    def prompt(row: Any, task_name: str | None = None) -> Any:
        return Doc(query=row["question"], choices=[row["answer"]], gold_index=0, task_name=task_name)

    plain = {"name": "rooms", "hf_repo": "", "hf_subset": "", "evaluation_splits": ["test"], "few_shots_split": "test"}
    plain |= {"metrics": [Metrics.exact_match], "few_shots_select": "sequential"}
    made = LightevalTask(LightevalTaskConfig(prompt_function=prompt, **{**plain, **options}))
    names = ("Ada", "Boris", "Clara", "David", "Emma", "Felix")
    made.dataset = {"test": [{"question": f"Who is in room {n}?", "answer": name} for n, name in enumerate(names)]}
    return made


def lighteval_task(name: str, rows: list[dict[str, Any]]) -> Any:
    from pytest_evalcheck.adapters.lighteval import registry

    return registry.task(name, rows)


PROBLEMS = [{"problem": f"What is 5{n} + 2?", "answer": 52 + n} for n in range(6)]
CHOSEN = [{"question": f"Question {n}?", "options": "['one', 'two']", "answer": "A", "id": n} for n in range(6)]


@pytest.mark.parametrize(
    ("code", "fault", "made"),
    [
        ("EC709", "lighteval-document-among-its-examples", lambda: rooms(num_fewshots=2)),
        ("EC710", "lighteval-documents-asked-again", rooms),
        ("EC704", "lighteval-answer-outside-of-a-box", lambda: lighteval_task("aimo_progress_prize_1", PROBLEMS)),
        ("EC705", "lighteval-first-letter-of-a-refusal", lambda: lighteval_task("mmmu_pro:standard-10", CHOSEN)),
    ],
)
def test_tasks_of_lighteval(code: str, fault: str, made: Any) -> None:
    pytest.importorskip("lighteval", reason="lighteval is not installed")
    cell = shown(made, code, fault)
    assert cell.outcome == "known", f"{cell.outcome} {cell.reason} {cell.signature}"

"""Tasks of lm-evaluation-harness of whose prompts, answers or stop sequences released faults are."""

from __future__ import annotations

import os
from typing import Any

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

for _name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "DISABLE_MULTIPROC"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("LM_HARNESS_CACHE_PATH", os.path.join(os.path.expanduser("~"), ".cache", "lm_eval"))


def task_over(name: str, rows: list[dict[str, Any]], **overrides: Any) -> Any:
    """Return a task of the registry over these rows of its data set."""
    from pytest_evalcheck.adapters.lm_eval.registry import task

    return task(name, rows, **overrides)


PAIRS = [
    {"premise": "The cat sleeps on the mat.", "hypothesis": "An animal rests.", "label": 0},
    {"premise": "Ada reads a book.", "hypothesis": "Nobody reads.", "label": 2},
    {"premise": "It rains in Rome.", "hypothesis": "Boris has an umbrella.", "label": 1},
]


@ec.task(inputs=es.documents())
def afrixnli():
    return task_over("afrixnli_amh_prompt_1", PAIRS)


NEWS = [
    {"headline": "Bank raises rates", "text": "Rates go up.", "headline_text": "", "label": 0},
    {"headline": "Team wins cup", "text": "It won.", "headline_text": "", "label": 5},
]
for _row in NEWS:
    del _row["headline_text"]  # the data set has no such column


@ec.task(inputs=es.documents())
def masakhanews():
    accuracy = {"metric": "acc", "aggregation": "mean", "higher_is_better": True}
    return task_over("masakhanews_eng_prompt_1", NEWS, metric_list=[accuracy])  # its f1 comes from a hub


PASSAGES = [
    {
        "article": f"{name} went to the market and bought some apples.",
        "problems": repr(
            [
                {"question": f"{name} went to  _  .", "options": ["Rome", "the market", "bed", "sea"], "answer": "B"},
                {"question": f"What did {name} buy?", "options": ["apples", "pears", "nuts", "milk"], "answer": "A"},
            ]
        ),
    }
    for name in ("Ada", "Boris", "Clara")
]


@ec.task(inputs=es.documents())
def race():
    return task_over("race", PASSAGES)


SUMS = [
    {"question": f"Question: What is {n} + {n}?", "answer": f"Step-by-Step Answer: Twice {n}. The answer is {2 * n}.",
     "answer_number": 2 * n, "equation_solution": None}
    for n in (9, 17, 40)
]  # fmt: skip


@ec.task(inputs=es.documents())
def mgsm_direct():
    return task_over("mgsm_direct_en", SUMS)


STEPS = [
    {"question": f"Galdera: Zenbat da {n} + {n}?",
     "answer": f"Urratsez urratseko erantzuna: {n} gehi {n}.\nErantzuna {2 * n} da.", "answer_number": 2 * n}
    for n in (9, 17, 40)
]  # fmt: skip


@ec.task(inputs=es.documents())
def mgsm_cot_of_several_lines():
    return task_over("mgsm_native_cot_eu", STEPS)


EXAMS = [
    {"question": f"Which letter is {letter}?", **{each: f"the letter {each}" for each in "ABCDE"}, "answer": place}
    for place, letter in enumerate("ABC", 1)
]


@ec.task(inputs=es.documents())
def kormedmcqa():
    return task_over("kormedmcqa_doctor", EXAMS)


SENTENCES = [
    {"Sentence": "La casa és gran.", "Label": 1, "ID": 1, "Source": "a", "Phenomenon": "b"},
    {"Sentence": "La casa són gran.", "Label": 0, "ID": 2, "Source": "a", "Phenomenon": "b"},
]


@ec.task(inputs=es.documents())
def catcola():
    return task_over("catcola", SENTENCES)


SUBJECTS = [
    {"question": f"What is {n} + 1?", "choices": [str(n + k) for k in range(4)], "answer": 1, "subject": "algebra"}
    for n in (3, 7, 12, 20)
]


@ec.task(inputs=es.documents())
def mmlu_generative():
    return task_over("mmlu_abstract_algebra_generative", SUBJECTS)


TRUTHS = [
    {
        "question": f"What is {name}?",
        "mc2_targets": {"choices": [f"{name} is a name", "a word", "a stone", "a star"], "labels": [1, 1, 0, 0]},
        "mc1_targets": {"choices": ["a word", "a stone"], "labels": [1, 0]},
    }
    for name in ("Ada", "Boris")
]


@ec.task(inputs=es.documents())
def truthfulqa_mc2():
    return task_over("truthfulqa_mc2", TRUTHS)


KANJI = [
    {"inputs": "Which number is even?", "targets": ["2"], "multiple_choice_targets": ["2", "3"],
     "multiple_choice_scores": [1, 0], "idx": 0},
    {"inputs": "Which number follows one?", "targets": ["two"], "multiple_choice_targets": [],
     "multiple_choice_scores": [], "idx": 1},
]  # fmt: skip


@ec.task(inputs=es.documents())
def bigbench_of_free_answers():
    return task_over("bigbench_kanji_ascii_multiple_choice", KANJI)


BRACKETS = [
    {"Question": f"What is [1, {n}] + [2, 3]?", "Correct Answer": f"[3, {n + 3}]", "Incorrect Answer 1": "[1, 2]",
     "Incorrect Answer 2": "[0, 0]", "Incorrect Answer 3": "[9, 9]"}
    for n in (4, 5)
]  # fmt: skip


@ec.task(inputs=es.documents())
def gpqa():
    return task_over("gpqa_main_zeroshot", BRACKETS)


LINES = [{"question": f"q{n}", "answer": f"a{n}"} for n in range(6)]


@ec.task(inputs=es.documents())
def examples_of_the_evaluated_split():
    """A task whose examples are the first of the split that it evaluates."""
    from lm_eval.api.task import ConfigurableTask

    from pytest_evalcheck.adapters.lm_eval.registry import offline
    from pytest_evalcheck.adapters.lm_eval.runs import task_with_data

    config = {
        "task": "own", "test_split": "test", "fewshot_split": "test", "fewshot_config": {"sampler": "first_n"},
        "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{answer}}", "num_fewshot": 2,
        "generation_kwargs": {"until": ["\n"]},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    from datasets import Dataset

    with offline():
        return task_with_data(ConfigurableTask, config, {"test": Dataset.from_list(LINES)})


@ec.task(inputs=es.documents())
def examples_of_a_nested_split():
    """A task that evaluates the split which its outer configuration names for examples, and its inner one does not."""
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    from pytest_evalcheck.adapters.lm_eval.registry import offline
    from pytest_evalcheck.adapters.lm_eval.runs import task_with_data

    config = {
        "task": "own", "validation_split": "valid", "fewshot_split": "valid",
        "fewshot_config": {"sampler": "default", "split": "train"},
        "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{answer}}", "num_fewshot": 2,
        "generation_kwargs": {"until": ["\n"]},
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
    }  # fmt: skip
    others = [{"question": f"train {row['question']}", "answer": f"train {row['answer']}"} for row in LINES]
    with offline():
        return task_with_data(
            ConfigurableTask, config, {"valid": Dataset.from_list(LINES), "train": Dataset.from_list(others)}
        )


PLACES = [
    {"text": f"{name} was born in", "value": f" {place}\n"} for name, place in (("Ada", "Rome"), ("Boris", "Oslo"))
]


@ec.task(inputs=es.documents())
def swde():
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.tasks.swde.task import SWDE

    from pytest_evalcheck.adapters.lm_eval.registry import offline
    from pytest_evalcheck.adapters.lm_eval.runs import task_with_data

    class OverRows(SWDE):
        """The task without its own configuration, by which it loads its data."""

        __init__ = ConfigurableTask.__init__

    with offline():
        return task_with_data(OverRows, {"task": "swde", "num_fewshot": 0}, {"validation": Dataset.from_list(PLACES)})


STUDENTS = [
    {"context": f"{word} هنا.", "question": f"من {number}؟", "answers": {"text": [word], "answer_start": [0]}}
    for number, word in enumerate(("كمال", "كم", "جمل"))
]


@ec.task(inputs=es.documents())
def mlqa_arabic():
    return task_over("mlqa_ar_ar", STUDENTS)


CODE = [{"context": f"def f{n}():\n", "answers": [f"    return {n}"]} for n in (7, 12, 40)]


@ec.task(inputs=es.documents())
def longbench_code():
    return task_over("longbench_lcc", CODE)

"""Tasks of inspect_ai with the scorers, solvers and data sets of whose released faults there were."""

from __future__ import annotations

from typing import Any

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.strategies.documents import REWRITINGS


def task(scorer: Any, *targets: Any, solver: Any = None, choices: Any = None, **options: Any) -> Any:
    """Return a task of one question for each of these targets."""
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.solver import generate

    samples = [
        Sample(input=f"Question {place}?", target=target, choices=choices, id=place + 1)
        for place, target in enumerate(targets)
    ]
    return Task(dataset=MemoryDataset(samples), solver=solver or generate(), scorer=scorer, **options)


NAMES = ["Ada", "Boris", "Clara", "David"]


def chosen(*targets: Any, several: bool = False) -> Any:
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    return task(choice(), *targets, solver=multiple_choice(multiple_correct=several), choices=NAMES)


@ec.task(inputs=es.documents(rewritings={"comma": lambda text: f"{text},"}))
def choice_and_a_comma():
    return chosen("A", "C")


@ec.task(inputs=es.documents())
def choices_by_letter():
    return chosen("A", "C", "D")


@ec.task(inputs=es.documents(rewritings={"Oxford comma": lambda text: text.replace(" and", ", and")}))
def several_choices():
    """Several right choices: the answer is a list of their letters."""
    import dataclasses

    from pytest_evalcheck.adapters.inspect_ai.task import record

    made = record(chosen(["A", "B", "D"], ["A", "C", "D"], several=True))

    def gold(sample):
        *first, last = sample.target
        return f"{', '.join(first)} and {last}"

    return dataclasses.replace(
        made,
        gold=gold,
        response=lambda _, answer: f"ANSWER: {answer}",
        score=made.source and _marks(made),
        choices=None,
    )


def _marks(made: Any) -> Any:
    """Return the marks of all scorers: which of them are exact is found by answers that are one letter."""
    from pytest_evalcheck.adapters.inspect_ai.task import Run

    return Run(made.source).marks


@ec.task(inputs=es.documents())
def exact_numbers():
    from inspect_ai.scorer import exact

    return task(exact(), "3.14", "29", "2.5")


@ec.task(inputs=es.documents())
def exact_words():
    from inspect_ai.scorer import exact

    return task(exact(), "hello world", "one two three")


@ec.task(inputs=es.documents())
def exact_behind_a_space():
    from inspect_ai.scorer import exact

    return task(exact(), " Paris", " Rome")


DOLLARS = {**REWRITINGS, "LaTeX dollars": lambda text: rf"\${text}"}


@ec.task(inputs=es.documents(rewritings=DOLLARS))
def numbers():
    from inspect_ai.scorer import match

    return task(match(numeric=True), "29", "5", "120")


@ec.task(inputs=es.documents())
def numbers_anywhere():
    from inspect_ai.scorer import match

    return task(match(numeric=True, location="any"), "29", "5", "120")


@ec.task(inputs=es.documents())
def signed_numbers():
    from inspect_ai.scorer import match

    return task(match(numeric=True), "-5", "3.14", "-120")


HALVES = {**REWRITINGS, "half": es.Rewriting(lambda text: text.replace("0.5", "½"), "notation")}


@ec.task(inputs=es.documents(rewritings=HALVES))
def signed_fractions():
    from inspect_ai.scorer import match

    return task(match(numeric=True), "-0.5", "0.5")


ANOTHER = es.Rewriting(lambda text: f"ANSWER: B\n\nNo, that is wrong.\n\n{text}", "response")


@ec.task(inputs=es.documents(rewritings={"another answer before it": ANOTHER}))
def choices_after_another():
    return chosen("A", "C", "D")


@ec.task(inputs=es.documents())
def choices_of_a_text():
    """Choices in one text, as a column of a CSV file has them."""
    import json
    import tempfile
    from pathlib import Path

    from inspect_ai import Task
    from inspect_ai.dataset import FieldSpec, json_dataset
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    rows = [{"input": f"Question {n}?", "choices": "Ada, Boris, Clara,", "target": "ABC"[n]} for n in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        dataset = json_dataset(str(path), FieldSpec(choices="choices"))
    return Task(dataset=dataset, solver=multiple_choice(), scorer=choice())


@ec.task(inputs=es.documents())
def optional_groups():
    from inspect_ai.scorer import pattern

    return task(pattern(r"(?:is (\d+))?", match_all=True), "29", "5")


@ec.task(inputs=es.documents())
def symbols():
    from inspect_ai.scorer import answer

    return task(answer("word"), "☆", "○", "yes")


@ec.task(inputs=es.documents())
def scored_errors():
    from inspect_ai.scorer import match

    return task(match(), "29", "5", "120", score_on_error=True)


def shuffled_by_zero() -> Any:
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import match

    dataset = MemoryDataset([Sample(input=f"Question {place}?", target=str(place)) for place in range(40)])
    dataset.shuffle(seed=0)
    return Task(dataset=dataset, scorer=match())


@ec.task(inputs=es.documents())
def shuffled():
    return shuffled_by_zero()

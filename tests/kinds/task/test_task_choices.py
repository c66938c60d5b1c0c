"""Choices: labels that are rewritten, texts that name a choice twice, and long lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest_evalcheck as ec

WORDS = [
    "France",
    "Italy",
    "Peru",
    "Japan",
    "Kenya",
    "Chad",
    "Mali",
    "Oman",
    "Laos",
    "Cuba",
    "Iran",
    "Iraq",
    "Fiji",
    "Nepal",
]


def record(
    choices: Sequence[str], mark: Callable[[str], str], *, question: str = "Which country?", last: bool = False
) -> ec.Task:
    """A task whose responses are letters; ``mark`` reads one from a response."""
    documents = [{"question": question, "choices": list(choices), "answer": place} for place in range(2)]

    def prompt(document: Any) -> str:
        lines = [f"{chr(65 + place)}. {choice}" for place, choice in enumerate(document["choices"])]
        return "\n".join([document["question"], *(lines[:-1] if last else lines)])

    def reordered(document: Any, order: Sequence[int]) -> Any:
        moved = [document["choices"][place] for place in order]
        return {**document, "choices": moved, "answer": list(order).index(document["answer"])}

    return ec.Task(
        documents=documents,
        requests=lambda documents: [[ec.Request(prompt=prompt(each))] for each in documents],
        gold=lambda document: document["answer"],
        score=lambda document, responses: mark(responses[0]) == chr(65 + document["answer"]),
        choices=lambda document: document["choices"],
        reordered=reordered,
    )


def outcomes(made: ec.Task, select: str) -> dict[str, str]:
    def task() -> ec.Task:
        return made

    cells = ec.run(ec.task()(task), "cpu", select=select, effort="quick").cells
    return {cell.code: cell.signature.split(": ")[1] if cell.failure else cell.outcome for cell in cells}


def last_capital(text: str) -> str:
    """The last letter that stands alone."""
    words = "".join(sign if sign.isalnum() else " " for sign in text).upper().split()
    return next((word for word in reversed(words) if len(word) == 1), "")


def test_the_letter_of_a_choice_is_rewritten_too() -> None:
    assert outcomes(record(WORDS[:4], last_capital), "EC701,EC702,EC703,EC704,EC705") == {
        "EC701": "passed",
        "EC702": "passed",
        "EC703": "passed",
        "EC704": "passed",
        "EC705": "refusal",  # it reads the A of N/A
    }
    assert outcomes(record(WORDS[:4], str.strip), "EC702,EC703") == {
        "EC702": "written-with-lower-case",
        "EC703": "written-with-parentheses",
    }


def test_a_question_that_names_a_choice_is_no_label() -> None:
    made = record(WORDS[:3], str.strip, question="What is the capital of France?")
    assert outcomes(made, "EC715") == {"EC715": "passed"}


def test_more_choices_than_are_reordered_keep_their_places() -> None:
    assert outcomes(record(WORDS, str.strip), "EC715") == {"EC715": "passed"}


def test_a_choice_that_is_not_in_the_prompt_is_found() -> None:
    assert outcomes(record(WORDS[:3], str.strip, last=True), "EC708") == {"EC708": "choice"}
    assert outcomes(record(WORDS[:3], str.strip), "EC708") == {"EC708": "passed"}


def test_a_document_that_is_its_own_shot_has_no_other_labels() -> None:
    """EC709 reports it: the right choice of the shot moves with those of the document."""
    made = record(WORDS[:3], str.strip)
    assert made.requests is not None
    plain = made.requests

    def requests(documents: Any) -> Any:
        return [
            [ec.Request(prompt=f"{own[0].text}\nIt is {document['choices'][document['answer']]}.")]
            for own, document in zip(plain(documents), documents, strict=True)
        ]

    shown = replace(made, requests=requests, shots=lambda document: [document])
    assert outcomes(shown, "EC709,EC715") == {"EC709": "among-shots", "EC715": "passed"}

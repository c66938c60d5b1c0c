"""Rewritings of right answers, answers that are wrong, and documents by their index."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import find, given
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.strategies.documents import REWRITINGS, rewritten, wrong_answers


@pytest.mark.parametrize(
    ("answer", "names", "text"),
    [
        ("29", ["decimal"], "29.0"),
        ("29", ["cents", "dollars"], "$29.00"),
        ("-29", ["dollars"], "-$29"),
        ("29000", ["thousands"], "29,000"),
        ("29,000", ["no thousands"], "29000"),
        ("29", ["boxed"], r"\boxed{29}"),
        ("29000", ["thousands", "dollars", "bold", "sentence"], "The answer is **$29,000**."),
        ("Paris", ["upper case", "full stop"], "PARIS."),
        ("B", ["parentheses"], "(B)"),
        ("5", ["thinking"], "<think>\nThis is easy.\n</think>\n\n5"),
        ("29.5", ["decimal"], None),
        ("29", ["thousands"], None),
        ("0029", ["thousands"], None),
        ("Paris", ["dollars"], None),
        (r"\frac{a}{b}", ["upper case"], None),
        ("29", ["lower case"], None),
        (" Paris\n", ["stripped"], "Paris"),
        ("Paris", ["stripped"], None),
    ],
)
def test_a_rewriting(answer: str, names: list[str], text: str | None) -> None:
    assert rewritten(answer, names) == text


def test_an_answer_has_the_form_that_the_prompt_asks_for() -> None:
    assert (
        rewritten("29", ["dollars", "explanation"], response="#### {}".format)
        == "The steps are as follows.\n\n#### $29"
    )
    assert rewritten("29", ["sentence"], response="#### {}".format) is None


def test_a_form_with_a_full_stop_of_its_own_gets_no_other_one() -> None:
    assert rewritten("Ada", ["full stop"], response="It is {}.".format) is None
    assert rewritten("Ada", ["bold"], response="It is {}.".format) == "It is **Ada**."
    assert rewritten("Ada", ["full stop"], response="It is {}".format) == "It is Ada."
    assert rewritten("B", ["full stop"], response="{} is it".format) == "B is it."


def test_spaces_stand_around_a_response_and_not_within_it() -> None:
    assert rewritten("Ada", ["spaces"]) == " Ada "
    assert rewritten("Ada", ["spaces"], response="It is {}.".format) == " It is Ada. "


def test_a_scorer_that_fails_is_shown_the_smallest_rewriting() -> None:
    def rejects(text: str) -> bool:
        return re.fullmatch(r"[\d.]+", text) is None

    assert find(es.answers_of({"answer": "29"}), rejects) in ("$29", " 29 ", "**29**", r"\boxed{29}")
    assert find(es.answers_of("29", unequal=("dollars",)), lambda text: "." in text) in ("29.0", "29.")


@given(es.answers_of("1234", unequal=("dollars", "decimal", "cents")))
def test_what_is_declared_another_answer_is_not_drawn(text: str) -> None:
    assert "$" not in text
    assert "1234.0" not in text.replace(",", "")


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ("29", ["30", "290", "129", "-29", "2.9"]),
        ("B", ["A"]),
        ("A", ["B"]),
        ("0.5", ["1.5", "10.5", "-0.5"]),
        ("Paris", []),
    ],
)
def test_wrong_answers_are_near_the_right_one(answer: str, wrong: list[str]) -> None:
    assert [*dict.fromkeys(wrong_answers(answer))] == wrong


@given(st.integers(-10_000, 10_000).map(str))
def test_wrong_numbers_are_other_numbers(answer: str) -> None:
    assert all(float(wrong) != float(answer) for wrong in wrong_answers(answer))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"rows": "text"}, TypeError, "'text' is no sequence of documents; expected a list of them"),
        ({"unequal": {"cases": "why"}}, ValueError, "'cases' is no rewriting; did you mean"),
        ({"unequal": {"dollars": " "}}, ValueError, "expected the reason as text"),
    ],
)
def test_wrong_documents_are_refused(arguments: Mapping[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        es.documents(**arguments)


@pytest.mark.parametrize("document", [{"question": "2 + 3"}, {"answer": 5}, "", None])
def test_a_document_without_an_answer_has_no_responses(document: Any) -> None:
    with pytest.raises(ValueError, match="has no answer; expected a text, or a mapping with a text 'answer'"):
        es.answers_of(document)


def _percents(text: str) -> str | None:
    return f"{text}%" if text.isdigit() else None


def test_a_task_adds_rewritings_and_declares_others_unequal() -> None:
    rows = [{"answer": "29"}, {"answer": "31"}]

    def outcome(**keywords: Any) -> str:
        def task() -> ec.Task:
            return ec.Task(
                gold=lambda d: d["answer"], score=lambda d, r: r[0].strip("$ .0").replace(",", "") == d["answer"]
            )

        made = ec.task(inputs=es.documents(rows, **keywords))(task)
        (cell,) = ec.run(made, "cpu", select="EC702", effort="quick").cells
        return str(cell.failure.case["names"]) if cell.failure and cell.failure.case else cell.outcome

    percent = es.Rewriting(_percents, "notation")
    assert outcome() == "passed"
    assert outcome(rewritings={"percent": percent}) == "['percent']"
    assert outcome(rewritings={"percent": percent}, unequal={"percent": "the unit is asked for"}) == "passed"
    notations = [name for name, each in REWRITINGS.items() if each.of == "notation"]
    assert outcome(unequal=dict.fromkeys(notations, "answers are codes")) == "not applicable"

"""Documents that are made for tasks, forms of answers that patterns look for, and choices in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pytest_evalcheck.adapters.common.forms import best_form, exact_marks, filled, form_around
from pytest_evalcheck.adapters.common.made_documents import (
    NoDocuments,
    constants_in,
    made,
    names_in,
    reads_numbers,
    shape_of,
)
from pytest_evalcheck.adapters.common.reordering import reordered
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.expectations.failures import NotApplicable

jinja2 = pytest.importorskip("jinja2")


@pytest.mark.parametrize(
    ("pattern", "answer", "text"),
    [
        (r"#### (\-?[0-9\.\,]+)", "29", "#### 29"),
        (r"(-?[$0-9.,]{2,})|(-?[0-9]+)", "29", "29"),
        (r"(?<=the answer is )(.*)(?=.)", "(A)", "the answer is (A)."),
        (r"((?<=The answer is )(.*)(?=.)|(?<=so )(.*))", "no", "The answer is no."),
        (r"[aA]nswer:\s*([A-D])", "B", "answer:B"),
        (r"\\boxed\{(.*)\}", "29", r"\boxed{29}"),
        (r"ANSWER: \d+", "29", None),  # its match has more than the answer
        (r"([A-D])", "29", None),
        (r"(", "29", None),
    ],
)
def test_the_form_that_a_pattern_looks_for(pattern: str, answer: str, text: str | None) -> None:
    form = form_around(pattern, answer)
    assert (form and filled(form, answer)) == text


def test_the_best_form_has_the_most_full_marks() -> None:
    def marks(form: str) -> Mapping[str, float]:
        if form == "? {}":
            raise ValueError(form)
        return {"strict": float(form == "#### {}"), "lenient": float(form in ("#### {}", "{}.")), "other": 0.5}

    assert best_form(["? {}", "{}", "{}.", "#### {}", "{}."], marks) == "#### {}"
    assert best_form(["? {}"], marks) == "{}"


def test_a_mark_that_measures_likeness_is_not_exact() -> None:
    def marks(text: str) -> Mapping[str, float]:
        return {"exact": float(text == "29"), "alike": len({*"29"} & {*text}) / len({*text})}

    assert exact_marks(["29"], marks) == ("exact",)


def test_a_mark_that_never_moves_says_something_else_where_others_move() -> None:
    def marks(text: str) -> dict[str, float]:
        return {"is answered": 1.0, "exact": float(text == "29")}

    assert exact_marks(["29"], marks) == ("exact",)
    assert exact_marks(["29"], lambda _: {"always right": 1.0}) == ("always right",)
    assert exact_marks(["29"], lambda text: {"answered": 1.0, "likeness": len(text) / 50}) == ()


def test_the_fields_of_templates_and_of_functions() -> None:
    def process(document: Any) -> Any:
        return document["passage"]["title"], document["options"][0]

    templates = [
        "{{question[2:].strip()}} {% for x in items %}{{x.name}}{% endfor %}",
        "{{choices.label.index(key)}}",
        process,
    ]
    assert shape_of(templates, ["{{choices.text}}"]) == {
        "question": {},
        "items": {"[]": {"name": {}}},
        "choices": {"label": {"[]": {}}, "text": {"[]": {}}},
        "key": {},
        "passage": {"title": {}},
        "options": {"[]": {}},
    }
    assert names_in("{{a}} {% if b is not none %}{{c[0]}}{% endif %}") == ["a", "b", "c"]
    assert names_in(process) == names_in("{{broken") == []


def test_a_filter_names_the_texts_that_it_lets_through() -> None:
    from functools import partial

    def keep(document: Any, subject: str) -> bool:
        return bool(document["subject"] == subject and document["level"] != "Level 5")

    assert constants_in([partial(keep, subject="algebra")]) == ["algebra", "Level 5"]


def number(text: str) -> float | None:
    try:
        return float(text.strip("$"))
    except ValueError:
        return None


def test_a_scorer_that_converts_texts_reads_numbers() -> None:
    assert reads_numbers([len, lambda document, responses: number(responses[0]) == number(document["answer"])])
    assert not reads_numbers([lambda document, responses: int(responses[0] == document["answer"])])


def test_fields_with_a_default_are_fields() -> None:
    def text(document: Any) -> str:
        options = {"sign": "?"}
        lines = document.get("before", []), document.get("question", ""), document.get("id"), options.get("sign", "")
        return repr(lines)

    assert shape_of([text]) == {"before": {"[]": {}}, "question": {}}


def test_documents_that_a_task_accepts_are_found() -> None:
    places = {"1": 0, "2": 1}

    def accepts(documents: Sequence[Mapping[str, Any]]) -> None:
        for document in documents:
            assert document["sentence"].index("_")
            assert document["subject"] == "algebra"
            assert document["hidden"]
            assert document["nothing"] is None
            assert places[document["answer"]] in (0, 1)

    shape = shape_of(["{{sentence}} {{subject}} {{nothing}}", "{{answer}}"])
    found = made(shape, accepts, ["answer"], count=4, constants=["algebra"])
    assert len({document["sentence"] for document in found}) == len(found) == 4


def test_no_text_of_a_document_is_part_of_one_of_another() -> None:
    found = made({"question": {}, "choices": {"[]": {}}, "answer": {}}, len, ["answer"], count=60)
    texts = [text for document in found for text in (document["question"], *document["choices"])]
    assert not [(a, b) for a in texts for b in texts if a is not b and a in b]


def test_what_no_form_fits_says_what_was_tried() -> None:
    def accepts(_: Any) -> None:
        raise ValueError("it needs an image")

    with pytest.raises(NoDocuments, match=r"no documents with question are accepted \(ValueError: it needs an image\)"):
        made({"question": {}}, accepts, [])


ARC = {"question": "q", "choices": {"text": ["a", "b", "c"], "label": ["A", "B", "C"]}, "answerKey": "B"}


def _choices(document: Any) -> list[str]:
    return list(document["choices"]["text"])


def test_labels_keep_their_places_and_the_answer_moves() -> None:
    def gold(document: Any) -> int:
        return int(document["choices"]["label"].index(document["answerKey"]))

    changed = reordered(ARC, [2, 0, 1], _choices, gold)
    assert changed == {**ARC, "choices": {"text": ["c", "a", "b"], "label": ["A", "B", "C"]}, "answerKey": "C"}
    assert ARC["choices"]["text"] == ["a", "b", "c"]


def test_places_counted_from_one() -> None:
    document = {"options": ["a", "b"], "right": "1"}
    changed = reordered(document, [1, 0], lambda own: own["options"], lambda own: int(own["right"]) - 1)
    assert changed == {"options": ["b", "a"], "right": "2"}


@pytest.mark.parametrize("document", [{"text": "a b c"}, {"right": 0}, "text"])
def test_choices_that_are_no_list_cannot_be_reordered(document: Any) -> None:
    with pytest.raises(NotApplicable, match=r"reordered=\.\.\."):
        reordered(document, [1, 0], lambda _: ["a", "b"], lambda _: 0)


def test_marks_of_choices_move_along() -> None:
    document = {"targets": {"choices": ["a", "b", "c"], "labels": [1, 0, 1]}, "bits": [0, 1]}
    changed = reordered(document, [1, 2, 0], lambda own: own["targets"]["choices"], lambda _: 0)
    assert changed == {"targets": {"choices": ["b", "c", "a"], "labels": [0, 1, 1]}, "bits": [0, 1]}
    marked = {"choices": ["a", "b"], "marks": [1, 0], "right": 0}
    changed = reordered(marked, [1, 0], lambda own: own["choices"], lambda own: own["right"])
    assert changed == {"choices": ["b", "a"], "marks": [0, 1], "right": 1}


def test_tasks_of_a_registry_are_asked_for_by_name() -> None:
    from pytest_evalcheck.discovery.requests import Request

    asked = Request.parse("lm_eval.tasks:gsm8k,arc_easy")
    assert (asked.module, asked.name, asked.call) == ("lm_eval.tasks", "gsm8k,arc_easy", "")
    with pytest.raises(UsageError, match=r"registry of tasks: name some of them, such as lm_eval.tasks:gsm8k"):
        Request.parse("lm_eval.tasks")

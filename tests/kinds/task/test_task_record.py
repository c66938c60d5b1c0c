"""The record of a task, and what is said where a part of it is missing or wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.tasks_correct import SUMS, Sums
from pytest_evalcheck import strategies as es

ROWS = [{"question": f"{number} + 3", "answer": str(number + 3)} for number in range(6)]


def run(record: Callable[[], Any], select: str, **keywords: Any) -> dict[str, ec.Cell]:
    def task() -> Any:
        return record()

    cells = ec.run(ec.task(**keywords)(task), "cpu", select=select, effort="quick").cells
    return {cell.code: cell for cell in cells}


def addition(document: Any, model: Callable[..., Any]) -> bool:
    text = model(f"{document['question']} =", stops="\n", max_tokens=8)
    return bool(text.strip() == document["answer"])


class TestPlainFunction:
    def test_its_requests_are_what_it_asks_the_model(self) -> None:
        record = ec.Task.of(addition)
        assert record.requests is not None
        assert record.requests(ROWS[:2]) == [
            [ec.Request(prompt=f"{i} + 3 =", stops=("\n",), max_tokens=8)] for i in range(2)
        ]

    def test_its_score_is_what_it_returns_for_responses(self) -> None:
        record = ec.Task.of(addition)
        assert record.score is not None
        assert [record.score(ROWS[0], [text]) for text in ("3", " 3\n", "4")] == [True, True, False]

    def test_it_may_ask_for_continuations_and_send_messages(self) -> None:
        def chooses(document: Any, model: Callable[..., Any]) -> int:
            messages = [{"role": "user", "content": document["question"]}]
            return int(model(messages, continuation=" 3")[0] > model(messages, continuation=" 4")[0])

        record = ec.Task.of(chooses, gold=lambda _: 0, documents=ROWS)
        assert record.requests is not None
        first, second = record.requests(ROWS[:1])[0]
        assert (first.messages[0]["content"], first.text, first.continuation) == ("0 + 3", "0 + 3", " 3")
        assert second.continuation == " 4"
        assert run(lambda: record, "EC701")["EC701"].outcome == "passed"

    def test_checks_apply_to_it(self) -> None:
        cells = run(lambda: ec.Task.of(addition, gold=lambda d: d["answer"], documents=ROWS), "EC701,EC703,EC704,EC710")
        outcomes = {code: cell.outcome for code, cell in cells.items()}
        assert outcomes == {"EC701": "passed", "EC703": "failed", "EC704": "passed", "EC710": "passed"}

    def test_something_else_is_refused(self) -> None:
        with pytest.raises(TypeError, match=r"7 is not a function; expected function\(document, model\)"):
            ec.Task.of(7)  # type: ignore[arg-type]


class TestMissingParts:
    @pytest.mark.parametrize(
        ("code", "needs"),
        [("EC701", "gold"), ("EC706", "requests"), ("EC715", "choices"), ("EC718", "tally"), ("EC713", "requests")],
    )
    def test_what_to_give_is_said(self, code: str, needs: str) -> None:
        cell = run(lambda: ec.Task(documents=ROWS), code)[code]
        assert (cell.outcome, f"give ec.Task({needs}=...)" in cell.reason) == ("not applicable", True), cell.reason

    @pytest.mark.parametrize("code", ["EC701", "EC717"])
    def test_a_task_without_documents_says_how_to_give_them(self, code: str) -> None:
        cell = run(lambda: ec.Task(gold=len, score=lambda *_: 1, requests=lambda _: []), code)[code]
        assert (cell.outcome, "inputs=strategies.documents([...])" in cell.reason) == ("not applicable", True)

    @pytest.mark.parametrize("code", ["EC701", "EC702", "EC703", "EC704", "EC705"])
    def test_documents_without_a_right_answer_are_no_failure(self, code: str) -> None:
        rows = [{**ROWS[0], "answer": ""}, {**ROWS[1], "answer": None}]
        cell = run(lambda: ec.Task.of(addition, gold=lambda d: d["answer"], documents=rows), code)[code]
        assert (cell.outcome, "no right answer" in cell.reason) == ("not applicable", True), cell.reason

    def test_documents_of_the_target_are_used_instead(self) -> None:
        def record() -> ec.Task:
            return ec.Task.of(addition, gold=lambda document: document["answer"])

        assert run(record, "EC701", inputs=es.documents(ROWS))["EC701"].outcome == "passed"

    def test_a_tokenizer_without_a_chat_template_is_no_failure(self) -> None:
        class Plain:
            bos_token_id = None

        cells = run(lambda: ec.Task(**{**vars(Sums().record()), "tokenizer": Plain()}), "EC706,EC707")
        assert "no beginning-of-text token" in cells["EC706"].reason
        assert "no chat template" in cells["EC707"].reason


class TestMistakes:
    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("requests", lambda documents: [["text"] for _ in documents], "no list of requests for each document"),
            ("requests", lambda _: [], "no list of requests for each document"),
            ("score", lambda *_: "good", "score() gave no mark"),
            ("response", lambda *_: 7, "response() gave no text"),
            ("gold", lambda document: document["nothing"], "gold() raised an error"),
        ],
    )
    def test_a_callable_that_gives_something_else_is_named(self, field: str, value: Any, words: str) -> None:
        cell = run(lambda: ec.Task(**{**vars(Sums().record()), field: value}), "EC701")["EC701"]
        assert cell.failure is not None
        assert (cell.outcome, words in cell.failure.about) == ("failed", True), cell.failure.about

    def test_the_documents_of_a_task_are_not_changed_by_what_it_writes(self) -> None:
        def score(document: Any, responses: Any) -> bool:
            return bool(responses[0] == document.pop("answer"))

        cell = run(lambda: ec.Task(documents=SUMS, gold=lambda d: d["answer"], score=score), "EC701")["EC701"]
        assert (cell.outcome, SUMS[0]["answer"]) == ("passed", "29")

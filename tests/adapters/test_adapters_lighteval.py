"""Tasks of lighteval as tasks: prompts and examples of rows, marks of metrics, a second run; its registry by name."""

from __future__ import annotations

from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.expectations.failures import NotApplicable

pytest.importorskip("lighteval", reason="lighteval is not installed")

NAMES = ("Ada", "Boris", "Clara", "David", "Emma", "Felix")
ROWS = [{"question": f"Who is in room {n}?", "answer": name} for n, name in enumerate(NAMES)]


def made(metric: str = "exact_match", *, names: bool = False, **options: Any) -> Any:
    from lighteval.metrics.metrics import Metrics
    from lighteval.tasks.lighteval_task import LightevalTask, LightevalTaskConfig
    from lighteval.tasks.requests import Doc

    def prompt(row: Any, task_name: str | None = None) -> Any:
        choices = [" Ada", " Boris"] if names else [row["answer"]]
        return Doc(query=row["question"], choices=choices, gold_index=0, task_name=task_name)

    plain = {"name": "rooms", "hf_repo": "", "hf_subset": "", "hf_avail_splits": ["train", "test"]}
    plain |= {"evaluation_splits": ["test"], "generation_size": 8, "stop_sequence": ["\n"]}
    plain |= {"prompt_function": prompt, "metrics": [Metrics[metric]]}
    task = LightevalTask(LightevalTaskConfig(**{**plain, **options}))
    task.dataset = {
        "test": ROWS,
        "train": [{"question": f"Who is at {n}?", "answer": name} for n, name in enumerate(NAMES)],
    }
    return task


def record(*args: Any, **options: Any) -> Any:
    return adapters.record("task", made(*args, **options))


def test_a_text_is_asked_for_and_scored() -> None:
    task = record()
    ((request,), (other,)) = task.requests(ROWS[:2])
    assert (request.prompt, request.stops, request.max_tokens) == ("Who is in room 0?", ("\n",), 8)
    assert other.prompt == "Who is in room 1?"
    assert (task.gold(ROWS[0]), task.response(ROWS[0], "Ada")) == (["Ada"], "Ada")
    assert task.question(ROWS[0]) == "Who is in room 0?"
    assert task.score(ROWS[0], ["Ada"]) == {"em": 1.0}
    assert task.score(ROWS[0], ["Boris"]) == {"em": 0.0}
    assert task.shots is None


def test_choices_are_compared() -> None:
    task = record("loglikelihood_acc", names=True)
    (asked,) = task.requests(ROWS[:1])
    assert [request.continuation for request in asked] == [" Ada", " Boris"]
    assert task.gold(ROWS[0]) == 0
    assert task.response is None
    assert task.score(ROWS[0], [(-1.0, True), (-5.0, False)]) == {"acc": 1.0}
    assert task.score(ROWS[0], [(-5.0, False), (-1.0, True)]) == {"acc": 0.0}


@pytest.mark.parametrize(("labels_by", "outcome"), [("place", "passed"), ("content", "failed")])
def test_choices_are_reordered(labels_by: str, outcome: str) -> None:
    """A label that stays with its choice is found."""
    from lighteval.tasks.requests import Doc

    def prompt(row: Any, task_name: str | None = None) -> Any:
        places = (NAMES.index(text) if labels_by == "content" else place for place, text in enumerate(row["texts"]))
        shown = ", ".join(f"{'ABC'[place]}) {text}" for place, text in zip(places, row["texts"], strict=True))
        choices = [f" {text}" for text in row["texts"]]
        return Doc(query=f"{row['question']} {shown}?", choices=choices, gold_index=row["place"], task_name=task_name)

    own = made("loglikelihood_acc", prompt_function=prompt)
    own.dataset = {"test": [{"question": f"Room {n}:", "texts": [*NAMES[:3]], "place": 0} for n in range(3)]}
    (cell,) = ec.run(ec.task()(lambda: adapters.record("task", own)), "cpu", select="EC715", effort="quick").cells
    assert cell.outcome == outcome, cell.reason


def test_examples_are_rows_of_their_split() -> None:
    task = record(num_fewshots=2, few_shots_split="train", few_shots_select="sequential")
    assert [row["question"] for row in task.shots(ROWS[3])] == ["Who is at 0?", "Who is at 1?"]
    prompt = task.requests(ROWS[:1])[0][0].prompt
    assert prompt == "Who is at 0? Ada\n\nWho is at 1? Boris\n\nWho is in room 0?"
    changed = {"question": "Who is in the hall?", "answer": "Greta"}
    assert task.requests([changed])[0][0].prompt.endswith("Who is in the hall?")


def test_a_limited_run_has_the_same_examples() -> None:
    task = record(num_fewshots=2, few_shots_select="random_sampling_from_train")
    whole = task.requests(ROWS)
    assert all(whole[place] == asked for place, asked in task.other_runs["one document"](ROWS).items())


def test_a_mark_between_0_and_1_says_nothing_about_right() -> None:
    task = record("rouge1")
    with pytest.raises(NotApplicable, match="rouge1 does not say whether an answer is right"):
        task.score(ROWS[0], ["Ada"])


def test_a_run_is_counted() -> None:
    tally = record().tally(ROWS[:2], [["Ada"], ["no"]])
    assert (tally.asked, tally.scored, tally.value) == (2, 2, {"em": 0.5})
    with pytest.raises(TimeoutError):
        record().tally(ROWS[:1], [TimeoutError()])


def test_a_task_of_the_registry_by_its_name() -> None:
    from pytest_evalcheck.adapters.lighteval import registry

    task = registry.task("gsm8k|2")
    assert (task.config.num_fewshots, task.made_documents) == (2, True)
    given = registry.task("gsm8k", [{"question": "What is 1 + 1?", "answer": "2"}] * 4)
    assert given.dataset["test"][0]["answer"] == "2"
    assert len(registry.names_of("mmlu")) == 57
    with pytest.raises(UsageError, match="lighteval has no task 'gsm9k'; did you mean 'gsm8k'"):
        registry.names_of("gsm9k")

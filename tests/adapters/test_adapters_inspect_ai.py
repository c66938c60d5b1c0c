"""Tasks of inspect_ai as tasks: what solvers ask, what scorers say, and how a run counts its samples."""

from __future__ import annotations

from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.expectations.failures import NotApplicable

pytest.importorskip("inspect_ai", reason="inspect_ai is not installed")
# It leaves streams open and uses names that are to go; a warning that is an error would be that of each sample.
pytestmark = pytest.mark.filterwarnings("default")


def task(scorer: Any, *targets: Any, solver: Any = None, choices: Any = None, **options: Any) -> ec.Task:
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.solver import generate

    samples = [Sample(input=f"Question {n}?", target=each, choices=choices, id=n + 1) for n, each in enumerate(targets)]
    made = Task(dataset=MemoryDataset(samples), solver=solver or generate(), scorer=scorer, **options)
    return adapters.record("task", made)


def test_a_number_is_asked_for_and_scored() -> None:
    from inspect_ai.scorer import match

    made = task(match(numeric=True), "29", "5")
    sample = made.documents[0]
    assert made.score is not None
    assert made.gold is not None
    assert made.requests is not None
    assert made.answer is not None
    assert made.gold(sample) == ["29"]
    assert made.score(sample, ["It is 29"]) == {"match": 1.0}
    assert made.score(sample, ["It is 30"]) == {"match": 0.0}
    assert made.answer(sample, ["It is 29"]) == {"match": "29"}
    ((request,),) = made.requests([sample])
    assert request.messages == [{"role": "user", "content": "Question 0?"}]


def test_a_choice_is_asked_for_and_scored() -> None:
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    made = task(choice(), "B", "A", solver=multiple_choice(), choices=["Ada", "Boris", "Clara"])
    sample = made.documents[0]
    assert made.score is not None
    assert made.gold is not None
    assert made.response is not None
    assert made.requests is not None
    assert made.reordered is not None
    assert (made.gold(sample), made.response(sample, 1)) == (["B"], "ANSWER: B")
    assert made.score(sample, ["ANSWER: B"]) == {"choice": 1.0}
    assert "A) Ada\nB) Boris\nC) Clara" in made.requests([sample])[0][0].text
    changed = made.reordered(sample, [1, 2, 0])
    assert (changed.choices, changed.target) == (["Boris", "Clara", "Ada"], ["A"])


def test_the_form_of_an_answer_is_that_of_the_pattern() -> None:
    from inspect_ai.scorer import pattern

    made = task(pattern(r"ergo: (\d+)"), "29")
    assert made.response is not None
    assert made.response(made.documents[0], "30") == "ergo: 30"


def test_a_scorer_that_asks_a_model_is_not_run() -> None:
    from inspect_ai.scorer import model_graded_qa

    made = task(model_graded_qa(), "29")
    assert made.score is not None
    with pytest.raises(NotApplicable, match=r"it needs get_model\(\) of inspect_ai"):
        made.score(made.documents[0], ["29"])


def test_a_run_counts_its_samples() -> None:
    from inspect_ai.scorer import match

    made = task(match(numeric=True), "29", "5", "7")
    assert made.tally is not None
    tally = made.tally(made.documents, [["29"], OSError("no answer"), ["8"]])
    assert (tally.asked, tally.scored, tally.failed) == (3, 2, 1)
    assert tally.value["match/accuracy"] == 0.5


@pytest.mark.parametrize(
    ("error", "raised", "said"),
    [
        (ValueError("no unit"), RuntimeError, "no unit"),
        (
            "[bold]OPENAI_API_KEY[/bold] is missing",
            NotApplicable,
            r"\(OPENAI_API_KEY is missing\): give ec.Task\(tally",
        ),
    ],
)
def test_a_run_without_a_scored_sample_says_why(error: Any, raised: type[Exception], said: str) -> None:
    from inspect_ai._util.error import PrerequisiteError
    from inspect_ai.scorer import accuracy, scorer

    @scorer(metrics=[accuracy()])
    def failing() -> Any:
        async def score(*_: Any) -> Any:
            raise error if isinstance(error, Exception) else PrerequisiteError(error)

        return score

    made = task(failing(), "29", "5")
    assert made.tally is not None
    with pytest.raises(raised, match=said):
        made.tally(made.documents, [OSError("no answer"), ["5"]])


def test_a_name_that_leads_to_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    from pytest_evalcheck.adapters.inspect_ai import registry

    monkeypatch.setattr(registry, "_functions", lambda _: {"gsm8k": len})
    with pytest.raises(UsageError, match="inspect_evals has no task 'gsm8'; did you mean 'gsm8k'"):
        registry.task("gsm8")
    monkeypatch.undo()
    with pytest.raises(UsageError, match="the tasks of nothing_of_this_name cannot be imported"):
        registry.task("nothing_of_this_name/gsm8k")


def test_a_target_that_no_scorer_reads_is_no_answer() -> None:
    from inspect_ai.scorer import Score, Target, accuracy, match, scorer
    from inspect_ai.solver import TaskState

    @scorer(metrics=[accuracy()])
    def polite() -> Any:
        async def score(state: TaskState, target: Target) -> Score:
            del target
            return Score(value="please" in state.output.completion)

        return score

    for scorers, golds in ((polite(), []), ([polite(), match()], ["Paris"])):
        made = task(scorers, "Paris", "Rome")
        assert made.gold is not None
        assert made.gold(made.documents[0]) == golds


def test_a_solver_that_needs_a_running_sample_is_not_tried() -> None:
    from inspect_ai.scorer import match
    from inspect_ai.solver import fork, solver
    from inspect_ai.solver import generate as generate_solver
    from inspect_ai.util import checkpointer

    @solver
    def saves() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            async with checkpointer():
                return await generate(state)

        return solve

    @solver
    def forks() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            return await fork(state, generate_solver())

        return solve

    for needs, name in ((saves(), "checkpointer"), (forks(), "fork")):
        made = task(match(), "Paris", solver=needs)
        assert made.requests is not None
        with pytest.raises(NotApplicable, match=rf"{name}\(\)"):
            made.requests(made.documents)


def test_made_samples_are_those_that_the_solver_takes() -> None:
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.solver import solver

    from pytest_evalcheck.adapters.inspect_ai import registry

    @solver
    def needs_a_language() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            if "language" not in state.metadata:
                raise ValueError("a sample without its language")
            return await generate(state)

        return solve

    samples = [Sample(input="Write a loop.")]
    with pytest.raises(ValueError, match="without its language"):
        registry._require_usable(Task(dataset=MemoryDataset(samples), solver=needs_a_language()))


def test_a_chat_has_the_text_and_the_tokens_that_a_model_is_given(tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import get_model
    from inspect_ai.solver import generate, system_message

    from fixtures.targets._tokenizers import tokenizer
    from pytest_evalcheck.adapters.inspect_ai.tokens import with_model

    tokens = tokenizer("bytes_that_begin")
    sizes = {"vocab_size": len(tokens), "n_embd": 8, "n_layer": 1, "n_head": 1}
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained(tmp_path)
    tokens.save_pretrained(tmp_path)
    model = get_model(
        "hf/local", model_path=str(tmp_path), device="cpu", tokenizer_call_args={"add_special_tokens": False}
    )
    samples = [Sample(input="What is the capital of France?", target="Paris")]
    made = with_model(Task(dataset=MemoryDataset(samples), solver=[system_message("Answer."), generate()]), model)
    assert made.requests is not None
    ((request,),) = made.requests(made.documents)
    assert request.prompt.startswith("<s><|system|>\nAnswer.<|end|>\n<|user|>\nWhat is the capital of France?")
    cells = ec.run(ec.task()(lambda: made), "cpu", select="EC706,EC707", effort="quick").cells
    assert [cell.outcome for cell in cells] == ["passed", "passed"]

"""inspect_ai: a `Task`, from its samples to their scores, by its own solvers and scorers.

Solvers run with a model that notes what it is asked and gives the responses; scorers see the state that is left. For
the tally the whole task runs by ``inspect_ai.eval`` with ``mockllm/model``.
"""

from __future__ import annotations

import asyncio
import copy
import math
import re
import tempfile
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from types import TracebackType
from typing import Any

from pytest_evalcheck.adapters.common.forms import FORMS, best_form, exact_marks, filled, form_around
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.task.record import Request, Tally, Task

CLASSES = ("inspect_ai._eval.task.task.Task",)

MODEL = "mockllm/model"
_MOST_DOCUMENTS = 200
_ELSEWHERE = ("get_model", "sandbox", "sandbox_with", "subprocess", "checkpointer", "fork")
"""Functions of inspect_ai by which a solver or a scorer asks another model, or needs what only a run has."""


def record(task: Any) -> Task:
    """The record of a task: its samples are the documents."""
    run = Run(task)
    known: dict[str, Any] = {
        "documents": run.documents,
        "requests": run.requests,
        "other_runs": {"one sample": run.first_alone, "the other order": run.backwards},
        "question": run.question,
        "source": task,
    }
    if any(sample.target for sample in run.documents[:20]):
        known |= {"gold": run.gold, "response": run.response, "answer": run.answer, "tally": run.tally}
        known["score"] = run.score if task.scorer else None
    if any(sample.choices for sample in run.documents[:1]):
        known |= {"choices": run.choices, "reordered": run.reordered}
    return Task(**known)


class Run:
    """A task over samples that are given: what its solvers ask, and what its scorers say."""

    def __init__(self, task: Any) -> None:
        self._task = task
        self._form: str | None = None
        self._reads_target = False

    @cached_property
    def documents(self) -> Sequence[Any]:
        """The first samples of the data set."""
        dataset = self._task.dataset
        return [dataset[place] for place in range(min(len(dataset), _MOST_DOCUMENTS))]

    def requests(self, samples: Sequence[Any]) -> list[list[Request]]:
        """Return what the solvers ask about each sample."""
        return [self._solved(sample, [""])[0] for sample in samples]

    def first_alone(self, samples: Sequence[Any]) -> dict[int, list[Request]]:
        """Return the requests of the first sample alone."""
        return {0: self.requests(samples[:1])[0]} if samples else {}

    def backwards(self, samples: Sequence[Any]) -> dict[int, list[Request]]:
        """Return the requests of all samples, the last one first."""
        found = self.requests(list(samples)[::-1])[::-1]
        return dict(enumerate(found))

    def question(self, sample: Any) -> str:
        """Return the text of a sample's input: that of the last message of a user."""
        if isinstance(sample.input, str):
            return sample.input
        texts = [message.text for message in sample.input if message.role == "user"]
        return texts[-1] if texts else ""

    def choices(self, sample: Any) -> list[str]:
        """Return the texts of the choices."""
        return list(sample.choices or [])

    def gold(self, sample: Any) -> list[str]:
        """Return the right answers; none where no scorer reads the targets, which then say what a model should do."""
        return self._answers(sample) if self._has_answers else []

    @cached_property
    def _has_answers(self) -> bool:
        try:
            sample = next(each for each in self.documents if each.target)
            marks = self.marks(sample, [self.response(sample, self._answers(sample)[0])])
        except Exception:  # what a task does with a right answer is judged by checks
            return True
        return self._reads_target or not marks

    def _answers(self, sample: Any) -> list[str]:
        """Return the right answers; for choices one, the letters of all that are right."""
        targets = [sample.target] if isinstance(sample.target, str) else list(sample.target)
        if not sample.choices:
            return targets
        letters = [letter for target in targets for letter in target if letter not in ", "]
        if all(letter in _letters(sample) for letter in letters):
            return [", ".join(letters)]
        raise NotApplicable(
            f"the target {sample.target!r} has other words than letters of choices: give ec.Task(gold=...)"
        )

    def reordered(self, sample: Any, order: Sequence[int]) -> Any:
        """Return the sample with its choices in another order, and its target moved along."""
        letters = _letters(sample)
        moved = {letters[place]: letters[new] for new, place in enumerate(order)}
        changed = copy.deepcopy(sample)
        changed.choices = [sample.choices[place] for place in order]
        (right,) = self._answers(sample)
        changed.target = [moved[letter] for letter in right.split(", ")]
        return changed

    def response(self, sample: Any, answer: Any) -> str:
        """Return the text by which a model gives an answer: a form that the scorers accept from the right one."""
        text = _letters(sample)[answer] if isinstance(answer, int) else str(answer)
        if self._form is None:
            right, *_ = self._answers(sample)
            forms = ("ANSWER: {}",) if sample.choices else (*self._forms_of_patterns(right), *FORMS)
            self._form = best_form(forms, lambda form: self.marks(sample, [filled(form, right)]))
        return filled(self._form, text)

    def _forms_of_patterns(self, answer: str) -> list[str]:
        from inspect_ai._util.registry import registry_params

        patterns = [registry_params(scorer).get("pattern") for scorer in self._task.scorer or []]
        return [form for each in patterns if isinstance(each, str) and (form := form_around(each, answer)) is not None]

    @cached_property
    def _exact(self) -> tuple[str, ...]:
        found: list[str] = []
        for sample in [each for each in self.documents[:3] if each.target][:2]:
            answer = self.response(sample, self._answers(sample)[0])
            found += exact_marks([answer], lambda text, sample=sample: self.marks(sample, [text]))  # type: ignore[misc]
        return tuple(dict.fromkeys(found))

    def score(self, sample: Any, responses: Sequence[Any]) -> dict[str, float]:
        """Return the marks of a sample that say right or wrong, by the names of the scorers."""
        marks = self.marks(sample, responses)
        kept = {name: mark for name, mark in marks.items() if name in self._exact}
        if marks and not kept:
            raise NotApplicable(f"{', '.join(marks)} does not say whether an answer is right")
        return kept

    def marks(self, sample: Any, responses: Sequence[Any]) -> dict[str, float]:
        """Return every mark of a sample, by the name of its scorer, and its key where it has several."""
        from inspect_ai.scorer import value_to_float

        to_float = value_to_float()
        found: dict[str, float] = {}
        for name, score in self._scores(sample, responses).items():
            value = getattr(score, "value", None)
            several = value if isinstance(value, Mapping) else {"": value}
            for key, each in several.items():
                if isinstance(each, (str, bool, int, float)) and not (isinstance(each, float) and math.isnan(each)):
                    found[f"{name}/{key}" if key else name] = float(to_float(each))
        return found

    def answer(self, sample: Any, responses: Sequence[Any]) -> dict[str, Any]:
        """Return what each scorer took for the answer."""
        return {name: getattr(score, "answer", None) for name, score in self._scores(sample, responses).items()}

    def _scores(self, sample: Any, responses: Sequence[Any]) -> dict[str, Any]:
        from inspect_ai._util.registry import registry_log_name
        from inspect_ai.scorer import Target

        class Noted(Target):  # type: ignore[misc]
            def __getattribute__(noted, name: str) -> Any:  # noqa: N805
                self._reads_target |= name == "target"
                return super().__getattribute__(name)

        state = self._solved(sample, responses)[1]
        state._target = target = Noted(sample.target)
        found: dict[str, Any] = {}
        for scorer in self._task.scorer or []:
            name = registry_log_name(scorer)
            name = name if name not in found else f"{name} {len(found)}"
            found[name] = here(lambda scorer=scorer: scorer(copy.deepcopy(state), target))  # type: ignore[misc]
        return found

    def _solved(self, sample: Any, responses: Sequence[Any]) -> tuple[list[Request], Any]:
        """Return what was asked about a sample, and the state that the solvers leave with these responses."""
        asked: list[Request] = []
        config = self._task.config

        async def generate(state: Any, *_: Any, **options: Any) -> Any:
            from inspect_ai.model import ModelOutput

            text = responses[min(len(asked), len(responses) - 1)] if responses else ""
            stops = options.get("stop_seqs") or config.stop_seqs or []
            most = options.get("max_tokens") or config.max_tokens
            messages = [{"role": each.role, "content": each.text} for each in state.messages]
            asked.append(Request(messages=messages, stops=list(stops), max_tokens=most))
            state.output = ModelOutput.from_content(MODEL, text)
            state.messages.append(state.output.message)
            return state

        state = here(lambda: self._task.solver(self._state(sample), generate))
        return asked, state

    @staticmethod
    def _state(sample: Any) -> Any:
        from inspect_ai.model import ChatMessageUser, ModelName, ModelOutput
        from inspect_ai.scorer import Target
        from inspect_ai.solver import TaskState

        sample = copy.deepcopy(sample)
        messages = [ChatMessageUser(content=sample.input)] if isinstance(sample.input, str) else list(sample.input)
        return TaskState(
            model=ModelName(MODEL),
            sample_id=sample.id or 1,
            epoch=1,
            input=sample.input,
            messages=messages,
            target=Target(sample.target),
            choices=sample.choices,
            output=ModelOutput(model=MODEL, choices=[]),
            metadata=sample.metadata or {},
        )

    def tally(self, samples: Sequence[Any], responses: Sequence[Any]) -> Tally:
        """Run the whole task over samples with ``mockllm/model``, which gives each of them its responses."""
        from inspect_ai import eval as evaluate
        from inspect_ai._util.error import PrerequisiteError
        from inspect_ai.dataset import MemoryDataset
        from inspect_ai.model import ModelOutput, ModelUsage, get_model

        answers = {
            (own[0].text if own else ""): list(given) if isinstance(given, (list, tuple)) else given
            for own, given in zip(self.requests(samples), responses, strict=True)
        }

        def respond(messages: Any, *_: Any) -> Any:
            text = "\n".join(message.text for message in messages)
            given = next((each for words, each in answers.items() if words and words in text), "")
            if isinstance(given, BaseException):
                raise given
            output = ModelOutput.from_content(MODEL, given[0] if isinstance(given, list) and given else "")
            output.usage = ModelUsage()  # else tokens are counted, by a vocabulary from the network
            return output

        task = copy.copy(self._task)
        numbered = (sample.model_copy(update={"id": place}, deep=True) for place, sample in enumerate(samples, 1))
        task.dataset = MemoryDataset([*numbered])
        with tempfile.TemporaryDirectory() as folder:
            try:
                (log,) = evaluate(
                    task,
                    model=get_model(MODEL, custom_outputs=respond),
                    log_dir=folder,
                    display="none",
                    fail_on_error=False,
                    score_display=False,
                )
            except PrerequisiteError as error:
                raise _not_here(error.message) from error
            if log.results is None:  # no sample was scored: the log says why
                errors = [sample.error for sample in log.samples or () if sample.error]
                given = [str(each) for each in responses if isinstance(each, BaseException)]
                unplanned = (each for each in errors if not any(text in each.message for text in given))
                first = next(unplanned, log.error)
                if first and re.search(r"^\S*PrerequisiteError: ", first.traceback, re.MULTILINE):
                    raise _not_here(first.message)
                raise RuntimeError(first.message if first else f"the run ended as {log.status}")
        counted = log.results.scores[0]
        values = {f"{each.name}/{name}": one.value for each in log.results.scores for name, one in each.metrics.items()}
        failed = len(samples) - log.results.completed_samples
        scored, unscored = counted.scored_samples or 0, counted.unscored_samples or 0
        return Tally(asked=len(samples), scored=scored, unscored=unscored, failed=failed, value=values)


def _not_here(message: object) -> NotApplicable:
    said = " ".join(re.sub(r"\[/?\w+\]", "", str(message)).split())
    return NotApplicable(f"a run of the task needs what is not here ({said:.120}): give ec.Task(tally=...)")


def _letters(sample: Any) -> list[str]:
    return [chr(ord("A") + place) for place in range(len(sample.choices))]


def here(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Return the result of a coroutine, whatever loop is running.

    Raises:
        NotApplicable: where it asks another model or a sandbox.
    """

    async def run() -> Any:
        return await work()

    try:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(run())
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, run()).result()
    except Exception as error:
        outside = _asked_outside(error.__traceback__)
        if outside:
            raise NotApplicable(
                f"it needs {outside}() of inspect_ai: give what it scores yourself, ec.Task(score=...)"
            ) from error
        raise


def _asked_outside(trace: TracebackType | None) -> str:
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_name in _ELSEWHERE and "inspect_ai" in code.co_filename:
            return code.co_name
        trace = trace.tb_next
    return ""

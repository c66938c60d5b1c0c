"""lighteval: a `LightevalTask`, from the rows of its data set to their scores, by its own prompts and metrics.

Documents are rows. A run is a new task with its configuration over the rows that are asked for; its prompts are those
of a `PromptManager`, and no model is loaded.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import Any

from pytest_evalcheck.adapters.common.forms import FORMS, best_form, exact_marks, filled
from pytest_evalcheck.adapters.common.reordering import reordered
from pytest_evalcheck.expectations.failures import NotApplicable
from pytest_evalcheck.kinds.task.record import Request, Tally, Task

CLASSES = ("lighteval.tasks.lighteval_task.LightevalTask",)

_MOST_DOCUMENTS = 200
_PREFERRED, _OTHER = (-1.0, True), (-9.0, False)
"""Log-probabilities of continuations, and whether each token is the most likely one."""


def record(task: Any, tokenizer: Any = None) -> Task:
    """The record of a task; with a tokenizer that has a chat template, prompts are chats.

    The data set is that of the task, which is loaded here where it was not.
    """
    run = Run(task, tokenizer)
    known: dict[str, Any] = {
        "documents": run.documents,
        "requests": run.requests,
        "other_runs": {"one document": run.first_alone, "the same task again": run.again},
        "question": run.question,
        "shots": run.shots if task.config.num_fewshots else None,
        "gold": run.gold,
        "response": run.response if run.generates else None,
        "score": run.score,
        "tally": run.tally,
        "source": task,
    }
    if run.compares:
        known |= {"choices": run.choices, "reordered": run.reordered}
    if tokenizer is not None:
        known |= {"tokenizer": tokenizer, "encode": run.encode}
    return Task(**known)


class Run:
    """A task over rows that are given."""

    def __init__(self, task: Any, tokenizer: Any = None) -> None:
        from lighteval.tasks.prompt_manager import PromptManager

        self._task, self._tokenizer = task, tokenizer
        chat = bool(getattr(tokenizer, "chat_template", None))
        self._prompts = PromptManager(use_chat_template=chat, tokenizer=tokenizer)
        self._form: str | None = None

    @cached_property
    def _data(self) -> dict[str, list[Any]]:
        if self._task.dataset is None:
            self._task.dataset = self._task.download_dataset_worker(self._task)
        return {split: list(rows) for split, rows in self._task.dataset.items()}

    @cached_property
    def documents(self) -> list[Any]:
        """The first rows of the splits that are evaluated."""
        return [row for split in self._task.evaluation_split for row in self._data[split]][:_MOST_DOCUMENTS]

    def _task_over(self, rows: Sequence[Any]) -> Any:
        """Return a new task of the configuration that evaluates these rows, and has its own other splits."""
        made = type(self._task)(copy.deepcopy(self._task.config))
        first, *others = made.evaluation_split
        given = {first: [dict(row) for row in rows], **{split: [] for split in others}}
        made.dataset = {split: [dict(row) for row in own] for split, own in self._data.items()} | given
        return made

    def _with_the_others(self, rows: Sequence[Any]) -> list[Any]:
        """Return these rows and all others of the data set: a limited run chooses its examples from the whole, too."""
        if all(row in self.documents for row in rows):
            return self.documents
        return [*rows, *(row for row in self.documents if row not in rows)]

    def _by_row(self, rows: Sequence[Any], most: int | None = None, runs: int = 1) -> dict[int, Any]:
        """Return the documents of a run by the index of their row; a prompt function leaves some rows out."""
        whole = self._with_the_others(rows)
        made = self._task_over(whole)
        for _ in range(runs):
            documents = made.get_docs(most)
        found = {int(document.id): document for document in documents}
        places = {place: whole.index(row) for place, row in enumerate(rows)}
        return {place: found[at] for place, at in places.items() if at in found}

    def document(self, row: Any) -> Any:
        """Return the document of one row, which has its prompt, its choices and its right answers.

        Raises:
            NotApplicable: where the prompt function leaves the row out.
        """
        found = self._by_row([row]).get(0)
        if found is None:
            raise NotApplicable("the prompt function leaves the document out")
        return found

    def _asked(self, document: Any) -> list[Request]:
        prompt = self._prompts.prepare_prompt(document)
        found: list[Request] = []
        for method in document.sampling_methods:
            if method == "GENERATIVE":
                stops, most = tuple(document.stop_sequences or ()), document.generation_size
                found.append(Request(prompt=prompt, stops=stops, max_tokens=most))
            elif method == "LOGPROBS":
                found += [Request(prompt=prompt, continuation=choice) for choice in document.choices]
            else:
                found.append(Request(continuation=document.query))
        return found

    def requests(self, rows: Sequence[Any]) -> list[list[Request]]:
        """Return what one run over these rows asks about each of them."""
        documents = self._by_row(rows)
        return [self._asked(documents[place]) if place in documents else [] for place in range(len(rows))]

    def first_alone(self, rows: Sequence[Any]) -> dict[int, list[Request]]:
        """Return the requests of a run that is limited to one document."""
        return {place: self._asked(document) for place, document in self._by_row(rows, most=1).items()}

    def again(self, rows: Sequence[Any]) -> dict[int, list[Request]]:
        """Return the requests of the second run of one task."""
        return {place: self._asked(document) for place, document in self._by_row(rows, runs=2).items()}

    def question(self, row: Any) -> str:
        """Return the query of a row, without the instruction that it begins with."""
        document = self.document(row)
        return str(document.query).removeprefix(document.instruction or "").strip()

    def shots(self, row: Any) -> list[Any]:
        """Return the rows that are shown before this one in a run over all rows."""
        first = self._task.evaluation_split[0]
        rows = (self._data | {first: self._with_the_others([row])})[self._task.fewshot_split or first]
        return [rows[int(shot.id)] for shot in self.document(row).fewshot_samples]

    def gold(self, row: Any) -> Any:
        """Return the right answers: texts, or the index of the right choice where continuations are compared."""
        document = self.document(row)
        if self.compares:
            right = document.gold_index
            return right if isinstance(right, int) else list(right)
        return [text.strip() for text in document.get_golds()]

    def choices(self, row: Any) -> list[str]:
        """Return the texts of the choices, without the space before each."""
        return [choice.strip() for choice in self.document(row).choices]

    def reordered(self, row: Any, order: Sequence[int]) -> Any:
        """Return the row with its choices in another order."""
        return reordered(row, order, self.choices, self.gold)

    @property
    def compares(self) -> bool:
        """True where the likelihoods of choices are compared."""
        return "LOGPROBS" in self._task.sampling_methods

    @property
    def generates(self) -> bool:
        """True where the model says something, and False where continuations are compared."""
        return "GENERATIVE" in self._task.sampling_methods

    def response(self, row: Any, answer: Any) -> str:
        """Return the text by which a model gives an answer: a form that the metrics accept from the right one."""
        document = self.document(row)
        if self._form is None:
            right = document.get_golds()[0].strip()
            self._form = best_form(FORMS, lambda form: self._generated_marks(document, filled(form, right)))
        return filled(self._form, document.choices[answer].strip() if isinstance(answer, int) else str(answer))

    def _generated_marks(self, document: Any, text: str) -> dict[str, float]:
        """Return the numbers of the metrics that look at a generated text."""
        document.sampling_methods = [method for method in document.sampling_methods if method == "GENERATIVE"]
        return _numbers(self._scored([document], [[text]])[0])

    def marks(self, row: Any, responses: Sequence[Any]) -> dict[str, float]:
        """Return every number that a metric gives a row, by its name."""
        return _numbers(self._scored([self.document(row)], [responses])[0])

    @cached_property
    def _exact(self) -> tuple[str, ...]:
        """The names of the marks that are 0 or 1, for generated texts and for each choice that a model may prefer."""
        found: dict[str, None] = {}
        for row in self.documents[:2]:
            document = self.document(row)
            if self.generates:
                right = self.response(row, document.get_golds()[0].strip())
                said = exact_marks([right], lambda text, row=row: self._generated_marks(self.document(row), text))  # type: ignore[misc]
                found |= dict.fromkeys(said)
            if self.compares:
                document.sampling_methods = ["LOGPROBS"]
                count = len(document.choices)
                preferred = [[_PREFERRED if i == place else _OTHER for i in range(count)] for place in range(count)]
                marks = [_numbers(self._scored([document], [given])[0]) for given in preferred]
                found |= {name: None for name in marks[0] if all(one[name] in (0, 1) for one in marks)}
        return tuple(found)

    def score(self, row: Any, responses: Sequence[Any]) -> dict[str, float]:
        """Return the marks of a row that say right or wrong, by the names of the metrics."""
        marks = self.marks(row, responses)
        kept = {name: mark for name, mark in marks.items() if name in self._exact}
        if not kept:
            names = ", ".join(map(str, marks)) or "the metrics give no number for a document alone: that"
            raise NotApplicable(f"{names} does not say whether an answer is right")
        return kept

    def _scored(self, documents: Sequence[Any], responses: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
        """Return the results of all metrics, each with the responses to the requests of its sampling method."""
        from lighteval.metrics import apply_metric

        found: list[dict[str, Any]] = [{} for _ in documents]
        begin = [0] * len(documents)
        for method in documents[0].sampling_methods if documents else ():
            metrics = [metric for metric in self._task.metrics if metric.category == method]
            counts = [len(document.choices) if method == "LOGPROBS" else 1 for document in documents]
            own = [list(one[at : at + n]) for one, at, n in zip(responses, begin, counts, strict=True)]
            begin = [at + n for at, n in zip(begin, counts, strict=True)]
            given = [_response(document, one) for document, one in zip(documents, own, strict=True)]
            for result, more in zip(found, apply_metric(given, list(documents), metrics), strict=True):
                result |= more
        return found

    def tally(self, rows: Sequence[Any], responses: Sequence[Any]) -> Tally:
        """Score all rows and aggregate their numbers, as a `Pipeline` does with what its model has said."""
        from lighteval.logging.info_loggers import MetricsLogger

        for given in responses:
            if isinstance(given, BaseException):
                raise given  # a pipeline ends with it
        made, documents = self._task_over(rows), self._by_row(rows)
        places = sorted(documents)
        log = MetricsLogger()
        for result in self._scored([documents[place] for place in places], [responses[place] for place in places]):
            log.log(made.full_name, result)
        log.aggregate({made.full_name: made}, bootstrap_iters=0)
        value = dict(log.metric_aggregated[made.full_name])
        return Tally(asked=len(rows), scored=len(places), value=value)

    def encode(self, request: Request) -> tuple[list[int], list[int]]:
        """Return the token ids of a prompt and its continuation, as a `LightevalModel` joins them."""
        from lighteval.models.abstract_model import LightevalModel

        model: Any = SimpleNamespace(tokenizer=self._tokenizer, add_special_tokens=not self._prompts.use_chat_template)
        encoded: Callable[..., Any] = LightevalModel.tok_encode
        model.tok_encode = lambda text, add_special_tokens=None: encoded(model, text, add_special_tokens)
        if request.continuation is None:
            return list(model.tok_encode(request.prompt)), []
        (ids,), (continuation,) = LightevalModel.tok_encode_pair(model, request.prompt, [request.continuation])
        return list(ids), list(continuation)


def _numbers(found: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(value) for name, value in found.items() if isinstance(value, bool | int | float)}


def _response(document: Any, given: Sequence[Any]) -> Any:
    from lighteval.models.model_output import ModelResponse

    if all(isinstance(one, str) for one in given):
        texts = [str(one) for one in given] or [""]
        return ModelResponse(text=texts * max(1, document.num_samples))
    scores, greedy = zip(*given, strict=True)
    tokens = [[place] for place in range(len(given))]
    return ModelResponse(logprobs=list(scores), argmax_logits_eq_gold=list(greedy), output_tokens=tokens)

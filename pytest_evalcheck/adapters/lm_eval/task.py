"""lm-evaluation-harness: a task, from its documents to their marks, by its own templates, samplers and metrics.

Documents are those after ``process_docs``. A copy of the task has the documents that are asked for in place of its own,
so that nothing is loaded twice; shots come from its own sampler.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from inspect import signature
from io import StringIO
from typing import Any
from unittest.mock import patch

from pytest_evalcheck.adapters.common.forms import FORMS, best_form, exact_marks, filled, form_around
from pytest_evalcheck.adapters.common.made_documents import names_in
from pytest_evalcheck.adapters.common.network import loads
from pytest_evalcheck.adapters.common.reordering import reordered
from pytest_evalcheck.expectations.failures import NotApplicable, NotCheckable
from pytest_evalcheck.kinds.task.record import Request, Tally, Task

CLASSES = ("lm_eval.api.task.Task",)

_SEED = 1234
"""The seed of shots that ``simple_evaluate`` has by default."""
_SHOTS = 2
"""The number of shots of a task whose configuration leaves it to the run."""
_MOST_DOCUMENTS = 200


def record(task: Any) -> Task:
    """The record of a task without a model: prompts are plain text."""
    return with_model(task, None)


def with_model(task: Any, lm: Any, *, chat: bool = False, **fields: Any) -> Task:
    """The record of a task that a model of lm_eval is asked.

    Args:
        task: a task of lm_eval.
        lm: an `HFLM`, whose tokens and stops are looked at as well; nothing is generated. None for no model.
        chat: whether its chat template is applied, as with ``apply_chat_template``.
        fields: of `Task`, added to these or instead of them.
    """
    run = Run(task, lm if chat else None)
    known: dict[str, Any] = {
        "documents": run.documents,
        "requests": run.requests,
        "other_runs": {"limit 2": run.limited, "rank 1 of 2": run.second_rank},
        "question": run.question if run.has_text else None,
        "fields": run.fields,
        "shots": run.shots if run.shot_count else None,
        "source": task,
    }
    if run.has_gold:
        known |= {"gold": run.gold, "response": run.response, "answer": run.answer, "tally": run.tally}
        known["score"] = run.score if run.metrics else None
    if run.chooses:
        known |= {"choices": run.choices, "reordered": run.reordered}
    if lm is not None and hasattr(lm, "tokenizer"):
        from pytest_evalcheck.adapters.lm_eval.tokens import cut, encode

        known |= {"tokenizer": lm.tokenizer, "encode": encode(lm), "cut": cut(lm)}
    return Task(**{**known, **fields})


@cache
def _template(source: str) -> Any:
    from lm_eval.utils import env

    return type(env).from_string(env, source)


@contextmanager
def called() -> Iterator[None]:
    """Call the task in this block. Each template is compiled once: lm_eval does so for every document.

    Raises:
        NotApplicable: where the task loads what is not on this machine.
        NotCheckable: where a template fails on its document, so that nothing is known of the task.
    """
    from jinja2 import TemplateError
    from lm_eval.utils import env

    try:
        with patch.object(env, "from_string", _template):
            yield
    except TemplateError as error:
        raise NotCheckable(
            f"a template of the task fails on a document: {error}; give documents with all fields that it names"
        ) from error
    except (OSError, LookupError) as error:
        if loads(error):
            raise NotApplicable(f"the task loads what is not on this machine: {error}"[:300]) from error
        raise


class Run:
    """A task over documents that are given: requests, shots, marks."""

    def __init__(self, task: Any, lm: Any = None) -> None:
        self._task, self._lm = task, lm
        self._chats: list[Any] = []
        config = task.config
        self._type = task.OUTPUT_TYPE
        self.has_gold = self._type != "loglikelihood_rolling"
        self.chooses = self._type == "multiple_choice" and not getattr(task, "multiple_input", 0)
        self.has_text = not getattr(task, "multiple_input", 0) and self._type != "loglikelihood_rolling"
        given = config.num_fewshot
        sampler = getattr(task, "sampler", None)
        pool = getattr(sampler, "df", None) or getattr(sampler, "docs", None)  # releases before 0.4.10
        self.shot_count = (_SHOTS if given is None else given) if pool else 0
        self.pool = list(pool or ()) if self.shot_count else []
        self.form: str | None = None
        template = getattr(config, "doc_to_text", None)
        there = set(getattr(task, "features", ()))
        self.fields = (template,) if isinstance(template, str) and template in there else tuple(names_in(template))

    @cached_property
    def documents(self) -> Sequence[Any]:
        """The first documents that the task evaluates."""
        docs = self._task.eval_docs
        return [docs[place] for place in range(min(len(docs), _MOST_DOCUMENTS))]

    def with_documents(self, documents: Sequence[Any]) -> Any:
        """Return a copy of the task that evaluates these documents."""
        task = copy.copy(self._task)
        task._config = copy.copy(task._config)
        task.test_docs = task.validation_docs = lambda: list(documents)
        task._instances = None
        if hasattr(task, "sampler"):
            task.sampler = copy.copy(task.sampler)
        if task.config.num_fewshot is None:
            task._config.num_fewshot = self.shot_count
        task.set_fewshot_seed(_SEED)
        return task

    @called()
    def _built(self, task: Any, **options: Any) -> list[Any]:
        if self._lm is not None:
            from lm_eval import simple_evaluate

            turns = signature(simple_evaluate).parameters["fewshot_as_multiturn"].default
            options |= {"apply_chat_template": True, "chat_template": self._chat, "fewshot_as_multiturn": turns}
            options["tokenizer_name"] = self._lm.tokenizer_name
            task.construct_requests = self._with_chats(task.construct_requests)
        with redirect_stderr(StringIO()):  # a progress bar for each run
            task.build_all_requests(**options)
        return list(task.instances)

    def _chat(self, messages: Any, **options: Any) -> str:
        self._chats.append(messages)
        return str(self._lm.apply_chat_template(messages, **options))

    def _with_chats(self, construct: Callable[..., Any]) -> Callable[..., Any]:
        """Return a maker of requests that notes in each of them the messages of its context."""

        def constructed(*args: Any, **kwargs: Any) -> Any:
            made = construct(*args, **kwargs)
            chats, self._chats = self._chats, []
            for place, instance in enumerate(made if isinstance(made, list) else [made]):
                instance.messages = chats[place % len(chats)] if chats else ()
            return made

        return constructed

    def requests(self, documents: Sequence[Any]) -> list[list[Request]]:
        """Return the requests of each document."""
        found = self._by_document(self._built(self.with_documents(documents)))
        return [found.get(place, []) for place in range(len(documents))]

    def limited(self, documents: Sequence[Any]) -> dict[int, list[Request]]:
        """Return the requests of a run with a limit, by document."""
        return self._by_document(self._built(self.with_documents(documents), limit=2))

    def second_rank(self, documents: Sequence[Any]) -> dict[int, list[Request]]:
        """Return the requests of the second of two ranks, by document."""
        if len(documents) < 2:
            return {}
        return self._by_document(self._built(self.with_documents(documents), rank=1, world_size=2))

    @staticmethod
    def _by_document(instances: Iterable[Any]) -> dict[int, list[Request]]:
        found: dict[int, list[Request]] = {}
        for instance in instances:
            found.setdefault(instance.doc_id, []).append(request_of(instance))
        return found

    @called()
    def question(self, document: Any) -> str:
        """Return the text of a document, as its template gives it."""
        return str(self._task.doc_to_text(document))

    def shots(self, document: Any) -> list[Any]:
        """Return the documents that the sampler gave for this one."""
        task = self.with_documents([document])
        shown: list[Any] = []
        sample = task.sampler.sample

        def noted(*args: Any, **kwargs: Any) -> Any:
            found = sample(*args, **kwargs)
            shown.extend(found)
            return found

        task.sampler.sample = noted
        self._built(task)
        return shown

    @called()
    def choices(self, document: Any) -> list[str]:
        """Return the texts of the choices."""
        return list(self._task.doc_to_choice(document))

    def reordered(self, document: Any, order: Sequence[int]) -> Any:
        """Return the document with its choices in another order."""
        return reordered(document, order, self.choices, self.gold)

    @called()
    def gold(self, document: Any) -> Any:
        """Return the right answer: the index of a choice, or what the metrics leave of the target."""
        if getattr(self._task, "multiple_input", 0):
            return self._task.doc_to_text(document)
        target = self._task.doc_to_target(document)
        if self._type == "multiple_choice":
            return _index(target, self.choices(document))
        if self._type == "generate_until" and self._task.config.doc_to_choice is not None:
            target = self.choices(document)[target]
        answers = list(target) if isinstance(target, (list, tuple)) else [target]
        return [self._final(str(answer)) for answer in answers if answer is not None]

    def _final(self, target: str) -> str:
        """Return the end of a worked answer, where the metrics ignore what is before it."""
        for metric in self._task.config.metric_list or []:
            for pattern in metric.get("regexes_to_ignore") or []:
                left = re.sub(pattern, "", target)
                if left and target.endswith(left):
                    target = left
        return target

    def response(self, document: Any, answer: Any) -> str:
        """Return the text by which a model gives an answer: as the task's own target, or as its filters look for it."""
        if self.form is None:
            self.form = self._found_form(document)
        return self._written(self.form, document, str(answer))

    @called()
    def _written(self, form: str, document: Any, answer: str) -> str:
        if form != "target":
            return filled(form, answer)
        target = self._task.doc_to_target(document)
        text = target[0] if isinstance(target, (list, tuple)) and target else target
        final = self._final(str(text))
        return str(text).removesuffix(final) + answer

    def _found_form(self, document: Any) -> str:
        golds = self.gold(document)
        if not golds or not isinstance(golds, list):
            return "{}"
        forms = ("target", "{}", *self._forms_of_filters(golds[0]), *FORMS)
        return best_form(forms, lambda form: self.marks(document, [self._written(form, document, golds[0])]))

    def _forms_of_filters(self, answer: str) -> list[str]:
        filters = [one for each in self._task.config.filter_list or [] for one in each["filter"]]
        patterns = [one["regex_pattern"] for one in filters if "regex_pattern" in one]
        return [form for pattern in patterns if (form := form_around(pattern, answer)) is not None]

    @cached_property
    def metrics(self) -> tuple[str, ...]:
        """The marks that say right or wrong, by ``metric,filter``; found once for all records of a task."""
        self.form, found = _form_and_metrics(self._task)
        return found

    def found_metrics(self) -> tuple[str, ...]:
        if self._type != "generate_until":
            return ("*",) if self.documents else ()
        found: list[str] = []
        for document in self.documents[:2]:
            golds = [self.response(document, answer) for answer in self.gold(document)[:1]]
            names = exact_marks(golds, lambda text, document=document: self.marks(document, [text]))  # type: ignore[misc]
            if getattr(self._task, "made_documents", False):
                names = tuple(self._marks_of_answers(document, golds, names))
            found += names
        return tuple(dict.fromkeys(found))

    def _marks_of_answers(self, document: Any, golds: Sequence[str], names: Sequence[str]) -> list[str]:
        """Return the marks that a made answer gets, without metrics that look at the form of a response alone.

        One that it does not get may want an answer of another kind. One that the answer to another document gets, too,
        is left out beside another metric, which tells the two apart, or which no made answer gets.
        """
        right = self.marks(document, golds)
        kept = [name for name in names if right.get(name, 0) == 1]
        others = (answer for other in self.documents for answer in self.gold(other))
        wrong = next((text for answer in others if (text := self.response(document, answer)) not in golds), None)
        try:
            marks = {} if wrong is None else self.marks(document, [wrong])
        except Exception:  # what a task does with a wrong answer is judged by checks
            marks = {}
        metrics = {name: name.partition(",")[0] for name in right}
        telling = {metrics[name] for name in kept if marks.get(name, 0) < 1}
        missed = {metrics[name] for name, mark in right.items() if mark < 1} - {metrics[name] for name in kept}
        return [name for name in kept if metrics[name] in telling] or ([] if missed else kept)

    def score(self, document: Any, responses: Sequence[Any]) -> dict[str, float]:
        """Return the marks of a document that say right or wrong, by ``metric,filter``."""
        marks = self.marks(document, responses)
        kept = {name: mark for name, mark in marks.items() if self.metrics == ("*",) or name in self.metrics}
        if not kept:
            raise NotApplicable(f"no metric of {', '.join(marks) or 'the task'} says whether an answer is right")
        return {name.removesuffix(",none"): mark for name, mark in kept.items()}

    def marks(self, document: Any, responses: Sequence[Any]) -> dict[str, float]:
        """Return all numbers of a document that are better the higher they are, as shares of a full mark."""
        return {name: mark / _full(mark) for name, mark in self._numbers(document, responses).items()}

    @called()
    def _numbers(self, document: Any, responses: Sequence[Any]) -> dict[str, float]:
        task = self.with_documents([document])
        rising, totals = task.higher_is_better() or {}, task.aggregation() or {}
        found: dict[str, float] = {}
        for name, results in self._filtered(task, responses):
            for metric, value in task.process_results(copy.deepcopy(document), results).items():
                mark = _mark(value, totals.get(metric))
                if mark is not None and rising.get(metric, True):
                    found[f"{metric},{name}"] = mark
        return found

    def _filtered(self, task: Any, responses: Sequence[Any]) -> list[tuple[str, list[Any]]]:
        instances = self._instances(task)
        if len(instances) != len(responses):
            raise ValueError(
                f"the task asks {len(instances)} requests of this document, and got {len(responses)} responses"
            )
        for instance, response in zip(instances, responses, strict=True):
            instance.resps = [response] * (instance.repeats or 1)
        task._instances = instances
        task.apply_filters()
        names = list(instances[0].filtered_resps)
        return [(name, [instance.filtered_resps[name] for instance in instances]) for name in names]

    def _instances(self, task: Any) -> list[Any]:
        """Return the requests of the one document without its context, which no mark depends on."""
        (document,) = task.eval_docs
        context = [""] * task.multiple_input if getattr(task, "multiple_input", 0) else ""
        made = task.construct_requests(
            doc=document, ctx=context, metadata=(task.config.task, 0, task.config.repeats), apply_chat_template=False
        )
        return made if isinstance(made, list) else [made]

    @called()
    def answer(self, document: Any, responses: Sequence[Any]) -> dict[str, Any]:
        """Return what each filter leaves of the responses."""
        return dict(self._filtered(self.with_documents([document]), responses))

    @called()
    def tally(self, documents: Sequence[Any], responses: Sequence[Any]) -> Tally:
        """Run ``simple_evaluate`` over the documents, with a model that gives these responses."""
        from pytest_evalcheck.adapters.lm_eval.runs import evaluated
        from pytest_evalcheck.adapters.lm_eval.tokens import Answering

        task = self.with_documents(documents)
        with redirect_stderr(StringIO()):
            output = evaluated(Answering(list(responses)), task, confirm_run_unsafe_code=True)  # it runs already
        (name,) = output["results"]
        counted = output["n-samples"][name]["effective"]
        results = output["results"][name]
        values = {key: value for key, value in results.items() if "," in key and "_stderr" not in key}
        return Tally(asked=len(documents), scored=counted, value=values)


@lru_cache(maxsize=4)
def _form_and_metrics(task: Any) -> tuple[str | None, tuple[str, ...]]:
    run = Run(task)
    metrics = run.found_metrics()
    return run.form, metrics


def request_of(instance: Any) -> Request:
    """Return the request of an instance of lm_eval, with the messages of its context where they were noted."""
    arguments = instance.args
    if instance.request_type == "loglikelihood_rolling":
        return Request(continuation=arguments[0])
    asked = Request(prompt=arguments[0], messages=getattr(instance, "messages", ()) if arguments[0] else ())
    if instance.request_type != "generate_until":
        return replace(asked, continuation=arguments[1])
    options = arguments[1] or {}
    until = options.get("until") or []
    names = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")
    most = next((options[name] for name in names if options.get(name) is not None), None)
    return replace(asked, stops=[until] if isinstance(until, str) else list(until), max_tokens=most)


def _index(target: Any, choices: Sequence[str]) -> Any:
    if isinstance(target, (list, tuple)):
        return [_index(each, choices) for each in target]
    if isinstance(target, str):
        return choices.index(target) if target in choices else target
    return target


def _full(mark: float) -> float:
    """Return the full mark on the scale of this one: a share, or a percentage."""
    return 100.0 if mark > 1 else 1.0


def _mark(value: Any, aggregate: Any) -> float | None:
    """Return a number as a mark, a pair of labels as whether they are equal, and one of counts as their share.

    None for anything else, and for a share of nothing.
    """
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(_whole(each) for each in value):
        if not _counts(aggregate):
            return float(value[0] == value[1])
        value = value[0] / value[1] if value[1] else None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if 0 <= number <= 100 else None


@cache
def _counts(aggregate: Any) -> bool:
    """Return whether an aggregation of pairs divides counts: of labels that all differ the value is not full."""
    try:
        return float(aggregate([(0, 1), (1, 0)])) == 1
    except Exception:  # it takes other values than pairs
        return False


def _whole(value: Any) -> bool:
    return isinstance(value, int) or "int" in getattr(getattr(value, "dtype", None), "name", "")

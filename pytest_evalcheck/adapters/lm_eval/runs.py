"""lm-evaluation-harness: a `ConfigurableTask`, run as a whole on the drawn documents.

Every run creates a new task of the same configuration, over a data set in memory, and a model that returns the drawn
responses. `lm_eval.simple_evaluate` runs it. Two things that take most of the time of so small a task are cached
between runs: the index of all tasks by name, of which none is used, and the description of the machine in its report.
"""

from __future__ import annotations

import dataclasses
import logging
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import uuid4

from pytest_evalcheck.kinds.common.intervals import Interval
from pytest_evalcheck.kinds.scorer.subject import Score, Scorer, Several

ANOTHER_MODEL, OTHER_ARGUMENTS = "another model", "other arguments"
FEWEST_DRAWS = 2
"""The number of bootstraps, where a standard error has no formula: without any, lm_eval gives no errors at all."""


def record(task: Any) -> Scorer:
    """The record of a task: ``score`` returns what was logged of a document, as ``{"metric,filter": value}``.

    Its parts are its filters or, where it has one filter, its metrics. In parallel it runs on two ranks, which are
    threads; a single document runs on one rank (`on_two_ranks` runs it on two). The cache holds the responses of models
    in one file, as with ``use_cache``.
    """
    run = Run(task)
    return Scorer(
        score=run.score,
        parallel={"ranks": lambda responses, documents: run.on_ranks(min(2, len(documents)), responses, documents)},
        parts=run.parts,
        together=run.together if run.parts else None,
        numbers=run.numbers if run.generates else None,
        summary=run.summary,
        intervals=run.intervals,
        settings=("", ANOTHER_MODEL, *run.settings[1:]),
        cached=lambda setting, folder: run.cached(setting, folder / "responses"),
        scored_with=run.scored_with if run.generates else None,
        configuration=run.configuration,
        source=task,
    )


def on_two_ranks(task: Any) -> Scorer:
    """The record of a task that runs on two ranks even with one document."""
    return dataclasses.replace(record(task), parallel={"2 ranks": partial(Run(task).on_ranks, 2)})


def with_model_cache(task: Any) -> Scorer:
    """The record of a task that caches the responses of every model in a file of its own."""
    run = Run(task)

    def cached(setting: str, folder: Path) -> tuple[Score, Score]:
        def score(responses: Any, documents: Any) -> Any:
            model = zlib.crc32(repr((responses, documents)).encode())
            return run.cached(setting, folder / f"{model}")[1](responses, documents)

        return run.cached(setting, folder)[0], score

    return dataclasses.replace(record(task), settings=run.settings, cached=cached)


def with_cached_requests(task: Any) -> Scorer:
    """The record of a task that caches the requests to its model, as with ``cache_requests``."""
    run = Run(task)

    def cached(setting: str, folder: Path) -> tuple[Score, Score]:
        def score(responses: Any, documents: Any) -> Any:
            with patch("lm_eval.caching.cache.PATH", str(folder)):
                return run.with_responses(responses, documents, setting=setting, cache_requests=True)

        return partial(run.with_responses, setting=setting), score

    return dataclasses.replace(record(task), settings=run.settings, cached=cached)


class Run:
    """Runs of the tasks that have the configuration of this one."""

    def __init__(self, task: Any) -> None:
        self._kind, self._splits = type(task), task.dataset
        self._config = {field.name: getattr(task.config, field.name) for field in dataclasses.fields(task.config)}
        self._split = task.config.test_split or task.config.validation_split
        self.generates = task.OUTPUT_TYPE == "generate_until"
        self.settings = ("", OTHER_ARGUMENTS) if self.generates else ("",)
        self._arguments: dict[str, Any] = self._config["generation_kwargs"] or {}
        self._limit = self._arguments.get("max_gen_toks")
        self._part = "filter_list" if len(self._config["filter_list"] or []) > 1 else "metric_list"
        self._by_name = {_name_of(part): part for part in self._config[self._part] or []}
        self.parts = tuple(self._by_name) if len(self._by_name) > 1 else ()
        filters = [part["name"] for part in self._config["filter_list"] or [{"name": "none"}]]
        self.intervals = tuple(
            Interval(value=f"{name},{each}", error=f"{name}_stderr,{each}", trials=60)
            for name in _averaged(task)
            for each in filters
        )

    def configuration(self) -> dict[str, Any]:
        """Everything but the data set."""
        return {name: value for name, value in self._config.items() if name != "custom_dataset"}

    def score(self, responses: Any, documents: Any, **changes: Any) -> list[Any]:
        """The numbers of every document by metric and filter, in the order in which they were logged."""
        return [numbers for numbers, _ in self._logged(self._evaluate(responses, documents, **changes))]

    def with_responses(self, responses: Any, documents: Any, **changes: Any) -> list[Any]:
        """The same, with the responses that were scored: a wrong one from a cache need not change a score."""
        logged = self._logged(self._evaluate(responses, documents, **changes))
        return [{**numbers, "responses": responses} for numbers, responses in logged]

    def cached(self, setting: str, path: Path) -> tuple[Score, Score]:
        """Scores without a cache and with responses that are cached in a file."""
        plain = partial(self.with_responses, setting=setting)
        return plain, partial(self.with_responses, setting=setting, use_cache=path)

    def together(self, names: Sequence[str], responses: Any, documents: Any) -> list[dict[str, Any]]:
        """The numbers of every document by the names of these filters, or of these metrics."""
        changes = {self._part: [self._by_name[name] for name in names]}
        key_part = 1 if self._part == "filter_list" else 0  # of "metric,filter"
        results: list[dict[str, Any]] = []
        for scores in self.score(responses, documents, changes=changes):
            by_name: dict[str, Any] = {name: {} for name in names}
            for key, value in scores.items():
                by_name.setdefault(key.rsplit(",", 1)[key_part], {})[key] = value
            results.append(by_name)
        return results

    def numbers(self, functions: Sequence[Several], responses: Any, documents: Any) -> dict[str, Any]:
        """The aggregated numbers of functions instead of the task's own metrics, by name without their filter.

        In a task with ``process_results`` one function replaces it; in any other task the functions are metrics, with
        one aggregation each.
        """
        changes = _as_process_results(functions) if self._config["process_results"] else _as_metrics(functions)
        changes["filter_list"] = [{"name": "all", "filter": [{"function": "custom", "filter_fn": _all_responses}]}]
        (results,) = self._evaluate(responses, documents, changes=changes)["results"].values()
        numbers = {key.rsplit(",", 1)[0]: value for key, value in results.items() if "," in key}
        return {name: value for name, value in numbers.items() if not name.endswith("_stderr")}

    def scored_with(self, function: Callable[..., Any], responses: Any, documents: Any) -> list[Any]:
        """The scores with a function in place of the task's ``process_results`` or of its metrics."""
        if self._config["process_results"]:
            return self.score(responses, documents, changes={"process_results": function})
        metric = {"metric": function, "aggregation": _mean, "higher_is_better": True}
        return self.score(responses, documents, changes={"metric_list": [metric]})

    def on_ranks(self, count: int, responses: Any, documents: Any) -> list[Any]:
        """The scores of several ranks, joined by the document that each sample names."""
        from pytest_evalcheck.adapters.lm_eval.model import RankGroup, RankLM

        group = RankGroup(count)

        def work(rank: int) -> Any:
            task = self._task(documents, {})
            model = RankLM(rank, group, responses, _documents_of(task, documents), self._limit)
            return evaluated(model, task)

        with _quietly():
            return [numbers for numbers, _ in self._logged(group.run(work), joined=True)]

    def chosen_backwards(self, responses: Any, documents: Any) -> list[Any]:
        """The scores of all documents, selected by number from the last to the first, and joined by that number."""
        numbers = list(range(len(documents)))[::-1]
        logged = self._logged(self._evaluate(responses, documents, samples=numbers), joined=True)
        return [scores for scores, _ in logged]

    def summary(self, responses: Any, documents: Any) -> dict[str, Any]:
        """The numbers of all documents, with their standard errors; ``N/A`` where none is computed.

        A metric whose function gives numbers of other names has none of its own: None.
        """
        (results,) = self._evaluate(responses, documents, bootstrap_iters=FEWEST_DRAWS)["results"].values()
        return {**{key: None for one in self.intervals for key in (one.value, one.error)}, **results}

    def with_model(self, model: Any, documents: Sequence[Any], **options: Any) -> Any:
        """The results of a model on these documents, as ``simple_evaluate`` gives them."""
        with _quietly():
            return evaluated(model, self._task(documents, {}), **options)

    def together_with_model(self, model: Any, documents: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """The results of one evaluation of several tasks, each with documents of its own, by their names."""
        with _quietly():
            output = evaluated(model, *(self._task(own, {"task": name}) for name, own in documents.items()))
        return {name: {part: {name: output[part][name]} for part in ("results", "samples")} for name in documents}

    def _evaluate(
        self,
        responses: Any,
        documents: Any,
        *,
        changes: Mapping[str, Any] | None = None,
        setting: str = "",
        use_cache: Path | None = None,
        **options: Any,
    ) -> Any:
        from pytest_evalcheck.adapters.lm_eval.model import ScriptedLM

        with _quietly():
            if setting == OTHER_ARGUMENTS:
                arguments = {**self._arguments, "max_gen_toks": (self._limit or 0) + 1}
                changes = {**(changes or {}), "generation_kwargs": arguments}
            task = self._task(documents, changes or {})
            name = setting if setting == ANOTHER_MODEL else ""
            model: Any = ScriptedLM(list(responses), _documents_of(task, documents), self._limit, name)
            try:
                return evaluated(model, task, use_cache=None if use_cache is None else str(use_cache), **options)
            finally:
                if use_cache is not None:
                    model.cache_hook.dbdict.close()

    def _task(self, documents: Sequence[Any], changes: Mapping[str, Any]) -> Any:
        splits = {**(self._splits or {}), self._split: _data_set(documents)}
        task = task_with_data(self._kind, {**self._config, **changes}, splits)
        if task.config.num_fewshot is None:
            task.set_config("num_fewshot", 0)
        task.set_fewshot_seed(0)
        return task

    def _logged(self, results: Any, joined: bool = False) -> list[tuple[dict[str, Any], Any]]:
        samples = logged_samples(results)
        by_filter: dict[str, list[Any]] = {}
        for sample in samples:
            by_filter.setdefault(sample["filter"], []).append(sample)
        if joined:
            by_filter = {name: sorted(own, key=lambda entry: entry["doc_id"]) for name, own in by_filter.items()}
        logged: list[tuple[dict[str, Any], Any]] = []
        for entries in zip(*by_filter.values(), strict=True):
            numbers = {f"{name},{entry['filter']}": entry[name] for entry in entries for name in entry["metrics"]}
            logged.append((numbers, entries[0]["resps"]))
        return logged


def logged_samples(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The logged samples of the one task of an evaluation, each with its filter and the names of its metrics.

    Releases before 0.4.6 leave both out: a document is logged once for each filter, in their order.
    """
    (samples,), (results,) = output["samples"].values(), output["results"].values()
    filters = list(dict.fromkeys(key.rsplit(",", 1)[1] for key in results if "," in key))
    seen: Counter[int] = Counter()
    logged = []
    for sample in samples:
        metrics = [name for name in sample if name not in _FIELDS]
        logged.append({"filter": filters[seen[sample["doc_id"]] % len(filters)], "metrics": metrics, **sample})
        seen[sample["doc_id"]] += 1
    return logged


_FIELDS = {
    *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
    *("doc_hash", "prompt_hash", "target_hash", "schema_version"),
}
"""Keys of a logged sample beside its numbers."""


def task_with_data(kind: Any, config: Mapping[str, Any], splits: Any) -> Any:
    """A task of this class over data in memory, by the names of its splits."""
    from lm_eval.api.task import TaskConfig

    if "custom_dataset" in {field.name for field in dataclasses.fields(TaskConfig)}:
        return kind(config={**config, "custom_dataset": lambda **_: splits})

    class InMemory(kind):  # type: ignore[misc]
        """A task of releases before 0.4.9, which load their data themselves."""

        def download(self, *_: Any, **__: Any) -> None:
            self.dataset = splits

    return InMemory(config=dict(config))


def evaluated(model: Any, *tasks: Any, samples: Sequence[int] | None = None, **options: Any) -> Any:
    """Return what ``simple_evaluate`` gives for these tasks, without seeds and without a look at the machine."""
    import lm_eval

    if samples is not None:
        options["samples"] = {task.config.task or "task": list(samples) for task in tasks}
    # With seeds, a score that is random would be the same every time.
    seeds = dict.fromkeys(("random_seed", "numpy_random_seed", "torch_random_seed"))
    machine = patch("torch.utils.collect_env.get_pretty_env_info", str)  # it starts a dozen programs
    with machine, patch("lm_eval.evaluator.get_git_commit_hash", _commit):
        return lm_eval.simple_evaluate(
            model=model,
            tasks=[*tasks],
            task_manager=_tasks(*(task.config.task for task in tasks)),
            **{"bootstrap_iters": 0, **seeds, **options},
        )


@cache
def _commit() -> str | None:
    from lm_eval.loggers.utils import get_git_commit_hash

    commit: str | None = get_git_commit_hash()
    return commit


@cache
def _tasks(*names: Any) -> Any:
    """An index of all tasks by name that has none, or the one that some releases look up to print its file."""
    from lm_eval import tasks

    manager = tasks.TaskManager(include_defaults=False)
    if isinstance(index := getattr(manager, "_task_index", None), dict):
        for name in names:
            index.setdefault(name, {"type": "task", "yaml_path": str(Path(tasks.__file__).with_name("drawn.yaml"))})
    return manager


def _data_set(documents: Sequence[Any]) -> Any:
    import pyarrow
    from datasets import Dataset

    invalid = [document for document in documents if not isinstance(document, Mapping)]
    if invalid:
        raise TypeError(f"a document of a task is a mapping of its fields; got {invalid[0]!r}")
    names = list(dict.fromkeys(name for document in documents for name in document))
    table = pyarrow.table({name: [document.get(name) for document in documents] for name in names})
    return Dataset(table, fingerprint=uuid4().hex)  # hashing it takes longer than the whole run


def _documents_of(task: Any, drawn: Sequence[Any]) -> list[Any]:
    documents = list(task.eval_docs)
    if len(documents) != len(drawn):
        raise ValueError(f"of {len(drawn)} drawn documents the task has {len(documents)}: see its process_docs")
    return documents


def _averaged(task: Any) -> list[str]:
    """The names of the metrics whose standard error is that of a mean; other errors take many bootstraps."""
    from lm_eval.api.metrics import mean

    return [name for name, function in task.aggregation().items() if function is mean]


def _as_process_results(functions: Sequence[Several]) -> dict[str, Any]:
    if len(functions) > 1:
        raise ValueError(f"a task has one process_results; got {len(functions)} functions")
    (several,) = functions
    return {
        "process_results": lambda document, results: several.function(results[0], document),
        "metric_list": [
            {"metric": name, "aggregation": aggregation, "higher_is_better": True}
            for name, aggregation in several.aggregations.items()
        ],
    }


def _as_metrics(functions: Sequence[Several]) -> dict[str, Any]:
    return {
        "doc_to_target": lambda document: document,
        "doc_to_choice": None,  # where a task that generates has choices, the target is a place among them
        "metric_list": [_as_metric(index, several) for index, several in enumerate(functions)],
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(1, len(values))


def _as_metric(index: int, several: Several) -> dict[str, Any]:
    def metric(references: Any, predictions: Any) -> Any:
        return several.function(predictions[0], references[0])

    metric.__name__ = f"function_{index}"
    return {"metric": metric, "aggregation": next(iter(several.aggregations.values())), "higher_is_better": True}


def _all_responses(responses: Any, documents: Any) -> Any:
    del documents
    return responses


def _name_of(part: Mapping[str, Any]) -> str:
    named: Any = part.get("name", part.get("metric"))
    return named if isinstance(named, str) else str(getattr(named, "__name__", named))


@contextmanager
def _quietly() -> Iterator[None]:
    """Without progress bars and log lines on every new task."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        # Bootstraps would start a pool of processes for each number.
        alone = patch.dict("os.environ", DISABLE_MULTIPROC="1")
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()), alone:
            yield
    finally:
        logger.setLevel(level)

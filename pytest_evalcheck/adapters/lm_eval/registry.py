"""Tasks of lm-evaluation-harness by name, without a network: over their own data, given documents, or made ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

from pytest_evalcheck.adapters.common.made_documents import (
    NoDocuments,
    NotLoaded,
    constants_in,
    made,
    names_in,
    or_not_loaded,
    reads_numbers,
    shape_of,
)
from pytest_evalcheck.adapters.common.network import offline, quiet
from pytest_evalcheck.errors import UsageError, nearest
from pytest_evalcheck.kinds.task.subject import RIGHT, WRONG

REGISTRY = "lm_eval.tasks"
"""The module whose tasks are asked for by name."""


class NotAccepted(ValueError):
    """An answer that does not get the full mark by some of the metrics, or by any."""


_TEMPLATES = ("doc_to_text", "doc_to_target", "doc_to_choice", "gen_prefix", "description")
_ANSWERS = ("answer", "answerkey", "label", "gold", "target", "correct")
"""Usual names of the field of the right answer, in small letters."""
_FIRST = {"generate_until": ("name", "number", "letter", "worked"), "loglikelihood": ("text",)}
"""By output type: forms of answers that are tried before the others. A task that takes names asks for no number."""


def task(name: str, documents: Sequence[Mapping[str, Any]] | None = None, **overrides: Any) -> Any:
    """Return the task of this name, or of this YAML file.

    Its documents are those that are given (as they are in its data set, before ``process_docs``), else its own where
    they load without a network, else ones that are made of the fields that its templates and functions read.

    Args:
        name: of a task in the registry, or a path.
        documents: rows of its data set.
        overrides: of its configuration, such as ``num_fewshot``.

    Raises:
        UsageError: where there is no such task, with the nearest name.
        NotLoaded: where its code cannot be imported, or no documents can be made for it.
        NotCheckable: where a template names a field that the given documents lack.
    """
    if documents is None and not overrides:
        return _alone(name)
    config = {**_config(name), **overrides}
    cls = config.pop("class", None)
    if documents is None:
        return _own_or_made(name, config, cls)
    from pytest_evalcheck.adapters.lm_eval.task import called

    with offline(), quiet(), called():
        return _task_over(config, cls, list(documents))


@cache
def _alone(name: str) -> Any:
    """Return the task as it is; it is changed by nobody, since each run has a copy."""
    config = _config(name)
    return _own_or_made(name, config, config.pop("class", None))


def _own_or_made(name: str, config: Mapping[str, Any], cls: Any) -> Any:
    with offline(), quiet():
        try:
            return _loaded(config, cls)
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}"
        if cls is not None:
            raise NotLoaded(
                f"{name} is of the class {cls.__name__}, which loads its data itself ({why:.150}); "
                "return an object of it with its data from a factory of your own, @ec.task"
            )
        with or_not_loaded(name, why, "rows"):
            return _over_made(config)


@cache
def entries() -> Mapping[str, Any]:
    """Return all tasks, groups and tags of the registry, by name. This reads thousands of files (15 s)."""
    from lm_eval.tasks import TaskManager

    with quiet():
        return dict(TaskManager().task_index)


def names_of(name: str) -> list[str]:
    """Return the names of the tasks of a group or of a tag, or the name itself.

    Raises:
        UsageError: where the registry has no such name.
    """
    if _file_of(name) is not None:
        return [name]
    known = entries()
    if name not in known:
        raise UsageError(f"lm_eval has no task, group or tag {name!r}{nearest(name, known)}")
    entry = known[name]
    kind = entry.kind.name
    if kind == "TAG":
        return sorted(entry.tags)
    if kind != "GROUP":
        return [name]
    members = (entry.cfg or {}).get("task") or []
    members = [members] if isinstance(members, str) else members
    found = [each if isinstance(each, str) else each.get("task") or each.get("group") for each in members]
    return list(dict.fromkeys(task for each in found if isinstance(each, str) for task in names_of(each)))


def _config(name: str) -> dict[str, Any]:
    path = Path(name) if name.endswith((".yaml", ".yml")) else _file_of(name)
    if path is None:
        entry = entries().get(name)
        if entry is None:
            raise UsageError(f"lm_eval has no task {name!r}{nearest(name, entries())}")
        if entry.kind.name in ("TAG", "GROUP"):
            several = ", ".join(names_of(name)[:4])
            raise UsageError(
                f"{name} is a {entry.kind.name.lower()} of several tasks: name one of them, such as {several}"
            )
        path = entry.yaml_path
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    try:
        with quiet():
            config = _read(path)
    except (Exception, SystemExit) as error:  # a module of a task may call exit() where a program is missing
        raise NotLoaded(f"{name} cannot be read: {type(error).__name__}: {error}") from error
    for key in ("tag", "group", "task_list"):
        config.pop(key, None)
    metadata = config.get("metadata")
    config["metadata"] = metadata if isinstance(metadata, dict) else {}
    return config


def _read(path: Path) -> dict[str, Any]:
    """Return the configuration of a YAML file, with its functions."""
    try:
        from lm_eval.tasks._yaml_loader import load_yaml
    except ImportError:  # releases before 0.4.12
        from lm_eval.utils import load_yaml_config

        return dict(load_yaml_config(str(path), mode="full"))
    return dict(load_yaml(path))


@cache
def _file_of(name: str) -> Path | None:
    """Return the file that has a task of this name in a line of its own: reading the index takes longer."""
    from lm_eval import tasks

    if entries.cache_info().currsize and name in entries():
        return entries()[name].yaml_path if entries()[name].kind.name in ("TASK", "PY_TASK") else None
    line = re.compile(rf"^[\"']?task[\"']?:\s*[\"']?{re.escape(name)}[\"']?\s*$", re.MULTILINE)
    folder = Path(tasks.__file__).parent
    likely = sorted(folder.glob(f"{name.split('_')[0]}*/**/*.yaml"))
    others = (each for each in sorted(folder.glob("**/*.yaml")) if each not in {*likely})
    for path in chain(likely, others):
        if line.search(path.read_text(encoding="utf-8", errors="replace")):
            return path
    return None


def _loaded(config: Mapping[str, Any], cls: Any) -> Any:
    if cls is not None:
        from lm_eval.tasks._factory import _ctor_accepts_config

        return cls(config=dict(config)) if _ctor_accepts_config(cls) else cls()
    from lm_eval.api.task import ConfigurableTask

    return ConfigurableTask(config=dict(config))


def _task_over(config: Mapping[str, Any], cls: Any, documents: Sequence[Any], more: Sequence[Any] = ()) -> Any:
    """Return a task over these rows; those of ``more`` are its training data."""
    from datasets import Dataset
    from lm_eval.api.task import ConfigurableTask

    from pytest_evalcheck.adapters.lm_eval.runs import task_with_data

    shots = config.get("fewshot_config") or {}
    evaluated = config.get("test_split") or config.get("validation_split")
    names = {config.get(key) for key in ("training_split", "validation_split", "test_split", "fewshot_split")}
    names |= {shots.get("split")} if isinstance(shots, dict) else set()
    rows, others = Dataset.from_list(list(documents)), Dataset.from_list(list(more or documents))
    splits = {name: rows if name == evaluated else others for name in names if name}
    return task_with_data(cls or ConfigurableTask, config, splits)


def _over_made(config: Mapping[str, Any]) -> Any:
    shots = config.get("fewshot_config") or {}
    parts = [config.get(key) for key in _TEMPLATES]
    if isinstance(shots, dict):
        parts += [shots.get(key) for key in _TEMPLATES]
    scoring = [config.get("process_results"), *(metric.get("metric") for metric in config.get("metric_list") or [])]
    parts += [config.get("process_docs"), *filter(callable, scoring)]
    plain = [part for part in parts if isinstance(part, str) and part.isidentifier()]
    named = shape_of((part for part in parts if part not in plain), [config.get("doc_to_choice")])
    shape = {**{name: {} for name in plain}, **named}
    found: dict[str, Any] = {}
    half = max(4, (config.get("num_fewshot") or 0) + 2)

    def accepts(documents: Sequence[Mapping[str, Any]], every: bool) -> None:
        found["task"] = _task_over(config, None, documents[:half], documents[half:])
        try:
            _require_usable(found["task"], every)
        except NotAccepted:
            found["usable"] = True
            raise

    target = config.get("doc_to_target")
    answers = [target] if isinstance(target, str) and target.isidentifier() else names_in(target)
    if callable(target):
        answers = list(shape_of([target]))
    usual = [name for name in shape if name.lower() in _ANSWERS]
    answers = usual if callable(target) and usual else answers or usual
    first = _FIRST.get(config.get("output_type", "generate_until"), ())
    if first[:1] == ("name",) and reads_numbers(part for part in scoring if callable(part)):
        first = ("number", *first)
    constants = constants_in(part for part in parts if callable(part))
    try:
        made(shape, partial(accepts, every=True), answers, 2 * half, first, constants)
    except NoDocuments:
        if not found.get("usable"):
            raise
        made(shape, partial(accepts, every=False), answers, 2 * half, first, constants)
    found["task"].made_documents = True
    return found["task"]


def _require_usable(task: Any, every: bool) -> None:
    """Look whether the documents have a text, and an answer that the task accepts by some or by every mark.

    Raises:
        ValueError: where they have not.
    """
    from pytest_evalcheck.adapters.lm_eval.task import Run

    run = Run(task)
    if not run.documents:
        raise ValueError("process_docs leaves no document")
    for document in [*run.documents, *run.pool] if run.has_gold else ():
        golds, choices = _listed(run.gold(document)), run.choices(document) if run.chooses else []
        usable = all(isinstance(gold, int) and 0 <= gold < len(choices) > 1 for gold in golds)
        if run.chooses and (not usable or len({*choices}) < len(choices)):  # of a text each letter is a choice
            raise ValueError(f"the answers {golds} are not some of the different choices {choices}")
    for document in run.documents[: None if run.chooses else 2]:
        (requests,) = run.requests([document])
        golds = _listed(run.gold(document)) if run.has_gold else []
        responses: list[Any] = []
        if run.chooses:
            responses = [RIGHT if place in golds else WRONG for place in range(len(requests))]
        elif run.has_gold and golds in ([], [""], [None]):
            raise ValueError("there is no answer")
        elif task.OUTPUT_TYPE == "generate_until":
            responses = [run.response(document, golds[0])]
        marks = run.marks(document, responses) if responses else {}
        if marks and (every or not run.chooses) and not (all if every else any)(mark == 1 for mark in marks.values()):
            raise NotAccepted(f"the answers {golds} get {marks}")


def _listed(golds: Any) -> list[Any]:
    return golds if isinstance(golds, list) else [golds]

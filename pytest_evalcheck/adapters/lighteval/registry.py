"""Tasks of lighteval by name, without a network: over their own data, given rows, or made ones."""

from __future__ import annotations

import copy
import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from pytest_evalcheck.adapters.common.made_documents import made, or_not_loaded, shape_of
from pytest_evalcheck.adapters.common.network import offline, quiet
from pytest_evalcheck.errors import UsageError, nearest

REGISTRY = "lighteval.tasks"
"""The module whose tasks are asked for by name: ``gsm8k``, or ``gsm8k|5`` with five examples."""

_ANSWERS = ("answer", "answerKey", "label", "gold", "target", "correct_answer", "answers", "solution", "output")
_COUNT = 24
"""Number of made rows of each split: tasks show some of them as examples."""


@cache
def configurations() -> Mapping[str, Any]:
    """Return the configurations of all modules that can be imported here, by the name of the task."""
    return {config.name: config for module in _modules() for config in getattr(module, "TASKS_TABLE", ())}


def _modules() -> Iterator[Any]:
    import lighteval.tasks.tasks as home

    for found in pkgutil.walk_packages(home.__path__, f"{home.__name__}."):
        try:
            with offline(), quiet():
                yield importlib.import_module(found.name)
        except (Exception, SystemExit):  # it loads data while it is imported, or needs a package or a program
            continue


def names_of(name: str) -> list[str]:
    """Return the names of the tasks ``NAME:...`` of a group, or the name itself.

    Raises:
        UsageError: where there is no such task.
    """
    plain, bar, shots = name.partition("|")
    known = configurations()
    several = [each + bar + shots for each in known if each.startswith(f"{plain}:")]
    if plain not in known and not several:
        raise UsageError(f"lighteval has no task {plain!r}{nearest(plain, known)}")
    return [name] if plain in known else several


def task(name: str, documents: Sequence[Mapping[str, Any]] | None = None, **options: Any) -> Any:
    """Return a `LightevalTask` by its name.

    Its rows are those that are given, for each split, else its own where they load without a network, else made ones of
    the fields that its prompt function reads.

    Args:
        name: of a task, with the number of examples behind a bar if there are any.
        documents: rows of its data set.
        options: of its configuration, such as ``num_fewshots``.

    Raises:
        UsageError: where there is no such task, with the nearest name.
        NotLoaded: where no rows can be made for it.
    """
    names_of(name)
    plain, _, shots = name.partition("|")
    options = {**({"num_fewshots": int(shots)} if shots else {}), **options}
    if documents is not None:
        return _task_over(plain, documents, options)
    loaded = _task_over(plain, None, options)
    try:
        with offline(), quiet():
            loaded.dataset = loaded.download_dataset_worker(loaded)
        return loaded
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    found: dict[str, Any] = {}

    def accepts(rows: Sequence[Mapping[str, Any]]) -> None:
        found["task"] = _task_over(plain, rows, options)
        with quiet():
            _require_usable(found["task"])

    shape = shape_of([loaded.config.prompt_function])
    with or_not_loaded(name, why, "rows"):
        made(
            shape,
            accepts,
            [each for each in _ANSWERS if each in shape],
            _COUNT,
            ("number", "letter", "place", "name"),
        )
    found["task"].made_documents = True
    return found["task"]


def _task_over(name: str, rows: Sequence[Mapping[str, Any]] | None, options: Mapping[str, Any]) -> Any:
    from lighteval.tasks.lighteval_task import LightevalTask

    config = copy.deepcopy(configurations()[name])
    for field, value in options.items():
        setattr(config, field, value)
    config.full_name = f"{name}|{config.num_fewshots}"
    made = LightevalTask(config)
    if rows is not None:
        splits = dict.fromkeys([*config.hf_avail_splits, *made.evaluation_split, *filter(None, [made.fewshot_split])])
        size = len(rows) // 2
        held = {split: rows[:size] if split in made.evaluation_split else rows[size:] for split in splits}
        made.dataset = {split: [dict(row) for row in own] for split, own in held.items()}
    return made


def _require_usable(made: Any) -> None:
    """Look whether the first rows have a prompt, and a right answer that some metric accepts.

    Raises:
        ValueError: where they have not.
    """
    from pytest_evalcheck.adapters.lighteval.task import Run

    run = Run(made)
    for row in run.documents[:2]:
        if not run.requests([row])[0]:
            raise ValueError("the prompt function asks nothing about a row")
        count = len(run.document(row).choices)
        right = run.document(row).gold_index
        if not all(0 <= place < count for place in (right if isinstance(right, list) else [right])):
            raise ValueError(f"the right answer {right!r} is none of {count} choices")
        if made.sampling_methods == ["GENERATIVE"]:
            marks = run.marks(row, [run.response(row, run.gold(row)[0])])
            if marks and 1 not in marks.values():
                raise ValueError(f"the right answer {run.gold(row)[0]!r} gets {marks}")

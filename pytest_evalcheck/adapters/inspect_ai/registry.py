"""Tasks of packages for inspect_ai by name, without a network: over their own data, or over made records."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from pytest_evalcheck.adapters.common.made_documents import NotLoaded, Shape, made, or_not_loaded, shape_of
from pytest_evalcheck.adapters.common.network import loads
from pytest_evalcheck.errors import UsageError, nearest

REGISTRY = "inspect_evals"
"""The package whose tasks are asked for by name; ``package/name`` is a task of another one."""

_GOLD = ("answer", "target", "label", "answerKey", "gold", "correct_answer", "correct", "solution", "answers", "output")
_READERS = ("hf_dataset", "json_dataset", "csv_dataset")
_COUNT = 40
"""Number of made records: tasks show up to ten of them as examples."""


def names(package: str = REGISTRY) -> list[str]:
    """Return the names of the tasks of a package: its functions with ``@task``, as its registry names them.

    Raises:
        NotLoaded: where the package cannot be imported.
    """
    return sorted(_functions(package))


def names_of(name: str) -> list[str]:
    """Return the one task of a name.

    Raises:
        UsageError: where there is no such task.
    """
    package, _, short = name.rpartition("/")
    known = _functions(package or REGISTRY)
    if short not in known:
        raise UsageError(f"{package or REGISTRY} has no task {short!r}{nearest(short, known)}")
    return [name]


def task(name: str, documents: Sequence[Mapping[str, Any]] | None = None, **options: Any) -> Any:
    """Return a task of inspect_ai by its name: of ``inspect_evals``, or ``package/name``.

    Its records are those that are given, else its own where they load without a network, else made ones of the fields
    that it reads.

    Raises:
        UsageError: where there is no such task, with the nearest name.
        NotLoaded: where it cannot be imported, or no records can be made for it.
    """
    package, _, short = name.rpartition("/")
    names_of(name)
    function = _functions(package or REGISTRY)[short]
    if documents is not None:
        with _records(list(documents), {}):
            return function(**options)
    try:
        with _no_records():
            return function(**options)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    shape: Shape = {}
    found: dict[str, Any] = {}

    def accepts(records: Sequence[Mapping[str, Any]]) -> None:
        with _records(records, shape):
            found["task"] = function(**options)
        _require_usable(found["task"])

    try:
        with _records([], shape):
            function(**options)
    except Exception as error:  # it shows what records are read by
        if loads(error):
            raise NotLoaded(
                f"{name} loads something else than records ({type(error).__name__}: {error!s:.80})"
            ) from error
    with or_not_loaded(name, why, "records"):
        made(
            shape,
            accepts,
            [each for each in _GOLD if each in shape],
            _COUNT,
            ("worked", "number", "letter", "place"),
        )
    found["task"].made_documents = True
    return found["task"]


def _require_usable(task: Any) -> None:
    """Look whether samples have an input and an answer that the scorers accept.

    Raises:
        ValueError: where they have not.
    """
    from pytest_evalcheck.adapters.inspect_ai.task import Run
    from pytest_evalcheck.expectations.failures import NotApplicable

    run = Run(task)
    if not run.documents:
        raise ValueError("the data set has no sample")
    for sample in run.documents[:2]:
        try:
            run.requests([sample])
            marks = run.marks(sample, [run.response(sample, run.gold(sample)[0])]) if sample.target else {}
        except NotApplicable:
            continue
        if marks and 1 not in marks.values():
            raise ValueError(f"the target {sample.target!r} gets {marks}")


def _functions(package: str) -> dict[str, Any]:
    try:
        importlib.import_module(package)
        home = importlib.import_module(f"{package}._registry")
    except Exception as error:
        raise NotLoaded(f"the tasks of {package} cannot be imported: {type(error).__name__}: {error}") from error
    from inspect_ai._util.registry import is_registry_object, registry_info

    found = vars(home).items()
    return {name: each for name, each in found if is_registry_object(each) and registry_info(each).type == "task"}


@contextmanager
def _records(records: Sequence[Any], shape: Shape) -> Iterator[None]:
    """Readers of data sets give these records; what they are read by is added to the shape."""
    from inspect_ai.dataset import FieldSpec, MemoryDataset
    from inspect_ai.dataset._util import data_to_samples, record_to_sample_fn

    half = max(1, len(records) // 2)

    def read(*_: Any, sample_fields: Any = None, split: str = "", limit: int | None = None, **__: Any) -> Any:
        if isinstance(sample_fields, FieldSpec):
            fields = [sample_fields.input, sample_fields.target, sample_fields.choices, sample_fields.id]
            fields += list(sample_fields.metadata or []) if isinstance(sample_fields.metadata, list) else []
            shape.update({field: shape.get(field, {}) for field in fields if isinstance(field, str)})
            if isinstance(sample_fields.choices, str):
                shape[sample_fields.choices] = {"[]": {}}
        elif callable(sample_fields):
            shape.update({name: below for name, below in shape_of([sample_fields]).items() if name not in shape})
        rows = records[half:] if split in ("train", "dev") else records[:half]
        samples = data_to_samples([dict(row) for row in rows], record_to_sample_fn(sample_fields), auto_id=True)
        return MemoryDataset(samples[:limit])

    with ExitStack() as stack:
        for module, name in _places():
            stack.enter_context(patch.object(module, name, read))
        yield


@contextmanager
def _no_records() -> Iterator[None]:
    """Readers of data sets on a hub end in an error at once, instead of many tries."""
    import inspect_ai.dataset

    def refused(path: str = "", *_: Any, **__: Any) -> Any:
        raise OSError(f"{path} is not on this machine")

    own = inspect_ai.dataset.hf_dataset
    with ExitStack() as stack:
        for module, name in _places():
            if name == "hf_dataset" or getattr(module, name) is own:
                stack.enter_context(patch.object(module, name, refused))
        yield


def _places() -> list[tuple[Any, str]]:
    """Return the modules that hold a reader of data sets, and the name by which they do."""
    import sys

    import inspect_ai.dataset

    readers = {id(getattr(inspect_ai.dataset, name)) for name in _READERS}
    found = []
    for module in list(sys.modules.values()):
        for name in (*_READERS, "load_json_dataset", "load_csv_dataset"):
            value = vars(module).get(name) if inspect.ismodule(module) else None
            if value is not None and (id(value) in readers or inspect.isfunction(value)):
                found.append((module, name))
    return found

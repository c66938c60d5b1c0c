"""Hugging Face evaluate: `EvaluationModule` (metrics, comparisons, measurements) and `CombinedEvaluations`.

``compute`` returns the value of what was added since the last ``compute``. So ``reset`` calls it and drops the value.
A module writes what is added into an Arrow file, under a lock for the whole machine; every record gets a temporary
folder of its own for these files, which is removed with the module. A module with ``keep_in_memory`` needs none.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from pytest_evalcheck.adapters.protocols.collecting import Collected
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.metric.record import Metric

CLASSES = ("evaluate.module.CombinedEvaluations", "evaluate.module.EvaluationModule")

_PATIENCE = 100.0
"""Seconds that a process of a distributed metric waits for another one: the default of evaluate."""
_IN_VAIN = 0.3
"""The same where a process has no data: it writes no file and takes no lock, however long the others wait."""


def record(module: Any) -> Metric:
    """The record of a module of evaluate: fed by ``add_batch`` with keywords, merged with its own file locks.

    The record stores the batches of each rank; the merge feeds them to modules of one experiment with ``num_process``
    processes. It is available for modules with the constructor of evaluate.
    """
    parts = getattr(module, "evaluation_modules", None)
    if parts is None:
        return _single(module)
    for part in parts:
        _own_folder(part)
    return Metric(
        update=module.add_batch,
        compute=module.compute,
        reset=lambda: _forget(module.compute, parts),
        conventions=_conventions(module),
        members=(lambda: _members(module)) if all(map(_has_usual_constructor, parts)) else None,
        source=module,
    )


def _single(module: Any) -> Metric:
    _own_folder(module)
    batches: list[dict[str, Any]] = []

    def update(*args: Any, **kwargs: Any) -> None:
        module.add_batch(*args, **kwargs)
        batches.append(kwargs)

    return Metric(
        update=update,
        compute=module.compute,
        reset=lambda: _forget(module.compute, [module]),
        merges={"processes": _over_processes} if _has_usual_constructor(module) else {},
        collective=frozenset({"processes"}),
        conventions=_conventions(module),
        source=(module, batches),
    )


def _conventions(module: Any) -> dict[str, Convention]:
    """In one call of ``compute``, or one sample at a time."""
    whole = Collected(module.compute)

    def add_one_by_one(**columns: Any) -> None:
        for row in zip(*columns.values(), strict=True):
            module.add(**dict(zip(map(_singular, columns), row, strict=True)))

    def last_in_compute() -> Any:
        return module.compute(**last.pop()) if last else module.compute()

    def all_but_last(**columns: Any) -> None:
        if last:
            module.add_batch(**last.pop())
        last.append(columns)

    last: list[dict[str, Any]] = []
    ways = {
        "compute(predictions=, references=)": Convention(_COMPUTE, update=whole.update, compute=whole.compute),
        "add_batch, the last in compute": Convention(_COMPUTE, update=all_but_last, compute=last_in_compute),
    }
    features = getattr(module, "_feature_names", lambda: ())()
    if set(features) <= {"predictions", "references"}:  # of other columns ``add`` has no singular
        ways["add, one by one"] = Convention(ADD, update=add_one_by_one)
    return ways


_COMPUTE = (
    '"predictions (list/array/tensor, optional): Predictions. references: References." '
    "(evaluate.EvaluationModule.compute)"
)
ADD_BATCH = (
    '"Add a batch of predictions and references for the evaluation module\'s stack." '
    "(evaluate.EvaluationModule.add_batch)"
)
ADD = '"Add one prediction and reference for the evaluation module\'s stack." (evaluate.EvaluationModule.add)'


def _singular(column: str) -> str:
    return column.removesuffix("s")


def _forget(compute: Callable[[], Any], parts: Sequence[Any]) -> None:
    # compute() raises an error where nothing was added. One that cannot score what was added drops it, too.
    if any(part.writer is not None for part in parts):
        try:
            compute()
        except Exception:
            if any(part.writer is not None for part in parts):
                raise


def _own_folder(module: Any) -> None:
    from evaluate import config

    if module._data_dir_root != str(config.HF_METRICS_CACHE) or module.writer is not None:
        return  # the target chose the folder, or uses it already
    _remove_at_exit(Path(module.data_dir))
    if module.keep_in_memory:
        return
    folder = tempfile.mkdtemp(prefix="evalcheck-")
    module._data_dir_root = folder
    module.data_dir = module._build_data_dir()
    weakref.finalize(module, shutil.rmtree, folder, ignore_errors=True)


@cache
def _remove_at_exit(folder: Path) -> None:
    """Remove the folders that the constructor of evaluate creates in the user's cache, where they are empty."""

    def remove() -> None:
        with suppress(OSError):  # raised for the first that is not empty
            for empty in (folder, *folder.parents[:3]):
                empty.rmdir()

    atexit.register(remove)


def _has_usual_constructor(module: Any) -> bool:
    import evaluate

    return type(module).__init__ is evaluate.EvaluationModule.__init__


def _new_like(module: Any, **changes: Any) -> Any:
    """A new module of the same kind."""
    options = {"config_name": module.config_name, "seed": module.seed, "experiment_id": module.experiment_id}
    return type(module)(**{**options, **changes})


def _members(combined: Any) -> dict[str, Metric]:
    """Each module in a combination of its own, so that its results have the same names."""
    named = zip(combined.evaluation_module_names, combined.evaluation_modules, strict=True)
    return {
        name: record(type(combined)({name: _new_like(module)}, force_prefix=combined.force_prefix))
        for name, module in named
    }


def _over_processes(ranks: Sequence[Metric]) -> Any:
    """The value of process 0 when every rank is a process of one distributed experiment, here a thread.

    All processes have added their batches before any computes. In one machine's order of threads process 0 could
    otherwise lock the file of a process that has not opened it yet, and the error would depend on who is first.

    Raises:
        Exception: that of the first process that has one.
    """
    sources = [rank.source for rank in ranks]
    patience = _PATIENCE if all(batches for _, batches in sources) else _IN_VAIN
    errors: dict[int, Exception] = {}
    with tempfile.TemporaryDirectory(prefix="evalcheck-", ignore_cleanup_errors=True) as folder:
        shared = {"cache_dir": folder, "num_process": len(ranks), "timeout": patience}
        modules = [_new_like(sources[0][0], process_id=index, **shared) for index in range(len(ranks))]

        def add(index: int) -> None:
            try:
                for batch in sources[index][1]:
                    modules[index].add_batch(**batch)
            except Exception as error:  # raised in the thread of the caller below
                errors[index] = error

        threads = [threading.Thread(target=add, args=(index,), daemon=True) for index in range(len(ranks))]
        for module, thread in zip(modules, threads, strict=True):
            # Who looks whether a lock is held takes it for a moment: one second may pass there on a busy machine.
            module._create_cache_file = partial(module._create_cache_file, timeout=_PATIENCE)
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[min(errors)]
        # Process 0 reads the files of the others, which release their locks when they are asked for their values.
        return [module.compute() for module in reversed(modules)][-1]

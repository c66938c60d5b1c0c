"""Hugging Face evaluate: `EvaluationModule` (metrics, comparisons, measurements) and `CombinedEvaluations`.

A module forgets: ``compute`` gives the value of what was added since the last one. So to reset one is to ask it and
to drop the answer. It writes what is added into an Arrow file, under a lock of the whole machine; every record
gets a folder of its own for these, which goes when the module goes. A module kept in memory needs none.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from pytest_evalcheck.kinds.metric.subject import Metric

_TIMEOUT = 3.0
"""Seconds that a process of a distributed metric waits for another one, where evaluate waits for 100."""


def record(module: Any) -> Metric:
    """The record of a module of evaluate: fed by ``add_batch`` with keywords, merged by its own file locks.

    The merge feeds each rank's batches, which the record remembers, to modules of one experiment with
    ``num_process`` processes. It is offered for modules that keep the constructor of evaluate.
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
        members=(lambda: _members(module)) if all(map(_plainly_made, parts)) else None,
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
        merges={"processes": _over_processes} if _plainly_made(module) else {},
        source=(module, batches),
    )


def _forget(compute: Callable[[], Any], parts: Sequence[Any]) -> None:
    # Without anything added there is nothing to forget, and compute() says so with an error.
    if any(part.writer is not None for part in parts):
        compute()


def _own_folder(module: Any) -> None:
    from evaluate import config

    if module._data_dir_root != str(config.HF_METRICS_CACHE) or module.writer is not None:
        return  # the folder is the target's own choice, or in use already
    _remove_at_exit(Path(module.data_dir))
    if module.keep_in_memory:
        return
    folder = tempfile.mkdtemp(prefix="evalcheck-")
    module._data_dir_root = folder
    module.data_dir = module._build_data_dir()
    weakref.finalize(module, shutil.rmtree, folder, ignore_errors=True)


@cache
def _remove_at_exit(made: Path) -> None:
    """The folders that the constructor of evaluate makes in the user's cache, if nobody else has use for them."""

    def remove() -> None:
        with suppress(OSError):  # the first that is not empty ends it
            for empty in (made, *made.parents[:3]):
                empty.rmdir()

    atexit.register(remove)


def _plainly_made(module: Any) -> bool:
    import evaluate

    return type(module).__init__ is evaluate.EvaluationModule.__init__


def _again(module: Any, **changes: Any) -> Any:
    """A new module of the same kind."""
    options = {"config_name": module.config_name, "seed": module.seed, "experiment_id": module.experiment_id}
    return type(module)(**{**options, **changes})


def _members(combined: Any) -> dict[str, Metric]:
    """Each module in a combination of its own, so that its results are named as in the whole."""
    named = zip(combined.evaluation_module_names, combined.evaluation_modules, strict=True)
    return {
        name: record(type(combined)({name: _again(module)}, force_prefix=combined.force_prefix))
        for name, module in named
    }


def _over_processes(ranks: Sequence[Metric]) -> Any:
    """What process 0 computes when every rank is a process of one distributed experiment, here a thread."""
    values: dict[int, Any] = {}
    errors: list[Exception] = []
    with tempfile.TemporaryDirectory(prefix="evalcheck-", ignore_cleanup_errors=True) as folder:
        shared = {"cache_dir": folder, "num_process": len(ranks), "timeout": _TIMEOUT}
        first, _ = ranks[0].source
        modules = [_again(first, process_id=i, **shared) for i in range(len(ranks))]

        def work(rank: int) -> None:
            try:
                for batch in ranks[rank].source[1]:
                    modules[rank].add_batch(**batch)
                values[rank] = modules[rank].compute()
            except Exception as error:  # handed to the caller's thread below
                errors.append(error)

        threads = [threading.Thread(target=work, args=(rank,), daemon=True) for rank in range(len(ranks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    return values[0]

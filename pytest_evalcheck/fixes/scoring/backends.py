"""Where documents are scored: joblib's backends, by the names that our users know."""

from __future__ import annotations

import difflib
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from pytest_evalcheck.fixes.scoring.errors import SetupError
from pytest_evalcheck.fixes.scoring.needs import needed

AUTO, SERIAL, THREADS, PROCESSES, DASK, RAY, CONTEXT = "auto", "serial", "threads", "processes", "dask", "ray", "joblib"
BACKENDS = (AUTO, SERIAL, THREADS, PROCESSES, DASK, RAY, CONTEXT)
# What joblib calls them, and the classes that it has for them.
_NAMES = {SERIAL: "sequential", THREADS: "threading", PROCESSES: "loky", DASK: "dask", RAY: "ray"}
_CLASSES = {
    "SequentialBackend": SERIAL,
    "ThreadingBackend": THREADS,
    "LokyBackend": PROCESSES,
    "DaskDistributedBackend": DASK,
    "RayBackend": RAY,
}
# Errors of joblib's backends that say that a worker ended, by the names of classes: three libraries, none imported.
_LOSSES = {
    "BrokenExecutor",  # concurrent.futures, and loky's BrokenProcessPool and TerminatedWorkerError below it
    "KilledWorker",
    "RayActorError",
    "WorkerCrashedError",
    "NodeDiedError",
}


def checked_backend(name: Any) -> str:
    """Return the name of a backend that there is."""
    if name not in BACKENDS:
        near = difflib.get_close_matches(str(name), [*BACKENDS, *_NAMES.values()], n=1)
        hint = f"; did you mean {_ours(near[0])!r}?" if near else ""
        raise ValueError(f"backend: expected one of {', '.join(map(repr, BACKENDS))}, got {name!r}{hint}")
    return str(name)


def _ours(name: str) -> str:
    return next((ours for ours, joblibs in _NAMES.items() if joblibs == name), name)


def in_context() -> str:
    """Return which backend ``joblib.parallel_config`` chose; processes, where nobody chose."""
    active = type(needed("joblib.parallel").get_active_backend()[0])
    for base in active.__mro__:
        if base.__name__ in _CLASSES:
            return _CLASSES[base.__name__]
    raise SetupError(
        f"backend: joblib's {active.__name__} is not supported, as it can lose documents without a word; "
        f"expected one of {', '.join(_CLASSES)}"
    )


def jobs_of(n_jobs: int | None, backend: str, *, context: bool) -> int:
    """Return the number of workers that joblib makes of ``n_jobs``: negative numbers count from the last core."""
    joblib = needed("joblib")
    if context:
        return int(joblib.effective_n_jobs(n_jobs))
    if backend in (DASK, RAY):
        _register(backend)
        try:
            with joblib.parallel_config(backend=_NAMES[backend], n_jobs=-1):
                return int(joblib.effective_n_jobs(-1 if n_jobs is None else n_jobs))
        except ValueError as error:
            raise SetupError(f"joblib cannot start its backend {backend!r}: {error}") from error
    count = -1 if n_jobs is None else n_jobs
    return max(1, int(joblib.cpu_count()) + 1 + count) if count < 0 else count


def nested() -> bool:
    """Tell whether we are in a worker of joblib already, where it starts no processes."""
    joblib = needed("joblib")
    with joblib.parallel_config(backend=_NAMES[PROCESSES]), _quietly():
        return int(joblib.effective_n_jobs(2)) < 2


def _register(backend: str) -> None:
    if backend == RAY:
        needed("ray.util.joblib").register_ray()
    elif backend == DASK:
        needed("distributed")


class Pool:
    """joblib's ``Parallel``, with results in the order of tasks, one at a time where the backend can do that.

    Where one worker was asked for, two are: of one, joblib makes a loop in this process, which would end with a
    document that ends its process. They get one task at a time then.
    """

    def __init__(self, backend: str, jobs: int, *, context: bool) -> None:
        self._options = {
            "backend": _instance(backend, context=context),
            "n_jobs": max(2, jobs),
            "batch_size": 1,
            "pre_dispatch": "2 * n_jobs" if jobs > 1 else 1,
        }
        # Ray's cannot give results one at a time: a round of tasks ends before the next one is sent.
        self._streams = backend != RAY
        self.retries = backend == DASK

    @contextmanager
    def opened(self) -> Iterator[Callable[[Iterator[Any]], Iterator[Any]]]:
        """Start the workers, and give a function from an iterator of tasks to an iterator of results."""
        # A new one every time: one that was interrupted still holds tasks that it would send later.
        parallel = needed("joblib").Parallel(return_as="generator" if self._streams else "list", **self._options)
        parallel.__enter__()
        try:
            yield parallel if self._streams else partial(_in_one_go, parallel)
        finally:
            with _quietly():
                parallel.__exit__(None, None, None)


def _in_one_go(parallel: Any, tasks: Iterator[Any]) -> Iterator[Any]:
    yield from parallel(list(tasks))


def _instance(backend: str, *, context: bool) -> Any:
    """Return what ``Parallel`` takes as its backend.

    That of a context itself, as workers may be started again when the context was left. Those of clusters come from a
    context too: joblib 1.6 hands Dask's a keyword that it does not know, if it is asked for by name.
    """
    active = needed("joblib.parallel").get_active_backend
    if context:
        found = active()[0]
    elif backend not in (DASK, RAY):
        return _NAMES[backend]
    else:
        _register(backend)
        with needed("joblib").parallel_config(backend=_NAMES[backend], n_jobs=-1):
            found = active()[0]
    if backend == DASK and "submit" not in vars(found):
        found.submit = partial(_submit, found.submit)
    return found


def _submit(submit: Callable[..., Any], task: Any, callback: Callable[[Any], Any]) -> Any:
    """Submit to Dask, and call back also when Dask gives a task up: joblib 1.6 would wait for it for ever."""
    future = submit(task, callback=callback)
    future.add_done_callback(lambda done: callback(done.exception()) if done.exception() is not None else None)
    return future


@contextmanager
def closing_quietly(results: Any) -> Iterator[Any]:
    """Close an iterator of results that is left early, without joblib's warning that results were not used."""
    try:
        yield results
    finally:
        with _quietly():
            results.close()


@contextmanager
def _quietly() -> Iterator[None]:
    """Without warnings, and without the error that loky's own thread ends with in a pool that is killed.

    A task that was submitted just before the pool is killed is taken off one of its two lists, and looked up by the
    other (loky 3.6). Nobody waits for that task any more.
    """
    before = threading.excepthook

    def hook(error: threading.ExceptHookArgs) -> None:
        ours = error.thread is not None and error.thread.name == "ExecutorManagerThread"
        if not (ours and error.exc_type is KeyError):
            before(error)

    threading.excepthook = hook
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        threading.excepthook = before


def is_loss(error: BaseException) -> bool:
    """Tell whether an error of joblib says that a worker ended, and not that something is wrong with the run."""
    return any(base.__name__ in _LOSSES for base in type(error).__mro__)

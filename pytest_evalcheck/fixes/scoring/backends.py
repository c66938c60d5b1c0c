"""Backends that score documents: threads, pebble, Dask and Ray behind the same two functions."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache, partial
from threading import Timer, current_thread
from typing import Any

from pytest_evalcheck.fixes.scoring.errors import SetupError, needed

AUTO, SERIAL, THREADS, PROCESSES, DASK, RAY, CONTEXT = "auto", "serial", "threads", "processes", "dask", "ray", "joblib"
BACKENDS = (AUTO, SERIAL, THREADS, PROCESSES, DASK, RAY, CONTEXT)
# The names and the classes of joblib.
JOBLIB_NAMES = {"sequential": SERIAL, "threading": THREADS, "loky": PROCESSES}
# What submits a call and returns its future, and what ends the workers; its argument says whether they are idle.
Started = tuple[Callable[..., Any], Callable[[bool], Any], Callable[[], bool]]
"""Sends a task, ends the workers (or keeps them, where they are idle), and says whether all ended without an answer."""
_JOBLIB_CLASSES = {
    "SequentialBackend": SERIAL,
    "ThreadingBackend": THREADS,
    "LokyBackend": PROCESSES,
    "DaskDistributedBackend": DASK,
    "RayBackend": RAY,
}
# Errors that mean that a worker ended, by name, as no library is imported for them: of pebble, Dask and Ray.
_LOSSES = {"ProcessExpired", "BrokenProcessPool", "KilledWorker", "WorkerCrashedError", "NodeDiedError"}
_LOSSES |= {"RayActorError", "OutOfMemoryError"}
# Processes that have nothing to do stay so many seconds for the next run: starting them takes longer than many a run.
IDLE_SECONDS = 300.0
_IDLE: dict[int, tuple[Any, Timer]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)


def is_loss(error: BaseException) -> bool:
    """Return whether an error means that a worker ended, and not that something is wrong with the run."""
    return any(base.__name__ in _LOSSES for base in type(error).__mro__)


def current_backend() -> str:
    """Return the backend that ``joblib.parallel_config`` chose; processes, where it chose none."""
    active = type(needed("joblib.parallel").get_active_backend()[0])
    for base in active.__mro__:
        if base.__name__ in _JOBLIB_CLASSES:
            return _JOBLIB_CLASSES[base.__name__]
    raise SetupError(
        f"backend: joblib's {active.__name__} is not supported; expected one of {', '.join(_JOBLIB_CLASSES)}"
    )


def refuse_timeout(backend: str) -> None:
    """Raise where no document could be stopped: a thread cannot be stopped from outside."""
    if backend in (SERIAL, THREADS, DASK):
        where = {SERIAL: "in this process", THREADS: "in threads", DASK: "in the threads of Dask's workers"}[backend]
        raise ValueError(
            f'timeout: documents are scored {where} with backend="{backend}", where nothing can stop one for good; use '
            'backend="processes" or "ray", or give the score function a limit of its own'
        )


def worker_count(n_jobs: int | None, backend: str, *, context: bool) -> int:
    """Return the number of workers for ``n_jobs``; negative numbers count from the last core."""
    if context:
        return int(needed("joblib").effective_n_jobs(n_jobs))
    if backend in (AUTO, PROCESSES):
        needed("pebble")
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    if backend == DASK:
        cores = int(sum(_dask_client().nthreads().values()))
    elif backend == RAY:
        cores = int(_ray().cluster_resources().get("CPU", 1))
    else:
        cores = int(needed("joblib").cpu_count())
    return max(1, cores + 1 + (-1 if n_jobs is None else n_jobs))


def nested() -> bool:
    """Return whether this is a worker already, which starts no processes."""
    process, joblib = multiprocessing.current_process(), sys.modules.get("joblib")
    if process.daemon or type(process).__name__ == "LokyProcess" or current_thread().name.startswith("scoring-"):
        return True
    if joblib is None:
        return False
    with joblib.parallel_config(backend="loky"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return int(joblib.effective_n_jobs(2)) < 2


def shares_generators(backend: str) -> bool:
    """Return whether several threads of one process score: their global generators cannot be seeded by document."""
    return backend == THREADS or (backend == DASK and max(_dask_client().nthreads().values(), default=1) > 1)


def opener(backend: str, jobs: int) -> Callable[[], Started]:
    """Return a function that starts workers; SetupError where there is no cluster."""
    if backend == DASK:
        client = _dask_client()
        return lambda: (partial(client.submit, pure=False), _leave, _never)
    return partial({THREADS: _threads, PROCESSES: _processes, RAY: _ray_tasks}[backend], jobs)


def _leave(_idle: bool) -> None:
    """Leave a cluster running."""


def _never() -> bool:
    """Return whether workers ended without an answer: each of these backends reports it."""
    return False


def _threads(jobs: int) -> Started:
    executor = ThreadPoolExecutor(jobs, thread_name_prefix="scoring-")
    return executor.submit, lambda idle: executor.shutdown(wait=idle, cancel_futures=True), _never


def _processes(jobs: int) -> Started:
    pool, timer = _IDLE.pop(jobs, (None, None))
    if timer is not None:
        timer.cancel()
    if pool is None or not pool.active:
        # A process of loky, unlike one of multiprocessing, does not run the main module of this one again.
        context = needed("joblib.externals.loky.backend.context").get_context("loky")
        pool = needed("pebble").ProcessPool(jobs, initializer=_limit_threads, initargs=(jobs,), context=context)

    def close(idle: bool) -> None:
        for other in list(_IDLE):
            _release(other)
        timer = Timer(IDLE_SECONDS, _release, [jobs])
        timer.daemon = True
        _IDLE[jobs] = pool, timer
        if idle and pool.active:
            timer.start()
        else:
            _release(jobs)

    def ended() -> bool:
        # A task that is scheduled while pebble notices that all its processes are gone gets no answer.
        return not pool.active

    return lambda function, *arguments: pool.schedule(function, args=arguments), close, ended


def _release(jobs: int) -> None:
    """End the idle processes of pools of ``jobs`` workers."""
    pool, timer = _IDLE.pop(jobs, (None, None))
    if pool is not None and timer is not None:
        timer.cancel()
        pool.stop()
        pool.join()


def _limit_threads(jobs: int) -> None:
    """Share the cores among the workers: NumPy, torch and joblib take all of them by default."""
    share = str(max(1, needed("joblib").cpu_count() // jobs))
    for name in ("OMP_NUM", "OPENBLAS_NUM", "MKL_NUM", "NUMEXPR_NUM", "VECLIB_MAXIMUM"):
        os.environ.setdefault(f"{name}_THREADS", share)
    os.environ.setdefault("LOKY_MAX_CPU_COUNT", share)


def _dask_client() -> Any:
    parallel = sys.modules.get("joblib.parallel")
    active: Any = parallel.get_active_backend()[0] if parallel is not None else None
    if type(active).__name__ == "DaskDistributedBackend":
        return active.client
    try:
        return needed("distributed").get_client()
    except ValueError as error:
        raise SetupError('backend="dask": there is no client; create a distributed.Client first') from error


def _ray() -> Any:
    ray = needed("ray")
    if not ray.is_initialized():
        ray.init()
    return ray


def _ray_tasks(_jobs: int) -> Started:
    ray = _ray()
    remote = lru_cache(maxsize=1)(ray.remote(max_retries=0))

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        reference = remote(function).remote(*arguments)
        future: Future[Any] = reference.future()
        future.cancel = partial(ray.cancel, reference, force=True)  # type: ignore[method-assign]
        return future

    return submit, _leave, _never

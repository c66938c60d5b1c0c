"""A run: where it takes place, and its scores as an iterator."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.fixes.scoring import backends
from pytest_evalcheck.fixes.scoring.backends import AUTO, CONTEXT, DASK, PROCESSES, RAY, SERIAL, THREADS
from pytest_evalcheck.fixes.scoring.cache import Lookup
from pytest_evalcheck.fixes.scoring.errors import DocumentError, SetupError, needed
from pytest_evalcheck.fixes.scoring.pickling import dumps
from pytest_evalcheck.fixes.scoring.pool import Pool
from pytest_evalcheck.fixes.scoring.scheduler import RunReport, Scheduler
from pytest_evalcheck.fixes.scoring.worker import AdaptiveGroup, Job, score_some

# Seconds of work in a task: in this process, where it bounds how long no score is seen; while it is decided whether
# workers pay, as they have nothing to do until then; and for a worker, where it makes sending (about 1 ms) cheap.
HERE, TRIAL, AWAY = 0.05, 0.02, 0.2
# Seconds that starting workers is taken to cost when it is decided whether they pay.
START = 1.0


class ScoreStream:
    """The scores of a stream of documents, as an iterator in document order; see `stream_scores`.

    ``report`` describes the run so far. ``close()`` ends it early, and so does leaving a ``with`` block.
    """

    def __init__(self, score: Callable[[Any], Any], documents: Iterable[Any], options: Any) -> None:
        self._options = options
        self._job = Job(score, options.seed, options.timeout, options.guard)
        self.report = _choose(options)
        # What cannot work is refused here, by the call, and not by the first score that is asked for.
        backend = self.report.backend
        self._pool = None if backend in (SERIAL, AUTO) else Pool(self._job, self.report)
        keys = {name: getattr(options, name) for name in ("version", "depends_on", "seed", "guard")}
        lookup = Lookup(options.cache, score=score, **keys)
        self._scheduler = Scheduler(documents, lookup, options, self.report, TRIAL if backend == AUTO else HERE)
        self._results = self._flat()

    def __iter__(self) -> Generator[Any, None, None]:
        return self._results

    def __next__(self) -> Any:
        return next(self._results)

    def close(self) -> None:
        """End the run; scores that were not yet taken are lost, unless there is a cache."""
        self._results.close()

    def __enter__(self) -> ScoreStream:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _flat(self) -> Generator[Any, None, None]:
        with closing(self.blocks()) as blocks:
            for block in blocks:
                for result in block:
                    if isinstance(result, DocumentError) and self._options.errors == "raise":
                        raise result
                    yield result

    def blocks(self) -> Generator[list[Any], None, None]:
        """Yield the scores in blocks, in order, as they are complete."""
        started, progress = time.perf_counter(), self._options.progress
        with ExitStack() as stack:
            if progress is True:
                bar = needed("tqdm.auto").tqdm(total=self._scheduler.total, unit="doc", desc="scoring")
                progress = stack.enter_context(closing(bar)).update
            for block in stack.enter_context(closing(self._scored())):
                self.report.documents += len(block)
                self.report.seconds = time.perf_counter() - started
                if progress:
                    progress(len(block))
                yield block

    def _scored(self) -> Generator[list[Any], None, None]:
        if self._pool is None:
            yield from self._here()
        if self._pool is not None:
            self._scheduler.jobs, self._scheduler.target = self.report.n_jobs, AWAY
            yield from self._pool.run(self._scheduler)

    def _here(self) -> Generator[list[Any], None, None]:
        """Score in this process; with "auto", until it is clear that workers would be faster."""
        scheduler, report, group, estimate = self._scheduler, self.report, AdaptiveGroup(), Estimate()
        while not scheduler.finished:
            if task := scheduler.next_task():
                before = _queued()
                outcome = score_some(self._job, group, task.documents)
                scheduler.done(task, outcome)
                estimate.add(task.documents, max(0.0, outcome.seconds - (_queued() - before)))
            yield from filter(None, [scheduler.emit()])
            if report.backend == AUTO and estimate.workers_pay(scheduler, report.n_jobs):
                report.backend, report.why = PROCESSES, str(estimate)
                try:
                    self._pool = Pool(self._job, report)
                    return
                except SetupError as error:
                    report.backend, report.n_jobs, report.why = SERIAL, 1, str(error)
        if report.backend == AUTO:
            report.backend, report.n_jobs, report.why = SERIAL, 1, str(estimate)


def _choose(options: Any) -> RunReport:
    """Choose a backend, as far as that is possible before a document was measured."""
    backend, context = options.backend, options.backend == CONTEXT
    if context or (backend == AUTO and "joblib" in sys.modules):
        active = backends.current_backend()
        # Threads have to be asked for: not every score function is safe in them.
        if context or active in (DASK, RAY):
            context, backend = True, active
    if options.timeout is not None:
        backend = PROCESSES if backend == AUTO else backend
        backends.refuse_timeout(backend)
    if backend in (AUTO, PROCESSES) and backends.nested():
        if options.timeout is not None:
            raise SetupError("timeout: needs processes, and within a worker none can be started")
        return RunReport(SERIAL, why="within a worker no processes are started")
    try:
        jobs = 1 if backend == SERIAL else backends.worker_count(options.n_jobs, backend, context=context)
    except ModuleNotFoundError as error:
        if backend != AUTO:
            raise
        return RunReport(SERIAL, why=str(error))
    if jobs == 1 and backend in (AUTO, THREADS):
        return RunReport(SERIAL, why="one worker was asked for, or there is one core")
    return RunReport(backend, jobs, "" if backend == AUTO else "it was asked for")


def _queued() -> float:
    """Seconds for which this thread could have run and another one had its core, as Linux counts them; 0 elsewhere.

    What else the machine does is no reason to start workers, which would wait as long.
    """
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as counts:
            return int(counts.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


_ENOUGH = 2
"""Number of tasks to measure: the first one may include an import."""


@dataclass
class Estimate:
    """Seconds that documents take, and that sending one takes, measured on the first documents."""

    costs: list[float] = field(default_factory=list)
    latest: float = 0.0
    sending: float | None = None

    def add(self, documents: Sequence[Any], seconds: float) -> None:
        """Learn from a task."""
        self.latest = seconds / len(documents)
        if seconds >= TRIAL / 2:
            # The minimum counts, as whatever else the machine does only makes a document seem slower.
            self.costs = [*self.costs[-2:], self.latest]
        if self.sending is None or len(self.costs) < _ENOUGH:
            before, started = _queued(), time.perf_counter()
            try:
                dumps(documents[0])
                seconds = 2 * max(0.0, time.perf_counter() - started - (_queued() - before))
            except Exception:
                seconds = float("inf")
            self.sending = seconds if self.sending is None else min(self.sending, seconds)

    def workers_pay(self, scheduler: Scheduler, jobs: int) -> bool:
        """Compare the rest in this process with the rest in workers; an unknown rest is taken as what was read."""
        if not self.costs or self.sending is None:
            return False
        rest = scheduler.read if scheduler.total is None else scheduler.total - scheduler.read
        here = rest * min(self.costs)
        away = START + (here + rest * self.sending) / jobs
        return len(self.costs) >= _ENOUGH and away < 0.9 * here

    def __str__(self) -> str:
        if self.sending == float("inf"):
            return "documents cannot be pickled"
        cost = min(self.costs, default=self.latest)
        return f"a document takes {1e6 * cost:.3g} us, and {1e6 * (self.sending or 0):.3g} us to send"

"""Workers that may die: no document is lost, and the document that ends its worker is named."""

from __future__ import annotations

import multiprocessing
import queue
import shutil
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_evalcheck.fixes.scoring.backends import DASK, PROCESSES, THREADS, is_loss, opener, shares_generators
from pytest_evalcheck.fixes.scoring.errors import DIED, TIMEOUT, Failure, SetupError
from pytest_evalcheck.fixes.scoring.pickling import dumps, dumps_function, loads, unsendable
from pytest_evalcheck.fixes.scoring.scheduler import RunReport, Scheduler, Task
from pytest_evalcheck.fixes.scoring.worker import ENTRY, AdaptiveGroup, Job, Outcome, score_packed, score_some

# A document whose worker died is tried once more beside others, then by itself. Dask has tried again before.
MOST_DEATHS = {DASK: 1}
# Workers that end so often in a row without having begun a document do so for a reason of their own.
MOST_IDLE_DEATHS = 5


class Pool:
    """The workers of one run: threads, or processes here or on a cluster."""

    def __init__(self, job: Job, report: RunReport) -> None:
        backend = report.backend
        self._threads = backend == THREADS
        if not self._threads:
            dumps_function(job.score, job)  # a function that cannot be sent is refused before workers start
        self._job = replace(job, threads=shares_generators(backend))
        self._backend, self._report = backend, report
        self._open = opener(backend, report.n_jobs)
        self._folder, self._packed = Path(), b""
        self._sent: dict[int, tuple[Task, Any]] = {}
        self._tickets = 0
        self._answers: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._retries: deque[Task] = deque()
        self._suspects: deque[Task] = deque()
        self._alone = -1
        self._deaths: dict[int, int] = {}
        self._idle_deaths = 0
        self._unreported: set[str] = set()

    def run(self, scheduler: Scheduler) -> Iterator[list[Any]]:
        """Score all documents; yield blocks of scores, in order."""
        self._folder = Path(tempfile.mkdtemp(prefix="scoring-"))
        try:
            if not self._threads:
                self._packed = dumps_function(self._job.score, replace(self._job, run=str(self._folder)))
            self._submit, self._close, self._ended = self._open()
            try:
                while True:
                    if block := scheduler.emit():
                        yield block
                    elif scheduler.finished:
                        return
                    self._fill(scheduler)
                    if self._sent:
                        self._receive(scheduler)
            finally:
                self._stop()
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self) -> None:
        for _, future in self._sent.values():
            future.cancel()
        self._close(not self._sent)

    def _fill(self, scheduler: Scheduler) -> None:
        """Keep the workers busy; a suspect is scored while no other document is."""
        while len(self._sent) < 2 * self._report.n_jobs:
            if self._suspects:
                if not self._sent:
                    task = self._suspects.popleft()
                    self._alone = task.indices[0]
                    self._send(task)
                return
            next_task = self._retries.popleft() if self._retries else scheduler.next_task()
            if next_task is None:
                return
            self._send(next_task)

    def _send(self, task: Task) -> None:
        self._tickets += 1
        ticket = self._tickets
        try:
            if self._threads:
                future = self._submit(score_some, self._job, AdaptiveGroup(), task.documents)
            else:
                documents = [_pickled(document) for document in task.documents]
                future = self._submit(score_packed, self._packed, str(self._folder), documents, task.indices)
        except RuntimeError as error:  # the workers ended since the last answer
            self._retries.appendleft(task)
            self._restart(error)
            return
        self._sent[ticket] = task, future
        future.add_done_callback(lambda done: self._answers.put((ticket, done)))

    def _receive(self, scheduler: Scheduler) -> None:
        try:
            ticket, future = self._answers.get(timeout=1.0)
        except queue.Empty:
            self._look_for_unreported_deaths()
            return
        if ticket not in self._sent:  # of workers that were given up
            return
        task, _ = self._sent.pop(ticket)
        try:
            answer = future.result()
        except Exception as error:
            if not is_loss(error):
                raise
            self._lost(scheduler, task, error)
            return
        try:
            outcome = answer if self._threads else loads(answer)
        except Exception as error:
            outcome = _failed(task, unsendable("its score, or that of a neighbour,", error))
        if isinstance(outcome, str):
            raise SetupError(
                f"score: the function cannot be loaded in a worker ({outcome}); the module that defines it must be "
                "importable there"
            )
        if outcome.drew and not scheduler.drew:
            warnings.warn(
                "random numbers were drawn from the global generators while several threads of one process scored: "
                "they cannot be seeded by document there, so scores may differ from run to run. Use processes (with "
                "Dask, workers of one thread), or draw from random.Random(document_seed(seed, document))",
                RuntimeWarning,
                stacklevel=2,
            )
        self._idle_deaths = 0
        scheduler.done(task, outcome)

    def _lost(self, scheduler: Scheduler, task: Task, error: Exception) -> None:
        """Find the document at which a worker died; the others of its task are scored again."""
        self._report.lost_workers += 1
        begun = self._begun(task)
        if self._backend == PROCESSES and (begun is None or not hasattr(error, "exitcode")):
            # The pool is broken, or a worker died between two documents, where it may hold a lock of the pool.
            self._retries.appendleft(task)
            self._restart(error)
            return
        places = range(len(task.documents))
        place, seconds = (0, 0.0) if begun is None else begun
        if begun is None and len(places) > 1:  # on another machine
            self._retries.extend(task.part([each]) for each in places)
            return
        if rest := [each for each in places if each != place]:
            self._retries.append(task.part(rest))
        suspect = task.part([place])
        index, limit = suspect.indices[0], self._job.timeout
        self._deaths[index] = self._deaths.get(index, 0) + 1
        if limit is not None and seconds >= limit:
            why = f"it took longer than timeout={limit:g} seconds and did not react: its process was ended"
            scheduler.done(suspect, _failed(suspect, Failure(TIMEOUT, "TimeoutError", why)))
        elif index == self._alone:
            code = getattr(error, "exitcode", None)
            why = "the process that scored it ended" + (f" (exit code {code})" if code is not None else "")
            scheduler.done(suspect, _failed(suspect, Failure(DIED, "WorkerDied", why)))
        elif self._deaths[index] >= MOST_DEATHS.get(self._backend, 2):
            self._suspects.append(suspect)
        else:
            self._retries.append(suspect)

    def _begun(self, task: Task) -> tuple[int, float] | None:
        """Return the place of the document of a task that was being scored, and for how many seconds."""
        for path in self._folder.iterdir():
            content = path.read_bytes()
            index, since = ENTRY.unpack(content) if len(content) == ENTRY.size else (-1, 0.0)
            if index in task.indices:
                path.unlink()
                return task.indices.index(index), time.time() - since
        return None

    def _look_for_unreported_deaths(self) -> None:
        """Start new workers where pebble missed that one died, as it may while it reads what that worker sent."""
        if self._backend != PROCESSES:
            return
        if self._ended():
            self._report.lost_workers += 1
            self._restart(RuntimeError("all worker processes ended"))
            return
        living = {str(child.pid) for child in multiprocessing.active_children()}
        dead = {path.name for path in self._folder.iterdir() if path.name.partition("-")[0] not in living}
        if dead & self._unreported:
            self._report.lost_workers += 1
            self._restart(RuntimeError("a worker process ended"))
        self._unreported = dead

    def _restart(self, error: BaseException) -> None:
        """Start new workers, and score again what was sent to the old ones."""
        self._idle_deaths += 1
        if self._idle_deaths >= MOST_IDLE_DEATHS:
            times = f"{self._idle_deaths} times in a row"
            raise SetupError(f"workers ended {times} before they scored anything: {error}") from error
        self._stop()
        self._retries.extendleft(task for task, _ in self._sent.values())
        self._sent.clear()
        for path in self._folder.iterdir():
            path.unlink()
        self._submit, self._close, self._ended = self._open()


def _pickled(document: Any) -> bytes:
    """Pickle a document by itself: documents share nothing, and one that cannot be pickled fails alone."""
    try:
        return dumps(document)
    except Exception as error:
        return dumps(unsendable("the document", error))


def _failed(task: Task, failure: Failure) -> Outcome:
    count = len(task.documents)
    return Outcome([None] * count, dict.fromkeys(range(count), failure))

"""Scoring in workers that may die: no document is lost, and the one that is at fault is named."""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from pytest_evalcheck.fixes.scoring.backends import Pool, closing_quietly, is_loss
from pytest_evalcheck.fixes.scoring.codec import dumps, dumps_function, loads, unsendable
from pytest_evalcheck.fixes.scoring.errors import DIED, TIMEOUT, Failure, SetupError
from pytest_evalcheck.fixes.scoring.journal import Journal
from pytest_evalcheck.fixes.scoring.needs import needed
from pytest_evalcheck.fixes.scoring.options import RunReport
from pytest_evalcheck.fixes.scoring.work import Chunk, Piece, Work
from pytest_evalcheck.fixes.scoring.worker import Habit, Outcome, Task, score_packed, score_some

# A document that was being scored when a worker died is tried once more beside others, then by itself.
MOST_DEATHS = 2
# Workers that end so often in a row without having begun a document do so for a reason of their own.
MOST_IDLE_DEATHS = 3
# Seconds that a cluster has to start new workers when there is none left but one.
PATIENCE = 30.0
_PROCESS = uuid.uuid4().hex


class _Lost(Exception):
    pass


class _NoWorkers(Exception):
    pass


class Elsewhere:
    """The workers of one run: threads, or processes here or on a cluster."""

    def __init__(self, task: Task, pool: Pool, *, pickled: bool, report: RunReport) -> None:
        self._task = task
        self._pool = pool
        self._pickled = pickled
        self._report = report
        self._journal: Journal | None = None
        self._packed = b""
        self._name = ""
        if pickled:
            # Here, so that a function that cannot be sent is refused before anything is started.
            dumps_function(task.score, task)
        self._alone: deque[Piece] = deque()
        self._deaths: dict[int, int] = {}
        # Dask has tried again by itself before it tells.
        self._most_deaths = 1 if pool.retries else MOST_DEATHS
        self._idle_deaths = 0
        self._without_workers = 0.0
        self._drew = False

    def chunks(self, work: Work) -> Iterator[Chunk]:
        """Score all documents; chunks in order as they are finished."""
        if self._pickled:
            self._journal = Journal()
            self._task = replace(self._task, journal=self._journal.folder)
            self._packed = dumps_function(self._task.score, self._task)
            # The same bytes in another run are another task: what a worker has learnt of one is not for the other.
            self._name = hashlib.blake2b(self._packed).hexdigest()
        try:
            while work.unfinished():
                while self._alone:
                    self._by_itself(work, self._alone.popleft())
                    yield from work.finished()
                try:
                    with self._pool.opened() as parallel:
                        while work.unfinished() and not self._alone:
                            yield from self._round(work, parallel)
                except _Lost as lost:
                    self._try_again(work, lost.__cause__)
        finally:
            if self._journal is not None:
                self._journal.close()

    def _round(self, work: Work, parallel: Callable[[Iterator[Any]], Iterator[Any]]) -> Iterator[Chunk]:
        """Send until there is nothing left to send, and receive all of it."""
        work.top_up()
        yield from work.finished()
        with closing_quietly(parallel(self._tasks(work))) as results:
            while self._receive(work, results):
                yield from work.finished()
                work.top_up()

    def _receive(self, work: Work, results: Iterator[Any]) -> bool:
        try:
            number, answer = next(results)
        except StopIteration:
            return False
        except Exception as error:
            if is_loss(error):
                raise _Lost from error
            raise
        if answer is None:
            raise _Lost from _NoWorkers("there are fewer than two workers left, and joblib scores in this process then")
        piece = work.sent.pop(number)
        work.done(piece, self._outcome(piece, answer))
        self._idle_deaths, self._without_workers = 0, 0.0
        return True

    def _tasks(self, work: Work) -> Iterator[Any]:
        """Give joblib, which asks from its own threads, one piece after another."""
        delayed = needed("joblib").delayed
        while work.ready:
            piece = work.ready.popleft()
            work.sent[piece.number] = piece
            if self._pickled:
                yield delayed(_away)(piece.number, _here(), self._packed, self._name, _pickled(piece), piece.indices)
            else:
                yield delayed(_in_a_thread)(piece.number, self._task, piece.documents, piece.indices)

    def _outcome(self, piece: Piece, answer: Any) -> Outcome:
        try:
            outcome: Outcome | str = loads(answer) if self._pickled else answer
        except Exception as error:
            outcome = _all_failed(piece, unsendable("its score, or that of a neighbour,", error))
        if isinstance(outcome, str):
            raise SetupError(
                f"score: the function cannot be loaded in a worker ({outcome}); the module that defines it must be "
                "importable there"
            )
        self._warn_of_draws(outcome)
        return outcome

    def _warn_of_draws(self, outcome: Outcome) -> None:
        if outcome.drew and not self._drew:
            self._drew = True
            warnings.warn(
                "random numbers were drawn from the global generators while several threads of one process scored: "
                "they cannot be seeded by document there, so scores may differ from run to run. Use processes (with "
                "Dask, workers of one thread), or draw from random.Random(document_seed(seed, document))",
                RuntimeWarning,
                stacklevel=2,
            )

    def _try_again(self, work: Work, error: BaseException | None) -> None:
        """Put back what was sent; documents that were being scored when a worker died are under suspicion."""
        running = self._journal.running() if self._journal is not None else {}
        if isinstance(error, _NoWorkers):
            self._wait_for_workers(error)
        else:
            self._report.lost_workers += 1
            self._idle_deaths += 1
            if not running and self._idle_deaths >= MOST_IDLE_DEATHS:
                times = f"{self._idle_deaths} times in a row"
                raise SetupError(f"workers ended {times} before they scored anything: {error}") from error
        lost = sorted(work.sent.values(), key=lambda piece: piece.number, reverse=True)
        work.sent.clear()
        for piece in lost:
            again = list(piece.places)
            if not isinstance(error, _NoWorkers):
                again = [place for place in again if not self._set_aside(work, piece, place, running)]
            if again:
                work.add(Piece(piece.chunk, again), first=True)

    def _wait_for_workers(self, error: BaseException) -> None:
        if self._without_workers >= PATIENCE:
            raise SetupError(str(error)) from error
        time.sleep(0.5)
        self._without_workers += 0.5

    def _set_aside(self, work: Work, piece: Piece, place: int, running: dict[int, float]) -> bool:
        index = piece.chunk.start + place
        if index not in running and running:
            return False
        limit = self._task.timeout
        if limit is not None and running.get(index, 0.0) >= limit:
            self._blame(work, Piece(piece.chunk, [place]), running, None)
            return True
        self._deaths[index] = self._deaths.get(index, 0) + 1
        if self._deaths[index] >= self._most_deaths:
            self._alone.append(Piece(piece.chunk, [place]))
            return True
        return False

    def _by_itself(self, work: Work, piece: Piece) -> None:
        """Score one document while no other is being scored, so that what happens is its doing."""
        work.add(piece, first=True)
        waiting, work.ready = work.ready, deque([work.ready.popleft()])
        try:
            with self._pool.opened() as parallel, closing_quietly(parallel(self._tasks(work))) as results:
                while self._receive(work, results):
                    pass
        except _Lost as lost:
            work.sent.clear()
            if isinstance(lost.__cause__, _NoWorkers):
                self._wait_for_workers(lost.__cause__)
                self._alone.appendleft(piece)
                return
            self._report.lost_workers += 1
            running = self._journal.running() if self._journal is not None else {}
            self._blame(work, piece, running, lost.__cause__)
        finally:
            work.ready = waiting

    def _blame(self, work: Work, piece: Piece, running: dict[int, float], error: BaseException | None) -> None:
        (index,) = piece.indices
        limit = self._task.timeout
        if limit is not None and running.get(index, 0.0) >= limit:
            why = f"it took longer than timeout={limit:g} seconds and did not react: its process was ended"
            failure = Failure(TIMEOUT, "TimeoutError", why)
        else:
            codes = re.search(r"\{[^{}]*\}", str(error))
            told = f" (exit codes {codes.group()})" if codes else ""
            failure = Failure(DIED, "WorkerDied", f"the process that scored it ended{told}")
        work.done(piece, _all_failed(piece, failure))


def _all_failed(piece: Piece, failure: Failure) -> Outcome:
    count = len(piece.places)
    return Outcome([None] * count, dict.fromkeys(range(count), failure))


def _pickled(piece: Piece) -> list[Any]:
    """Pickle every document by itself: they share nothing, whatever the chunk, and one that cannot be is told apart."""
    packed: list[Any] = []
    for document in piece.documents:
        try:
            packed.append(dumps(document))
        except Exception as error:
            packed.append(dumps(unsendable("the document", error)))
    return packed


def _away(number: int, sender: str, task: bytes, name: str, documents: list[bytes], indices: Any) -> tuple[int, Any]:
    # Here, a document that ends its process would end the run.
    return number, None if sender == _here() else score_packed(task, name, documents, indices)


def _here() -> str:
    return f"{_PROCESS}-{os.getpid()}"


def _in_a_thread(number: int, task: Task, documents: list[Any], indices: Any) -> tuple[int, Outcome]:
    return number, score_some(task, documents, indices, Habit())

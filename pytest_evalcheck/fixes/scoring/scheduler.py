"""Documents on their way: read in order, scored in tasks, emitted in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from itertools import islice
from typing import Any

from pytest_evalcheck.fixes.scoring.cache import Lookup
from pytest_evalcheck.fixes.scoring.errors import DocumentError, identified
from pytest_evalcheck.fixes.scoring.worker import Outcome

_MOST_BYTES, _MOST_DOCUMENTS = 2**22, 2**11


@dataclass
class RunReport:
    """Summary of a run: its backend and workers with the reason, its documents, and how many workers were lost."""

    backend: str = ""
    n_jobs: int = 1
    why: str = ""
    documents: int = 0
    computed: int = 0
    cached: int = 0
    failed: int = 0
    lost_workers: int = 0
    seconds: float = 0.0


@dataclass
class Task:
    """Documents that are scored together, with their positions in the stream and their keys in the cache."""

    indices: Sequence[int]
    documents: list[Any]
    keys: Sequence[bytes]

    def part(self, places: Sequence[int]) -> Task:
        """Return a task of some of the documents."""
        keys = [self.keys[place] for place in places] if self.keys else ()
        return Task([self.indices[place] for place in places], [self.documents[place] for place in places], keys)


class Scheduler:
    """Tasks of ``target`` seconds, cut from a stream of which no more than a window of documents is held."""

    def __init__(self, documents: Iterable[Any], lookup: Lookup, options: Any, report: RunReport, target: float):
        self._stream, self._lookup, self._options, self._report = iter(documents), lookup, options, report
        self.total = len(documents) if isinstance(documents, Sized) else None
        self.target, self.jobs = target, 1
        self._cost: float | None = None  # seconds per document, of late
        self._bytes = 1.0  # per document
        self._error: Exception | None = None
        self._ended = self.drew = False
        self.read = self._emitted = self._widest = 0
        self._results: dict[int, Any] = {}

    @property
    def finished(self) -> bool:
        """Return whether all documents were read and their scores emitted."""
        return self._ended and self._emitted == self.read and self._error is None

    def next_task(self) -> Task | None:
        """Read documents until some have to be scored; None at the end, or where the window is full."""
        while not self._ended:
            size = self._size()
            self._widest = max(self._widest, 64 * self.jobs, 4 * self.jobs * size)
            size = min(size, (self._options.window or self._widest) - (self.read - self._emitted))
            if size < 1:
                break
            documents: list[Any] = []
            try:
                documents.extend(islice(self._stream, size))
                self._ended = not documents
            except Exception as error:
                self._error, self._ended = error, True  # raised after the scores of the documents before it
            keys, known = self._lookup.find(documents)
            task = Task(range(self.read, self.read + len(documents)), documents, keys)
            self.read += len(documents)
            if known:
                self._report.cached += len(known)
                self._results.update((task.indices[place], score) for place, score in known.items())
                task = task.part([place for place in range(len(documents)) if place not in known])
            if task.documents:
                return task
        return None

    def _size(self) -> int:
        """Return how many documents make sending them cheap, and still are few enough to end together."""
        if self._options.chunk != "auto":
            return int(self._options.chunk)
        if self._cost is None:
            return 1
        size = min(self.target / self._cost, _MOST_BYTES / self._bytes, _MOST_DOCUMENTS)
        if self.total is not None and self.jobs > 1:
            share = (self.total - self.read) / (4 * self.jobs)
            size = min(size, max(share, self.target / 10 / self._cost))
        return max(1, int(size))

    def done(self, task: Task, outcome: Outcome) -> None:
        """Take the scores of a task."""
        self._results.update(zip(task.indices, outcome.scores, strict=True))
        for place, failure in outcome.failures.items():
            index, document = task.indices[place], task.documents[place]
            self._results[index] = DocumentError(index, identified(document, self._options.document_id), failure)
        count = len(task.documents)
        self._report.computed += count
        self._report.failed += len(outcome.failures)
        if outcome.seconds:
            latest = max(outcome.seconds / count, 1e-8)
            self._cost = latest if self._cost is None else (self._cost + latest) / 2
            self._bytes = max(self._bytes / 2, outcome.size / count)
        self.drew = self.drew or outcome.drew
        if not outcome.drew:  # other draws would give another score
            self._lookup.keep(task.keys, outcome)

    def emit(self) -> list[Any]:
        """Return the next scores, as far as they are complete."""
        block = []
        while self._emitted in self._results:
            block.append(self._results.pop(self._emitted))
            self._emitted += 1
        if not block and self._error is not None and self._emitted == self.read:
            error, self._error = self._error, None
            raise error
        return block

"""Documents on their way: read in order, sent in chunks, given back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pytest_evalcheck.fixes.scoring.cache import Lookup
from pytest_evalcheck.fixes.scoring.errors import DocumentError, Failure, identified
from pytest_evalcheck.fixes.scoring.worker import Outcome


@dataclass
class Chunk:
    """Neighbouring documents and what became of them."""

    start: int
    documents: list[Any]
    keys: list[bytes] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    left: int = 0
    failed: int = 0


@dataclass
class Piece:
    """Documents of a chunk that are scored together: all of it, less those whose scores are known."""

    chunk: Chunk
    places: Sequence[int]
    number: int = -1

    @property
    def documents(self) -> list[Any]:
        """The documents themselves."""
        if len(self.places) == len(self.chunk.documents):
            return self.chunk.documents
        return [self.chunk.documents[place] for place in self.places]

    @property
    def indices(self) -> Sequence[int]:
        """Where they are in the stream."""
        start = self.chunk.start
        if isinstance(self.places, range):
            return range(start + self.places.start, start + self.places.stop)
        return [start + place for place in self.places]


class Sizes:
    """How many documents go into the next chunk: enough to make sending them cheap, few enough to end together."""

    def __init__(self, *, total: int | None, jobs: int, target: float, fixed: int | None) -> None:
        self.total = total
        self.jobs = jobs
        self.target = target
        self.fixed = fixed
        self.cost: float | None = None  # seconds a document, of late
        self.latest = 0.0  # and in the last chunk
        self._bytes = 1.0
        self._chunks = 0

    def measured(self, documents: int, seconds: float, sent: int = 0) -> None:
        """Learn from a chunk: its number of documents, its seconds, its bytes."""
        self._chunks += 1
        if documents:
            self.latest = max(seconds / documents, 1e-8)
            self.cost = self.latest if self.cost is None else (self.cost + self.latest) / 2
            self._bytes = max(self._bytes / 2, sent / documents)

    @property
    def learning(self) -> bool:
        """Whether the sizes are still a guess: the first documents may have imported what the others only use."""
        return self.fixed is None and self._chunks < 2 * self.jobs

    def next(self, done: int) -> int:
        """Return the size of the chunk that begins at document ``done``."""
        if self.fixed is not None:
            return self.fixed
        if self.cost is None:
            return 1
        size = min(self.target / self.cost, _MOST_BYTES / self._bytes, _MOST_DOCUMENTS if self.jobs > 1 else _MOST_HERE)
        if self.total is not None and self.jobs > 1:
            # Smaller ones towards the end, so that no worker is left with much when the others have finished.
            share = (self.total - done) / (4 * self.jobs)
            size = min(size, max(share, self.target / 10 / self.cost))
        return max(1, int(size))


_MOST_BYTES = 2**22
_MOST_DOCUMENTS = 2**11
_MOST_HERE = 2**13  # of which only one is held at a time


class Work:
    """All that is between the stream of documents and the stream of scores: bounded, and in order."""

    def __init__(self, documents: Iterable[Any], *, sizes: Sizes, lookup: Lookup, document_id: Any, window: int | None):
        self._stream = iter(documents)
        self.sizes = sizes
        self.computed = 0
        self._lookup = lookup
        self._document_id = document_id
        self._window = window
        self._error: BaseException | None = None
        self._ended = False
        self._chunks: deque[Chunk] = deque()
        self._read = 0
        self._held = 0
        self._widest = 0
        self._numbers = 0
        self.ready: deque[Piece] = deque()
        self.sent: dict[int, Piece] = {}

    @property
    def seen(self) -> int:
        """How many documents were read."""
        return self._read

    def unfinished(self) -> bool:
        """Tell whether any document is still to be read or scored."""
        return bool(self._chunks) or not self._ended

    def top_up(self, *, chunks: int | None = None) -> None:
        """Read on until the window is full, or for so many chunks, in the thread that calls."""
        while not self._ended and (chunks is None or chunks > 0):
            size = self.sizes.next(self._read)
            if chunks is None and self._held and self._held + size > self._most(size):
                return
            self._take(size)
            chunks = None if chunks is None else chunks - 1

    def _most(self, size: int) -> int:
        if self._window is not None:
            return self._window
        most = 4 * self.sizes.jobs * size
        if self.sizes.learning:
            # Enough to keep the workers busy. Many small chunks would be sent before anybody knows better.
            return most
        # Never less than before: while as much as that is held, nothing would be there to send to who is done.
        self._widest = max(self._widest, 64 * self.sizes.jobs, most)
        return self._widest

    def _take(self, size: int) -> None:
        documents: list[Any] = []
        try:
            documents.extend(islice(self._stream, min(size, self._window or size)))
        except Exception as error:
            # Told after the scores of the documents that came before it.
            self._error = error
            self._ended = True
        if not documents:
            self._ended = True
            return
        chunk = Chunk(self._read, documents)
        self._read += len(documents)
        self._held += len(documents)
        self._chunks.append(chunk)
        places = self._lookup.fill(chunk)
        chunk.left = len(places)
        if places:
            self.add(Piece(chunk, places))

    def add(self, piece: Piece, *, first: bool = False) -> None:
        """Put documents into the queue."""
        piece.number = self._numbers
        self._numbers += 1
        (self.ready.appendleft if first else self.ready.append)(piece)

    def done(self, piece: Piece, outcome: Outcome) -> None:
        """Take in the scores of a piece."""
        chunk = piece.chunk
        if len(outcome.failures) == 0 and len(piece.places) == len(chunk.documents):
            chunk.results = outcome.scores
        else:
            for place, (position, score) in enumerate(zip(piece.places, outcome.scores, strict=True)):
                failure = outcome.failures.get(place)
                chunk.results[position] = score if failure is None else self._error_of(chunk, position, failure)
        chunk.left -= len(piece.places)
        chunk.failed += len(outcome.failures)
        self.computed += len(piece.places)
        self.sizes.measured(len(piece.places), outcome.seconds, outcome.size)
        self._lookup.keep(piece, outcome)

    def _error_of(self, chunk: Chunk, position: int, failure: Failure) -> DocumentError:
        found = identified(chunk.documents[position], self._document_id)
        return DocumentError(chunk.start + position, found, failure)

    def finished(self) -> Iterator[Chunk]:
        """Give back the first chunks, as far as they are complete."""
        while self._chunks and not self._chunks[0].left:
            chunk = self._chunks.popleft()
            self._held -= len(chunk.documents)
            yield chunk
        if self._error is not None and not self._chunks:
            error, self._error = self._error, None
            raise error

"""Scores some documents: the same code in every process and thread, so that the scores are the same."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from pytest_evalcheck.fixes.scoring import seeding
from pytest_evalcheck.fixes.scoring.errors import CHANGED, TIMEOUT, Failure, failure_of
from pytest_evalcheck.fixes.scoring.pickling import dumps, loads, sendable, unsendable

# Seconds after which a group of unseeded documents is checked for random draws.
GROUP = 0.05
# Seconds after its time limit at which a document that does not react ends together with its process.
GRACE = 1.0
# A heartbeat: the index of the document that is being scored, or -1, and the time at which it began.
ENTRY = struct.Struct("qd")

Score = Callable[[Any], Any]


@dataclass(frozen=True)
class Job:
    """Settings with which every document of a run is scored; ``threads`` if several threads of this process score."""

    score: Score
    seed: int | None = 0
    timeout: float | None = None
    guard: bool = False
    threads: bool = False
    run: str = ""


@dataclass
class AdaptiveGroup:
    """Group size of a score function: one that draws no random numbers is scored in groups, without seeds."""

    draws: bool | None = None


@dataclass
class Outcome:
    """Scores of some documents, in order; None where ``failures`` has the reason why there is none."""

    scores: list[Any] = field(default_factory=list)
    failures: dict[int, Failure] = field(default_factory=dict)
    seconds: float = 0.0
    size: int = 0  # bytes of the pickled documents
    drew: bool = False  # random numbers were drawn without a seed

    def fail(self, failure: Failure) -> None:
        """Record that the next document has no score."""
        self.failures[len(self.scores)] = failure
        self.scores.append(None)

    def truncate(self, count: int) -> None:
        """Drop all documents but the first ``count``."""
        del self.scores[count:]
        self.failures = {place: each for place, each in self.failures.items() if place < count}


class _NoScore(BaseException):
    """Ends a document; no Exception, so that ``except Exception`` in a score function does not catch it."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure


def score_packed(packed: bytes, folder: str, documents: Sequence[bytes], indices: Sequence[int]) -> bytes:
    """Score pickled documents in another process; return a pickled `Outcome`, or the text of an error."""
    with heartbeat(folder) as beat:
        loaded = _loaded(packed)
        if isinstance(loaded, str):
            return dumps(loaded)
        outcome = score_some(*loaded, documents, read=_read, begin=lambda place: beat(indices[place]))
    outcome.failures = {place: sendable(each) for place, each in outcome.failures.items()}
    outcome.size = sum(map(len, documents))
    try:
        return dumps(outcome)
    except Exception:
        for place, score in enumerate(outcome.scores):
            try:
                dumps(score)
            except Exception as error:
                outcome.scores[place] = None
                outcome.failures[place] = unsendable(f"its score, of type {type(score).__name__},", error)
        return dumps(outcome)


@lru_cache(maxsize=4)  # some runs may use the same workers in turn, and a function may be slow to unpickle
def _loaded(packed: bytes) -> tuple[Job, AdaptiveGroup] | str:
    try:
        return loads(packed), AdaptiveGroup()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _read(packed: bytes) -> Any:
    try:
        document = loads(packed)
    except Exception as error:
        raise _NoScore(unsendable("the document, once sent,", error)) from None
    if isinstance(document, Failure):
        raise _NoScore(document)
    return document


def score_some(
    job: Job,
    group: AdaptiveGroup,
    documents: Sequence[Any],
    *,
    read: Callable[[Any], Any] = lambda document: document,
    begin: Callable[[int], Any] = lambda _: None,
) -> Outcome:
    """Score documents one after another; ``begin`` is called with the place of each before it is scored."""
    started = time.perf_counter()
    outcome = Outcome()
    scores = outcome.scores
    with ExitStack() as stack:
        score = job.score
        if job.timeout is not None:
            score = stack.enter_context(_limited(score, job.timeout))
        if job.guard:
            score = _guarded(score)

        def score_next() -> None:
            place = len(scores)
            begin(place)
            try:
                scores.append(score(read(documents[place])))
            except KeyboardInterrupt:
                raise
            except _NoScore as end:
                outcome.fail(end.failure)
            except BaseException as error:
                outcome.fail(failure_of(error))

        if job.seed is None or job.threads:
            before = None if job.seed is None else seeding.states()
            while len(scores) < len(documents):
                score_next()
            outcome.drew = before is not None and not seeding.are_same_states(before, seeding.states())
        else:
            stack.callback(seeding.restore, seeding.states())
            while (done := len(scores)) < len(documents):
                if group.draws is False:
                    group.draws = _score_group(outcome, len(documents), score_next)
                    continue
                begin(done)  # a document may end this process when it is unpickled
                try:
                    seed = seeding.document_seed(job.seed, read(documents[done]))
                except _NoScore:  # reported when it is scored
                    seed = job.seed
                group.draws = _score_seeded(outcome, seed, group, score_next)
    outcome.seconds = time.perf_counter() - started
    return outcome


def _score_group(outcome: Outcome, count: int, score_next: Callable[[], None]) -> bool:
    """Score some documents without seeds, as seeding takes longer than many a document; drop them if one drew."""
    before, done, ends = seeding.states(), len(outcome.scores), time.perf_counter() + GROUP
    while len(outcome.scores) < count and time.perf_counter() < ends:
        score_next()
    drew = not seeding.are_same_states(before, seeding.states())
    if drew:
        outcome.truncate(done)
    return drew


def _score_seeded(outcome: Outcome, seed: int, group: AdaptiveGroup, score_next: Callable[[], None]) -> bool | None:
    generators, done = seeding.generators(), len(outcome.scores)
    for _, _, seed_generator in generators.values():
        seed_generator(seed)
    before = None if group.draws else seeding.states()
    score_next()
    if seeding.generators().keys() != generators.keys():
        outcome.truncate(done)  # it may have drawn from a library that it imported, which had no seed
        return group.draws
    return before is None or not seeding.are_same_states(before, seeding.states())


@contextmanager
def _limited(score: Score, seconds: float) -> Iterator[Score]:
    """Give the score function a time limit per document.

    First an exception is raised in it (where the system has alarms), which stops Python code, sleeps and most system
    calls. Code that does not react (it is in C, or catches everything) ends with its process at most `GRACE` seconds
    later: a thread of faulthandler, which does not need the lock of the interpreter, ends it.
    """
    alarms = hasattr(signal, "setitimer")
    failure = Failure(TIMEOUT, "TimeoutError", f"it took longer than timeout={seconds:g} seconds")
    running = False
    next_arming = 0.0

    def ring(*_: Any) -> None:
        nonlocal running
        if running:
            running = False
            raise _NoScore(failure)

    def limited(document: Any) -> Any:
        nonlocal running, next_arming
        now = time.monotonic()
        if now > next_arming:  # this starts a thread, so it is done once for many documents
            faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=nowhere)
            next_arming = now + GRACE / 2
        try:
            running = True
            if alarms:
                signal.setitimer(signal.ITIMER_REAL, seconds)
            return score(document)
        finally:
            running = False  # first, as an alarm that rang just now is handled a few instructions later
            if alarms:
                signal.setitimer(signal.ITIMER_REAL, 0)

    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        previous = signal.signal(signal.SIGALRM, ring) if alarms else None
        try:
            yield limited
        finally:
            faulthandler.cancel_dump_traceback_later()
            if alarms:
                signal.signal(signal.SIGALRM, previous)


def _guarded(score: Score) -> Score:
    """Fail documents that the score function wrote into."""

    def packed(document: Any) -> bytes:
        try:
            return dumps(document)
        except Exception as error:
            raise _NoScore(unsendable("guard=True compares pickles, and the document", error)) from None

    def guarded(document: Any) -> Any:
        before, value, raised = packed(document), None, None
        try:
            value = score(document)
        except Exception as error:
            raised = error
        if packed(document) != before:
            old = loads(before)
            both = old.keys() | document.keys() if isinstance(old, dict) and isinstance(document, dict) else ()
            keys = [repr(key) for key in both if packed(old.get(key, ...)) != packed(document.get(key, ...))]
            where = f": {', '.join(sorted(keys))}" if keys else ""
            raise _NoScore(Failure(CHANGED, "DocumentChanged", f"the score function wrote into its document{where}"))
        if raised is not None:
            raise raised
        return value

    return guarded


@contextmanager
def heartbeat(folder: str) -> Iterator[Callable[[int], Any]]:
    """Give the function that notes which document is being scored, in a file that survives this process."""
    if not os.path.isdir(folder):  # in a worker on another machine
        yield lambda _: None
        return
    with open(os.path.join(folder, f"{os.getpid()}-{threading.get_ident()}"), "wb+") as file:
        file.write(ENTRY.pack(-1, 0.0))
        file.flush()
        # Memory, as a system call would take longer than a small document.
        with mmap.mmap(file.fileno(), ENTRY.size) as entry:
            try:
                yield lambda index: ENTRY.pack_into(entry, 0, index, time.time())
            finally:
                ENTRY.pack_into(entry, 0, -1, 0.0)

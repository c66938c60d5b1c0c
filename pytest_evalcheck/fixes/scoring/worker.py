"""Scoring some documents, in whatever process or thread: the same code for all, so that the scores are the same."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from pytest_evalcheck.fixes.scoring.codec import dumps, loads, packed_failure, unsendable
from pytest_evalcheck.fixes.scoring.errors import CHANGED, TIMEOUT, Failure, failure_of
from pytest_evalcheck.fixes.scoring.journal import writing
from pytest_evalcheck.fixes.scoring.limits import OutOfTime, TimeLimit
from pytest_evalcheck.fixes.scoring.seeding import Generators, document_seed

# The seconds that documents are scored for before somebody looks whether one of them drew a random number.
GROUP = 0.05
# A document that takes this long, in seconds, is seeded whether it draws or not: that costs less than 1 % of it.
SLOW = 0.02


@dataclass(frozen=True)
class Task:
    """How every document of a run is scored."""

    score: Callable[[Any], Any]
    seed: int | None = 0
    timeout: float | None = None
    guard: bool = False
    journal: str | None = None
    shared: bool | None = None  # whether other threads of the process score at the same time; None: to be found out


@dataclass
class Habit:
    """What a process has learnt about a score function: how many documents it can go on for without looking."""

    draws: bool = False
    slow: bool = False  # the last document took so long that nobody need look whether it drew
    group: int = 0


@dataclass
class Outcome:
    """The scores of some documents, in order; None where ``failures`` says why there is none."""

    scores: list[Any] = field(default_factory=list)
    failures: dict[int, Failure] = field(default_factory=dict)
    seconds: float = 0.0
    size: int = 0  # bytes that the documents were pickled to
    drew: bool = False  # random numbers were drawn that nobody could seed


def score_some(task: Task, documents: Sequence[Any], indices: Sequence[int], habit: Habit) -> Outcome:
    """Score documents one after another; an exception of one of them takes its place."""
    return _Run(task, habit).of(lambda low, high: documents[low:high], indices)


def score_packed(task: bytes, name: str, documents: Sequence[bytes], indices: Sequence[int]) -> bytes:
    """Do the same in another process, with all of it pickled."""
    loaded = _loaded(task, name)
    if isinstance(loaded, str):
        return pickle.dumps(loaded)
    outcome = _Run(*loaded).of(lambda low, high: map(loads, documents[low:high]), indices)
    outcome.failures = {place: packed_failure(each) for place, each in outcome.failures.items()}
    outcome.size = sum(map(len, documents))
    try:
        return dumps(outcome)
    except Exception:
        return dumps(_sendable(outcome))


def _sendable(outcome: Outcome) -> Outcome:
    for place, score in enumerate(outcome.scores):
        try:
            dumps(score)
        except Exception as error:
            outcome.scores[place] = None
            outcome.failures[place] = unsendable(f"its score, of type {type(score).__name__},", error)
    return outcome


# A worker serves many chunks of a run, and sometimes two runs in turn: unpickling the function may be dear.
_KEPT: OrderedDict[str, tuple[Task, Habit]] = OrderedDict()
_MOST_KEPT = 4


def _loaded(task: bytes, name: str) -> tuple[Task, Habit] | str:
    kept = _KEPT.get(name)
    if kept is None:
        try:
            kept = loads(task), Habit()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        _KEPT[name] = kept
        while len(_KEPT) > _MOST_KEPT:
            _KEPT.popitem(last=False)
    return kept


class _Run:
    """One call; ``read(low, high)`` gives the documents of these places, afresh where they are pickled."""

    def __init__(self, task: Task, habit: Habit) -> None:
        self._task = task
        self._habit = habit
        self._generators = Generators()
        self._result = Outcome()

    def of(self, read: Callable[[int, int], Iterable[Any]], indices: Sequence[int]) -> Outcome:
        started = time.perf_counter()
        with ExitStack() as stack:
            self._note = stack.enter_context(writing(self._task.journal))
            self._limit = stack.enter_context(TimeLimit(self._task.timeout))
            self._indices = indices
            self._read = read
            if self._task.seed is None:
                self._plainly(0, len(indices))
            elif _shared() if self._task.shared is None else self._task.shared:
                self._unseeded(len(indices))
            else:
                self._seeded(len(indices), self._task.seed)
        self._result.seconds = time.perf_counter() - started
        return self._result

    def _unseeded(self, count: int) -> None:
        before = self._generators.take()
        self._plainly(0, count)
        self._result.drew = not self._generators.same(before, self._generators.take())

    def _seeded(self, count: int, seed: int) -> None:
        """Make every draw depend on its document alone, and leave the generators as they were.

        Seeding takes longer than many a document, and most score functions draw nothing. So documents are scored in
        groups, and a group in which somebody drew is scored again with a seed for every document of it. A function
        that nothing is known of begins with a seed, so that nothing is scored twice if it always draws.
        """
        before = latest = self._generators.take()
        done = 0
        try:
            while done < count:
                if self._habit.draws or not self._habit.group:
                    latest = self._one(done, seed)
                    done += 1
                    continue
                high = min(count, done + self._habit.group)
                started = time.perf_counter()
                self._plainly(done, high)
                seconds = time.perf_counter() - started
                after = self._generators.take()
                if self._generators.same(latest, after):
                    self._learn(high - done, seconds)
                else:
                    self._habit.draws = True
                    self._forget(done)
                    for place in range(done, high):
                        self._one(place, seed)
                done = high
        finally:
            if latest is not before or self._habit.draws:
                self._generators.give_back(before)

    def _one(self, place: int, seed: int) -> dict[str, Any]:
        """Seed and score one document; the state of the generators afterwards, or before where nobody looked."""
        imported = self._generators.imported()
        state = self._reseeded(place, seed)
        started = time.perf_counter()
        self._plainly(place, place + 1)
        seconds = time.perf_counter() - started
        if self._generators.imported() != imported:
            # It imported a generator and may have drawn from it before anybody could seed it.
            self._forget(place)
            state = self._reseeded(place, seed)
            self._plainly(place, place + 1)
        looked = bool(state)
        self._habit.slow = seconds > SLOW
        if self._habit.slow or not looked:
            return state
        after = self._generators.take()
        if self._generators.same(state, after):
            self._habit.group = 8
        else:
            self._habit.draws = True
        return after

    def _reseeded(self, place: int, seed: int) -> dict[str, Any]:
        try:
            (document,) = self._read(place, place + 1)
        except Exception:  # told when it is to be scored
            document = None
        self._generators.seed(document_seed(seed, document))
        # Reading the states takes several times as long as seeding.
        return {} if self._habit.draws or self._habit.slow else self._generators.take()

    def _learn(self, count: int, seconds: float) -> None:
        if seconds > count * SLOW:
            self._habit.group = 0
        elif count == self._habit.group:
            self._habit.group = max(1, min(2 * count, int(count * GROUP / max(seconds, 1e-9))))

    def _plainly(self, low: int, high: int) -> None:
        documents = iter(self._read(low, high))
        if self._task.timeout is None and not self._task.guard and self._task.journal is None:
            self._quickly(documents, len(self._result.scores) + high - low)
            return
        for place in range(low, high):
            try:
                document = next(documents)
            except Exception as error:
                self._fail(unsendable("the document, once sent,", error))
                continue
            if isinstance(document, Failure):
                self._fail(document)
                continue
            self._append(place, document)

    def _quickly(self, documents: Iterator[Any], until: int) -> None:
        """Score without a step of ours, or a `try`, for every document: small ones would feel it."""
        scores = self._result.scores
        while len(scores) < until:
            try:
                # What came before an exception stays in the list, and the document that raised it is spent.
                scores.extend(map(self._task.score, documents))
                if len(scores) < until:
                    raise StopIteration  # by the score function, which `map` takes for the end
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._fail(failure_of(error))

    def _append(self, place: int, document: Any) -> None:
        self._note(self._indices[place])
        try:
            before = dumps(document) if self._task.guard else b""
        except Exception as error:
            self._fail(unsendable("guard=True compares pickles, and the document", error))
            return
        try:
            try:
                self._limit.start()
                score = self._task.score(document)
            finally:
                self._limit.stop()
        except KeyboardInterrupt:
            raise
        except OutOfTime:
            limit = f"it took longer than timeout={self._task.timeout:g} seconds"
            self._fail(Failure(TIMEOUT, "TimeoutError", limit))
        except BaseException as error:
            self._fail(failure_of(error))
        else:
            self._result.scores.append(score)
        if self._task.guard and dumps(document) != before:
            self._forget(place)
            self._fail(_changed(loads(before), document))

    def _fail(self, failure: Failure) -> None:
        self._result.failures[len(self._result.scores)] = failure
        self._result.scores.append(None)

    def _forget(self, low: int) -> None:
        del self._result.scores[low:]
        for place in [place for place in self._result.failures if place >= low]:
            del self._result.failures[place]


def _changed(before: Any, after: Any) -> Failure:
    where = ""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = [key for key in {**before, **after} if _bytes(before, key) != _bytes(after, key)]
        where = f": {', '.join(map(repr, keys))}" if keys else ": the order of its keys"
    return Failure(CHANGED, "DocumentChanged", f"the score function wrote into its document{where}")


def _bytes(document: dict[Any, Any], key: Any) -> bytes:
    return dumps(document[key]) if key in document else b""


def _shared() -> bool:
    """Tell whether other threads of this process score too: global generators cannot be seeded then."""
    if threading.current_thread() is threading.main_thread():
        return False
    distributed = sys.modules.get("distributed")
    try:
        return distributed is None or distributed.get_worker().state.nthreads > 1
    except (AttributeError, ValueError):  # not within a worker of Dask
        return True

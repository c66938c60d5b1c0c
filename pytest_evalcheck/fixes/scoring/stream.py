"""A run: documents in, scores out, in order."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sized
from contextlib import closing
from dataclasses import replace
from typing import Any

from pytest_evalcheck.fixes.scoring.backends import (
    AUTO,
    CONTEXT,
    DASK,
    PROCESSES,
    RAY,
    SERIAL,
    THREADS,
    Pool,
    in_context,
    jobs_of,
    nested,
)
from pytest_evalcheck.fixes.scoring.cache import Lookup
from pytest_evalcheck.fixes.scoring.clock import Clock
from pytest_evalcheck.fixes.scoring.codec import dumps
from pytest_evalcheck.fixes.scoring.elsewhere import Elsewhere
from pytest_evalcheck.fixes.scoring.errors import DocumentError, SetupError
from pytest_evalcheck.fixes.scoring.options import Options, RunReport, refuse_timeout
from pytest_evalcheck.fixes.scoring.progress import Progress
from pytest_evalcheck.fixes.scoring.work import Chunk, Sizes, Work
from pytest_evalcheck.fixes.scoring.worker import Habit, Task, score_some

# Seconds of work in a chunk: here, where it bounds how long nobody hears of a score; while it is to be decided whether
# workers pay, as these have nothing to do until then; and for a worker, where it makes sending it (about a
# millisecond) cheap.
HERE, TRIAL, AWAY = 0.05, 0.02, 0.2
# Seconds that starting workers is taken to cost when it is decided whether they pay.
START = 1.0
# Seconds of a chunk from which on what a document takes can be told.
ENOUGH = 0.01
# Seconds a document from which on two such chunks are enough to decide; else three.
SURE = 0.001
# How many times what starting workers costs they have to save for one such chunk to be enough. The first document may
# be dear for a reason of its own, such as an import; to wait for another one would cost as long as that takes.
PLAIN = 3


class ScoreStream:
    """The scores of a stream of documents, as an iterator in document order; see `stream_scores`.

    ``report`` says how the run goes. ``close()`` ends it early, and so does leaving a ``with`` block.
    """

    def __init__(self, score: Callable[[Any], Any], documents: Iterable[Any], options: Options) -> None:
        self.report = RunReport()
        self._options = options
        self._context = options.backend == CONTEXT
        self._total = len(documents) if isinstance(documents, Sized) else None
        self._task = Task(score, seed=options.seed, timeout=options.timeout, guard=options.guard)
        self._choose()
        # Here, so that what cannot work is refused by the call, not by the first score that is asked for.
        self._elsewhere = None if self.report.backend in (SERIAL, AUTO) else self._workers(self.report.backend)
        lookup = Lookup(options.opened_cache(), score=score, seed=options.seed, depends_on=options.depends_on)
        self._lookup = lookup
        self._work = Work(
            documents,
            sizes=self._sizes(TRIAL if self.report.backend == AUTO else HERE),
            lookup=lookup,
            document_id=options.document_id,
            window=options.window,
        )
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
        with closing(self.chunks()) as chunks:
            for chunk in chunks:
                if chunk.failed and self._options.errors == "raise":
                    for result in chunk.results:
                        if isinstance(result, DocumentError):
                            raise result
                        yield result
                else:
                    yield from chunk.results

    def chunks(self) -> Generator[Chunk, None, None]:
        """Give the finished chunks themselves, in order."""
        started = time.perf_counter()
        report = self.report
        with Progress(self._options.progress, self._total) as progress, closing(self._scored()) as scored:
            for chunk in scored:
                report.documents += len(chunk.results)
                report.failed += chunk.failed
                report.cached = self._lookup.known
                report.computed = self._work.computed
                report.seconds = time.perf_counter() - started
                progress.add(len(chunk.results))
                yield chunk

    def _choose(self) -> None:
        """Settle on a backend, as far as that can be done before a document was measured."""
        asked, report = self._options.backend, self.report
        backend = asked
        if asked in (AUTO, CONTEXT):
            active = in_context()
            # Threads have to be asked for: not every score function is safe in them.
            if asked == CONTEXT or active in (DASK, RAY):
                self._context, backend = True, active
        if self._options.timeout is not None:
            backend = PROCESSES if backend == AUTO else backend
            refuse_timeout(backend)
        jobs = 1
        if backend in (AUTO, PROCESSES) and nested():
            if self._options.timeout is not None:
                raise SetupError("timeout: needs processes, and within a worker of joblib none can be started")
            backend, report.why = SERIAL, "within a worker of joblib no processes are started"
        elif backend != SERIAL:
            jobs = jobs_of(self._options.n_jobs, backend, context=self._context)
            # Of one core of a cluster, too, joblib makes a loop in this process.
            if jobs == 1 and backend in (AUTO, THREADS, DASK, RAY):
                backend, report.why = SERIAL, "one worker was asked for, or there is one core"
        report.backend, report.n_jobs = backend, jobs
        report.why = report.why or ("it was asked for" if backend != AUTO else "")

    def _workers(self, backend: str) -> Elsewhere:
        threads = backend == THREADS
        pool = Pool(backend, self.report.n_jobs, context=self._context)
        task = replace(self._task, shared=True if threads else None)
        return Elsewhere(task, pool, pickled=not threads, report=self.report)

    def _sizes(self, target: float) -> Sizes:
        fixed = None if self._options.chunk == "auto" else int(self._options.chunk)
        return Sizes(total=self._total, jobs=self.report.n_jobs if target == AWAY else 1, target=target, fixed=fixed)

    def _scored(self) -> Generator[Chunk, None, None]:
        if self._elsewhere is None:
            yield from self._here()
        if self._elsewhere is not None:
            sizes = self._sizes(AWAY)
            sizes.cost = self._work.sizes.cost
            self._work.sizes = sizes
            yield from self._elsewhere.chunks(self._work)

    def _here(self) -> Generator[Chunk, None, None]:
        """Score in this process; if nobody asked for that, only as long as workers would not pay."""
        work, habit = self._work, Habit()
        task = replace(self._task, shared=False)
        judge = _Judge(work, self._total, self.report.n_jobs)
        while work.unfinished():
            work.top_up(chunks=1)
            while work.ready:
                piece = work.ready.popleft()
                clock = Clock()
                outcome = score_some(task, piece.documents, piece.indices, habit)
                outcome.seconds = clock.seconds()
                work.done(piece, outcome)
                if self.report.backend == AUTO:
                    judge.saw(piece.documents, outcome.seconds)
                    work.sizes.target = HERE if judge.settled else TRIAL
            yield from work.finished()
            if self.report.backend == AUTO and judge.workers_pay():
                try:
                    self._elsewhere = self._workers(PROCESSES)
                except SetupError as error:
                    self.report.backend, self.report.why = SERIAL, str(error)
                else:
                    self.report.backend, self.report.why = PROCESSES, judge.why()
                    return
        if self.report.backend == AUTO:
            self.report.backend, self.report.n_jobs, self.report.why = SERIAL, 1, judge.why()


class _Judge:
    """Decides from the first documents whether workers would be faster.

    Where the number of documents is not known, as many again as were seen are expected: whoever waits as long as a
    thing costs before he buys it never pays more than twice.
    """

    def __init__(self, work: Work, total: int | None, jobs: int) -> None:
        self._work = work
        self._total = total
        self._jobs = jobs
        self._looks = 0
        # The least of some chunks, as whatever else the machine does makes a document seem dearer, never cheaper.
        self._costs: deque[float] = deque(maxlen=3)
        self._sending = 0.0

    def saw(self, documents: list[Any], seconds: float) -> None:
        """Measure what sending these documents would take, the first times that there are any."""
        self._looks += 1
        if seconds >= ENOUGH:
            self._costs.append(seconds / len(documents))
        if self._looks <= 3:
            clock = Clock()
            try:
                for document in documents[:100]:
                    dumps(document)
            except Exception:
                self._sending = float("inf")
                return
            self._sending = 2 * clock.seconds() / min(100, len(documents))

    @property
    def settled(self) -> bool:
        """Whether enough was seen: from here on only a change of what documents take would change the verdict."""
        return len(self._costs) == self._costs.maxlen

    def workers_pay(self) -> bool:
        """Compare the rest in this process with the rest in workers."""
        if len(self._costs) < self._enough():
            return False
        return self._away() < 0.9 * self._rest() * self._cost()

    def _enough(self) -> int:
        """How many chunks are to be measured: one may be of a first import, and in a small one seeding counts."""
        if self._total is not None and self._rest() * self._cost() - self._away() > PLAIN * START:
            return 1
        return 2 if self._cost() > SURE else 3

    def _rest(self) -> int:
        return self._work.seen if self._total is None else self._total - self._work.seen

    def _cost(self) -> float:
        return min(self._costs, default=self._work.sizes.latest)

    def _away(self) -> float:
        return START + self._rest() * (self._cost() + self._sending) / self._jobs

    def why(self) -> str:
        """Say what was measured."""
        if self._sending == float("inf"):
            return "documents cannot be pickled"
        return f"a document takes {1e6 * self._cost():.3g} us, and {1e6 * self._sending:.3g} us to send"

"""Cost of `score_documents` beside a loop, joblib called directly, and the pools of the standard library.

    python benchmarks/scoring.py [--rounds 5] [--jobs 2] [--only times|work|memory|numbers] [--load 200,] [--smoke]

`--smoke` runs everything once with a few documents, in seconds: it shows that the benchmark works, and no more.

Every way scores the same documents in turn, so that all of them meet the same load; printed is the best round of each,
and how many times as fast as the loop it is. Workers of all pools are started before. The pools of the standard
library get the chunk size that `multiprocessing.Pool.map` would choose; joblib chooses its own. Where two processes
compute at once, a machine may give each less than it gives to one: documents that only wait show what is the ways' own.

Beside the times, the processor time of all processes of each way, each in a run of its own with the start of its
workers: what it costs beyond the documents themselves, whatever else the machine does.

Goals, on two cores: 1.8 times the loop for 2,000 documents of 2 ms and for 50 of 200 ms, within 5 % of the best of the
others; for 200,000 of a few microseconds at most 3 us each beyond the loop. The peak of memory while 1,000,000 small
documents stream is within 20 % of that of 10,000. Several numbers from one computation take as many computations as
documents, where a filter for each of k numbers takes k times as many.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import joblib
import scoring_costs

from pytest_evalcheck.fixes.scoring import Number, Numbers, pass_at, score_documents, stream_scores

Way = Callable[[Callable[[Any], Any], list[Any]], list[Any]]


def loop(score: Callable[[Any], Any], documents: list[Any]) -> list[Any]:
    return [score(document) for document in documents]


def loads(smoke: bool) -> dict[str, tuple[Callable[[Any], Any], list[Any]]]:
    small = [(f"The  answer is {number}.", f"the answer is {number % 7}") for number in range(200_000)]
    two, many = scoring_costs.rounds_for(0.002), scoring_costs.rounds_for(0.2)
    rows = {
        "2,000 documents of 2 ms": (scoring_costs.burn, [(number, two) for number in range(2000)]),
        "50 documents of 200 ms": (scoring_costs.burn, [(number, many) for number in range(50)]),
        "50 documents that wait 200 ms": (scoring_costs.wait, [(number, 0.2) for number in range(50)]),
        "200,000 small documents": (scoring_costs.matches, small),
    }
    return {f"{name}, cut to 4": (score, some[:4]) for name, (score, some) in rows.items()} if smoke else rows


def ways(jobs: int, stack: ExitStack, only: str | None = None) -> dict[str, Way]:
    """The ways, with their workers started."""
    spawn = multiprocessing.get_context("spawn")
    futures = stack.enter_context(concurrent.futures.ProcessPoolExecutor(jobs, spawn))
    # Its processes start with it; those of the executor with the first call.
    pool: Any = stack.enter_context(spawn.Pool(jobs)) if only in (None, "Pool.imap") else None

    def chunk(documents: list[Any]) -> int:
        return -(-len(documents) // (4 * jobs))

    made: dict[str, Way] = {
        "a loop": loop,
        "score_documents, processes": lambda score, docs: score_documents(
            score, docs, backend="processes", n_jobs=jobs
        ),
        "score_documents, auto": lambda score, docs: score_documents(score, docs, n_jobs=jobs),
        "joblib.Parallel": lambda score, docs: joblib.Parallel(jobs)(map(joblib.delayed(score), docs)),
        "concurrent.futures": lambda score, docs: list(futures.map(score, docs, chunksize=chunk(docs))),
        "Pool.imap": lambda score, docs: list(pool.imap(score, docs, chunksize=chunk(docs))),
    }
    for name, way in made.items():
        if only in (None, name):
            way(scoring_costs.burn, [(1, 1000)] * 4 * jobs)
    return made


def times(rounds: int, jobs: int, chosen: str, smoke: bool) -> None:
    with ExitStack() as stack:
        tried = ways(jobs, stack)
        for name, (score, documents) in loads(smoke).items():
            if not name.startswith(chosen):
                continue
            best = dict.fromkeys(tried, float("inf"))
            expected = loop(score, documents)
            for _ in range(rounds):
                for way, scored in tried.items():
                    started = time.perf_counter()
                    found = scored(score, documents)
                    best[way] = min(best[way], time.perf_counter() - started)
                    assert list(found) == expected
            print(f"\n{name}, best of {rounds}, load {os.getloadavg()[0]:.1f}")
            for way, seconds in best.items():
                print(f"  {way:30}{seconds:9.3f} s{best['a loop'] / seconds:8.2f} times the loop")


def work(jobs: int, smoke: bool) -> None:
    """Processor time, which other programs on the machine do not change much."""
    rounds = 1 if smoke else scoring_costs.rounds_for(0.002)
    names = ("a loop", "score_documents, processes", "joblib.Parallel", "concurrent.futures", "Pool.imap")
    print("\nprocessor time of 2,000 documents of 2 ms, the start of workers included")
    for way in names:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, __file__, "--way", way, "--burn", str(rounds), "--jobs", str(jobs)]
        subprocess.run(command, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(f"  {way:30}{after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime:9.2f} s")


def score_once(way: str, rounds: int, jobs: int) -> None:
    with ExitStack() as stack:
        ways(jobs, stack, only=way)[way](scoring_costs.burn, [(number, rounds) for number in range(2000)])


def peak(count: int, backend: str) -> float:
    """The peak of this process's memory in MiB after it streamed so many documents."""

    def documents() -> Iterator[tuple[str, str]]:
        for number in range(count):
            yield f"The  answer is {number}.", f"the answer is {number % 7}"

    total = 0.0
    for score in stream_scores(scoring_costs.matches, documents(), backend=backend, n_jobs=2):
        total += score
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory(smoke: bool) -> None:
    print("\npeak of resident memory while documents stream")
    counts = (100, 1000) if smoke else (10_000, 1_000_000)
    for backend in ("auto", "processes"):
        few, many = (
            float(subprocess.check_output([sys.executable, __file__, "--peak-of", str(count), "--backend", backend]))
            for count in counts
        )
        change = f"{100 * (many / few - 1):+.0f} %"
        print(f"  {backend:12}{counts[0]:,}: {few:.0f} MiB   {counts[1]:,}: {many:.0f} MiB   {change}")


def numbers() -> None:
    ks, calls = (1, 2, 5), []

    def score(document: list[bool]) -> dict[str, float]:
        calls.append(1)
        return pass_at(document, ks)

    documents = [[(number * turn) % 3 == 1 for turn in range(8)] for number in range(300)]
    declared = Numbers({f"pass@{k}": Number() for k in ks})
    at_once = declared.aggregate(score_documents(score, documents, backend="serial")).values
    together = len(calls)
    one_each = {}
    for name in declared.numbers:
        scores = score_documents(score, documents, backend="serial")
        one_each[name] = sum(each[name] for each in scores) / len(scores)
    assert all(abs(at_once[name] - one_each[name]) < 1e-12 for name in at_once)
    print(f"\n{len(ks)} numbers of {len(documents)} documents: {together} computations at once, ", end="")
    print(f"{len(calls) - together} with one filter a number")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="a few documents, once: does the benchmark work?")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", choices=("times", "work", "memory", "numbers"))
    parser.add_argument("--peak-of", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--backend", default="auto", help=argparse.SUPPRESS)
    parser.add_argument("--load", default="", help="only the documents whose description begins like this")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--burn", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.way:
        score_once(given.way, given.burn, given.jobs)
        return
    if given.peak_of:
        print(peak(given.peak_of, given.backend))
        return
    if given.only in (None, "numbers"):
        numbers()
    if given.only in (None, "memory"):
        memory(given.smoke)
    if given.only in (None, "work"):
        work(given.jobs, given.smoke)
    if given.only in (None, "times"):
        times(1 if given.smoke else given.rounds, given.jobs, given.load, given.smoke)


if __name__ == "__main__":
    main()

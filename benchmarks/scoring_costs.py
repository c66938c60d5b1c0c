"""Score functions of known cost, importable by the workers of every pool."""

from __future__ import annotations

import re
import time

NOT_WORDS = re.compile(r"[^a-z0-9 ]|\b(?:a|an|the)\b")


def burn(document: tuple[int, int]) -> int:
    """Pure Python, a number of rounds."""
    number, rounds = document
    for each in range(rounds):
        number = (number * 31 + each) % 1_000_003
    return number


def wait(document: tuple[int, float]) -> int:
    """No work at all: of documents that wait, the difference between ways is their own, not the machine's."""
    time.sleep(document[1])
    return document[0]


def matches(document: tuple[str, str]) -> float:
    """A few microseconds: an answer compared with the gold one after both were normalised."""
    answer, gold = document
    words, wanted = (NOT_WORDS.sub(" ", text.lower()).split() for text in (answer, gold))
    return float(words == wanted)


def rounds_for(seconds: float) -> int:
    """Return how many rounds of `burn` take so long when nothing else runs."""
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        burn((1, 20_000))
        best = min(best, time.perf_counter() - started)
    return round(20_000 * seconds / best)

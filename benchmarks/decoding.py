"""Generation over a ragged stream with caches that are kept, beside the ways of torchtune and transformers.

    python benchmarks/decoding.py [--rounds 5] [--only torchtune|transformers] [--part stream|stops|memory]
                                   [--ways PATTERN] [--smoke]

A stream has full batches, a short last one, and a multiple-choice expansion: questions x choices, more rows than a
batch has room for, cut into batches. Every way gets the same batches, longest prompts first as lm-eval sorts them, and
must give the same tokens; one of ours packs the rows of all of them into full batches instead. All ways run in turn, so
that they meet the same load; printed are, of processor time, the best round of each in tokens per second, and the
median over the rounds of how many times as fast ours was.

``--ways`` leaves those in whose names a pattern is found; the first of them is what the others are held against.

Twice: where no row stops early, and where rows stop at their own steps. Memory is what all tensors made meanwhile take
at their peak, as torch's profiler counts it.

Goals: 1.3 times torchtune's way, never behind the best of the others, and no more memory than one full-batch cache.
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from decoding_ways import (
    CAPACITY,
    CONTEXT,
    NEEDED,
    NEW,
    NO_CACHE,
    full_batch_bytes,
    models,
    torchtune_ways,
    transformers_ways,
)
from torch import Tensor

Batches = list[list[list[int]]]
Way = Callable[[Batches], list[list[int]]]
VOCABULARY = 4096
WAYS = {"torchtune": torchtune_ways, "transformers": transformers_ways}


def stream(seed: int = 0) -> Batches:
    """Three full batches and a short one, and 5 questions with 4 choices each in batches of up to the capacity."""
    draw = torch.Generator().manual_seed(seed)

    def ids(count: int) -> list[int]:
        return torch.randint(1, VOCABULARY, (count,), generator=draw).tolist()

    def length(most: int) -> int:
        return int(torch.randint(most // 4, most + 1, (1,), generator=draw))

    rows = [ids(length(96)) for _ in range(3 * CAPACITY + 3)]
    questions = [ids(length(80)) for _ in range(5)]
    choices = [question + ids(length(16)) for question in questions for _ in range(4)]
    made = []
    for group in (rows, choices):
        ordered = sorted(group, key=len, reverse=True)
        made += [ordered[start : start + CAPACITY] for start in range(0, len(ordered), CAPACITY)]
    return made


def stopping(way: Way, batches: Batches) -> list[int]:
    """Stop tokens with which rows end at their own steps: common ones of what is said without any."""
    said: dict[int, int] = {}
    for row in way(batches):
        for token in row:
            said[token] = said.get(token, 0) + 1
    return sorted(said, key=lambda token: -said[token])[: max(1, len(said) // 20)]


def compare(name: str, made: dict[str, Way], batches: Batches, rounds: int) -> None:
    seconds: dict[str, list[float]] = {way: [] for way in made}
    expected = next(iter(made.values()))(batches)
    tokens = sum(map(len, expected))
    for number in range(rounds):
        order = list(made) if number % 2 == 0 else list(made)[::-1]
        for way in order:
            if way == NO_CACHE and number:
                continue  # once is enough to tell
            started = time.process_time()
            found = made[way](batches)
            seconds[way].append(time.process_time() - started)
            same = sum(a == b for a, b in zip(found, expected, strict=True)) / len(expected)
            assert same == 1, f"{way}: only {same:.0%} of the rows have the tokens of the first way"
    print(f"\n{name}: {tokens} tokens of {len(expected)} rows, {rounds} rounds, load {os.getloadavg()[0]:.1f}")
    ours = next(iter(made))
    for way, taken in seconds.items():
        ratio = statistics.median(other / own for own, other in zip(seconds[ours], taken, strict=False))
        print(f"  {way:52}{tokens / min(taken):8.0f} tokens/s   ours is {ratio:5.2f} times as fast")


def run(library: str, rounds: int, part: str | None, text: str, smoke: bool) -> None:
    model = models(library, VOCABULARY)
    size = sum(map(Tensor.numel, model.parameters()))
    print(f"\n{library}, {size / 1e6:.1f} million parameters, batches of up to {CAPACITY}, {NEW} new tokens")
    batches, build = stream(), WAYS[library]
    if smoke:
        batches = [batch[:2] for batch in batches[-2:]]
    plain = _chosen(build(model, ()), text)
    if part in (None, "stream"):
        compare("no row stops", plain, batches, rounds)
    if part in (None, "stops"):
        stops = stopping(next(iter(plain.values())), batches)
        compare("rows stop at their own steps", _chosen(build(model, stops), text), batches, rounds)


def _chosen(made: dict[str, Way], text: str) -> dict[str, Way]:
    return {name: way for name, way in made.items() if re.search(text, name)}


def memory(library: str) -> None:
    """Print the peak memory of all tensors made for the largest and the short batches, each way in its own process."""
    full, least = (full_batch_bytes(positions) / 2**20 for positions in (CONTEXT, NEEDED))
    print(f"\npeak of what is made for the largest and the short batches ({library}); one cache for a full batch takes")
    print(f"{full:.1f} MiB for the context of {CONTEXT}, {least:.1f} MiB for the {NEEDED} positions that are needed")
    for way in WAYS[library](None, ()):
        command = [sys.executable, __file__, "--only", library, "--peak-of", way]
        print(f"  {way:52}{subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL).strip():>8} MiB")


def peak(library: str, way: str) -> None:
    made = WAYS[library](models(library, VOCABULARY), ())[way]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        made([batch for batch in stream() if len(batch) < CAPACITY] + stream()[:1])
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    alive = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        alive += event.nbytes()
        most = max(most, alive)
    print(f"{most / 2**20:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=("torchtune", "transformers"))
    parser.add_argument("--part", choices=("stream", "stops", "memory"))
    parser.add_argument("--ways", default="")
    parser.add_argument("--peak-of", help=argparse.SUPPRESS)
    parser.add_argument("--smoke", action="store_true", help="a run of seconds, to check that this works")
    given: Any = parser.parse_args()
    if given.smoke:
        given.rounds, given.part = 1, "stream"
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    if given.peak_of:
        peak(given.only, given.peak_of)
        return
    for library in ("torchtune", "transformers"):
        if given.only in (None, library):
            if given.part != "memory":
                run(library, given.rounds, given.part, given.ways, given.smoke)
            if given.part in (None, "memory"):
                memory(library)


if __name__ == "__main__":
    main()

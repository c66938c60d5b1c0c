"""What variants of a loop cost: measured beside the plain configuration, once a cell, and never judged."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import current_stats
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.process_state import kept, same_random_numbers
from pytest_evalcheck.kinds.common.subject import Rows
from pytest_evalcheck.kinds.loop.cases_many import many
from pytest_evalcheck.kinds.loop.results import Evaluated, read
from pytest_evalcheck.kinds.loop.subject import LoopSubject
from pytest_evalcheck.variants import PLAIN, Variant
from pytest_evalcheck.variants.measurement import LEAST_ROUNDS, Cost, side_by_side

_MOST = 128
_FEWEST = 32
_PROBED = 8
_CALLS = LEAST_ROUNDS + 3
"""How often a configuration evaluates: for its numbers, to warm up, for its memory, and in rounds."""


def measure(loop: LoopSubject, variants: Mapping[str, Variant]) -> None:
    """Measure variants for the report of this cell, unless that was done or is not wanted."""
    evidence = current_stats()
    if evidence is None or not evidence.seconds or evidence.variants or not variants:
        return
    evidence.variants = {PLAIN: {"name": PLAIN}}  # done, also where nothing comes of it
    with kept(), same_random_numbers():
        evidence.variants.update(costs(loop, variants, evidence.seconds))


def note(name: str, **found: Any) -> None:
    """Put what was judged of a variant beside what it costs."""
    evidence = current_stats()
    if evidence is not None and name in evidence.variants:
        evidence.variants[name].update(found)


def costs(loop: LoopSubject, variants: Mapping[str, Variant], seconds: float) -> dict[str, dict[str, Any]]:
    """By name what the plain configuration and each variant cost; those that raise an error are left out.

    Of slow loops fewer samples are evaluated, so that all of it takes about ``seconds``, but never fewer than 32.
    """
    evaluates = {PLAIN: loop.fresh().record.evaluate}
    evaluates |= {name: partial(loop.fresh().record.evaluate, **one.config) for name, one in variants.items()}
    rows = _affordable(loop, evaluates[PLAIN], seconds / (_CALLS * len(evaluates)))
    ways = {name: partial(evaluate, loop.data(rows)) for name, evaluate in evaluates.items()}
    seen = {name: attempt("evaluate", lambda way=way: read(way())) for name, way in ways.items()}
    working = {name: way for name, way in ways.items() if not isinstance(seen[name], Raised)}
    if PLAIN not in working or len(working) < 2:
        return {}
    found = side_by_side(working, seconds=seconds * LEAST_ROUNDS / _CALLS, device=loop.device)
    return {name: _row(name, len(rows), cost, found[PLAIN], seen[name], seen[PLAIN]) for name, cost in found.items()}


def _affordable(loop: LoopSubject, evaluate: Callable[..., Any], seconds: float) -> Rows:
    rows = many(loop.inputs, max(_MOST, loop.inputs.min_samples))
    few = rows[: max(_PROBED, loop.inputs.min_samples)]
    attempt("evaluate", evaluate, loop.data(few))  # a first call may import
    started = time.perf_counter()
    attempt("evaluate", evaluate, loop.data(few))
    taken = time.perf_counter() - started
    return rows[: max(_FEWEST, len(few), int(len(few) * seconds / max(taken, 1e-9)))]


def _row(name: str, samples: int, cost: Cost, plain: Cost, seen: Evaluated, beside: Evaluated) -> dict[str, Any]:
    both = cost.memory is not None and plain.memory
    return {
        "name": name,
        "samples": samples,
        "rounds": cost.rounds,
        "speed": samples / cost.seconds,
        "speedup": plain.seconds / cost.seconds,
        "memory": cost.memory,
        "memory_ratio": cost.memory / plain.memory if both else None,  # type: ignore[operator]
        "numbers": {key: value if math.isfinite(value) else None for key, value in seen.numbers.items()},
        "drift": _drift(seen.numbers, beside.numbers),
    }


def _drift(seen: Mapping[str, float], plain: Mapping[str, float]) -> float | None:
    """The most that a number moved, relative to the larger of its plain value and 1."""
    moved = [abs(seen[name] - value) / max(1.0, abs(value)) for name, value in plain.items() if name in seen]
    return max((one for one in moved if math.isfinite(one)), default=None)

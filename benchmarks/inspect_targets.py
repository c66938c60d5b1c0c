"""Tasks of one question each with every scorer of inspect_ai, and its metrics and reducers beside their definitions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

CHOICES = ["Ada", "Boris", "Clara", "David"]


def task(scorer: Any, *targets: Any, solver: Any = None, choices: Any = None) -> Any:
    """Return a task of one question for each of these targets."""
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.solver import generate

    samples = [
        Sample(input=f"This is question {place}.", target=target, choices=choices, id=place + 1)
        for place, target in enumerate(targets)
    ]
    return Task(dataset=MemoryDataset(samples), solver=solver or generate(), scorer=scorer)


NUMBERS, WORDS, LETTERS = ("29", "5", "1200"), ("Paris", "New York", "yes"), ("A", "C", "D")
_OPTIONS: dict[str, tuple[tuple[str, ...], list[dict[str, Any]]]] = {
    "match": (
        NUMBERS,
        [{"numeric": n, "location": w} for n in (False, True) for w in ("begin", "end", "any", "exact")],
    ),
    "includes": (WORDS, [{}, {"ignore_case": False}]),
    "exact": (WORDS, [{}]),
    "f1": (WORDS, [{}]),
    "math": (NUMBERS, [{}]),
    "answer": (("Paris", "Rome", "yes"), [{"pattern": "word"}, {"pattern": "line"}]),
    "pattern": (
        NUMBERS,
        [{"pattern": r"ANSWER: (-?[\d.,]+)"}, {"pattern": r"(\d+)"}, {"pattern": r"(\d+)(\d)?", "match_all": True}],
    ),
}


def _scorers() -> Iterator[tuple[str, Callable[[], Any]]]:
    def made(name: str, options: dict[str, Any], targets: Sequence[str]) -> Callable[[], Any]:
        def make() -> Any:
            from inspect_ai import scorer

            return task(getattr(scorer, name)(**options), *targets)

        return make

    for name, (targets, several) in _OPTIONS.items():
        for options in several:
            yield (
                f"{name}({', '.join(f'{key}={value!r}' for key, value in options.items())})",
                made(name, options, targets),
            )
        if name in ("match", "includes", "exact"):
            yield f"{name} of words", made(name, several[0], WORDS)
    yield "answer(letter)", made("answer", {"pattern": "letter"}, LETTERS)
    for name in ("choice", "choice, cot"):
        yield name, lambda name=name: _chosen(cot=name.endswith("cot"))  # type: ignore[misc]
    for name in ("model_graded_qa", "model_graded_fact", "perplexity", "target_perplexity"):
        yield name, made(name, {}, WORDS)


def _chosen(*, cot: bool) -> Any:
    from inspect_ai.scorer import choice
    from inspect_ai.solver import multiple_choice

    return task(choice(), *LETTERS, solver=multiple_choice(cot=cot), choices=CHOICES)


SCORERS: dict[str, Callable[[], Any]] = dict(_scorers())
"""By name with its options: a factory of a task with one scorer."""

NAN = math.nan
VALUES: tuple[list[Any], ...] = (
    [1.0, 0.0, 1.0, 1.0],
    ["C", "I", "P", "N"],
    [0.0],
    [1.0],
    [1.0, 1.0, 1.0],
    [0.25, 0.5, 1.0],
    [],
    [True, False],
)
"""Values of scored samples."""


def _as_number(value: Any) -> float:
    return {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}.get(value) if isinstance(value, str) else float(value)  # type: ignore[return-value]


METRICS: dict[str, Callable[[list[float]], float]] = {
    "accuracy": lambda own: statistics.fmean(own) if own else 0.0,
    "mean": lambda own: statistics.fmean(own) if own else 0.0,
    "std": lambda own: statistics.stdev(own) if len(own) > 1 else 0.0,
    "var": lambda own: statistics.variance(own) if len(own) > 1 else 0.0,
    "stderr": lambda own: statistics.stdev(own) / math.sqrt(len(own)) if len(own) > 1 else 0.0,
}
"""By name: the definition of a metric."""


def _majority(own: list[float]) -> float:
    most = max(map(own.count, own))
    return next(each for each in own if own.count(each) == most)


def _at_most(right: int, n: int, k: int) -> float:
    return 1.0 if n - right < k else 1.0 - math.comb(n - right, k) / math.comb(n, k)


REDUCERS: dict[str, tuple[dict[str, Any], Callable[[list[float]], float]]] = {
    "mean_score": ({}, lambda own: statistics.fmean(own)),
    "median_score": ({}, lambda own: statistics.median(own)),
    "mode_score": ({}, _majority),
    "max_score": ({}, max),
    "at_least": ({"k": 2}, lambda own: float(sum(each >= 1 for each in own) >= 2)),
    "pass_at": ({"k": 2}, lambda own: _at_most(sum(each >= 1 for each in own), len(own), 2)),
    "pass_k": ({"k": 2}, lambda own: math.comb(sum(each >= 1 for each in own), 2) / math.comb(len(own), 2)),
}
"""By name: options of a reducer over epochs, and its definition for at least two scored epochs."""
EPOCHS: tuple[list[Any], ...] = (
    [1.0, 0.0, 1.0],
    [0.0, 0.0],
    [1.0, 1.0],
    ["C", "I", "C", "I"],
    [0.0, 1.0, 1.0, 0.0, 1.0],
)


def disagreements() -> Iterator[str]:
    """Yield what metrics and reducers give otherwise than by their definitions, or for another order."""
    from inspect_ai import scorer

    for name, definition in METRICS.items():
        for values in VALUES:
            scores = [scorer.SampleScore(score=scorer.Score(value=value)) for value in values]
            wanted = definition([_as_number(value) for value in values])
            for how, own in (("", scores), (" backwards", scores[::-1])):
                found = float(getattr(scorer, name)()(own))
                if not math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12):
                    yield f"{name} of {values}{how}: {found}, by definition {wanted}"
    for name, (options, definition) in REDUCERS.items():
        for values in EPOCHS:
            wanted = definition([_as_number(value) for value in values])
            for missing in ([], [NAN]):
                for how, own in (("", [*values, *missing]), (" backwards", [*missing, *values[::-1]])):
                    found = getattr(scorer, name)(**options)([scorer.Score(value=value) for value in own]).value
                    if not math.isclose(_as_number(found), wanted, rel_tol=1e-9, abs_tol=1e-12):
                        yield f"{name}{options or ''} of {own}{how}: {found}, by definition {wanted}"


if __name__ == "__main__":
    for line in disagreements():
        print(line)
    print(f"{len(METRICS)} metrics, {len(REDUCERS)} reducers compared with their definitions")

"""Configurations of one evaluation, run on the same samples, for ordinary tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference, plain, show
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.variants import PLAIN, Variant, read
from pytest_evalcheck.variants.measurement import Cost, side_by_side
from pytest_evalcheck.variants.paired_difference import Loss, loss, samples_needed


@dataclass(frozen=True)
class Run:
    """One configuration and its result."""

    name: str
    variant: Variant | None
    """None for the plain one."""
    value: Any
    """The result of ``evaluate``; of a variant that raised an error, that error."""


@dataclass(frozen=True)
class Variants:
    """The results of an evaluation in several configurations, the plain one first."""

    all: tuple[Run, ...]
    evaluate: Callable[..., Any]
    samples: Any
    seconds: float

    def __iter__(self) -> Iterator[Run]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, name: str) -> Run:
        for run in self.all:
            if run.name == name:
                return run
        raise KeyError(f"no configuration {name!r}; there are {', '.join(run.name for run in self.all)}")

    def agree(self, *, within: Tolerance | float | None = None) -> Any:
        """Check that every variant gives the value of the plain configuration, and return that value.

        ``within`` is for variants that declare no tolerance of their own; a float is both the relative and the absolute
        tolerance. A variant with a budget may lose that much of its scores, sample by sample, and the rest of its value
        is compared where it declares a tolerance too. A budget that the samples cannot decide fails: use more samples.

        Raises:
            CheckFailure: with the variant, both values and all other variants that differ.
        """
        usual = Variant({"": None}, within=within).tolerance or Tolerance()
        failures = [failure for run in self.all[1:] if (failure := self._failure(run, usual)) is not None]
        if not failures:
            return self.all[0].value
        first, *others = failures
        if others:
            first.detail = "\n".join(filter(None, [first.detail, *(f"also {other.headline}" for other in others)]))
        raise first

    def loss(self, name: str, number: str | None = None, *, less_is_better: bool = False) -> Loss:
        """The loss of a variant per sample, with a 95 % interval: `pytest_evalcheck.variants.paired_difference.loss`.

        The value must be a list with a score per sample, or a mapping with such a list as ``number``; or have records,
        as `pytest_evalcheck.Evaluated` has, with a field ``number``.

        Raises:
            TypeError: when it is none of these.
        """
        run, count = self[name], len(self.samples)
        if isinstance(run.value, Raised):
            raise run.value.error
        first, second = (_scores(item, number, count) for item in (self.all[0], run))
        return loss(second, first) if less_is_better else loss(first, second)

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """Return the cost of each configuration by name, measured in turns, without those that raised an error."""
        working = [run for run in self.all if not isinstance(run.value, Raised)]
        configs = {run.name: {} if run.variant is None else run.variant.config for run in working}
        calls = {name: partial(self.evaluate, self.samples, **config) for name, config in configs.items()}
        return side_by_side(calls, seconds=self.seconds)

    def table(self) -> str:
        """Samples per second, speed-up, peak memory and difference of each configuration, as text to print."""
        rows = [("", "samples/s", "speed-up", "memory", "difference")]
        base = self.costs[PLAIN]
        for run in self.all:
            cost = self.costs.get(run.name)
            if cost is None:
                rows.append((run.name, "-", "-", "-", str(run.value)))
                continue
            speed, speedup = f"{len(self.samples) / cost.seconds:,.4g}", f"{base.seconds / cost.seconds:.2f}x"
            memory = "-" if cost.memory is None else f"{cost.memory / 1024:.1f} KiB"
            rows.append((run.name, speed, speedup, memory, self._change(run)))
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3)), row[4]]).rstrip()
            for row in rows
        )

    def __str__(self) -> str:
        return self.table()

    def _failure(self, run: Run, usual: Tolerance) -> CheckFailure | None:
        variant, actual, expected = run.variant, run.value, self.all[0].value
        assert variant is not None
        if isinstance(actual, Raised):
            about = f"{run.name!r} raised an error"
            failure = CheckFailure(about, expected="a value, as of 'plain'", actual=str(actual))
            failure.__cause__ = actual.error
            return failure
        if variant.budget is not None:
            over = self._over_budget(run, variant)
            if over is not None or variant.within is None:
                return over
            actual, expected = (_unjudged_parts(value, variant.number) for value in (actual, expected))
        found = difference(_parts(actual), _parts(expected), variant.tolerance or usual)
        if found is None:
            return None
        at = f" at {found.path}" if found.path else ""
        more = f" (and {found.more} more)" if found.more else ""
        return CheckFailure(f"the value of {run.name!r}{at}", expected=found.expected, actual=found.actual + more)

    def _over_budget(self, run: Run, variant: Variant) -> CheckFailure | None:
        lost = self.loss(run.name, variant.number, less_is_better=variant.less_is_better)
        assert variant.budget is not None
        verdict = lost.verdict(variant.budget)
        if verdict == "within":
            return None
        loses = {"beyond": "loses more than its budget", "undecided": "may lose more than its budget"}[verdict]
        least = samples_needed(variant.budget)
        hint = f"\nat least {least} samples decide it, where none differs" if verdict == "undecided" and least else ""
        expected = f"a loss of at most {variant.budget:g} per sample"
        return CheckFailure(f"{run.name!r} {loses}", expected=expected, actual=str(lost), detail=lost.basis + hint)

    def _change(self, run: Run) -> str:
        if run.variant is None:
            return ""
        found = difference(_parts(run.value), _parts(self.all[0].value), Tolerance(0.0, 0.0))
        if found is None:
            return "none"
        return f"{found.actual} for {found.expected}" + (f" at {found.path}" if found.path else "")


def variants(
    evaluate: Callable[..., Any],
    samples: Any,
    configurations: Mapping[str, Variant | Mapping[str, Any]],
    *,
    seconds: float = 1.0,
) -> Variants:
    """Run ``evaluate(samples, **config)`` in every configuration, and first without any keyword.

    ``samples`` is anything with a length that can be read again: a list, a data set, a tensor. ``configurations`` are
    by name a `Variant` or the keywords of ``evaluate``. Nothing is timed before `Variants.table` or `Variants.costs`
    asks for it; ``seconds`` is about how long all of that may take.

    Raises:
        TypeError: when one of these is something else.
        ValueError: when there is no sample or no configuration.
    """
    if not callable(evaluate):
        raise TypeError(f"evaluate is {show(evaluate)}; expected a function of samples and keywords of a configuration")
    if not hasattr(samples, "__len__"):
        raise TypeError(f"samples of type {type(samples).__name__}, without a length; expected a list or a data set")
    if len(samples) == 0:
        raise ValueError("there are no samples; expected at least one, on which configurations can differ")
    if not (isinstance(seconds, (int, float)) and 0 < seconds < math.inf):
        raise ValueError(f"seconds={seconds!r}; expected a finite number above 0")
    problems: list[str] = []
    named = read(configurations, problems)
    if problems:
        raise TypeError("; ".join(problems))
    if not named:
        example = "{'batches of 4': {'batch_size': 4}}"
        raise ValueError(f"there are no configurations; expected some by name, such as {example}")
    value = evaluate(samples)
    if value is None:
        raise TypeError("evaluate returned None; expected the value that it computed")
    runs = [Run(PLAIN, None, value)]
    for name, variant in named.items():
        try:
            runs.append(Run(name, variant, evaluate(samples, **variant.config)))
        except Exception as error:
            runs.append(Run(name, variant, Raised(error, "evaluate")))
    return Variants(tuple(runs), evaluate, samples, seconds)


def _parts(value: Any) -> Any:
    """A value in parts that can be compared: numbers, and records in the order of their ids, where it has both."""
    numbers, records = getattr(value, "numbers", None), getattr(value, "records", None)
    if not isinstance(numbers, Mapping):
        return value
    parts: dict[str, Any] = {"numbers": dict(numbers)}
    if records is not None:
        parts["records"] = [(i, dict(fields)) for i, fields in _sorted(records)]
    return parts


def _unjudged_parts(value: Any, number: str | None) -> Any:
    """The parts of a value that a budget for ``number`` does not judge."""
    parts = _parts(value)
    if not isinstance(parts, Mapping) or number is None:
        return {} if number is None else parts
    rest = {key: part for key, part in parts.items() if key != number}
    if isinstance(rest.get("numbers"), Mapping) and not isinstance(value, Mapping):
        rest["numbers"] = {key: part for key, part in rest["numbers"].items() if key != number}
        rest.pop("records", None)  # the budget judges each sample
    return rest


def _scores(run: Run, number: str | None, count: int) -> list[float]:
    scores, records = run.value, getattr(run.value, "records", None)
    if records is not None and number is not None:
        scores = [fields.get(number) for _, fields in _sorted(records)]
    elif isinstance(scores, Mapping):
        scores = scores.get(number) if number is not None else None
    scores = plain(scores)
    scores = scores.tolist() if hasattr(scores, "tolist") else scores
    listed = isinstance(scores, Sequence) and not isinstance(scores, (str, bytes)) and len(scores) == count
    if not listed or not all(isinstance(score, (int, float)) for score in scores):
        expected = f"a list{'' if number is None else f' as {number!r}'} of {count} scores, one per sample"
        raise TypeError(f"{run.name!r} returned {show(run.value)}; expected {expected}, to compute its loss")
    return [float(score) for score in scores]


def _sorted(records: Any) -> list[Any]:
    return sorted(records, key=lambda record: record[0])

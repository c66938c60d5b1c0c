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
from pytest_evalcheck.variants.paired_difference import Loss, loss, needed


@dataclass(frozen=True)
class Run:
    """One configuration, and what it gave."""

    name: str
    variant: Variant | None
    """None for the plain one."""
    value: Any
    """What ``evaluate`` returned; of a variant that raised an error, that error."""


@dataclass(frozen=True)
class Variants:
    """What an evaluation gives in several configurations, the plain one first."""

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
        """Hold that every variant gives the value of the plain configuration, and return that.

        ``within`` is for variants that declare no tolerance of their own; a float is the relative tolerance and the
        absolute one. A variant with a budget may lose that much of its scores, sample by sample, and the rest of its
        value is held where it declares a tolerance too. A budget that the samples cannot decide is not kept: raise
        their number.

        Raises:
            CheckFailure: with the variant, both values and all other variants that differ.
        """
        usual = Variant({"": None}, within=within).tolerance or Tolerance()
        broken = [made for run in self.all[1:] if (made := self._violation(run, usual)) is not None]
        if not broken:
            return self.all[0].value
        first, *others = broken
        if others:
            first.detail = "\n".join(filter(None, [first.detail, *(f"also {one.headline}" for one in others)]))
        raise first

    def loss(self, name: str, number: str | None = None, *, less_is_better: bool = False) -> Loss:
        """How much a variant loses a sample, with a 95 % interval: `pytest_evalcheck.variants.paired_difference.loss`.

        The value must be a list of scores, one a sample, or a mapping with such a list as ``number``; or have records,
        as `pytest_evalcheck.Evaluated` has, with a field ``number``.

        Raises:
            TypeError: when it is none of these.
        """
        run, count = self[name], len(self.samples)
        if isinstance(run.value, Raised):
            raise run.value.error
        first, second = (_scores(one, number, count) for one in (self.all[0], run))
        return loss(second, first) if less_is_better else loss(first, second)

    @cached_property
    def costs(self) -> dict[str, Cost]:
        """By name what each configuration costs, measured in turns; those that raised an error are left out."""
        working = {run.name: run for run in self.all if not isinstance(run.value, Raised)}
        ways = {
            name: partial(self.evaluate, self.samples, **({} if run.variant is None else run.variant.config))
            for name, run in working.items()
        }
        return side_by_side(ways, seconds=self.seconds)

    def table(self) -> str:
        """Samples a second, speed-up, peak memory and difference of each configuration, as text to print."""
        rows = [("", "samples/s", "speed-up", "memory", "difference")]
        base = self.costs[PLAIN]
        for run in self.all:
            cost = self.costs.get(run.name)
            if cost is None:
                rows.append((run.name, "-", "-", "-", str(run.value)))
                continue
            speed, memory = (
                len(self.samples) / cost.seconds,
                "-" if cost.memory is None else f"{cost.memory / 1024:.1f} KiB",
            )
            rows.append((run.name, f"{speed:,.4g}", f"{base.seconds / cost.seconds:.2f}x", memory, self._moved(run)))
        widths = [max(len(row[place]) for row in rows) for place in range(4)]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3)), row[4]]).rstrip()
            for row in rows
        )

    def __str__(self) -> str:
        return self.table()

    def _violation(self, run: Run, usual: Tolerance) -> CheckFailure | None:
        variant, expected = run.variant, self.all[0].value
        assert variant is not None
        seen = run.value
        if isinstance(seen, Raised):
            made = CheckFailure(f"{run.name!r} raised an error", expected="a value, as of 'plain'", actual=str(seen))
            made.__cause__ = seen.error
            return made
        if variant.budget is not None:
            over = self._overspent(run, variant)
            if over is not None or variant.within is None:
                return over
            seen, expected = (_without(one, variant.number) for one in (seen, expected))
        found = difference(_compared(seen), _compared(expected), variant.tolerance or usual)
        if found is None:
            return None
        at = f" at {found.path}" if found.path else ""
        more = f" (and {found.more} more)" if found.more else ""
        return CheckFailure(f"the value of {run.name!r}{at}", expected=found.expected, actual=found.actual + more)

    def _overspent(self, run: Run, variant: Variant) -> CheckFailure | None:
        lost = self.loss(run.name, variant.number, less_is_better=variant.less_is_better)
        assert variant.budget is not None
        verdict = lost.verdict(variant.budget)
        if verdict == "within":
            return None
        said = {"beyond": "loses more than its budget", "undecided": "may lose more than its budget"}[verdict]
        least = needed(variant.budget)
        hint = f"\nat least {least} samples can tell, where none differs" if verdict == "undecided" and least else ""
        expected = f"a loss of at most {variant.budget:g} a sample"
        return CheckFailure(f"{run.name!r} {said}", expected=expected, actual=str(lost), detail=lost.grounds + hint)

    def _moved(self, run: Run) -> str:
        if run.variant is None:
            return ""
        found = difference(_compared(run.value), _compared(self.all[0].value), Tolerance(0.0, 0.0))
        return (
            "none"
            if found is None
            else f"{found.actual} for {found.expected}" + (f" at {found.path}" if found.path else "")
        )


def variants(
    evaluate: Callable[..., Any],
    samples: Any,
    configurations: Mapping[str, Variant | Mapping[str, Any]],
    *,
    seconds: float = 1.0,
) -> Variants:
    """Run ``evaluate(samples, **config)`` in every configuration, and first of all without any keyword.

    ``samples`` is anything with a length that can be read again: a list, a data set, a tensor. ``configurations`` are
    by name a `Variant` or the keywords of ``evaluate``. Nothing is timed before `Variants.table` or `Variants.costs`
    asks for it; ``seconds`` is about how long all of that may take.

    Raises:
        TypeError: when one of these is something else.
        ValueError: when there is no sample or no configuration.
    """
    if not callable(evaluate):
        raise TypeError(
            f"evaluate is {show(evaluate)}; expected a function of samples and the keywords of a configuration"
        )
    if not hasattr(samples, "__len__"):
        raise TypeError(
            f"samples are of type {type(samples).__name__}, without a length; expected a list or a data set"
        )
    if len(samples) == 0:
        raise ValueError("there are no samples; expected at least one, on which configurations can differ")
    if not (isinstance(seconds, (int, float)) and 0 < seconds < math.inf):
        raise ValueError(f"seconds={seconds!r}; expected a finite number above 0")
    problems: list[str] = []
    named = read(configurations, problems)
    if problems:
        raise TypeError("; ".join(problems))
    if not named:
        raise ValueError(
            "there are no configurations; expected some by name, such as {'batches of 4': {'batch_size': 4}}"
        )
    value = evaluate(samples)
    if value is None:
        raise TypeError("evaluate returned None; expected the value that it worked out")
    runs = [Run(PLAIN, None, value)]
    for name, variant in named.items():
        try:
            runs.append(Run(name, variant, evaluate(samples, **variant.config)))
        except Exception as error:
            runs.append(Run(name, variant, Raised(error, "evaluate")))
    return Variants(tuple(runs), evaluate, samples, seconds)


def _compared(value: Any) -> Any:
    """A value in parts that can be compared: of numbers with records both, the records in the order of their ids."""
    numbers, records = getattr(value, "numbers", None), getattr(value, "records", None)
    if not isinstance(numbers, Mapping):
        return value
    parts = {"numbers": dict(numbers)}
    return (
        parts if records is None else {**parts, "records": [(place, dict(entry)) for place, entry in _sorted(records)]}
    )


def _without(value: Any, number: str | None) -> Any:
    parts = _compared(value)
    if not isinstance(parts, Mapping) or number is None:
        return {} if number is None else parts
    kept = {key: part for key, part in parts.items() if key != number}
    if isinstance(kept.get("numbers"), Mapping) and not isinstance(value, Mapping):
        kept["numbers"] = {key: part for key, part in kept["numbers"].items() if key != number}
        kept.pop("records", None)  # what became of each sample is the budget's
    return kept


def _scores(run: Run, number: str | None, count: int) -> list[float]:
    value, records = run.value, getattr(run.value, "records", None)
    if records is not None and number is not None:
        found: Any = [entry.get(number) for _, entry in _sorted(records)]
    elif isinstance(value, Mapping):
        found = value.get(number) if number is not None else None
    else:
        found = value
    found = plain(found)
    found = found.tolist() if hasattr(found, "tolist") else found
    right = isinstance(found, Sequence) and not isinstance(found, (str, bytes)) and len(found) == count
    if not right or not all(isinstance(one, (int, float)) for one in found):
        what = "a list" if number is None else f"a list as {number!r}"
        raise TypeError(
            f"{run.name!r} gave {show(value)}; expected {what} of {count} scores, one a sample, to tell what it loses"
        )
    return [float(one) for one in found]


def _sorted(records: Any) -> list[Any]:
    return sorted(records, key=lambda one: one[0])

"""The loop under test: a check evaluates data with new loops or repeatedly with one, and reads what they return."""

from __future__ import annotations

import math
import numbers
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from pytest_evalcheck.expectations.comparison import Raised, plain, show
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, note_value
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.call_facts import describe_value, note_call, note_result
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.intervals import SMALL
from pytest_evalcheck.kinds.common.process_state import (
    loader_seeds_not_counted,
    restored_settings,
    same_random_numbers,
)
from pytest_evalcheck.kinds.common.subject import EstimatingSubject, Rows, WholeSubject
from pytest_evalcheck.kinds.loop.record import Evaluated, Loop, LoopData, Record
from pytest_evalcheck.strategies.samples import to_container

BATCH_SIZE, PIN_MEMORY = "batch_size", "pin_memory"
_BATCH = 2
WORKER_OPTIONS = ("workers", "num_workers", "prefetch", "prefetch_factor", "persistent_workers", PIN_MEMORY)
"""Only EC506 tries these options: starting workers is slow."""
_LONGEST_SAMPLE = 80


@dataclass
class LoopRun:
    """One loop, which may evaluate several times."""

    record: Loop
    nearest_batch_size: Callable[[int], int | None]
    changes: list[str] = field(default_factory=list)
    """Changes that its evaluations left in the process."""

    @property
    def model(self) -> Any:
        """The model that is evaluated, or None where the loop names none."""
        return self.record.model

    def evaluate(self, data: LoopData, *, reseed: bool = True, **config: Any) -> Any:
        """The result of an evaluation, as `Evaluated`, or the error.

        The settings of the process are restored afterwards. Every evaluation starts from the same random numbers, which
        are restored too, unless ``reseed`` is false because it runs in the middle of training. Then the seeds that data
        loaders draw are not counted: whoever iterates over a `DataLoader` draws one.

        Raises:
            TargetError: where the result is not numbers by name.
        """
        return self.call("evaluate()", self.record.evaluate, data, reseed=reseed, **config)

    def call(self, where: str, function: Callable[..., Any], data: Any, *, reseed: bool = True, **config: Any) -> Any:
        """The same with another function that evaluates."""
        result = self.attempt(where, function, data, reseed=reseed, **config)
        return result if isinstance(result, Raised) else read_result(result, where, some=len(data) > 0)

    def attempt(self, where: str, function: Callable[..., Any], *args: Any, reseed: bool = True, **config: Any) -> Any:
        """The unread result of one of its callables, or the error."""
        options = {name: value for name, value in config.items() if name != BATCH_SIZE}
        size = self.nearest_batch_size(config[BATCH_SIZE]) if BATCH_SIZE in config else None
        if size is not None:  # None where the batch size cannot be chosen
            options[BATCH_SIZE] = size
        with restored_settings() as changes, same_random_numbers() if reseed else loader_seeds_not_counted():
            result = attempt(where.removesuffix("()"), function, *args, **options)
        self.changes += changes
        return result


class ContainerCollate:
    """A collate whose fields come in a container of this name. A class: a loader may send it to its workers."""

    def __init__(self, collate: Callable[[Any], Any], container: str) -> None:
        self.collate, self.container = collate, container

    def __call__(self, rows: Any) -> Any:
        return to_container(self.collate(rows), self.container)


class NotedCollate:
    """Notes what the collate is first given, and what it returns. A class: a loader may send it to its workers."""

    def __init__(self, collate: Callable[[Any], Any]) -> None:
        self.collate, self.noted = collate, False

    def __call__(self, rows: Any) -> Any:
        first, self.noted = not self.noted, True
        if first:
            note_call("the collate", _collate, (rows,), {})
        batch = self.collate(rows)
        if first:
            note_result(batch)
        return batch


def _collate(rows: Any) -> None:
    """Argument of a collate, by the name that every user gives it."""


@dataclass(frozen=True)
class LoopSubject(WholeSubject, EstimatingSubject):
    """The loop under test: new ones on demand, and the data to evaluate."""

    kind: ClassVar[str] = "loop"
    trials: ClassVar[int] = 60
    size: ClassVar[int] = SMALL
    variants: Mapping[str, Any] = field(default_factory=dict)
    """Optimised configurations of the same loop, by name."""

    build: Callable[[], Loop]

    @cached_property
    def record(self) -> Loop:
        """The record of the loop, to be read and not to be called."""
        return self.build()

    @cached_property
    def offered(self) -> dict[str, tuple[Any, ...]]:
        """The options that must not change the numbers, with their values."""
        return self.record.offered

    def data(self, rows: Rows) -> LoopData:
        """A new data set of these samples."""
        return LoopData(list(rows), self.collate)

    @cached_property
    def collate(self) -> Callable[[Any], Any]:
        """From samples to a batch, in the first container that the inputs name."""
        container = self.inputs.containers[0]
        return self.inputs.collate if container == "dict" else ContainerCollate(self.inputs.collate, container)

    def fresh(self) -> LoopRun:
        """A new loop."""
        return LoopRun(self.build(), self.nearest_batch_size)

    def nearest_batch_size(self, wanted: int) -> int | None:
        """Return the batch size of the loop that is nearest to a wanted one; None where it offers none."""
        if BATCH_SIZE not in self.offered:
            return None
        return min(self.offered[BATCH_SIZE], key=lambda size: abs(size - wanted)) if self.record.options else wanted

    def configs(self, batch_size: int, *, workers: bool) -> list[dict[str, Any]]:
        """Configurations with one option changed: each other value of the `WORKER_OPTIONS`, or of all other options."""
        names = [name for name in self.offered if name != BATCH_SIZE and (name in WORKER_OPTIONS) == workers]
        configs = [self.record.keywords(name, value) for name in names for value in self.offered[name][1:]]
        number = next((name for name in ("workers", "num_workers") if name in self.offered), None)
        if workers and number and "iterable" in self.offered:
            configs.append({number: 2, "iterable": True})
        return [{BATCH_SIZE: batch_size, **config} for config in configs if config]

    def plain_result(self, rows: Rows) -> Any:
        """The numbers of a new loop in its default configuration, or the error."""
        return self._numbers(self.fresh().evaluate(LoopData(list(rows), NotedCollate(self.collate))))

    def estimates(self, rows: Rows, size: int | None = None) -> Any:
        """The numbers of a new loop with batches of ``size``, or the error."""
        return self.numbers(rows, **{} if size is None else {BATCH_SIZE: size})

    def result_of_nothing(self, rows: Rows) -> Any:
        """The numbers of no samples, or the error: nothing counts in texts of one token, which have no next one.

        None where samples count one by one: then the loop has dropped a batch.
        """
        return self.plain_result(()) if isinstance(self.evaluate(rows, **{BATCH_SIZE: 1}), Raised) else None

    def device_results(self, rows: Rows) -> Iterator[tuple[str, Any]]:
        """The numbers and records of batches of two, or of one where these fail, and of each option without workers."""
        pinned = {PIN_MEMORY: True} if PIN_MEMORY in self.offered else {}
        for size in (_BATCH, 1):
            config = {BATCH_SIZE: size, **pinned}
            result = comparable(self.evaluate(rows, **config))
            yield f"evaluate({format_config(config)})", result
            if not isinstance(result, Raised):
                break
        for config in self.configs(_BATCH, workers=False):
            yield f"evaluate({format_config(config)})", comparable(self.evaluate(rows, **config))

    def data_in_words(self, rows: Rows) -> str:
        """Describe what iterating over ``data`` gives, and what a batch of it is."""
        samples = f"`for sample in data` gives the samples that the inputs draw, here {type(rows[0]).__name__} such as"
        try:
            batch = f": {describe_value(self.collate(list(rows[:2])))}"
        except Exception:  # the collate is the mistake
            batch = ""
        return f"{samples} {show(rows[0])[:_LONGEST_SAMPLE]}\n`data.loader(2)` gives batches of the collate{batch}"

    def remedies(self, rows: Rows) -> Iterator[tuple[str, Callable[[], Any]]]:
        """A tuple in place of a mapping from the collate."""
        if isinstance(self.collate(list(rows)), Mapping):
            data = LoopData(list(rows), ContainerCollate(self.inputs.collate, "tuple"))
            yield (
                'the collate gives a mapping: read it by name, or give the inputs containers=("tuple",)',
                lambda: self._numbers(self.fresh().evaluate(data)),
            )

    def evaluate(self, rows: Rows, **config: Any) -> Any:
        """The result of a new loop for these samples, as `Evaluated`, or the error."""
        return self.fresh().evaluate(self.data(rows), **config)

    def numbers(self, rows: Rows, **config: Any) -> Any:
        """The numbers of a new loop by name, or the error."""
        return self._numbers(self.evaluate(rows, **config))

    def _numbers(self, result: Any) -> Any:
        numbers = result if isinstance(result, Raised) else dict(result.numbers)
        note_value(numbers)
        return numbers

    def numbers_and_warnings(self, rows: Rows, **config: Any) -> tuple[Any, bool]:
        """The numbers, or the error, and whether a warning mentioned numbers that are not finite."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = self.numbers(rows, **config)
        return result, any(re.search(_NON_FINITE, str(warning.message), re.I) for warning in caught)

    def records(self, rows: Rows, **config: Any) -> Any:
        """The records of a new loop, or the error.

        Raises:
            NotApplicable: where it returns none.
        """
        result = self.evaluate(rows, **config)
        return result if isinstance(result, Raised) else records_of(result)

    def exact(self, rows: Rows) -> dict[str, Any] | None:
        """The correct numbers, or None where neither the loop nor a reference of the target computes them."""
        if self.record.exact is None and self.reference is None:
            return None
        try:
            with restored_settings(), same_random_numbers():
                # Of a new loop: evaluations may have changed the model of another.
                exact = self.build().exact
                return dict(exact(self.data(rows)) if exact else self.reference(list(rows)))  # type: ignore[misc]
        except Exception as error:
            raise TargetError(
                "computing the exact numbers raised an error, or returned no mapping",
                actual=repr(error),
                expected="numbers by name",
                cause="reference",
            ) from error

    def with_exact_names(self, result: Any, exact: Mapping[str, Any]) -> Any:
        """Return the numbers that have an exact reference, or the error.

        Raises:
            TargetError: where there is no number of such a name.
        """
        if isinstance(result, Raised):
            return result
        missing = [name for name in exact if name not in result]
        if missing:
            raise TargetError(
                f"the exact numbers include {missing[0]!r}, which the evaluation does not return",
                actual=", ".join(map(repr, exact)),
                expected=f"some of {', '.join(map(repr, result))}",
                cause="reference",
            )
        return {name: result[name] for name in exact}

    def recompute(self, name: str, result: Mapping[str, Any]) -> Any:
        """A number, computed by ``agree`` from the other numbers.

        Raises:
            TargetError: where it, or one of the others, is not among the numbers.
        """
        value = attempt(f"agree[{name!r}]", self.record.agree[name], result)
        if name not in result or isinstance(value, Raised):
            raise TargetError(
                f"agree[{name!r}] does not fit the result of the evaluation",
                actual=str(value) if name in result else f"no number {name!r}",
                expected=f"numbers among {', '.join(map(repr, result))}",
                cause="agree",
            )
        return value

    def run_evaluators(self, rows: Mapping[str, Rows], order: Sequence[str], batch_size: int) -> Any:
        """The results of several evaluators in one run, by name and `comparable`, or the error.

        Raises:
            TargetError: where they return anything else.
        """
        run = self.fresh()
        assert run.record.evaluators is not None
        data = {name: self.data(samples) for name, samples in rows.items()}
        results = run.attempt("evaluators()", run.record.evaluators, data, order=tuple(order), batch_size=batch_size)
        if isinstance(results, Raised):
            return results
        if not isinstance(results, Mapping) or set(results) != set(rows):
            raise TargetError(
                "evaluators() did not return the result of each evaluator by name",
                actual=f"{type(results).__name__}: {show(results)[:120]}",
                expected=f"a mapping with the names {', '.join(map(repr, rows))}",
                cause="numbers",
            )
        return {name: comparable(read_result(item, f"evaluators()[{name!r}]")) for name, item in results.items()}


def read_result(result: Any, where: str = "evaluate()", *, some: bool = True) -> Evaluated:
    """The result of a loop as plain numbers and records; with ``some`` there must be a number.

    Raises:
        TargetError: where it is neither an `Evaluated` nor a mapping, has no numbers, or a value is not a number.
    """
    evaluated = result if isinstance(result, Evaluated) else Evaluated(result)
    by_name = evaluated.numbers
    if not isinstance(by_name, Mapping):
        actual = "None (does it end without `return`?)" if by_name is None else _describe(by_name)
        raise _error(f"{where} returned no numbers by name", actual)
    if some and not by_name:
        raise _error(f"{where} returned no numbers", "an empty mapping")
    plain_numbers = {name: _number(name, value, where) for name, value in by_name.items()}
    records = evaluated.records
    if records is None:
        return Evaluated(plain_numbers)
    if isinstance(records, (str, bytes, Mapping)) or not hasattr(records, "__iter__"):
        raise _error(f"{where} returned no list of records", _describe(records), f"[{_RECORD}, ...]", "records")
    return Evaluated(plain_numbers, [_record(record, where) for record in records])


def records_of(result: Evaluated) -> list[Record]:
    """The records of an evaluation.

    Raises:
        NotApplicable: where it has none.
    """
    if result.records is None:
        raise NotApplicable("the loop returns no records: ec.Evaluated(numbers, records=[(id, {...}), ...])")
    return list(result.records)


def ids_of(records: Iterable[Record]) -> list[int]:
    """The ids of records, in their order."""
    return [sample for sample, _ in records]


def comparable(result: Any) -> Any:
    """A result for comparing: its numbers, and its records sorted by id, since workers may change their order."""
    if not isinstance(result, Evaluated) or result.records is None:
        return dict(result.numbers) if isinstance(result, Evaluated) else result
    return {"numbers": dict(result.numbers), "records": sorted(result.records, key=lambda record: record[0])}


def miscounted(ids: Sequence[int], count: int) -> dict[str, str]:
    """Return the ways in which samples are not counted exactly once: by an id, a line with the samples."""
    times = Counter(ids)
    problems = {
        ("never-counted", "never counted"): [str(sample) for sample in range(count) if not times[sample]],
        ("counted-more-than-once", "counted more than once"): [
            f"{sample} ({times[sample]} times)" for sample in times if times[sample] > 1
        ],
        ("no-id-of-the-data", "no id of the data"): [str(sample) for sample in times if not 0 <= sample < count],
    }
    return {way: f"{problem}: {first_eight(samples)}" for (way, problem), samples in problems.items() if samples}


def first_eight(items: Sequence[Any]) -> str:
    """The first eight items, and how many more there are."""
    return ", ".join(map(str, items[:8])) + (f" and {len(items) - 8} more" if len(items) > 8 else "")


class AllNaN(Raised):
    """An evaluation that returned only NaN, which counts as a refusal."""

    def __str__(self) -> str:
        return f"every number is NaN, of samples that are finite: {self.where}"


def all_nan(result: Any) -> AllNaN | None:
    """The refusal to report where every number is NaN, else None."""
    if isinstance(result, Raised) or not all(map(math.isnan, result.values())):
        return None
    return AllNaN(ValueError("NaN"), show(result))


def non_finite(result: Mapping[str, float]) -> list[str]:
    """The names of numbers that are NaN or infinite."""
    return [name for name, value in result.items() if not math.isfinite(value)]


_NON_FINITE = r"\b(nans?|inf|infinit\w*|non-?finite)\b"
_COUNTS_NON_FINITE = r"(^|[\W_])(nans?|infs?|non_?finite|invalid|skipped)($|[\W_])"
"""Names of numbers that count samples which were left out."""


def counts_non_finite(result: Mapping[str, float]) -> bool:
    """Return whether one of the numbers counts samples that are not finite, and is above 0."""
    return any(value > 0 for name, value in result.items() if re.search(_COUNTS_NON_FINITE, name, re.I))


def format_config(config: Mapping[str, Any]) -> str:
    """A configuration as text for messages."""
    return ", ".join(f"{name}={value!r}" for name, value in config.items())


def options_id(config: Mapping[str, Any]) -> str:
    """Return the part of an id that names the options of a configuration beside the batch size."""
    return "".join(f"-{slug(f'{name} {value}')}" for name, value in config.items() if name != BATCH_SIZE)


_RECORD = "(id, {name: value})"


def _number(name: Any, value: Any, where: str) -> float:
    if not isinstance(name, str):
        raise _error(f"{where} names a number {name!r}", f"a name of type {type(name).__name__}", "a text")
    value = plain(value)
    if not isinstance(value, numbers.Real):
        expected = "one number, or a tensor of no dimension"
        raise _error(f"{where} returned no number as {name!r}", _describe(value), expected)
    return value if isinstance(value, int) else float(value)


def _record(record: Any, where: str) -> Record:
    expected = f"{_RECORD}, where the id is the index of the sample"
    if not isinstance(record, (tuple, list)) or len(record) != 2 or not isinstance(record[1], Mapping):
        raise _error(f"{where} returned an invalid record", _describe(record), expected, "records")
    sample = plain(record[0])
    if isinstance(sample, bool) or not isinstance(sample, numbers.Integral):
        raise _error(f"{where} returned a record without an id", _describe(sample), expected, "records")
    return int(sample), dict(record[1])


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    of = f" of shape {tuple(shape)}" if shape is not None and len(shape) else ""
    return f"{type(value).__name__}{of}: {show(value)[:120]}"


_NUMBERS = 'ec.Evaluated({"loss": 0.5, ...}), or the mapping alone'


def _error(about: str, actual: str, expected: str = _NUMBERS, cause: str = "numbers") -> TargetError:
    return TargetError(about, actual=actual, expected=expected, cause=cause)

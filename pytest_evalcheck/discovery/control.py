"""Control of a metric with a strategy: it is accepted, gives values, and tells right predictions from wrong ones."""

from __future__ import annotations

import inspect
import itertools
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pytest_evalcheck import adapters
from pytest_evalcheck.discovery.inputs import Inputs
from pytest_evalcheck.discovery.of_the_call import names_of_places, names_of_the_call
from pytest_evalcheck.discovery.schemas import Schema
from pytest_evalcheck.engine.preflight import no_value
from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference
from pytest_evalcheck.expectations.failures import CheckFailure
from pytest_evalcheck.guard.mutation_guard import Snapshot
from pytest_evalcheck.kinds.common.call_facts import describe_value
from pytest_evalcheck.kinds.common.process_state import isolated_process, other_clock
from pytest_evalcheck.kinds.metric.samplewise import entries_per_sample, unordered
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.strategies.samples import Arguments, SampleStrategy

DEPENDS_ON_ORDER = "its value depends on the order of rows"
_OF_TIES = "its value depends on the order of equal numbers"
BY_ORDER = (DEPENDS_ON_ORDER, _OF_TIES)
_RANDOM = "it is random"
_TIME = "its value has a time"
_REMEMBERS = "a call changes what the next one gives"
_CONSTANT = "right and wrong predictions have the same value"
_ONLY_MASKS = "any number but 0 is the same to it"
SELECTS_ROWS = "it returns rows of its arguments"
WRITES = "it writes into objects of its arguments"
_LEAST = (1, 2, 3, 4, 6, 8, 24)
"""Minimum sample counts to try, where one sample alone has no value."""
_PREFLIGHT = 4
"""Number of samples the plain call before the checks has."""
_ORDERS = 8
"""Number of orders with other neighbours in which a function must have the same value."""
_PLAIN = 8
"""Number of samples that must have a value, unless it is not a number."""

_MANY = 32
"""Number of samples that show whether their order counts."""


def try_strategy(inputs: Inputs, make: Callable[[], Any], *, by_trial: bool = False) -> tuple[str, Inputs]:
    """Return a reason if the metric does not accept a strategy, else ''; and the strategy with the samples it needs.

    What accumulates ``by_trial`` alone may be a filter or an agent, for which the order of samples counts.
    """
    try:
        enough = inputs.strategy.min_samples
    except Exception as error:
        return f"{inputs}: {first_line(error)}", inputs
    for least in _LEAST:
        corrected = inputs if least <= enough else inputs.replace(min_samples=least)
        refusal, more_may_help = _refusal(corrected.strategy, make, by_trial)
        if not refusal:
            return "", corrected
        if not more_may_help:
            break
    return f"{inputs}: {refusal}", inputs


def decision(refusal: str, *, observed: bool) -> str:
    """Return the refusal if it decides that something is no function of a set of samples, else ''.

    Inputs that were guessed show only that its value depends on order, is random, has a time or a state: a constant may
    be theirs.
    """
    by_inputs = (_CONSTANT, _ONLY_MASKS, SELECTS_ROWS, WRITES) if observed else ()
    decided = (*BY_ORDER, _RANDOM, _TIME, _REMEMBERS, *by_inputs)
    start = min((refusal.find(each) for each in decided if each in refusal), default=-1)
    return refusal[start:] if start >= 0 else ""


def left_out(inputs: SampleStrategy, make: Callable[[], Any]) -> list[str]:
    """Return the names in the value of a metric that belong to a call: times, identifiers, and places in a batch."""
    rows, subject = inputs.fixed(max(_PLAIN, inputs.min_samples)), _subject(inputs, make)
    with isolated_process():
        first, turned = subject.value([rows]), subject.value([rows[::-1]])
        with other_clock():
            second = subject.value([rows])
    return [*dict.fromkeys((*names_of_the_call([first], [second]), *names_of_places(first, turned, len(rows))))]


def is_flat(inputs: Inputs) -> bool:
    """Return whether the rows of a strategy are single numbers, such as a prediction and a target."""
    return all(isinstance(part, (int, float)) for part in parts_of_a_row(inputs))


def parts_of_a_row(inputs: Inputs) -> tuple[Any, ...]:
    """Return the parts of the first row of a strategy, such as a prediction and a target."""
    (row,) = inputs.strategy.fixed(1)
    return row if isinstance(row, tuple) else (row,)


def _refusal(inputs: SampleStrategy, make: Callable[[], Any], by_trial: bool) -> tuple[str, bool]:
    """Return a reason if the control fails, else ''; and whether more samples may help."""
    subject = _subject(inputs, make)
    try:
        with isolated_process():
            rows = inputs.fixed(max(_PLAIN, inputs.min_samples))
            if inputs.distinct is None and len({repr(row) for row in rows}) == 1:
                return "its samples are all the same", False
            values = []
            for part in (rows, rows[: max(_PREFLIGHT, inputs.min_samples)], rows[: inputs.min_samples]):
                value, warned = subject.value_and_warnings([part])
                values.append(value)
                if warned:  # such as a loss that is not finite, in place of which there is a large number
                    return f"it warns of numbers that are not finite: {warned[0]}"[:160], part is not rows
                if isinstance(value, Raised):
                    return str(value).splitlines()[0][:160], part is not rows
                if missing := no_value(value):
                    return f"its value is {missing}", True
            found = (
                _randomness(subject, rows)
                or _memory(subject, rows)
                or _indifference(subject)
                or _refuses_small_batches(subject, rows)
                or _order_dependence(subject, inputs.fixed(max(_MANY, inputs.min_samples)), by_trial)
                or _reads_only_nonzero(subject, rows, inputs.fixed(max(_MANY, inputs.min_samples)))
                or _operates(subject, rows, values[0])
            )
            return found, False
    except CheckFailure as failure:
        return str(failure.about)[:160], False
    except Exception as error:
        return first_line(error), False


def _subject(inputs: SampleStrategy, make: Callable[[], Any]) -> MetricSubject:
    return MetricSubject(
        build=lambda: adapters.record("metric", make()), inputs=inputs, tolerance=Tolerance(), device="cpu"
    )


def _randomness(subject: MetricSubject, rows: Sequence[Any]) -> str:
    """Return a reason if the same samples have another value each time, or at another time, else ''."""
    first, second = subject.value([rows]), subject.value([rows])
    if difference(first, second, subject.tolerance) is None:
        with other_clock():
            later = subject.value([rows])
        if difference(first, later, subject.tolerance) is None:
            return ""
        return f"{_TIME}, {describe_value(first)} and then {describe_value(later)} for the same samples"
    return f"{_RANDOM}, {describe_value(first)} and then {describe_value(second)} for the same samples; seed it"


def _memory(subject: MetricSubject, rows: Sequence[Any]) -> str:
    """Return a reason if an object that is called, such as a loss with a queue, keeps what it was given, else ''.

    A function has no place of its own to keep it: there it is a fault, as in the `compute` of an object.
    """
    function = subject.build().function
    if function is None or inspect.isfunction(function) or inspect.isbuiltin(function):
        return ""
    called = subject.fresh().update(rows)
    first, second = called.compute(), called.compute()
    if difference(first, second, subject.tolerance) is None:
        return ""
    return f"{_REMEMBERS}, {describe_value(first)} and then {describe_value(second)} for the same samples"


def _order_dependence(subject: MetricSubject, rows: Sequence[Any], by_trial: bool) -> str:
    """Return a reason if the order of rows changes the value: the function takes the batch for one sample.

    Rows that share no number are enough to see that. A value that depends on the order of ties is a fault; where there
    are no other rows, they do not say whether it is one or a series. Of few rows too few are left where an option
    leaves rows out.
    """
    if subject.build().function is None and not by_trial:
        return ""  # an object with a state is given one batch after another
    # The first ones alone may be special: each word of a sentence beside itself.
    sets = [_without_ties(some) for some in (rows, rows[::-1], random.Random(0).sample(rows, len(rows)))]
    least = subject.inputs.min_samples
    sets = [untied for untied in sets if len(untied) >= max(_PREFLIGHT, least)]
    for untied in sets or [[*rows]]:
        found = _changed_by_order(subject, [[row] for row in untied], joined=True, of_ties=not sets)
        if by_trial:
            found = found or _changed_by_order(subject, _batches(untied, least), joined=False, of_ties=not sets)
        if found:
            return found
    return ""


def _batches(rows: Sequence[Any], size: int) -> list[Sequence[Any]]:
    return [rows[i : i + size] for i in range(0, len(rows) - size + 1, size)]


def _changed_by_order(subject: MetricSubject, parts: Sequence[Sequence[Any]], *, joined: bool, of_ties: bool) -> str:
    """Return a reason if another order of these parts, joined to one batch or one after another, changes the value."""

    def value_of(order: Sequence[int]) -> Any:
        given = [parts[place] for place in order]
        return subject.value([[*itertools.chain(*given)]] if joined else given)

    places, size = range(len(parts)), len(parts[0])
    count = size * len(parts)
    first = value_of(places)
    moved = ([*places[i:], *places[:i]] for i in range(1, min(len(parts), _PLAIN)))
    # Neighbours stay neighbours where all are turned or moved.
    for order in ([*places[::-1]], *moved, *_mixed(places)):
        other, rows = value_of(order), [size * place + i for place in order for i in range(size)]
        same = difference(unordered(first, count), unordered(other, count), subject.tolerance) is None
        if not same or not (of_ties or _moves_with_its_rows(subject, first, other, rows)):
            shown = f"{describe_value(first)} and {describe_value(other)}"
            if of_ties:
                return f"{_OF_TIES}, {shown}"
            return f"{DEPENDS_ON_ORDER}, {shown}: they are no samples to it, or a series"
    return ""


def _mixed(parts: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield some orders of parts, the same ones in every run."""
    return (random.Random(seed).sample(parts, len(parts)) for seed in range(_ORDERS))


def _moves_with_its_rows(subject: MetricSubject, first: Any, other: Any, order: Sequence[int]) -> bool:
    """Return whether each list with an entry per row has every entry where its row is, or is the same in any order.

    A curve is the same. The places of words in a sentence are neither, and all of them together are the same numbers.
    """
    pairs = zip(entries_per_sample(first, len(order)), entries_per_sample(other, len(order)), strict=True)
    return all(
        difference(after, before, subject.tolerance) is None
        or difference(after, [before[place] for place in order], subject.tolerance) is None
        for before, after in pairs
    )


def _reads_only_nonzero(subject: MetricSubject, rows: Sequence[Any], many: Sequence[Any]) -> str:
    """Return a reason if the metric reads only zero or non-zero, else ''.

    A rate of hits among the first few is the same in most orders of a few samples.
    """
    inputs = subject.inputs
    changes = [change for change in (inputs.right, inputs.wrong) if change is not None]
    read = False
    parts = (
        part for drawn in (rows, many) for part in (drawn, *([change(row) for row in drawn] for change in changes))
    )
    for part in parts:
        given = subject.arguments(part)
        masks = Arguments(tuple(map(_as_mask, given.args)), {name: _as_mask(v) for name, v in given.kwargs.items()})
        read = read or any(map(_has_other_numbers, (*given.args, *given.kwargs.values())))
        if difference(subject.value([given]), subject.value([masks]), subject.tolerance) is not None:
            return ""
    return f"{_ONLY_MASKS}: it takes masks" if read else ""


def _as_mask(value: Any) -> Any:
    """The same numbers with 1 where one is not 0; anything else as it is."""
    if isinstance(value, list):
        return [_as_mask(each) for each in value]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return type(value)(value != 0)
    if hasattr(value, "detach"):
        return (value != 0).to(value.dtype)
    is_number = getattr(getattr(value, "dtype", None), "kind", "none") in "fiu"  # a frame of pandas has no dtype
    return (value != 0).astype(value.dtype) if is_number else value


def _has_other_numbers(value: Any) -> bool:
    return repr(_as_mask(value)) != repr(value)


def _without_ties(rows: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for row in rows:
        if isinstance(row, tuple) and not any(a == b for other in found for a, b in zip(row, other, strict=False)):
            found.append(row)
    return found


def _indifference(subject: MetricSubject) -> str:
    """Return a reason if correct and wrong predictions score the same, else ''."""
    inputs = subject.inputs
    if inputs.wrong is not None and inputs.contrast:
        values = []
        repeated = list(inputs.contrast) * math.ceil(inputs.min_samples / len(inputs.contrast))
        # A ranking of the first two has the same value for a contrast of two, right or wrong.
        for rows in (repeated, inputs.fixed(max(_PLAIN, inputs.min_samples))):
            right = subject.value([[inputs.right(row) if inputs.right else row for row in rows]])
            wrong = subject.value([[inputs.wrong(row) for row in rows]])
            values += [right, wrong]
            refused = isinstance(right, Raised) and isinstance(wrong, Raised)
            if not refused and difference(right, wrong, subject.tolerance) is not None:
                return ""
    else:
        rows = inputs.fixed(3 * max(4, inputs.min_samples))
        parts = [rows[i : i + size] for size in (len(rows) // 3, 2, 1) for i in range(0, 2 * len(rows) // 3, size)]
        values = [subject.value([part]) for part in parts if len(part) >= inputs.min_samples]
        good = [value for value in values if not isinstance(value, Raised)]
        if any(difference(good[0], value, subject.tolerance) is not None for value in good[1:]):
            return ""
    return f"{_CONSTANT}, {describe_value(values[0])}"


def _refuses_small_batches(subject: MetricSubject, rows: Sequence[Any]) -> str:
    """Return a reason if the metric treats a batch as one sample or rejects small batches, else ''."""
    half = len(rows) // 2
    whole, halves = (
        subject.value([rows[i : i + size] for i in range(0, len(rows), size)]) for size in (2 * half, half)
    )
    shapes = [tuple(getattr(value, "shape", ())) for value in (whole, halves)]
    if half > 1 and [shape[:1] for shape in shapes] == [(2 * half,), (half,)]:
        return "its value has one number for each row of a batch: a batch is taken for one sample"
    # Too few samples have no value in one batch, but in several; a fault of the second batch is none of the first.
    plans = [[rows[i : i + size] for i in range(0, stop, size)] for size in (1, 2) for stop in (size, len(rows))]
    small = [subject.value(plan) for plan in plans]
    if not isinstance(whole, Raised) and all(isinstance(value, Raised) for value in small):
        return f"it refuses small batches: {str(small[-1]).splitlines()[0]}"[:160]
    return ""


def _operates(subject: MetricSubject, rows: Sequence[Any], value: Any) -> str:
    """Return a reason if it returns an argument or rows of some, or sets attributes of objects in them, else ''.

    A function that writes into an array, or a list, may be a metric with a fault. The value of these rows is known; it
    is computed again, since what a function returns may be what it has changed.
    """
    given, record = subject.arguments(rows), subject.build()
    before = Snapshot([*given.args, *given.kwargs.values()]) if subject.inputs.observed else None
    with suppress(Exception):  # what it needs besides is known to the subject
        if record.function:
            value = record.function(*given.args, **given.kwargs)
        else:
            record.update(*given.args, **given.kwargs)
            value = record.compute()
    if any(value is each for each in (*given.args, *given.kwargs.values())):  # such as an update in place
        return f"{SELECTS_ROWS}: one of them itself"
    if found := _selects_rows(value, given):
        return found
    return f"{WRITES}, {line}" if before and (line := written_into(before)) else ""


def written_into(before: Snapshot) -> str:
    """Return the change of an attribute of an object that was set, or got more entries, as a cache does; else ''."""
    return next((line for line in before.changes() if re.match(r"[^:]*\.[a-z]\w*(:|\[.* was added)", line)), "")


def _selects_rows(value: Any, arguments: Arguments) -> str:
    """Return a reason if samples are selected or kept, and not measured, else ''.

    Then each result is rows of an argument, or one by name is a whole argument, as of a record that returns its data.
    """
    given = [_rows_of(each) for each in (*arguments.args, *arguments.kwargs.values())]
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):  # one of each sample
        value = {name: [each.get(name) for each in value] for name in value[0]}
    if isinstance(value, Mapping):
        held = [_rows_of(part) for part in value.values()]
        kept = any(len({*map(repr, part)}) > 1 and part in given for part in held)
        return f"{SELECTS_ROWS}, as a record of them" if kept else ""
    parts = [_rows_of(part) for part in value] if isinstance(value, (tuple, list)) else []

    def selects(part: Sequence[Any]) -> bool:
        return any(_in_order(part, each) for each in given)

    # Of samples that are rows each, the list of the results is rows.
    if len(parts) > 1 and all(parts) and (all(map(selects, parts)) or selects(parts)):
        return f"{SELECTS_ROWS}, and no value of them"
    return ""


def _rows_of(value: Any) -> list[Any]:
    rows = value.tolist() if hasattr(value, "tolist") else value
    return [row.tolist() if hasattr(row, "tolist") else row for row in rows] if isinstance(rows, list) else []


def _in_order(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    left = iter(whole)
    return all(any(entry == other for other in left) for entry in part)


def gives_numbers(inputs: SampleStrategy, make: Callable[[], Any]) -> bool:
    """Return whether each sample has one number as its value; a function that gives more may be no score."""
    with isolated_process():
        values = _subject(inputs, make).value([inputs.fixed(max(_PLAIN, inputs.min_samples))])
    return isinstance(values, list) and all(
        isinstance(value, (int, float)) or getattr(value, "shape", None) == () for value in values
    )


def order_of_updates_counts(inputs: SampleStrategy, make: Callable[[], Any]) -> bool:
    """Return whether many updates give another value in another order, or are refused."""
    batches = _batches(inputs.fixed(_MANY * inputs.min_samples), inputs.min_samples)
    subject = _subject(inputs, make)
    with isolated_process():
        refused = isinstance(subject.value(batches), Raised)
        return refused or bool(_changed_by_order(subject, batches, joined=False, of_ties=False))


def ranking_of_rows(inputs: SampleStrategy, make: Callable[[], Any], given: Mapping[str, Any]) -> str:
    """Return a reason if ``top_k`` ranks the rows of a batch, so that fewer rows are refused, else ''."""
    most = next((given[name] for name in ("top_k", "k") if type(given.get(name)) is int), 1)
    rows = inputs.fixed(max(_PLAIN, inputs.min_samples))
    made = [Schema.of(value) for value in Arguments.of(inputs.collate(rows)).args]
    if not 1 < most <= len(rows) or not made or any(len(each.shape) > 1 for each in made):
        return ""
    subject = _subject(inputs, make)
    with isolated_process():
        fewer, enough = (subject.value([rows[:count]]) for count in (most - 1, most))
    if isinstance(fewer, Raised) and not isinstance(enough, Raised):
        return f"it ranks the rows of a batch, and refuses fewer than {most}: {str(fewer).splitlines()[0]}"[:160]
    return ""


def first_line(error: BaseException) -> str:
    """The type of an error and its text, in one line of at most 160 characters."""
    text = re.sub(r"\s+", " ", str(error)).strip()
    return f"{type(error).__name__}: {text}"[:160] if text else type(error).__name__

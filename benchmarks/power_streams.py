"""Random uses of a target: what a mutant must change to count as a fault.

A stream is some samples of the target's strategy and a number, from which all choices are drawn: batches, what is
called between them, ranks, padding. It gives every value on the way, and what inputs and values hold at its end.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from pytest_evalcheck.engine.factory import TargetFactory
from pytest_evalcheck.expectations.comparison import difference
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable
from pytest_evalcheck.kinds.common.process_state import isolated_process
from pytest_evalcheck.kinds.loop.subject import comparable
from pytest_evalcheck.kinds.registry import kind_of
from pytest_evalcheck.strategies.samples import drawn_with_seed
from pytest_evalcheck.targets.target import Target

Stream = tuple[list[Any], int]
MOST_ROWS = 6


def streams(target: Target, count: int, seed: int) -> list[Stream]:
    """Samples and a number each; batches of one size are drawn together, which is quicker."""
    found: list[Stream] = []
    least = max(1, target.inputs.min_samples)
    for size in range(least, least + MOST_ROWS):
        each = -(-count // MOST_ROWS)
        lists = target.inputs.rows(min_size=size, max_size=size)
        for rows in drawn_with_seed(lists, count=each, seed=seed) or [target.inputs.fixed(size)] * each:
            found.append((rows, seed + len(found)))
    random.Random(seed).shuffle(found)
    return found[:count]


def values(target: Target, stream: Stream) -> list[Any]:
    """Return all values of a stream; an error that is none of the target ends it."""
    factory, arguments = TargetFactory(target), {"device": "cpu"} if "device" in target.arguments else {}
    subject = kind_of(target.kind).subject(
        build=lambda **options: factory.record({**arguments, **options}),
        inputs=target.inputs,
        tolerance=target.tolerance,
        **target.options,
    )
    rows, number = stream
    seen: list[Any] = []
    held: list[Any] = []
    with isolated_process(), suppress(CheckFailure, NotApplicable):
        for value in _USES[target.kind](subject, rows, random.Random(number)):
            seen.append(_copied(value))
            held.append(value)
    return [*seen, "at the end", *map(_copied, held)]


def differ(target: Target, one: list[Any], other: list[Any]) -> bool:
    return difference(one, other, target.tolerance) is not None


def _copied(value: Any) -> Any:
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


def _split(rows: Sequence[Any], dice: random.Random) -> list[list[Any]]:
    cuts = sorted(dice.sample(range(1, len(rows)), dice.randrange(len(rows)))) if len(rows) > 1 else []
    return [list(rows[start:end]) for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True)]


def _metric(subject: Any, rows: list[Any], dice: random.Random) -> Iterator[Any]:
    live, record = subject.fresh(), subject.build()
    parts = _split(rows, dice)
    batches = [subject.arguments(part) for part in parts]
    for batch in batches:
        yield live.try_forward(batch) if record.forward and dice.random() < 0.4 else live.take(batch)
        if dice.random() < 0.3:
            yield live.compute()
        if record.reset and dice.random() < 0.15:
            live.reset()
        if record.copies and dice.random() < 0.2:
            live = live.copy_by(dice.choice(list(record.copies)))
    yield live.compute()
    yield live.compute()
    yield batches
    if record.reset:
        live.reset()
    yield live.update(rows).compute()
    if record.merges and len(parts) > 1:
        at = dice.randrange(1, len(parts))
        yield subject.merged(dice.choice(list(record.merges)), [parts[:at], parts[at:]])
    if record.save and record.load:
        yield subject.fresh().update(*parts).copy_by("state_dict").compute()
    if record.weights:
        weights = [dice.choice([1.0, 1.0, 2.0]) for _ in rows]
        yield subject.value([subject.weighted(rows, weights)])


def _wrapper(subject: Any, rows: list[Any], dice: random.Random) -> Iterator[Any]:
    live, mode = subject.fresh(), dice.choice(subject.modes)
    for part in _split(rows, dice):
        batch = subject.batch(part, mode)
        yield live.evaluate(batch)
        yield batch
    if subject.inputs.padding is not None:
        side = dice.choice(subject.inputs.padding.sides)
        yield live.evaluate(subject.batch(rows, mode, side=side, widths=subject.widths(rows, dice.randrange(3))))


def _decoder(subject: Any, rows: list[Any], dice: random.Random) -> Iterator[Any]:
    for _, result in subject.device_results(rows[: dice.randrange(1, 4)]):
        yield result
    decoder = next(subject.precisions())
    if "step" in decoder.methods:
        ids = decoder.truncate(subject.prompts(rows)[:1])
        yield decoder.start(1).decode_chunks(ids, [len(part) for part in _split(ids[0], dice)])


def _scorer(subject: Any, rows: list[Any], dice: random.Random) -> Iterator[Any]:
    for _, result in subject.device_results(rows):
        yield result
    record = subject.build()
    if record.parallel:
        yield subject.scores(rows, record.parallel[dice.choice(list(record.parallel))])
    if record.stream:
        pairs = zip(*subject.collate(rows), strict=True)
        yield list(record.stream(iter(list(pairs))))


def _loop(subject: Any, rows: list[Any], dice: random.Random) -> Iterator[Any]:
    run, size = subject.fresh(), dice.randrange(1, 5)
    yield comparable(run.evaluate(subject.data(rows), batch_size=size))
    yield comparable(run.evaluate(subject.data(rows[: max(1, len(rows) // 2)]), batch_size=size))
    if configs := subject.configs(size, workers=False):
        yield comparable(subject.evaluate(rows, **dice.choice(configs)))


_USES: dict[str, Callable[[Any, list[Any], random.Random], Iterator[Any]]] = {
    "metric": _metric,
    "wrapper": _wrapper,
    "decoder": _decoder,
    "scorer": _scorer,
    "loop": _loop,
}

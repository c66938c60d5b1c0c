"""Programs of operations on a cache, and the rows that a new cache is fed to hold the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.cases import Operation, cut_sizes
from pytest_evalcheck.kinds.decoder.subject import LIST_OPERATIONS, CachedSequence, DecoderUnderTest, Ids

ROW_OPERATIONS = ("reorder", "select", "repeat", "crop")


@dataclass
class Execution:
    """What a program did."""

    rows: list[list[int]]
    """The ids that the cache holds, row by row."""
    sizes: list[int] = field(default_factory=list)
    """The sizes of the chunks in which they came."""
    done: list[str] = field(default_factory=list)
    """The operations that the cache offers, with their arguments."""
    refused: Raised | None = None
    """The error of an operation."""
    last: Any = None
    """The logits of the last chunk, row by row, or the error."""


def execute(decoder: DecoderUnderTest, samples: Ids, program: Sequence[Operation]) -> Execution:
    """Do what a program says."""
    feeds = sum(count for name, count in program[1:] if name == "feed")
    source = decoder.truncate(samples, feeds)
    sequence, execution, fed = decoder.start(len(source)), Execution([[] for _ in source]), 0
    for name, argument in program:
        if name == "feed":
            new = []
            for i in range(len(execution.rows)):
                start = fed + i if fed else 0  # rows that are copies of each other go on with other ids
                new.append(list(islice(cycle(source[i % len(source)]), start, start + argument)))
            new = new if fed else [row[: len(source[0])] for row in new]
            fed += len(new[0])
            execution.last = sequence.decode_step(new)
            execution.rows = [[*before, *row] for before, row in zip(execution.rows, new, strict=True)]
            execution.sizes.append(len(new[0]))
        elif decoder.offers(name) and execution.rows[0]:
            _apply(decoder, sequence, execution, name, argument)
        if sequence.error:
            break
    execution.last = execution.last if isinstance(execution.last, Raised) else list(execution.last)
    return execution


def replay_on_new_cache(decoder: DecoderUnderTest, execution: Execution) -> Any:
    """The logits of the last chunk with a new cache, into which the rows come as they are in the end."""
    logits = decoder.start(len(execution.rows)).decode_chunks(execution.rows, execution.sizes)
    return logits if isinstance(logits, Raised) else [row[-execution.sizes[-1] :] for row in logits]


def _apply(decoder: DecoderUnderTest, sequence: CachedSequence, execution: Execution, name: str, argument: Any) -> None:
    count, length = len(execution.rows), len(execution.rows[0])
    if name == "reorder":
        argument = list(islice(cycle([i % count for i in argument]), count))
    elif name == "select":
        argument = sorted({i % count for i in argument})
    elif name == "crop":
        argument = max(1, length - argument)
        execution.sizes = cut_sizes(execution.sizes, argument)
    elif count * argument > (decoder.record.max_rows or count * argument):
        return
    sequence.apply(name, argument)
    execution.refused = sequence.error
    execution.rows = LIST_OPERATIONS[name](execution.rows, argument)
    execution.done.append(f"{name}({argument})")

"""EC301, EC307, EC308, EC311, EC314: cached decoding against uncached decoding, and operations on a cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import overwrite
from pytest_evalcheck.kinds.decoder.cache_memory import CacheMemory
from pytest_evalcheck.kinds.decoder.cases import (
    CacheProgram,
    ChunkedPrompts,
    Operation,
    OverCapacity,
    SameBatchSize,
    cut_sizes,
    even,
)
from pytest_evalcheck.kinds.decoder.nan_reads import reads_the_prompt_again, watching_forwards
from pytest_evalcheck.kinds.decoder.subject import (
    LIST_OPERATIONS,
    NEW_TOKENS,
    CachedSequence,
    DecoderSubject,
    DecoderUnderTest,
    Ids,
    plural,
)

_FEW = 8
_SHORT = 6
ROW_OPERATIONS = ("reorder", "select", "repeat", "crop")


@check("EC301", conditions=("one token at a time", "several tokens at a time"), examples=15)
def cached_decoding_equals_uncached_decoding(subject: DecoderSubject, case: ChunkedPrompts) -> None:
    """Decoding with a cache gives the logits and the greedy tokens of decoding without one.

    Why: a cache is there to save time, and may not change the scores of an evaluation that generates.
    Usual cause: positions or masks count from the first new token instead of from the first token of the text.
    Fix: pytest_evalcheck.fixes.caches.step_positions, pytest_evalcheck.fixes.caches.step_mask
    """
    for decoder in subject.precisions():
        rows = decoder.truncate(subject.prompts(case.samples), whole=True)
        if "step" in decoder.methods:
            chunks = decoder.within_prefill(case.sizes(len(rows[0])))
            actual, expected = decoder.decode_both("step", rows, chunks=chunks)
            if max(chunks[1:], default=1) == 1 or not decoder.is_declared_refusal(actual, "chunks"):
                about = f"the logits of rows that come in chunks of {chunks}"
                several = "chunks" if max(chunks[1:], default=1) > 1 else ""
                decoder.assert_same(actual, expected, about=about, id="logits", refusable=several)
        if "generate" in decoder.methods:
            actual, expected = decoder.decode_both("generate", decoder.truncate(rows, NEW_TOKENS))
            decoder.assert_same(actual, expected, about="the tokens that are generated", id="generated-tokens")


@check("EC307", conditions=("one operation", "several operations"), examples=15, after=("EC301",))
def cache_operations_equal_operations_on_rows(subject: DecoderSubject, case: CacheProgram) -> None:
    """Reordering, selecting, repeating and cropping a cache gives what the same operations on the rows give.

    An operation that is not supported may fail, by an error that is raised on purpose or a method that a layer lacks.

    Why: beam search reorders its rows at every step, and rows that are done are removed.
    Usual cause: keys and values are reordered, but not what else belongs to a row: positions, a state, a mask.
    Fix: apply it to all that has an entry per row: `cache = {name: each[order] for name, each in cache.items()}`.
    """
    for decoder in subject.precisions():
        decoder.require_cache()
        if "step" not in decoder.methods or not any(map(decoder.offers, ROW_OPERATIONS)):
            raise NotApplicable("the cache offers no operation on rows")
        execution = execute(decoder, subject.prompts(case.samples), case.program)
        if execution.refused and is_unsupported(execution.refused):
            refused(execution.refused)
        elif execution.refused:
            about = f"the logits after {', '.join(execution.done)}, of which the last fails"
            expected, id = replay_on_new_cache(decoder, execution), f"failed-{slug(execution.done[-1])}"
            decoder.assert_same(execution.refused, expected, about=about, id=id)
        elif not execution.done:
            inconclusive("no operation of this program is offered")
        else:
            about, actual = f"the logits after {', '.join(execution.done)}", execution.last
            expected = replay_on_new_cache(decoder, execution)
            last = "" if decoder.agrees(actual, expected) else culprit(decoder, subject, case)
            decoder.assert_same(actual, expected, about=about, id=f"after-{slug(last)}")


@check("EC308", conditions=("a token when it is full", "a prompt that is too long"), examples=_FEW, after=("EC301",))
def tokens_beyond_the_capacity_are_refused_or_decoded(subject: DecoderSubject, case: OverCapacity) -> None:
    """A cache can be filled to its capacity, and tokens beyond it are refused, or decoded as without a cache.

    A refusal is raised on purpose, by a `raise` of the code under test with a text; an error of an operator is none.

    Why: otherwise a long prompt is scored by a part of it.
    Usual cause: the index of a new token wraps around, or is clamped to the last one.
    Fix: pytest_evalcheck.fixes.caches.require_prompts with `max_length`
    """
    for decoder in subject.precisions():
        capacity = decoder.record.capacity
        if capacity is None:
            raise NotApplicable("the cache grows" if decoder.record.has_cache else "the decoder has no cache")
        rows = even(decoder.truncate(subject.prompts(case.samples)), capacity + case.extra)
        for method in decoder.methods:
            full = _cut(rows, capacity if method == "step" else _longest_prompt(decoder, capacity))
            if not decoder.agrees(*decoder.decode_both(method, _cut(full, min(_SHORT, capacity - NEW_TOKENS)))):
                inconclusive("a few tokens are decoded otherwise than without a cache; see EC301")
                continue
            actual, expected = decoder.decode_both(method, full)
            about = f"what is decoded by {method} up to the capacity"
            decoder.assert_same(actual, expected, about=about, id=f"up-to-capacity-by-{method}")
            prompts = full if method == "generate" and not case.at_once else rows
            chunks = [len(rows[0])] if case.at_once else [capacity, *[1] * case.extra]
            count = len(rows[0]) - len(prompts[0]) + 1
            actual, expected = decoder.decode_both(method, prompts, chunks=chunks, count=count)
            about = f"what is decoded by {method} of {plural(case.extra, 'token')} more than the capacity"
            if isinstance(actual, Raised):
                about = f"an error that is no refusal for {about}"
                expect(actual).holds(actual.on_purpose, about=about, id=f"unclear-refusal-by-{method}")
            elif isinstance(expected, Raised):
                expect(actual).equals(expected, about=about, id=f"beyond-capacity-by-{method}")
            else:
                decoder.assert_same(actual, expected, about=about, id=f"beyond-capacity-by-{method}")


@check("EC311", existential=True, examples=_FEW)
def the_cache_is_used(subject: DecoderSubject, case: ChunkedPrompts) -> None:
    """Control: the contents of the cache are read, and a generation does not read a prompt again.

    Why: a cache that is never read passes every other check, and saves no time.
    Usual cause: the model creates a cache of its own in every call, or all ids are fed again.
    Fix: `model(new_ids, past_key_values=cache)` in every call, with only the ids that are new.
    """
    for decoder in subject.precisions():
        decoder.require_cache()
        rows = decoder.truncate(even(subject.prompts(case.samples), max(4, len(case.samples[0]))), NEW_TOKENS)
        if "step" in decoder.methods:
            plain, corrupted = decode_last_token(decoder, rows), decode_last_token(decoder, rows, corrupted=True)
            about = "logits are the same when the memory of the cache is overwritten"
            expect(plain).holds(
                isinstance(plain, list) and decoder.differ(corrupted, plain), about=about, id="overwritten-cache"
            )
        if "generate" in decoder.methods:
            with watching_forwards(decoder.record.model) as forwards:
                decoder.decode("generate", decoder.start(len(rows)), rows)
            again = reads_the_prompt_again(forwards, len(rows[0])) if forwards else None
            if again is None:
                below = "all ids are embedded again, and no layer below could be watched"
                inconclusive(below if forwards else "the model has no embedding at which ids could be counted")
                continue
            read = [forward.ids for forward in forwards]
            about = f"forwards of a generation read {read} ids of a row, of which {len(rows[0])} are the prompt"
            detail = f"numbers that enter the layers: {[forward.values for forward in forwards]}"
            expect(read).holds(not again, about=about, id="prompt-read-again", detail=detail)


@check("EC314", existential=True, examples=_FEW)
def other_prompts_get_other_logits(subject: DecoderSubject, case: SameBatchSize) -> None:
    """Control: the logits depend on the prompt: after some others they are others.

    Why: where all logits are equal every token is right, and a decoder that returns one token passes most other checks.
    Usual cause: weights that were never loaded, an error that becomes a constant, or logits of another position.
    Fix: look at what the model is given, and at its weights: `logits[:, -1]` of `model(ids)`.
    """
    for decoder in subject.precisions():
        prompts = [decoder.truncate(subject.prompts(rows[:1])) for rows in (case.samples, case.after)]
        if prompts[0] == prompts[1]:
            raise NotApplicable("both prompts are the same")
        logits = [decoder.decode_uncached(rows) for rows in prompts]
        errors = [result for result in logits if isinstance(result, Raised)]
        if errors:
            refused(errors[0])
            continue
        first, second = ([row[-1] for row in rows] for rows in logits)
        about = "the logits after two different prompts are equal"
        expect(first).holds(decoder.differ(first, second), about=about, id="different-prompts")


def _longest_prompt(decoder: DecoderUnderTest, capacity: int) -> int:
    """Compare the last tokens of a generation with new ones."""
    return min(capacity - NEW_TOKENS, decoder.record.prefill or capacity)


def _cut(rows: Ids, length: int) -> Ids:
    return [row[: max(1, length)] for row in rows]


def decode_last_token(decoder: DecoderUnderTest, rows: Ids, *, corrupted: bool = False) -> Any:
    """The logits of the last token of rows, or the error; ``corrupted`` overwrites the memory of the cache before it.

    Raises:
        CheckFailure: where the cache has no memory.
    """
    memory_of = CacheMemory(decoder.record) if corrupted else None
    sequence = decoder.start(len(rows))
    sequence.decode_chunks([row[:-1] for row in rows], [len(rows[0]) - 1])
    if memory_of is not None and not sequence.error:
        memory = memory_of.tensors_of(sequence.cache)
        if not memory:
            raise CheckFailure(
                "the cache holds no numbers after a prompt",
                detail="Where it is state inside the model, say so: ec.Decoder(..., tensors=lambda cache: [...]).",
                id="empty-cache",
            )
        overwrite(memory)
    logits = sequence.decode_step([row[-1:] for row in rows])
    return logits if isinstance(logits, Raised) else list(logits)


@dataclass
class Execution:
    """Result of a program."""

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


def is_unsupported(error: Raised) -> bool:
    """Return whether an operation failed because it is not supported."""
    return error.on_purpose or isinstance(error.error, (AttributeError, NotImplementedError))


def replay_on_new_cache(decoder: DecoderUnderTest, execution: Execution) -> Any:
    """The logits of the last chunk with a new cache, into which the rows come as they are in the end."""
    logits = decoder.start(len(execution.rows)).decode_chunks(execution.rows, execution.sizes)
    return logits if isinstance(logits, Raised) else [row[-execution.sizes[-1] :] for row in logits]


def culprit(decoder: DecoderUnderTest, subject: DecoderSubject, case: CacheProgram) -> str:
    """The name of the operation with which the shortest beginning of a program that fails ends."""
    names = [name for name, _ in case.program]
    for end in (index for index, name in enumerate(names, 1) if name != "feed"):
        execution = execute(decoder, subject.prompts(case.samples), [*case.program[:end], ("feed", 1)])
        if execution.done and not decoder.agrees(execution.last, replay_on_new_cache(decoder, execution)):
            return names[end - 1]
    return "several operations"


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

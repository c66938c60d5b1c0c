"""EC301, EC307, EC308, EC311: cached decoding against uncached decoding, and operations on a cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure, NotApplicable, expect, inconclusive, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import overwrite
from pytest_evalcheck.kinds.decoder.cache_operations import ROW_OPERATIONS, execute, replay_on_new_cache
from pytest_evalcheck.kinds.decoder.cases import CacheProgram, ChunkedPrompts, OverCapacity, even
from pytest_evalcheck.kinds.decoder.subject import (
    NEW_TOKENS,
    DecoderSubject,
    DecoderUnderTest,
    Ids,
    all_rows_or_none,
    plural,
)

_FEW = 8
_SHORT = 6


@check("EC301", regimes=("one token at a time", "several tokens at a time"), examples=15)
def cached_decoding_equals_uncached_decoding(subject: DecoderSubject, case: ChunkedPrompts) -> None:
    """Decoding with a cache gives the logits and the greedy tokens of decoding without one.

    Why: a cache is there to save time, and may not change the scores of an evaluation that generates.
    Usual cause: positions or masks count from the first new token instead of from the first token of the text.
    Fix: compute positions from the length of the cache, and masks from these positions.
    """
    for decoder in subject.precisions():
        rows = decoder.truncate(subject.prompts(case.samples))
        if "step" in decoder.methods:
            chunks = case.sizes(len(rows[0]))
            actual = decoder.start(len(rows)).decode_chunks(rows, chunks)
            if max(chunks[1:], default=1) == 1 or not decoder.is_declared_refusal(actual, "chunks"):
                about = f"the logits of rows that come in chunks of {chunks}"
                decoder.assert_same(actual, decoder.decode_uncached(rows), about=about)
        if "generate" in decoder.methods:
            prompts = decoder.truncate(rows, NEW_TOKENS)
            actual = decoder.decode("generate", decoder.start(len(prompts)), prompts)
            decoder.assert_same(actual, decoder.greedy(prompts, actual), about="the tokens that are generated")


@check("EC307", regimes=("one operation", "several operations"), examples=15)
def cache_operations_equal_operations_on_rows(subject: DecoderSubject, case: CacheProgram) -> None:
    """Reordering, selecting, repeating and cropping a cache gives what the same operations on the rows give.

    An operation may refuse.

    Why: beam search reorders its rows at every step, and rows that are done are removed.
    Usual cause: keys and values are reordered, but not what else belongs to a row: positions, a state, a mask.
    Fix: apply the operation to everything that has an entry per row.
    """
    for decoder in subject.precisions():
        if "step" not in decoder.methods or not any(map(decoder.offers, ROW_OPERATIONS)):
            raise NotApplicable("the cache offers no operation on rows")
        execution = execute(decoder, subject.prompts(case.samples), case.program)
        if execution.refused:
            refused(execution.refused)
        elif not execution.done:
            inconclusive("no operation of this program is offered")
        else:
            expected = replay_on_new_cache(decoder, execution)
            decoder.assert_same(execution.last, expected, about=f"the logits after {', '.join(execution.done)}")


@check("EC308", regimes=("a token when it is full", "a prompt that is too long"), examples=_FEW)
def tokens_beyond_the_capacity_are_refused_or_decoded(subject: DecoderSubject, case: OverCapacity) -> None:
    """A cache can be filled to its capacity, and tokens beyond it are refused, or decoded as without a cache.

    Why: otherwise a long prompt is scored by a part of it.
    Usual cause: the index of a new token wraps around, or is clamped to the last one.
    Fix: raise an error that names the capacity and the length that was asked for.
    """
    for decoder in subject.precisions():
        if decoder.record.capacity is None:
            raise NotApplicable("the cache grows")
        rows = even(decoder.truncate(subject.prompts(case.samples)), decoder.record.capacity + case.extra)
        for method in decoder.methods:
            if not short_rows_match(decoder, method, rows, decoder.record.capacity):
                inconclusive("a few tokens are decoded otherwise than without a cache; see EC301")
                continue
            actual, expected = decode_to_capacity(decoder, method, rows, decoder.record.capacity)
            decoder.assert_same(actual, expected, about=f"what is decoded by {method} up to the capacity")
            actual, expected = decode_beyond_capacity(decoder, method, rows, decoder.record.capacity, case.at_once)
            about = f"what is decoded by {method} of {plural(case.extra, 'token')} more than the capacity"
            if isinstance(actual, Raised):
                expect(actual).holds(bool(str(actual.error).strip()), about=f"an error without a text for {about}")
            elif isinstance(expected, Raised):
                expect(actual).equals(expected, about=about)
            else:
                decoder.assert_same(actual, expected, about=about)


@check("EC311", existential=True, examples=_FEW)
def the_cache_is_used(subject: DecoderSubject, case: ChunkedPrompts) -> None:
    """Control: the contents of the cache are read, and a generation does not read a prompt again.

    Why: a cache that is never read passes every other check, and saves no time.
    Usual cause: the model creates a cache of its own in every call, or all ids are fed again.
    Fix: pass the cache to the model in every call, and only the ids that are new.
    """
    for decoder in subject.precisions():
        rows = decoder.truncate(even(subject.prompts(case.samples), max(4, len(case.samples[0]))), NEW_TOKENS)
        if "step" in decoder.methods:
            plain, corrupted = decode_last_token(decoder, rows), decode_last_token(decoder, rows, corrupted=True)
            about = "logits are the same when the memory of the cache is overwritten"
            expect(plain).holds(isinstance(plain, list) and not decoder.agrees(corrupted, plain), about=about)
        if "generate" in decoder.methods:
            with counting_tokens_read(decoder.record.model) as read:
                decoder.decode("generate", decoder.start(len(rows)), rows)
            if read:
                about = f"forwards of a generation read {read} ids of a row, of which {len(rows[0])} are the prompt"
                expect(read).holds(len(read) == 1 or read[-1] < len(rows[0]), about=about)
            else:
                inconclusive("the model has no embedding at which ids could be counted")


def short_rows_match(decoder: DecoderUnderTest, method: str, rows: Ids, capacity: int) -> bool:
    """Whether a few tokens are decoded as they are without a cache, which EC301 checks."""
    short = [row[: max(1, min(_SHORT, capacity - NEW_TOKENS))] for row in rows]
    actual = decoder.decode_with_new_cache(method, short)
    expected = decoder.decode_uncached(short) if method == "step" else decoder.greedy(short, actual)
    return decoder.agrees(actual, expected)


def decode_to_capacity(decoder: DecoderUnderTest, method: str, rows: Ids, capacity: int) -> tuple[Any, Any]:
    """What rows get that fill the cache exactly, and what they get without a cache."""
    spare = 0 if method == "step" else NEW_TOKENS
    full = [row[: max(1, capacity - spare)] for row in rows]
    actual = decoder.decode(method, decoder.start(len(rows)), full)
    if method == "step":
        return actual, decoder.decode_uncached(full)
    actual = all_rows_or_none(actual, rows)
    return actual, decoder.greedy(full, actual or [])


def decode_beyond_capacity(
    decoder: DecoderUnderTest, method: str, rows: Ids, capacity: int, at_once: bool
) -> tuple[Any, Any]:
    """What rows get that are longer than the cache, and what they get without one."""
    length, sequence = len(rows[0]), decoder.start(len(rows))
    if method == "step":
        chunks = [length] if at_once else [capacity, *[1] * (length - capacity)]
        return sequence.decode_chunks(rows, chunks), decoder.decode_uncached(rows)
    prompts = rows if at_once else [row[: max(1, capacity - NEW_TOKENS)] for row in rows]
    count = 1 if at_once else length - len(prompts[0]) + 1
    actual = sequence.error or all_rows_or_none(decoder.generate(prompts, sequence.cache, count), rows)
    return actual, actual if isinstance(actual, Raised) else decoder.greedy(prompts, actual or [], count)


def decode_last_token(decoder: DecoderUnderTest, rows: Ids, *, corrupted: bool = False) -> Any:
    """The logits of the last token of rows, or the error; ``corrupted`` overwrites the memory of the cache before it.

    Raises:
        CheckFailure: where the cache has no memory.
    """
    sequence = decoder.start(len(rows))
    sequence.decode_step([row[:-1] for row in rows])
    if corrupted and not sequence.error:
        memory = decoder.cache_tensors(sequence.cache)
        if not memory:
            raise CheckFailure(
                "the cache holds no numbers after a prompt",
                detail="Where it is state inside the model, say so: ec.Decoder(..., tensors=lambda cache: [...]).",
            )
        overwrite(memory)
    logits = sequence.decode_step([row[-1:] for row in rows])
    return logits if isinstance(logits, Raised) else list(logits)


@contextmanager
def counting_tokens_read(model: Any) -> Iterator[list[int]]:
    """How many ids of a row each forward within reads, as the first embedding of the model gets them."""
    import torch

    read: list[int] = []
    modules = model.modules() if hasattr(model, "modules") else ()
    tables = [module for module in modules if isinstance(module, torch.nn.Embedding)]

    def count(_: Any, inputs: tuple[Any, ...]) -> None:
        read.append(inputs[0].shape[-1] if inputs[0].dim() else 1)

    hook = tables[0].register_forward_pre_hook(count) if tables else None
    try:
        yield read
    finally:
        if hook:
            hook.remove()

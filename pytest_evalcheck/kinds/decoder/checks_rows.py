"""EC306, EC310, EC312: rows of unequal length, rows that stop at different steps, and invalid prompts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import count
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cases import STOP_STEPS, Prompts, StopTokens, UnevenPrompts, even
from pytest_evalcheck.kinds.decoder.record import truncate_at_stop
from pytest_evalcheck.kinds.decoder.subject import NEW_TOKENS, DecoderSubject, DecoderUnderTest, Ids, all_rows_or_none
from pytest_evalcheck.strategies.samples import Side

_FEW = 8


@check(
    "EC306",
    conditions=("rows of unequal length", "rows of one length", "a prompt of one token"),
    examples=12,
    after=("EC301",),
)
def padding_does_not_change_the_output(subject: DecoderSubject, case: UnevenPrompts) -> None:
    """Padding on the left changes neither the logits of tokens nor the tokens that are generated.

    Nor does padding on the right, where the decoder takes it.

    Why: prompts of a batch are of unequal length, and a score may not depend on the longest of them.
    Usual cause: positions count the padding, the mask is dropped after the first step, or a state reads padding.
    Fix: pytest_evalcheck.fixes.caches.step_positions, pytest_evalcheck.fixes.caches.step_mask, with the mask in every
    step
    """
    for decoder in subject.precisions():
        rows, sides = decoder.truncate(subject.prompts(case.samples), NEW_TOKENS), decoder.record.sides
        if len(rows) < 2 or not (sides or "generate" in decoder.methods):
            raise NotApplicable("it takes no rows of unequal length")
        if "step" in decoder.methods and sides:
            side, follow = case.side if case.side in sides else sides[0], even(rows, case.follow)
            actual = decode_together(decoder, rows, side, follow)
            if not decoder.is_declared_refusal(actual, "padding"):
                pairs = zip(rows, follow, strict=True)
                expected = _joined([decode_together(decoder, [row], "left", [after]) for row, after in pairs])
                about = f"the logits of tokens with padding on the {side}"
                decoder.assert_same(
                    actual, expected, about=about, id=f"logits-padded-on-the-{side}", refusable="padding"
                )
        if "generate" in decoder.methods:
            actual = all_rows_or_none(decoder.decode("generate", decoder.start(len(rows)), rows), rows)
            if actual is not None and not decoder.is_declared_refusal(actual, "padding"):
                expected = _joined([decoder.decode_with_new_cache("generate", [row]) for row in rows])
                about = "the tokens of prompts that are padded"
                decoder.assert_same(actual, expected, about=about, id="tokens-of-padded-prompts", refusable="padding")


@check(
    "EC310", conditions=("in the middle", "at once", "never", "a stop token in a prompt"), examples=15, after=("EC301",)
)
def every_row_stops_at_its_own_stop_token(subject: DecoderSubject, case: StopTokens) -> None:
    """Every row stops at its own stop token, and nothing after that token is returned.

    Why: an answer that is cut off with another row's answer, or continues after its end, is scored as a wrong one.
    Usual cause: one flag for all rows, a search for the stop token that includes the prompt, padding that is returned.
    Fix: pytest_evalcheck.fixes.caches.StopFlags
    """
    for decoder in subject.precisions():
        if "generate" not in decoder.methods:
            raise NotApplicable("it decodes by step alone")
        rows = decoder.truncate(subject.prompts(case.samples), STOP_STEPS)
        rows = even(rows, len(rows[0])) if decoder.refuses("padding") else rows
        sequence = decoder.start(len(rows))
        free = sequence.error or all_rows_or_none(decoder.generate(rows, sequence.cache, STOP_STEPS), rows)
        if not isinstance(free, list):
            decoder.assert_same(free, free, about="the tokens of rows without a stop token", id="tokens-without-stop")
            continue
        lengths = [len(row) for row in free]
        expect(lengths).equals(
            [STOP_STEPS] * len(rows), about="the number of tokens of rows without a stop token", id="number-of-tokens"
        )
        stop = {free[row % len(rows)][step] for row, step in case.stops}
        stop |= {rows[0][0]} if case.prompted else set()
        stop |= {decoder.record.pad_token} if case.padding else set()
        stop |= set() if stop else {next(i for i in count() if all(i not in row for row in free))}
        for some in batched(sorted(stop), decoder.record.max_stops or len(stop)):
            actual = decode_until(decoder, rows, some)
            expected = [truncate_at_stop(row, some) for row in free]
            decoder.assert_same(
                actual, expected, about=f"the tokens of rows that stop at {list(some)}", id="tokens-with-stop"
            )


@check("EC312", conditions=("one row",), examples=_FEW, after=("EC305",))
def invalid_prompts_do_not_affect_other_rows(subject: DecoderSubject, case: Prompts) -> None:
    """An empty prompt, or a row of padding only, is refused or changes no other row; an unknown id is refused.

    Why: one document without a text, or an id of another tokenizer, must not change the scores of a whole batch.
    Usual cause: a softmax over nothing gives NaN that spreads, or ids are clamped or taken modulo the vocabulary.
    Fix: pytest_evalcheck.fixes.caches.require_prompts
    """
    for decoder in subject.precisions():
        row = decoder.truncate(subject.prompts(case.samples), NEW_TOKENS)[:1]
        for method in decoder.methods:
            takes_padding = (decoder.record.sides or method == "generate") and not decoder.refuses("padding")
            if takes_padding and (decoder.record.max_rows or 2) > 1:
                actual, expected = decode_with_empty_prompt(decoder, method, row)
                if isinstance(actual, Raised):
                    refused(actual)
                else:
                    about = f"what a row gets by {method} in a batch with an empty one"
                    decoder.assert_same(actual, expected, about=about, id=f"beside-empty-prompt-by-{method}")
            if not decoder.device.startswith("cuda"):  # there a wrong index makes every later call fail
                actual = decode_out_of_vocabulary(decoder, method, row)
                about = f"{method} accepts an id outside the vocabulary"
                expect(actual).holds(isinstance(actual, Raised), about=about, id=f"unknown-id-accepted-by-{method}")


def decode_until(decoder: DecoderUnderTest, rows: Ids, stop: tuple[int, ...]) -> Any:
    """The new tokens of rows that end at these stop tokens, without the stop token at their end; or the error."""
    sequence = decoder.start(len(rows))
    tokens = sequence.error or decoder.generate(rows, sequence.cache, STOP_STEPS, stop)
    return tokens if isinstance(tokens, Raised) else [without_last_stop(row, stop) for row in tokens]


def batched(items: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """The items in tuples of at most a size."""
    for start in range(0, len(items), size):
        yield tuple(items[start : start + size])


def decode_together(decoder: DecoderUnderTest, rows: Ids, side: Side, follow: Ids) -> Any:
    """The logits of rows that are padded to one length, and of the ids that follow each; or the error."""
    import torch

    sequence = decoder.start(len(rows))
    logits = sequence.decode_padded(rows, side)
    later = [sequence.decode_step([[row[index]] for row in follow]) for index in range(len(follow[0]))]
    if sequence.error:
        return sequence.error
    return [torch.cat([own, *(step[row] for step in later)]) for row, own in enumerate(logits)]


def decode_with_empty_prompt(decoder: DecoderUnderTest, method: str, row: Ids) -> tuple[Any, Any]:
    """Decode a row in a batch with an empty prompt, or with a row of padding only; and by itself."""
    sequence = decoder.start(2)
    if method == "generate":
        rows = [*row, []]
        actual = sequence.error or all_rows_or_none(decoder.generate(rows, sequence.cache, NEW_TOKENS), rows)
        expected = decoder.decode_with_new_cache(method, row)
    else:
        padding = [decoder.record.pad_token] * len(row[0])
        actual = _rows(sequence.decode_step([*row, padding], [[1] * len(row[0]), [0] * len(row[0])]))
        expected = _rows(decoder.start(1).decode_step(row))
    return actual[:1] if isinstance(actual, list) else actual, expected


def decode_out_of_vocabulary(decoder: DecoderUnderTest, method: str, row: Ids) -> Any:
    """Decode a prompt that ends in an id beyond any vocabulary of this size: an error, where that is noticed."""
    logits = decoder.full(row)
    if isinstance(logits, Raised):
        return logits
    prompt = [[*row[0][:-1], 10 * logits.shape[-1] + 1000]]
    sequence = decoder.start(1)
    if method == "generate":
        return sequence.error or decoder.generate(prompt, sequence.cache, NEW_TOKENS)
    return sequence.decode_step(prompt)


def without_last_stop(tokens: Sequence[int], stop: Collection[int]) -> list[int]:
    """The tokens without a stop token at their end; other tokens after the first stop token are an error, and stay."""
    before = truncate_at_stop(tokens, stop)
    return before if len(tokens) <= len(before) + 1 else list(tokens)


def _rows(logits: Any) -> Any:
    return logits if isinstance(logits, Raised) else list(logits)


def _joined(results: list[Any]) -> Any:
    """The rows of several results, or the first result that is not a list of rows."""
    other = [result for result in results if not isinstance(result, list)]
    return other[0] if other else [row for result in results for row in result]

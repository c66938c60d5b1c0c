"""EC306, EC310, EC312: rows of unequal length, rows that stop at different steps, and rows that are no rows."""

from __future__ import annotations

from itertools import count

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, refused
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cache_capacity import alone, beside, generated_alone
from pytest_evalcheck.kinds.decoder.cases import STEPS, Beside, Ending, Prompts, even
from pytest_evalcheck.kinds.decoder.generation import ended
from pytest_evalcheck.kinds.decoder.invalid_prompts import beside_nothing, outside_the_vocabulary
from pytest_evalcheck.kinds.decoder.subject import NEW, DecoderSubject, whole

_FEW = 8


@check("EC306", regimes=("rows of unequal length", "rows of one length", "a prompt of one token"), examples=12)
def padding_changes_no_row(decoder: DecoderSubject, case: Beside) -> None:
    """Padding on the left changes neither the logits of tokens nor the tokens that are generated.

    Nor does padding on the right, where the decoder takes it.

    Why: prompts of a batch are of unequal length, and a score may not depend on the longest of them.
    Usual cause: positions that count the padding, a mask that is dropped after the first step, padding in a state.
    Fix: number positions by the mask, and hand the mask to every step.
    """
    for live in decoder.tries():
        rows, sides = live.room(decoder.prompts(case.samples), NEW), live.record.sides
        if len(rows) < 2 or not (sides or "generate" in live.ways):
            raise NotApplicable("it takes no rows of unequal length")
        if "step" in live.ways and sides:
            side, follow = case.side if case.side in sides else sides[0], even(rows, case.follow)
            found = beside(live, rows, side, follow)
            if not live.declared(found, "padding"):
                live.same(found, alone(live, rows, follow), about=f"the logits of tokens with padding on the {side}")
        if "generate" in live.ways:
            found = whole(live.answers("generate", live.start(len(rows)), rows), rows)
            if found is not None and not live.declared(found, "padding"):
                live.same(found, generated_alone(live, rows), about="the tokens of prompts that are padded")


@check("EC310", regimes=("in the middle", "at once", "never", "a stop token in a prompt"), examples=15)
def every_row_stops_at_its_own_stop_token(decoder: DecoderSubject, case: Ending) -> None:
    """Every row stops at its own stop token, and nothing that follows it leaks out.

    Why: an answer that is cut off with its neighbour's, or runs on, is scored as a wrong one.
    Usual cause: one flag for all rows, a stop token that is looked for in the prompt, padding that is handed out.
    Fix: keep a flag for every row, and cut each at its first stop token.
    """
    for live in decoder.tries():
        if "generate" not in live.ways:
            raise NotApplicable("it decodes by step alone")
        rows = live.room(decoder.prompts(case.samples), STEPS)
        rows = even(rows, len(rows[0])) if live.refuses("padding") else rows
        start = live.start(len(rows))
        free = start.error or whole(live.generate(rows, start.cache, STEPS), rows)
        if not isinstance(free, list):
            live.same(free, free, about="the tokens of rows that nothing stops")
            continue
        lengths = [len(row) for row in free]
        expect(lengths).equals([STEPS] * len(rows), about="the number of tokens of rows that nothing stops")
        stop = {free[row % len(rows)][step] for row, step in case.stops}
        stop |= {rows[0][0]} if case.prompted else set()
        stop |= {live.record.pad_token} if case.padding else set()
        stop |= set() if stop else {next(i for i in count() if all(i not in row for row in free))}
        start = live.start(len(rows))
        found = start.error or live.generate(rows, start.cache, STEPS, tuple(sorted(stop)))
        expected = [ended(row, stop) for row in free]
        found = found if isinstance(found, Raised) else [ended(row, stop, only_last=True) for row in found]
        live.same(found, expected, about=f"the tokens of rows that stop at {sorted(stop)}")


@check("EC312", regimes=("one row",), examples=_FEW)
def what_is_no_prompt_harms_no_other(decoder: DecoderSubject, case: Prompts) -> None:
    """An empty prompt, or a row of nothing but padding, is refused or changes no other row; an unknown id is refused.

    Why: one document without a text, or an id of another tokenizer, would spoil the scores of a whole batch.
    Usual cause: a softmax over nothing gives NaN that spreads, or ids are clamped or taken modulo the vocabulary.
    Fix: raise an error that names the row.
    """
    for live in decoder.tries():
        row = live.room(decoder.prompts(case.samples), NEW)[:1]
        for way in live.ways:
            padded = (live.record.sides or way == "generate") and not live.refuses("padding")
            if padded and (live.record.max_rows or 2) > 1:
                found, expected = beside_nothing(live, way, row)
                if isinstance(found, Raised):
                    refused(found)
                else:
                    live.same(found, expected, about=f"what a row gets by {way} beside one without a token")
            if not decoder.device.startswith("cuda"):  # where a wrong index ends all that follows
                found = outside_the_vocabulary(live, way, row)
                about = f"{way} reads an id outside the vocabulary as if it were one"
                expect(found).holds(isinstance(found, Raised), about=about)

"""The steps of a task around its model: shots, token ids of a pair of texts, stop sequences, and marks of answers.

They need nothing but Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any, TypeVar

__all__ = ["cut_at_stops", "encode_pair", "final_answer", "final_number", "gives_answer", "shots_of"]

Document = TypeVar("Document")

_THOUGHTS = re.compile(r"<(think|thinking|thought)>.*?(</\1>|\Z)", re.S)
_NUMBER = re.compile(r"(?<![\w.,])(-\s?)?[$€£]?\s?((?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)")
_WHOLE_NUMBER = re.compile(r"-?(\d{1,3}(,\d{3})+|\d+)?(\.\d+)?")
_BOXED = re.compile(r"\\boxed\s*\{((?:[^{}]|\{[^{}]*\})*)\}")
_SAID = re.compile(r"(?i)\b(?:the|my)?\s*(?:final\s+)?answer\s*(?:is|:)\s*:?")


def final_number(response: str) -> Decimal | None:
    r"""Return the number that a response ends with, or the last one in a box; None where it has no number.

    Thoughts are left out. A sign, a unit of money, groups of thousands and a full stop are read as they are written:

    >>> [str(final_number(text)) for text in ("So 12 + 17 makes $29.00.", "**1,234**", r"\boxed{-5}, as 2 of 3 say")]
    ['29.00', '1234', '-5']
    """
    text = _without_thoughts(response)
    boxed = _BOXED.findall(text)
    found = _NUMBER.findall(boxed[-1] if boxed else text)
    return Decimal(("-" if found[-1][0] else "") + found[-1][1].replace(",", "")) if found else None


def final_answer(response: str) -> str:
    r"""Return the answer that a response ends with, without thoughts, markup, and the words before it.

    It is what the last box holds, else what follows the last "the answer is" or "####", else the last line.

    >>> [final_answer(text) for text in ("<think>Rome?</think>\n\nThe answer is **Paris**.", r"\boxed{(B)}", "")]
    ['Paris', 'B', '']
    """
    text = _without_thoughts(response).strip()
    boxed = _BOXED.findall(text)
    if boxed:
        text = boxed[-1]
    else:
        text = _SAID.split(text)[-1].split("####")[-1].strip()
        text = text.splitlines()[-1] if text else ""
    text = re.sub(r"[*_`\"]", "", text).strip().rstrip(".").strip()
    return re.sub(r"^\((.*)\)$", r"\1", text)


def gives_answer(response: str, right: str) -> bool:
    r"""Return whether a response gives the right answer: as a number where that is one, else as a text.

    Numbers are compared as numbers and texts without the case of their letters. The whole answer is compared, and a
    response without an answer is wrong.

    >>> [gives_answer(text, "29") for text in ("The answer is $29.00.", "129", "-29", "2.9", "", "I do not know.")]
    [True, False, False, False, False, False]

    Symptom: a model that writes `$29.00`, bold text, or thoughts before its answer scores lower, or `29` counts
    in `129`.

    Before::

        def score(response, answer):
            return answer in response

    After::

        from pytest_evalcheck.fixes.tasks import gives_answer

        def score(response, answer):
            return gives_answer(response, answer)

    Costs: two regular expressions for each response.

    Limits: an answer that is a formula, a date, a program or a list needs a comparison of its own.

    Target: ec.task(inputs=es.documents(sums)) with marking(score)

    Shown by: EC704.
    """
    if _WHOLE_NUMBER.fullmatch(right.strip()) and any(letter.isdigit() for letter in right):
        return final_number(response) == Decimal(right.strip().replace(",", ""))
    return bool(right.strip()) and final_answer(response).casefold() == right.strip().rstrip(".").casefold()


def cut_at_stops(text: str, stops: Iterable[str]) -> str:
    """Return what stands before the first stop sequence of one request; the whole text where none is in it.

    >>> cut_at_stops("Paris END Question: END", ["Question:", " END"])
    'Paris'

    Symptom: a response is cut at the stop sequence of another request of its batch, or at a later one than the first.

    Before::

        def cut(requests, texts):
            return [text.split(requests[0].stops[0])[0] for text in texts]

    After::

        from pytest_evalcheck.fixes.tasks import cut_at_stops

        def cut(requests, texts):
            return [cut_at_stops(text, request.stops) for request, text in zip(requests, texts)]

    Costs: one search for each stop sequence.

    Target: ec.task(inputs=es.documents(sums)) with cutting(cut)

    Shown by: EC713.
    """
    found = [place for place in (text.find(stop) for stop in stops if stop) if place >= 0]
    return text[: min(found)] if found else text


def encode_pair(tokenizer: Any, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Return the token ids of a context and of its continuation, which together are those of the whole text.

    A token that holds letters of both belongs to the continuation, whose log-probability counts it. Special tokens are
    those that the tokenizer adds to the whole text.

    Args:
        tokenizer: a fast tokenizer of transformers, which knows the place of each token in the text.
        context: the text before.
        continuation: the text whose log-probability is asked for.

    Raises:
        ValueError: where the tokenizer does not know the places of its tokens.

    Symptom: the log-probability of a choice is that of tokens which the model never sees in this text.

    Before::

        def encode(tokenizer, context, continuation):
            return tokenizer.encode(context), tokenizer.encode(continuation, add_special_tokens=False)

    After::

        from pytest_evalcheck.fixes.tasks import encode_pair

        def encode(tokenizer, context, continuation):
            return encode_pair(tokenizer, context, continuation)

    Costs: nothing: one call of the tokenizer for two.

    Target: ec.task(inputs=es.documents(sums)) with encoding(encode)

    Shown by: EC714.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"{type(tokenizer).__name__} does not know the places of its tokens; expected a fast tokenizer"
        )
    whole = tokenizer(context + continuation, return_offsets_mapping=True)
    ids, ends = list(whole["input_ids"]), [end for _, end in whole["offset_mapping"]]
    first = next((place for place, end in enumerate(ends) if end > len(context)), len(ids))
    return ids[:first], ids[first:]


def shots_of(document: Document, pool: Sequence[Document], count: int, seed: int = 0) -> list[Document]:
    """Return ``count`` documents of a pool to be shown before this one, which is not among them.

    They depend on the document, the pool and the seed alone: not on its place, on a limit, on the batch or the rank.

    Raises:
        ValueError: where the pool has too few other documents.

    >>> pool = [{"question": text} for text in "abcd"]
    >>> shots_of(pool[0], pool, 2) == shots_of(dict(pool[0]), pool, 2), pool[0] in shots_of(pool[0], pool, 3)
    (True, False)

    Symptom: a score changes with the limit or the number of ranks, or a document is among its own examples.

    Before::

        import random

        def shots(document, pool):
            return random.sample(pool, 2)

    After::

        from pytest_evalcheck.fixes.tasks import shots_of

        def shots(document, pool):
            return shots_of(document, pool, 2)

    Costs: the pool is compared with each document.

    Target: ec.task(inputs=es.documents(sums)) with showing(shots)

    Shown by: EC709, EC710.
    """
    others = [each for each in pool if each != document]
    if count > len(others):
        raise ValueError(f"{count} shots from {len(others)} other documents")
    return Random(f"{seed} {json.dumps(_plain(document), sort_keys=True)}").sample(others, count)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else repr(value)


def _without_thoughts(response: str) -> str:
    return _THOUGHTS.sub("", response)

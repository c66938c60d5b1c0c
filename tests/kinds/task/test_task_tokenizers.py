"""Special tokens, templates, long prompts and continuations with tokenizers of several families."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.tasks_correct import CITIES

pytest.importorskip("tokenizers")
pytest.importorskip("transformers")
sys.path.insert(0, str(Path(__file__).parents[3] / "fixtures" / "targets"))

from _tokenizers import FAMILIES, tokenizer

Encode = Callable[[Any, ec.Request], tuple[list[int], list[int]]]
CODES = "EC706,EC707,EC711,EC714"
LENGTH = 300


def encoded(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    """The whole text, divided behind the last token that begins in the prompt."""
    plain = not request.messages
    text = request.prompt + (request.continuation or "")
    whole = tokens(text, add_special_tokens=plain, return_offsets_mapping=True)
    if len(whole.input_ids) > LENGTH:
        raise ValueError(f"{len(whole.input_ids)} tokens do not fit into {LENGTH}")
    own = sum(start < len(request.prompt) for start, _ in whole.offset_mapping)
    return whole.input_ids[:own], whole.input_ids[own:]


def pair_as_a_harness_encodes_it(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    """The ids of the whole behind as many as the prompt alone has (lm_eval 0.4.13, `TemplateLM._encode_pair`)."""
    prompt, plain = tokens(request.prompt, add_special_tokens=not request.messages).input_ids, not request.messages
    whole, _ = encoded(
        tokens, ec.Request(prompt=request.prompt + (request.continuation or ""), messages=request.messages)
    )
    return prompt, whole[len(prompt) :] if plain and request.continuation else []


def always_special(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    ids, continuation = encoded(tokens, request)
    return ([tokens.bos_token_id, *ids], continuation) if request.messages else (ids, continuation)


def never_special(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    ids, continuation = encoded(tokens, request)
    return [i for i in ids if i != tokens.bos_token_id], continuation


def apart(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    ids, _ = encoded(tokens, ec.Request(prompt=request.prompt, messages=request.messages))
    return ids, tokens(request.continuation or "").input_ids if request.continuation else []


def cut_in_silence(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    whole = tokens(request.prompt, add_special_tokens=not request.messages).input_ids
    return (whole[-LENGTH:], []) if len(whole) > LENGTH else encoded(tokens, request)


def cut_with_a_warning(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    found = cut_in_silence(tokens, request)
    if len(found[0]) == LENGTH:
        warnings.warn("the prompt was truncated", stacklevel=1)
    return found


def space_with_the_continuation(tokens: Any, request: ec.Request) -> tuple[list[int], list[int]]:
    """Spaces at the end of the prompt are counted with the continuation (lm_eval, `TemplateLM._encode_pair`)."""
    whole, _ = encoded(tokens, replace(request, prompt=request.prompt + (request.continuation or ""), continuation=""))
    own = len(encoded(tokens, replace(request, prompt=request.prompt.rstrip(), continuation=""))[0])
    return whole[:own], whole[own:]


def outcomes(
    family: str, encode: Encode, *, chat: bool, continued: bool = False, select: str = CODES
) -> dict[str, str]:
    """The outcome of each check by code, with the id of its failure."""
    tokens = tokenizer(family)

    def request(document: Any) -> list[ec.Request]:
        asked = f"Question: {document['question']}\nAnswer:"
        if not chat:
            return [ec.Request(prompt=asked, continuation=f" {document['answer']}")]
        messages = [{"role": "user", "content": asked}]
        text = tokens.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return [ec.Request(prompt=text, messages=messages, continuation=document["answer"] if continued else None)]

    def task() -> ec.Task:
        return ec.Task(
            documents=CITIES,
            requests=lambda documents: [request(document) for document in documents],
            tokenizer=tokens,
            encode=lambda request: encode(tokens, request),
        )

    cells = ec.run(ec.task()(task), "cpu", select=select, effort="quick").cells
    return {cell.code: cell.signature.split(": ")[1] if cell.failure else cell.outcome for cell in cells}


def families(*always: str) -> Any:
    """The named families in every run, and the others where slow tests run."""
    slow = [pytest.param(family, marks=pytest.mark.slow) for family in FAMILIES if family not in always]
    return pytest.mark.parametrize("family", [*always, *slow])


@families(*FAMILIES)
def test_a_text_that_is_encoded_as_a_whole_passes(family: str) -> None:
    found = outcomes(family, encoded, chat=False)
    assert found == {"EC706": "passed", "EC707": "not applicable", "EC711": "passed", "EC714": "passed"}


@families("bytes", "pieces_that_begin")
def test_a_chat_that_is_encoded_without_more_special_tokens_passes(family: str) -> None:
    found = outcomes(family, encoded, chat=True)
    assert found == {"EC706": "passed", "EC707": "passed", "EC711": "passed", "EC714": "not applicable"}


@families("bytes", "pieces_that_begin")
def test_a_space_at_the_end_of_a_chat_may_belong_to_the_continuation(family: str) -> None:
    found = outcomes(family, space_with_the_continuation, chat=True, continued=True, select="EC707")
    assert found == {"EC707": "passed"}


@families("bytes_that_begin")
def test_a_second_beginning_before_a_continuation_fails(family: str) -> None:
    assert outcomes(family, always_special, chat=True, continued=True, select="EC707") == {"EC707": "ids"}


@families("bytes_that_begin")
def test_a_second_beginning_fails(family: str) -> None:
    assert outcomes(family, always_special, chat=True, select="EC706,EC707") == {"EC706": "several", "EC707": "ids"}


@families("pieces_that_begin")
def test_a_missing_beginning_fails_where_the_tokenizer_adds_one(family: str) -> None:
    wanted = "missing" if family.endswith("begin") else "passed"
    assert outcomes(family, never_special, chat=False, select="EC706") == {"EC706": wanted}


@families("bytes_after_a_space", "pieces_that_begin")
def test_parts_that_are_encoded_apart_fail(family: str) -> None:
    found = outcomes(family, apart, chat=False, select="EC706,EC714")
    assert found["EC714"] in ("own-cut", "another-cut")
    assert found["EC706"] == ("in-continuation" if family.endswith("begin") else "passed")


@families("bytes")
def test_a_word_that_is_divided_gets_other_ids_where_those_of_the_prompt_are_counted(family: str) -> None:
    assert outcomes(family, pair_as_a_harness_encodes_it, chat=False, select="EC714") == {"EC714": "another-cut"}


@families("bytes", "pieces")
def test_a_cut_in_silence_fails_and_one_with_a_warning_passes(family: str) -> None:
    assert outcomes(family, cut_in_silence, chat=False, select="EC711") == {"EC711": "silent"}
    assert outcomes(family, cut_with_a_warning, chat=False, select="EC711") == {"EC711": "passed"}

"""Greedy tokens, the end of rows, and programs of cache operations that are executed and replayed."""

from __future__ import annotations

from typing import Any

import torch
from decoder_subjects import ROWS, RecordingDecoder, under_test
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import VOCAB, Generating, Growing, Recurrent
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.checks_cache import counting_tokens_read, execute, replay_on_new_cache
from pytest_evalcheck.kinds.decoder.checks_rows import without_last_stop
from pytest_evalcheck.kinds.decoder.record import truncate_at_stop


def test_greedy_tokens_need_one_forward_where_they_are_correct() -> None:
    made = RecordingDecoder()
    decoder = under_test(made.record())
    found = decoder.greedy(ROWS, [[], []])
    made.inputs.clear()
    assert under_test(made.record()).greedy(ROWS, found) == found
    assert len(made.inputs) == len(ROWS)


def test_greedy_tokens_are_right_after_a_wrong_one() -> None:
    right = under_test().greedy(ROWS[:1], [[]])[0]
    wrong = [right[0], (right[1] + 1) % VOCAB, right[2]]
    assert under_test().greedy(ROWS[:1], [wrong]) == [right]
    assert under_test().greedy(ROWS[:1], [right[:2]]) == [right[:2]]
    assert under_test().greedy(ROWS[:1], Raised(ValueError(), "generate")) == [right]
    assert under_test().greedy(ROWS, [right]) is None
    assert under_test().greedy(ROWS, None) is None


def test_either_of_two_tokens_that_are_as_likely_is_greedy() -> None:
    def even(ids: Tensor, *_: Any) -> Tensor:
        return torch.eye(5)[torch.full_like(ids, 2)] + torch.eye(5)[torch.full_like(ids, 4)]

    record = ec.Decoder(None, make_cache=lambda rows: object(), generate=lambda *_: [], full=even)
    assert under_test(record).greedy([[1]], [[4, 2, 4]]) == [[4, 2, 4]]
    assert under_test(record).greedy([[1]], [[1, 2, 4]]) == [[2, 2, 4]]
    without = ec.Decoder(None, make_cache=lambda rows: object(), generate=lambda *_: [], full=even, suppressed=(2,))
    assert under_test(without).greedy([[1]], [[2, 2, 2]]) == [[4, 4, 4]]


def test_a_generation_with_a_cache_reads_each_token_once() -> None:
    made = Generating()
    with counting_tokens_read(made.model) as read:
        made.generate([[1, 2, 3]], made.make_cache(1), 3, ())
    assert read == [3, 1, 1]
    with counting_tokens_read(object()) as nothing:
        pass
    assert nothing == []


def test_rows_end_before_their_stop_token() -> None:
    assert truncate_at_stop([4, 5, 6], {5}) == [4]
    assert truncate_at_stop([4, 5, 6], {5}, keep_stop=True) == [4, 5]
    assert truncate_at_stop([4], ()) == truncate_at_stop([4], (), keep_stop=True) == [4]
    assert without_last_stop([4, 5], {5}) == [4]
    assert without_last_stop([4, 5, 6], {5}) == [4, 5, 6]
    assert without_last_stop([5, 5], {5}) == [5, 5]
    assert without_last_stop([4], ()) == [4]


def test_a_program_is_executed_and_replayed() -> None:
    program = [("feed", 4), ("reorder", [1, 0]), ("feed", 1), ("crop", 2), ("select", [1]), ("repeat", 2), ("feed", 1)]
    decoder = under_test()
    execution = execute(decoder, ROWS, program)
    assert execution.done == ["reorder([1, 0])", "crop(3)", "select([1])", "repeat(2)"]
    assert execution.sizes == [3, 1]
    assert [row[:3] for row in execution.rows] == [[3, 1, 4], [3, 1, 4]]
    assert execution.rows[0] != execution.rows[1]
    assert decoder.agrees(execution.last, replay_on_new_cache(decoder, execution))


def test_what_a_cache_does_not_offer_is_left_out_of_a_program() -> None:
    decoder = under_test(Recurrent().record())
    execution = execute(decoder, ROWS, [("feed", 4), ("crop", 1), ("select", [0]), ("reorder", [1, 1]), ("feed", 1)])
    assert execution.done == ["reorder([1, 1])"]
    assert [row[:4] for row in execution.rows] == [ROWS[1], ROWS[1]]
    few = execute(
        under_test(ec.Decoder(None, make_cache=Growing().make_cache, step=Growing().step)), ROWS, [("feed", 4)]
    )
    assert few.done == []


def test_rows_that_a_cache_cannot_hold_are_not_repeated() -> None:
    made = Growing()
    record = ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, operations=made.operations, max_rows=3)
    assert execute(under_test(record), ROWS, [("feed", 4), ("repeat", 2), ("feed", 1)]).done == []


def test_rows_that_a_cache_holds_are_repeated() -> None:
    made = Growing()
    record = ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, operations=made.operations, max_rows=9)
    assert execute(under_test(record), ROWS, [("feed", 4), ("repeat", 2), ("feed", 1)]).done == ["repeat(2)"]


def test_an_operation_that_refuses_ends_the_program() -> None:
    made = Growing()
    record = ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, operations={"crop": lambda *_: [][0]})
    execution = execute(under_test(record), ROWS, [("feed", 4), ("crop", 1), ("feed", 1)])
    assert isinstance(execution.refused, Raised)

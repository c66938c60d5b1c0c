"""What generations must give, and programs that are done to a cache and replayed with a new one."""

from __future__ import annotations

from typing import Any

import torch
from decoder_subjects import ROWS, Remembers, live
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import VOCAB, Generating, Growing, Recurrent
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.cache_operations import performed, replayed
from pytest_evalcheck.kinds.decoder.generation import ended, reading


def test_greedy_tokens_need_one_forward_where_they_were_found() -> None:
    made = Remembers()
    using = live(made.record())
    found = using.greedy(ROWS, [[], []])
    made.given.clear()
    assert live(made.record()).greedy(ROWS, found) == found
    assert len(made.given) == len(ROWS)


def test_greedy_tokens_are_right_after_a_wrong_one() -> None:
    right = live().greedy(ROWS[:1], [[]])[0]
    wrong = [right[0], (right[1] + 1) % VOCAB, right[2]]
    assert live().greedy(ROWS[:1], [wrong]) == [right]
    assert live().greedy(ROWS[:1], [right[:2]]) == [right[:2]]
    assert live().greedy(ROWS[:1], Raised(ValueError(), "generate")) == [right]
    assert live().greedy(ROWS, [right]) is None
    assert live().greedy(ROWS, None) is None


def test_either_of_two_tokens_that_are_as_likely_is_greedy() -> None:
    def even(ids: Tensor, *_: Any) -> Tensor:
        return torch.eye(5)[torch.full_like(ids, 2)] + torch.eye(5)[torch.full_like(ids, 4)]

    record = ec.Decoder(None, make_cache=lambda rows: object(), generate=lambda *_: [], full=even)
    assert live(record).greedy([[1]], [[4, 2, 4]]) == [[4, 2, 4]]
    assert live(record).greedy([[1]], [[1, 2, 4]]) == [[2, 2, 4]]
    without = ec.Decoder(None, make_cache=lambda rows: object(), generate=lambda *_: [], full=even, suppressed=(2,))
    assert live(without).greedy([[1]], [[2, 2, 2]]) == [[4, 4, 4]]


def test_a_generation_without_a_cache_is_told_from_one_with() -> None:
    made = Generating()
    with reading(made.model) as read:
        made.generate([[1, 2, 3]], made.make_cache(1), 3, ())
    assert read == [3, 1, 1]
    with reading(object()) as nothing:
        pass
    assert nothing == []


def test_rows_end_before_their_stop_token() -> None:
    assert ended([4, 5, 6], {5}) == [4]
    assert ended([4, 5], {5}, only_last=True) == [4]
    assert ended([4, 5, 6], {5}, only_last=True) == [4, 5, 6]
    assert ended([5, 5], {5}, only_last=True) == [5, 5]
    assert ended([4], ()) == [4]


def test_a_program_is_done_and_replayed() -> None:
    program = [("feed", 4), ("reorder", [1, 0]), ("feed", 1), ("crop", 2), ("select", [1]), ("repeat", 2), ("feed", 1)]
    using = live()
    seen = performed(using, ROWS, program)
    assert seen.done == ["reorder([1, 0])", "crop(3)", "select([1])", "repeat(2)"]
    assert seen.sizes == [3, 1]
    assert [row[:3] for row in seen.rows] == [[3, 1, 4], [3, 1, 4]]
    assert seen.rows[0] != seen.rows[1]
    assert using.agree(seen.last, replayed(using, seen))


def test_what_a_cache_does_not_offer_is_left_out_of_a_program() -> None:
    using = live(Recurrent().record())
    seen = performed(using, ROWS, [("feed", 4), ("crop", 1), ("select", [0]), ("reorder", [1, 1]), ("feed", 1)])
    assert seen.done == ["reorder([1, 1])"]
    assert [row[:4] for row in seen.rows] == [ROWS[1], ROWS[1]]
    few = performed(live(ec.Decoder(None, make_cache=Growing().make_cache, step=Growing().step)), ROWS, [("feed", 4)])
    assert few.done == []


def test_rows_that_a_cache_cannot_hold_are_not_repeated() -> None:
    made = Growing()
    record = ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, operations=made.operations, max_rows=3)
    assert performed(live(record), ROWS, [("feed", 4), ("repeat", 2), ("feed", 1)]).done == []


def test_an_operation_that_refuses_ends_the_program() -> None:
    made = Growing()
    record = ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, operations={"crop": lambda *_: [][0]})
    seen = performed(live(record), ROWS, [("feed", 4), ("crop", 1), ("feed", 1)])
    assert isinstance(seen.refused, Raised)

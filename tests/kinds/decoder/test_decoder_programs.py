"""Greedy tokens, the end of rows, and programs of cache operations that are executed and replayed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from decoder_subjects import ROWS, RecordingDecoder, under_test
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import VOCAB, WIDTH, Generating, Growing, Recurrent
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.kinds.decoder.checks_cache import execute, replay_on_new_cache
from pytest_evalcheck.kinds.decoder.checks_rows import without_last_stop
from pytest_evalcheck.kinds.decoder.nan_reads import Forward, reads_the_prompt_again, watching_forwards
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
    with watching_forwards(made.model) as forwards:
        made.generate([[1, 2, 3]], made.make_cache(1), 3, ())
    # Two layers and a head.
    assert forwards == [Forward(3, 3 * 3 * WIDTH), Forward(1, 3 * WIDTH), Forward(1, 3 * WIDTH)]
    assert reads_the_prompt_again(forwards, 3) is False
    with watching_forwards(object()) as nothing:
        pass
    assert nothing == []


@pytest.mark.parametrize(
    ("forwards", "again"),
    [
        ([Forward(4, 40)], False),
        ([Forward(4, 40), Forward(1, 10)], False),
        ([Forward(4, 40), Forward(1, 0)], False),
        ([Forward(4, 40), Forward(5, 10), Forward(6, 10)], False),
        ([Forward(4, 40), Forward(5, 50), Forward(6, 60)], True),
        ([Forward(4, 40), Forward(4, 40)], True),
        ([Forward(4, 0), Forward(5, 0)], None),
        ([Forward(4, 40), Forward(5, 0)], None),
    ],
)
def test_ids_that_are_embedded_again_are_looked_for_below(forwards: list[Forward], again: bool | None) -> None:
    assert reads_the_prompt_again(forwards, 4) is again


def test_where_no_layer_can_be_watched_a_generation_is_not_judged() -> None:
    class Bare(torch.nn.Module):
        """Its weights belong to no module that is called below the embedding."""

        def __init__(self) -> None:
            super().__init__()
            self.tokens = torch.nn.Embedding(VOCAB, VOCAB)
            self.weight = torch.nn.Parameter(torch.eye(VOCAB))

        def forward(self, ids: Tensor) -> Tensor:
            return self.tokens(ids) @ self.weight

    def generate(prompts: list[list[int]], cache: Any, count: int, stop: tuple[int, ...]) -> list[list[int]]:
        texts = [list(prompt) for prompt in prompts]
        for text in texts:
            for _ in range(count):
                text.append(int(model(torch.tensor(text))[-1].argmax()))
        return [text[-count:] for text in texts]

    model = Bare()
    record = ec.Decoder(model, make_cache=lambda rows: rows, full=lambda ids, *_: model(ids), generate=generate)

    @ec.decoder(inputs=Growing.inputs)
    def made() -> Any:
        return record

    (cell,) = ec.run(made, select="EC311", effort="quick").cells
    assert (cell.outcome, cell.reason[:27]) == ("not applicable", "all ids are embedded again,"), cell


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

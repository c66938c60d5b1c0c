"""A decoder under test: calls with new tensors, cached sequences, comparisons, memory that is watched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from decoder_subjects import ROWS, TOLERANCE, RecordingDecoder, under_test
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import (
    CAPACITY,
    WIDTH,
    Attention,
    Growing,
    Grown,
    NestedInTheModel,
    Recurrent,
)
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure, ComparisonStats, TargetError, counting
from pytest_evalcheck.kinds.decoder.cache_memory import CacheMemory, StorageWatch
from pytest_evalcheck.kinds.decoder.checks_cache import decode_last_token
from pytest_evalcheck.kinds.decoder.checks_state import ModelEnvironment
from pytest_evalcheck.kinds.decoder.subject import DecoderSubject, DecoderUnderTest, all_rows_or_none


def test_padding_on_the_left_moves_no_position() -> None:
    made = RecordingDecoder()
    sequence = under_test(made.record()).start(2)
    prompt = sequence.decode_padded([[3, 1, 4], [5]], "left")
    sequence.decode_step([[7], [8]])
    assert [len(row) for row in prompt] == [3, 1]
    assert made.inputs == [
        ([[3, 1, 4], [0, 0, 5]], [[1, 1, 1], [0, 0, 1]], [[0, 1, 2], [0, 0, 0]]),
        ([[7], [8]], [[1, 1, 1, 1], [0, 0, 1, 1]], [[3], [1]]),
    ]


def test_padding_on_the_right_is_skipped_by_the_positions_after_it() -> None:
    made = RecordingDecoder()
    sequence = under_test(made.record()).start(2)
    prompt = sequence.decode_padded([[3, 1, 4], [5]], "right")
    sequence.decode_step([[7], [8]])
    assert [len(row) for row in prompt] == [3, 1]
    assert made.inputs[0] == ([[3, 1, 4], [5, 0, 0]], [[1, 1, 1], [1, 0, 0]], [[0, 1, 2], [0, 0, 0]])
    assert made.inputs[1] == ([[7], [8]], [[1, 1, 1, 1], [1, 0, 0, 1]], [[3], [1]])


def test_operations_do_to_masks_what_they_do_to_rows() -> None:
    made = RecordingDecoder()
    sequence = under_test(made.record()).start(2)
    sequence.decode_padded([[3, 1, 4], [5]], "left")
    sequence.apply("reorder", [1, 0])
    sequence.apply("repeat", 2)
    sequence.apply("select", [0, 2])
    sequence.apply("crop", 2)
    sequence.decode_step([[7], [8]])
    assert made.inputs[-1] == ([[7], [8]], [[0, 0, 1], [1, 1, 1]], [[0], [2]])


def test_chunks_give_what_the_whole_row_gives() -> None:
    one, many = under_test().start(2), under_test().start(2)
    assert under_test().agrees(one.decode_chunks(ROWS, [4]), many.decode_chunks(ROWS, [1, 2, 1]))


def test_a_cache_that_step_returns_replaces_the_earlier_one() -> None:
    sequence = under_test(Recurrent().record()).start(2)
    before = sequence.cache
    sequence.decode_step(ROWS)
    assert "total" not in before
    assert "total" in sequence.cache


def test_an_error_stays_until_the_cache_is_reset() -> None:
    def step(ids: Tensor, *_: Any) -> Any:
        raise ValueError("too long") if ids.shape[1] > 2 else KeyError("other")

    decoder = under_test(ec.Decoder(Attention(), make_cache=lambda rows: Grown(), step=step))
    sequence = decoder.start(1)
    first = sequence.decode_step([[1, 2, 3]])
    assert isinstance(first, Raised)
    assert sequence.decode_step([[1]]) is first
    sequence.apply("crop", 1)
    assert sequence.error is first
    assert isinstance(decoder.decode_uncached([[1]]), Raised)


def test_batches_in_turn_are_reset_between() -> None:
    decoder = under_test()
    found = decoder.decode_in_turn("step", 2, [ROWS, ROWS[:1], ROWS])
    assert decoder.agrees(found[0], found[2])
    assert decoder.agrees(found[1], decoder.decode_with_new_cache("step", ROWS[:1]))


def test_logits_are_asked_for_once() -> None:
    made = RecordingDecoder()
    decoder = under_test(made.record())
    assert decoder.full(ROWS) is decoder.full([list(row) for row in ROWS])
    assert len(made.inputs) == 1


@pytest.mark.parametrize("made", [None, "good", torch.zeros(2, 4), torch.zeros(1, 4, 9), torch.zeros(2, 4, 9).long()])
def test_what_is_not_logits_is_reported(made: Any) -> None:
    decoder = under_test(ec.Decoder(Attention(), make_cache=lambda rows: Grown(), step=lambda *_: made))
    with pytest.raises(TargetError, match="gave no logits"):
        decoder.start(2).decode_step(ROWS)


def stats_of(actual: Any, expected: Any, *, last_precision: bool = True) -> tuple[ComparisonStats, DecoderUnderTest]:
    decoder, stats = under_test(last_precision=last_precision), ComparisonStats(TOLERANCE)
    with counting(stats):
        decoder.assert_same(actual, expected, about="these", id="these")
    return stats, decoder


def test_rows_are_compared() -> None:
    one, other = torch.tensor([[1.0]]), torch.tensor([[1.0005]], dtype=torch.float64)
    assert stats_of([one], [other])[0].compared == 1
    for actual, expected in (([one], [one + 1]), ([one], [one, one]), ([one], [one[0]]), ([[1]], [[2]])):
        with pytest.raises(CheckFailure, match="these"):
            stats_of(actual, expected)
    with pytest.raises(CheckFailure):
        stats_of(Raised(ValueError(), "step"), [one])


def test_without_an_expected_value_a_case_is_inconclusive() -> None:
    assert stats_of([torch.ones(1, 1)], None)[0].inconclusive
    assert stats_of([torch.ones(1, 1)], Raised(ValueError("no"), "full"))[0].refused == 1
    assert all_rows_or_none([1], [1, 2]) is None
    assert all_rows_or_none([1, 2], [1, 2]) == [1, 2]


def test_nan_asks_for_another_precision_where_there_is_one() -> None:
    nan = [torch.tensor([[float("nan")]])]
    stats, decoder = stats_of(nan, nan, last_precision=False)
    assert (stats.compared, decoder.retry_in_float32) == (0, True)
    with pytest.raises(TargetError, match="logits are NaN"):
        stats_of(nan, nan)


def test_the_memory_of_a_cache_is_no_weight_and_no_table_of_the_model() -> None:
    made = NestedInTheModel()
    decoder = under_test(made.record())
    decoder.decode_with_new_cache("step", ROWS)  # which makes a table
    memory, sequence = CacheMemory(decoder.record), decoder.start(2)
    assert [list(tensor.shape) for tensor in memory.tensors_of(made.model)] == [[2, 2, CAPACITY, WIDTH]] * 2
    decoder.decode("step", sequence, ROWS)
    slots = made.holder.slots
    for handle in (made.model, object(), 2):  # the cache itself, or a handle to it
        found = memory.tensors_of(handle)
        assert {tensor.data_ptr() for tensor in found} == {slots.keys.data_ptr(), slots.values.data_ptr()}
        assert memory.is_in_the_model(handle)
    assert not memory.is_in_the_model(slots)
    assert memory.tensors_of(slots.keys) == [slots.keys]
    made.tear_down(None)
    assert memory.tensors_of(made.model) == []
    table = made.holder.table
    table[3] = float("nan")
    assert memory.tensors_of(made.model) == [table]
    assert CacheMemory(decoder.record).tensors_of(made.model) == []


def test_a_tensor_that_wraps_others_counts_as_these() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    both = torch.rand(2, 3), torch.rand(2, 3)
    made = Growing()
    pair = {"tensors": lambda cache: [TwoTensor(*both)]}
    found = CacheMemory(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, **pair)).tensors_of(None)
    assert [tensor.data_ptr() for tensor in found] == [tensor.data_ptr() for tensor in both]


def test_overwritten_memory_changes_the_logits() -> None:
    decoder = under_test()
    assert not decoder.agrees(decode_last_token(decoder, ROWS), decode_last_token(decoder, ROWS, corrupted=True))
    made = Growing()
    empty = under_test(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, tensors=lambda cache: []))
    with pytest.raises(CheckFailure, match="holds no numbers"):
        decode_last_token(empty, ROWS, corrupted=True)
    odd = under_test(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, tensors=lambda cache: 1 / 0))  # type: ignore[arg-type, return-value]
    with pytest.raises(TargetError, match="tensors"):
        decode_last_token(odd, ROWS, corrupted=True)


def test_memory_is_alive_while_it_is_referenced() -> None:
    tensors = [torch.zeros(8, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)]
    watched, view = StorageWatch(tensors), tensors[0][:1]
    assert (watched.size, watched.alive()) == (80, 80)
    tensors.clear()
    assert watched.alive() == 64
    del view
    assert watched.alive() == 0


def test_a_reference_cycle_is_collected_first() -> None:
    circle: list[Any] = [torch.zeros(4, dtype=torch.float64)]
    circle.append(circle)
    watched = StorageWatch(circle[:1])
    del circle
    assert watched.alive() == 0


def test_changes_of_the_model_are_reported() -> None:
    record = Growing().record()
    record.model.eval()
    environment = ModelEnvironment(record)
    assert environment.changes() == []
    record.model.config["use_cache"] = True
    record.model.layers[1].train()
    with torch.no_grad():
        record.model.head.bias.add_(1)
    config, weights, mode = environment.changes()
    assert "use_cache" in config
    assert "head.bias" in weights
    assert mode == "layers.1.training became True"


def test_a_configuration_may_be_anything() -> None:
    settings = {"temperature": 0}
    made = Growing()
    environment = ModelEnvironment(
        ec.Decoder(None, make_cache=made.make_cache, step=made.step, configuration=lambda: settings)
    )
    settings["temperature"] = 1
    assert len(environment.changes()) == 1


@pytest.mark.parametrize("made", [None, [], [[1]], [[1], []], [[1], "a"], [[1], [0.5]], [[1], [True]]])
def test_prompts_are_lists_of_ids(made: Any) -> None:
    subject = DecoderSubject(
        build=Growing().record, inputs=es.prompts(vocab=9).replace(collate=lambda rows: made), tolerance=TOLERANCE
    )
    with pytest.raises(TargetError, match="did not give prompts"):
        subject.prompts(ROWS)


def test_prompts_are_new_every_time() -> None:
    subject = DecoderSubject(build=Growing().record, inputs=es.prompts(vocab=9))
    first, second = subject.prompts(ROWS), subject.prompts(ROWS)
    assert first == second == ROWS
    assert first[0] is not second[0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"step": "step"},
        {"make_cache": None},
        {"operations": {"rewind": len}},
        {"refuses": ("chunk",)},
        {"sides": "left"},
        {"sides": ("top",)},
        {"capacity": 0},
        {"max_rows": True},
        {"prefill": 0},
        {"max_stops": 1.5},
        {"in_float32": 3},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_record_with_an_invalid_field_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        ec.Decoder(None, **{"make_cache": len, "step": len, **wrong})


def test_a_record_is_complete_with_something_to_compare() -> None:
    assert ec.Decoder(None, make_cache=len, step=len).complete
    assert ec.Decoder(None, make_cache=len, generate=len, full=len).complete  # type: ignore[arg-type]
    assert not ec.Decoder(None, make_cache=len, generate=len).complete  # type: ignore[arg-type]
    assert not ec.Decoder(None, make_cache=len).complete
    assert not ec.Decoder(None, make_cache=None, generate=len, full=len).has_cache  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"no cache; expected generate=\.\.\., and full="):
        ec.Decoder(None, make_cache=None, generate=len)  # type: ignore[arg-type]
    assert set(ec.Decoder(Attention(), make_cache=len).contents()) == set(Attention().state_dict())

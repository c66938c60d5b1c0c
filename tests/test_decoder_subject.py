"""What checks of decoders are given: calls with new tensors, conversations, greedy tokens, memory that is watched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from decoder_subjects import ROWS, TOLERANCE, Remembers, live
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import Attention, Growing, Grown, InTheModel, Recurrent
from pytest_evalcheck import strategies as es
from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import CheckFailure, ComparisonStats, collecting
from pytest_evalcheck.kinds.common.calling import TargetError
from pytest_evalcheck.kinds.decoder.cache_inspection import Watched, continued
from pytest_evalcheck.kinds.decoder.environment import Surroundings
from pytest_evalcheck.kinds.decoder.subject import DecoderSubject, Live, whole


def test_padding_on_the_left_moves_no_position() -> None:
    made = Remembers()
    talk = live(made.record()).start(2)
    prompt = talk.feed_padded([[3, 1, 4], [5]], "left")
    talk.feed([[7], [8]])
    assert [len(row) for row in prompt] == [3, 1]
    assert made.given == [
        ([[3, 1, 4], [0, 0, 5]], [[1, 1, 1], [0, 0, 1]], [[0, 1, 2], [0, 0, 0]]),
        ([[7], [8]], [[1, 1, 1, 1], [0, 0, 1, 1]], [[3], [1]]),
    ]


def test_padding_on_the_right_is_skipped_by_the_positions_after_it() -> None:
    made = Remembers()
    talk = live(made.record()).start(2)
    prompt = talk.feed_padded([[3, 1, 4], [5]], "right")
    talk.feed([[7], [8]])
    assert [len(row) for row in prompt] == [3, 1]
    assert made.given[0] == ([[3, 1, 4], [5, 0, 0]], [[1, 1, 1], [1, 0, 0]], [[0, 1, 2], [0, 0, 0]])
    assert made.given[1] == ([[7], [8]], [[1, 1, 1, 1], [1, 0, 0, 1]], [[3], [1]])


def test_operations_do_to_masks_what_they_do_to_rows() -> None:
    made = Remembers()
    talk = live(made.record()).start(2)
    talk.feed_padded([[3, 1, 4], [5]], "left")
    talk.operate("reorder", [1, 0])
    talk.operate("repeat", 2)
    talk.operate("select", [0, 2])
    talk.operate("crop", 2)
    talk.feed([[7], [8]])
    assert made.given[-1] == ([[7], [8]], [[0, 0, 1], [1, 1, 1]], [[0], [2]])


def test_pieces_give_what_the_whole_gives() -> None:
    one, many = live().start(2), live().start(2)
    assert live().agree(one.feed_pieces(ROWS, [4]), many.feed_pieces(ROWS, [1, 2, 1]))


def test_a_cache_that_is_made_anew_is_the_one_to_go_on_with() -> None:
    talk = live(Recurrent().record()).start(2)
    before = talk.cache
    talk.feed(ROWS)
    assert "total" not in before
    assert "total" in talk.cache


def test_an_error_stays_until_the_cache_is_reset() -> None:
    def step(ids: Tensor, *_: Any) -> Any:
        raise ValueError("too long") if ids.shape[1] > 2 else KeyError("other")

    using = live(ec.Decoder(Attention(), make_cache=lambda rows: Grown(), step=step))
    talk = using.start(1)
    first = talk.feed([[1, 2, 3]])
    assert isinstance(first, Raised)
    assert talk.feed([[1]]) is first
    talk.operate("crop", 1)
    assert talk.error is first
    assert isinstance(using.uncached([[1]]), Raised)


def test_batches_in_turn_are_reset_between() -> None:
    using = live()
    found = using.in_turn("step", 2, [ROWS, ROWS[:1], ROWS])
    assert using.agree(found[0], found[2])
    assert using.agree(found[1], using.fresh("step", ROWS[:1]))


def test_logits_are_asked_for_once() -> None:
    made = Remembers()
    using = live(made.record())
    assert using.full(ROWS) is using.full([list(row) for row in ROWS])
    assert len(made.given) == 1


@pytest.mark.parametrize("made", [None, "good", torch.zeros(2, 4), torch.zeros(1, 4, 9), torch.zeros(2, 4, 9).long()])
def test_what_is_no_logits_is_told(made: Any) -> None:
    using = live(ec.Decoder(Attention(), make_cache=lambda rows: Grown(), step=lambda *_: made))
    with pytest.raises(TargetError, match="gave no logits"):
        using.start(2).feed(ROWS)


def evidence_of(actual: Any, expected: Any, *, last: bool = True) -> tuple[ComparisonStats, Live]:
    using, evidence = live(last=last), ComparisonStats(TOLERANCE)
    with collecting(evidence):
        using.same(actual, expected, about="these")
    return evidence, using


def test_rows_are_held_against_each_other() -> None:
    one, other = torch.tensor([[1.0]]), torch.tensor([[1.0005]], dtype=torch.float64)
    assert evidence_of([one], [other])[0].compared == 1
    for actual, expected in (([one], [one + 1]), ([one], [one, one]), ([one], [one[0]]), ([[1]], [[2]])):
        with pytest.raises(CheckFailure, match="these"):
            evidence_of(actual, expected)
    with pytest.raises(CheckFailure):
        evidence_of(Raised(ValueError(), "step"), [one])


def test_without_anything_to_hold_against_a_case_says_nothing() -> None:
    assert evidence_of([torch.ones(1, 1)], None)[0].inconclusive
    assert evidence_of([torch.ones(1, 1)], Raised(ValueError("no"), "full"))[0].refused == 1
    assert whole([1], [1, 2]) is None
    assert whole([1, 2], [1, 2]) == [1, 2]


def test_nan_asks_for_another_precision_where_there_is_one() -> None:
    nan = [torch.tensor([[float("nan")]])]
    evidence, using = evidence_of(nan, nan, last=False)
    assert (evidence.compared, using.again) == (0, True)
    with pytest.raises(TargetError, match="logits are NaN"):
        evidence_of(nan, nan)


def test_memory_is_what_is_not_the_model() -> None:
    made = InTheModel()
    using = live(made.record())
    cache = using.start(2).cache
    assert [list(tensor.shape) for tensor in using.memory(cache)] == [[2, 2, 16, 12]] * 2
    plain = live(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step))
    weights = {weight.data_ptr() for weight in made.model.parameters()}
    assert not weights & {tensor.data_ptr() for tensor in plain.memory(made.model)}


def test_memory_of_a_tensor_that_wraps_others_is_theirs() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    both = torch.rand(2, 3), torch.rand(2, 3)
    made = Growing()
    pair = {"tensors": lambda cache: [TwoTensor(*both)]}
    found = live(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, **pair)).memory(None)
    assert [tensor.data_ptr() for tensor in found] == [tensor.data_ptr() for tensor in both]


def test_memory_that_is_overwritten_shows() -> None:
    using = live()
    assert not using.agree(continued(using, ROWS), continued(using, ROWS, spoilt=True))
    made = Growing()
    empty = live(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, tensors=lambda cache: []))
    with pytest.raises(CheckFailure, match="holds no numbers"):
        continued(empty, ROWS, spoilt=True)
    odd = live(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, tensors=lambda cache: 1 / 0))  # type: ignore[arg-type, return-value]
    with pytest.raises(TargetError, match="tensors"):
        continued(odd, ROWS, spoilt=True)


def test_memory_is_alive_until_nobody_holds_it() -> None:
    tensors = [torch.zeros(8, dtype=torch.float64), torch.zeros(2, dtype=torch.float64)]
    watched, view = Watched(tensors), tensors[0][:1]
    assert (watched.size, watched.alive()) == (80, 80)
    tensors.clear()
    assert watched.alive() == 64
    del view
    assert watched.alive() == 0


def test_a_circle_of_references_is_not_held() -> None:
    circle: list[Any] = [torch.zeros(4, dtype=torch.float64)]
    circle.append(circle)
    watched = Watched(circle[:1])
    del circle
    assert watched.alive() == 0


def test_what_is_around_a_cache_is_watched() -> None:
    record = Growing().record()
    record.model.eval()
    around = Surroundings(record)
    assert around.changes() == []
    record.model.config["use_cache"] = True
    record.model.layers[1].train()
    with torch.no_grad():
        record.model.head.bias.add_(1)
    config, weights, mode = around.changes()
    assert "use_cache" in config
    assert "head.bias" in weights
    assert mode == "layers.1.training became True"


def test_a_configuration_may_be_anything() -> None:
    settings = {"temperature": 0}
    made = Growing()
    around = Surroundings(ec.Decoder(None, make_cache=made.make_cache, step=made.step, configuration=lambda: settings))
    settings["temperature"] = 1
    assert len(around.changes()) == 1


@pytest.mark.parametrize("made", [None, [], [[1]], [[1], []], [[1], "a"], [[1], [0.5]], [[1], [True]]])
def test_prompts_are_lists_of_ids(made: Any) -> None:
    subject = DecoderSubject(
        build=Growing().record, inputs=es.prompts(vocab=9).but(collate=lambda rows: made), tolerance=TOLERANCE
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
        {"in_float32": 3},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_record_that_says_something_odd_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=next(iter(wrong))):
        ec.Decoder(None, **{"make_cache": len, "step": len, **wrong})


def test_a_record_is_complete_with_something_to_compare() -> None:
    assert ec.Decoder(None, make_cache=len, step=len).complete
    assert ec.Decoder(None, make_cache=len, generate=len, full=len).complete  # type: ignore[arg-type]
    assert not ec.Decoder(None, make_cache=len, generate=len).complete  # type: ignore[arg-type]
    assert not ec.Decoder(None, make_cache=len).complete
    assert set(ec.Decoder(Attention(), make_cache=len).contents()) == set(Attention().state_dict())

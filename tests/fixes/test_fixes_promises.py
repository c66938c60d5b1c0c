"""Properties of every accumulator of `fixes`, on streams of any cut; codes are those of the checks."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from accumulator_kinds import KINDS, Kind, Sample, fed, is_same, joined, value
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_evalcheck.fixes import SampleStream

each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
streams = st.lists(st.lists(st.tuples(st.floats(-1000, 1000, width=16), st.integers(0, 3)), max_size=4), max_size=5)
relaxed = settings(deadline=None, max_examples=30)


@each_kind
@given(batches=streams)
@relaxed
def test_the_cut_into_batches_and_empty_batches_do_not_show_bit_by_bit(kind: Kind, batches: list[list[Sample]]):
    whole = value(fed(kind, [joined(batches)]))
    assert is_same(value(fed(kind, batches)), whole)  # EC201, EC202
    assert is_same(value(fed(kind, [[sample] for sample in joined(batches)])), whole)
    assert is_same(value(fed(kind, [[], *batches, []])), whole)


@each_kind
@given(shards=streams)
@relaxed
def test_merged_shards_give_the_value_of_the_whole_and_stay_as_they_are(kind: Kind, shards: list[list[Sample]]):
    ranks = [fed(kind, [shard]) for shard in shards]
    before = [value(rank) for rank in ranks]
    merged = kind.make()
    merged.merge(*ranks)
    assert is_same(value(merged), value(fed(kind, [joined(shards)])))  # EC203
    merged.update(*kind.collate([(1.0, 1)]))
    assert all(is_same(value(rank), was) for rank, was in zip(ranks, before, strict=True))


@each_kind
def test_merging_an_accumulator_with_itself_counts_its_samples_twice(kind: Kind):
    samples = [(1.0, 1), (3.5, 2)]
    twice = fed(kind, [samples])
    twice.merge(twice)
    assert is_same(value(twice), value(fed(kind, [samples, samples])))


@each_kind
@given(batches=streams, data=st.data())
@relaxed
def test_the_order_of_samples_does_not_show(kind: Kind, batches: list[list[Sample]], data: st.DataObject):
    samples = joined(batches)
    shuffled = data.draw(st.permutations(samples))
    if kind.ordered:
        expected = [score for score, _ in shuffled]
        got = value(fed(kind, [shuffled]))
        assert isinstance(got, str) or got["score"].tolist() == expected  # kept, in rank order
    else:
        assert is_same(value(fed(kind, [shuffled])), value(fed(kind, [samples])))  # EC208


@each_kind
@given(batches=streams)
@relaxed
def test_forward_gives_the_value_of_the_batch_and_accumulates_like_update(kind: Kind, batches: list[list[Sample]]):
    accumulator, called = kind.make(), kind.make()
    for batch in batches:
        result = accumulator.forward(*kind.collate(batch))
        result = result if isinstance(result, dict) else {"value": result}
        if batch:
            assert is_same(result, value(fed(kind, [batch])))  # EC215
        called(*kind.collate(batch))
    assert is_same(value(accumulator), value(fed(kind, batches)))
    assert is_same(value(called), value(accumulator))


@each_kind
def test_reset_gives_back_a_new_one(kind: Kind):
    def fail(accumulator: Any) -> None:
        args, error, _ = kind.bad[0]
        with pytest.raises(error):
            accumulator.update(*args)

    used = fed(kind, [[(2.0, 1)], [(60000.0, 3), (0.1, 1)]])
    for spoil in (SampleStream.compute, fail, lambda a: a.forward(*kind.collate([(3.0, 1)])), lambda a: None):
        if spoil is not SampleStream.compute or isinstance(used, SampleStream):
            spoil(used)
        used.reset()
        assert is_same(value(used), value(kind.make()))  # EC204
        used.update(*kind.collate([(0.5, 1), (1.5, 2)]))
        assert is_same(value(used), value(fed(kind, [[(0.5, 1), (1.5, 2)]])))


@each_kind
@given(batches=streams)
@relaxed
def test_asking_in_the_middle_or_twice_changes_nothing(kind: Kind, batches: list[list[Sample]]):
    asked = kind.make()
    for batch in batches:
        asked.update(*kind.collate(batch))
        assert is_same(value(asked), value(asked))  # EC205
    assert is_same(value(asked), value(fed(kind, batches)))


@each_kind
@pytest.mark.parametrize("method", ["update", "forward"])
def test_inputs_stay_as_they_were_and_may_be_refilled(kind: Kind, method: str):
    samples = [(2.0, 1), (7.0, 2)]
    inputs = kind.collate(samples)
    accumulator = kind.make()
    getattr(accumulator, method)(*inputs)
    assert all(torch.equal(a, b) for a, b in zip(inputs, kind.collate(samples), strict=True))  # EC206
    assert all(tensor._version == 0 for tensor in inputs)
    for tensor in inputs:
        tensor.fill_(99)
    assert is_same(value(accumulator), value(fed(kind, [samples])))  # EC207


@each_kind
def test_writing_into_results_and_states_does_not_reach_the_state(kind: Kind):
    samples = [(2.0, 1), (7.0, 2)]
    accumulator, expected = kind.make(), value(fed(kind, [samples]))
    results = [accumulator.forward(*kind.collate(samples))]
    results += [accumulator.compute(), accumulator.state_dict()]
    loaded, state = kind.make(), accumulator.state_dict()
    loaded.load_state_dict(state)
    for result in (*results, state):
        for tensor in result.values() if isinstance(result, dict) else [result]:
            tensor.fill_(1)
    assert is_same(value(accumulator), expected)  # EC207
    assert is_same(value(loaded), expected)


def through_state(accumulator: Any, kind: Kind) -> Any:
    file = io.BytesIO()
    torch.save(accumulator.state_dict(), file)
    file.seek(0)
    loaded = fed(kind, [[(9.0, 1)]])
    loaded.load_state_dict(torch.load(file, weights_only=True))
    return loaded


@each_kind
@pytest.mark.parametrize(
    "copied",
    [
        lambda accumulator, kind: copy.deepcopy(accumulator),
        lambda accumulator, kind: copy.copy(accumulator),
        through_state,
    ],
    ids=["deepcopy", "copy", "state_dict"],
)
@pytest.mark.parametrize("before", [[], [[(0.1, 1), (0.2, 3)], [(512.0, 2)]]], ids=["new", "mid-stream"])
def test_a_copy_continues_as_if_nothing_had_happened(kind: Kind, copied: Any, before: list[list[Sample]]):
    original = fed(kind, before)
    twin = copied(original, kind)
    twin.update(*kind.collate([(3.0, 1)]))
    assert is_same(value(original), value(fed(kind, before)))  # EC209
    assert is_same(value(twin), value(fed(kind, [*before, [(3.0, 1)]])))
    original.update(*kind.collate([(5.0, 2)]))
    assert is_same(value(twin), value(fed(kind, [*before, [(3.0, 1)]])))


@each_kind
def test_a_pickled_one_continues_as_if_nothing_had_happened(kind: Kind):
    twin = pickle.loads(pickle.dumps(fed(kind, [[(0.1, 1), (0.2, 3)]])))
    twin.update(*kind.collate([(3.0, 1)]))
    assert is_same(value(twin), value(fed(kind, [[(0.1, 1), (0.2, 3)], [(3.0, 1)]])))


@pytest.mark.parametrize("method", ["update", "forward"])
@pytest.mark.parametrize("before", [[], [[(0.1, 1), (0.2, 3)]]], ids=["new", "mid-stream"])
@pytest.mark.parametrize(
    ("kind", "bad"),
    [
        pytest.param(kind, bad, id=f"{name}-{number}")
        for name, kind in KINDS.items()
        for number, bad in enumerate(kind.bad)
    ],
)
def test_a_rejected_batch_says_why_and_leaves_the_state_as_it_was(
    kind: Kind, bad: Any, before: list[list[Sample]], method: str
):
    args, error, message = bad
    accumulator = fed(kind, before)
    with pytest.raises(error, match=message):
        getattr(accumulator, method)(*args)
    assert is_same(value(accumulator), value(fed(kind, before)))  # EC210
    accumulator.update(*kind.collate([(3.0, 1)]))
    assert is_same(value(accumulator), value(fed(kind, [*before, [(3.0, 1)]])))


@each_kind
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(kind: Kind):
    accumulator, expected = fed(kind, [[(2.0, 1)]]), value(fed(kind, [[(2.0, 1)]]))
    state = accumulator.state_dict()
    first = next(iter(state))
    for bad, error in (
        ({**state, "extra": torch.ones(())}, ValueError),
        ({name: tensor for name, tensor in state.items() if name != first}, ValueError),
        (
            {name: torch.ones(2, 3, 4) if name == first else tensor for name, tensor in state.items()},
            ValueError,
        ),
        (dict.fromkeys(state, 1.0), TypeError if first != "count" else ValueError),
        (None, TypeError),
    ):
        with pytest.raises(error, match=r"state|count|expected"):
            accumulator.load_state_dict(bad)
        assert is_same(value(accumulator), expected)


@each_kind
def test_only_a_peer_can_be_merged(kind: Kind):
    accumulator, good = fed(kind, [[(2.0, 1)]]), fed(kind, [[(4.0, 1)]])
    with pytest.raises(TypeError, match=f"merge: expected a {type(accumulator).__name__}, got dict"):
        accumulator.merge(good, {})
    assert is_same(value(accumulator), value(fed(kind, [[(2.0, 1)]])))


@each_kind
@pytest.mark.parametrize("position", [0, 2, 4])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_reported_wherever_they_come(kind: Kind, position: int, bad: float):
    samples = [(float(number), 1) for number in range(4)]
    samples.insert(position, (bad, 1))
    for batches in ([samples], [[sample] for sample in samples]):
        result = value(fed(kind, batches))
        assert isinstance(result, dict)
        first = next(iter(result.values())).double()
        assert first.reshape(-1).isfinite().logical_not().any()  # EC216
        if not kind.ordered:
            reported = first.reshape(-1)[0].item()
            assert reported == bad or (bad != bad and reported != reported)


@each_kind
def test_gradients_inference_mode_and_defaults_do_not_matter(kind: Kind):
    expected = value(fed(kind, [[(2.0, 1), (0.3, 1)], [(5.0, 2)]]))
    accumulator = kind.make()
    with torch.inference_mode():
        accumulator.update(*kind.collate([(2.0, 1), (0.3, 1)]))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float16)
    try:
        inputs = kind.collate([(5.0, 2)])
        accumulator.update(inputs[0].requires_grad_(), *inputs[1:])
        result = value(accumulator)
    finally:
        torch.set_default_dtype(before)
    assert is_same(result, expected)
    assert isinstance(result, dict)
    assert not any(tensor.requires_grad for tensor in result.values())


@each_kind
def test_moving_to_the_device_it_is_on_changes_nothing(kind: Kind):
    accumulator = fed(kind, [[(2.0, 1)]])
    assert accumulator.to("cpu") is accumulator
    assert accumulator.device == torch.device("cpu")
    assert is_same(value(accumulator), value(fed(kind, [[(2.0, 1)]])))

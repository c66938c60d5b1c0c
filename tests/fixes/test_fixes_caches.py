from __future__ import annotations

import re
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pytest_evalcheck.fixes import caches
from pytest_evalcheck.fixes.caches import CacheError, expand_choices, pad_batch, plan_batches, trim
from pytest_evalcheck.fixes.caches.layer_cache import LayerCache


def test_importing_loads_no_library():
    program = (
        "import sys, pytest_evalcheck.fixes.caches\n"
        "print(sorted({'torch', 'transformers', 'torchtune', 'lm_eval', 'pytest'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_name_that_is_not_there_is_named():
    with pytest.raises(AttributeError, match="NarrowDynamicCache"):
        caches.NarrowDynamicCache  # noqa: B018


@given(st.integers(0, 5), st.integers(0, 5))
def test_rows_are_added_and_exactly_they_are_removed(rows, added):
    if not rows + added:
        return
    ids = torch.arange(3 * rows).reshape(rows, 3)
    filled = pad_batch(ids, rows + added, 2)
    assert filled.shape == (rows + added, 3)
    assert (filled[rows:] == 2).all()
    assert torch.equal(trim(filled, rows), ids)
    assert trim([f"row {row}" for row in range(rows + added)], rows) == [f"row {row}" for row in range(rows)]


def test_a_full_batch_is_not_copied():
    ids = torch.ones(4, 3)
    assert pad_batch(ids, 4, 0) is ids


def test_results_of_models_are_trimmed_in_every_element():
    logits, ids = torch.rand(4, 2), torch.arange(4)
    found = trim({"logits": logits, "more": (ids, logits)}, 3)
    assert found["logits"].shape == (3, 2)
    assert [len(each) for each in found["more"]] == [3, 3]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pad_batch(torch.ones(5, 2), 4, 0), "at most 4, the size to fill up to, got 5"),
        (lambda: pad_batch(torch.ones(5, 2), 0, 0), "size: expected a whole number of one or more, got 0"),
        (lambda: pad_batch(torch.tensor(1), 4, 0), "a tensor without dimensions"),
        (lambda: pad_batch(torch.tensor([1]), 4, 2.5), "an integer that torch.int64 can hold, got 2.5"),
        (lambda: pad_batch(torch.tensor([1], dtype=torch.uint8), 4, 300), "torch.uint8 can hold, got 300"),
        (lambda: trim(torch.ones(3), 4), "expected 4 rows or more, got 3"),
        (lambda: trim(torch.ones(3), -1), "zero or more, got -1"),
        (lambda: trim("text", 1), "got str"),
        (lambda: plan_batches([1, 2], 0), "capacity: expected a whole number of one or more, got 0"),
        (lambda: plan_batches([1, 2.0], 2), "lengths[1]: expected a whole number of tokens, got 2.0"),
        (lambda: plan_batches([1, 2, 3], 2).restore([["a", "b"]]), "expected those of 2 batches, got 1"),
        (lambda: plan_batches([1, 2, 3], 2).restore([["a"], ["b"]]), "results of batch 0: expected 2 rows, got 1"),
        (lambda: expand_choices(["a"], []), "expected those of 1 contexts, got 0"),
        (lambda: expand_choices(["a"], [["b", "c"]]).regroup([1]), "one for each of 2 rows, got 1"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(CacheError, match=re.escape(message)):
        call()


@given(st.lists(st.integers(0, 30)), st.integers(1, 7))
def test_a_plan_has_every_request_once_and_gives_results_back_in_order(lengths, capacity):
    plan = plan_batches(lengths, capacity)
    assert all(len(batch) == capacity for batch in plan.batches[:-1])
    assert plan.restore([list(batch) for batch in plan.batches]) == list(range(len(lengths)))
    in_order = [lengths[index] for batch in plan.batches for index in batch]
    assert in_order == sorted(lengths, reverse=True)


@given(st.lists(st.lists(st.text("xyz", max_size=3), max_size=4), max_size=5), st.integers(1, 4))
def test_choices_fill_batches_across_questions_and_come_back_by_question(choices, capacity):
    contexts = [f"q{number} " for number in range(len(choices))]
    expansion = expand_choices(contexts, choices)
    plan = plan_batches(map(len, expansion.rows), capacity)
    answers = plan.restore([[expansion.rows[index] for index in batch] for batch in plan.batches])
    expected = [[context + choice for choice in each] for context, each in zip(contexts, choices, strict=True)]
    assert expansion.regroup(answers) == expected


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 6)),
        st.tuples(st.just("select"), st.lists(st.integers(0, 3), min_size=1, max_size=4)),
        st.tuples(st.just("crop"), st.integers(0, 2)),
        st.tuples(st.just("fresh"), st.integers(1, 4)),
    ),
    max_size=25,
)


@given(STEPS, st.sampled_from([None, 1, 2, 3, 7]))
def test_a_store_shows_what_the_batch_has_stored_and_nothing_else(steps, window):
    """Any program of its methods, against the same on a list of whole tensors."""
    store, whole, rows, count = LayerCache(4, 64, window=window), None, 4, 0
    for name, value in steps:
        held = 0 if whole is None else whole.shape[2]
        if name == "fresh":
            store.reset()
            whole, rows = None, value
        elif name == "select" and held:
            chosen = [row % rows for row in value]
            store.select(chosen)
            whole, rows = whole[chosen], len(chosen)
        elif name == "crop" and window is None and 0 < value <= held:
            store.crop(value)
            whole = whole[:, :, : held - value]
        elif name == "append" and held + value <= 64:
            count += 1
            new = torch.full((rows, 2, value, 3), float(count)) + torch.rand(rows, 2, value, 3)
            whole = new if whole is None else torch.cat([whole, new], dim=2)
            seen = whole if window is None else whole[:, :, max(0, whole.shape[2] - value - window + 1) :]
            keys, values = store.append(new, new + 1)
            assert torch.equal(keys, seen)
            assert torch.equal(values, seen + 1)


def test_memory_is_made_once_and_is_the_window_where_there_is_one():
    store, narrow = LayerCache(8, 100), LayerCache(8, 100, window=9)
    places = set()
    for rows in (8, 1, 5, 8):
        for each in (store, narrow):
            each.reset()
            for _ in range(40):
                each.append(torch.ones(rows, 2, 2, 4), torch.ones(rows, 2, 2, 4))
            places.add(each.keys.data_ptr())
    assert len(places) == 2
    assert store.nbytes == 2 * 8 * 2 * 100 * 4 * 4
    assert narrow.nbytes == store.nbytes * 11 // 100


def test_rows_that_move_to_gaps_are_copied_in_place(monkeypatch):
    store = LayerCache(4, 10)
    keys = torch.rand(4, 1, 3, 2)
    store.append(keys, keys)
    monkeypatch.setattr(torch.Tensor, "index_select", None)
    store.select([0, 3])
    assert torch.equal(store.visible()[0], keys[[0, 3]])


@pytest.mark.parametrize("inference", [True, False])
def test_a_store_outlives_the_mode_it_was_made_in(inference):
    store = LayerCache(2, 10)
    with torch.inference_mode(inference):
        store.append(torch.ones(2, 1, 1, 1), torch.ones(2, 1, 1, 1))
    with torch.inference_mode(not inference):
        assert store.append(torch.ones(2, 1, 1, 1), torch.ones(2, 1, 1, 1))[0].shape[2] == 2


def test_a_store_keeps_no_graph():
    store = LayerCache(2, 10)
    keys = torch.ones(2, 1, 1, 1, requires_grad=True) * 2
    assert not store.append(keys, keys)[0].requires_grad


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ((2, 1), (5, 1), "at most 4 rows, which is what the cache was made for, got 5"),
        ((2, 1), (3, 1), "expected 2 rows, as the cache holds for the present batch, got 3"),
        ((2, 6), (2, 5), "it has 10 positions, 6 of them filled: no room for 5 more"),
        ((2, 6), (0, 1), "expected at least one row, got none"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_and_the_store_stays_as_it_was(before, after, message):
    store = LayerCache(4, 10)
    rows, new = before
    keys = torch.rand(rows, 1, new, 2)
    store.append(keys, keys)
    with pytest.raises(CacheError, match=re.escape(message)):
        store.append(torch.ones(after[0], 1, after[1], 2), torch.ones(after[0], 1, after[1], 2))
    assert torch.equal(store.visible()[0], keys)


def test_another_dtype_and_a_position_that_is_gone_are_refused():
    store = LayerCache(4, 20, torch.float32, window=3)
    with pytest.raises(CacheError, match=r"expected torch.float32, the dtype of the cache, got torch.bfloat16"):
        store.append(*[torch.ones(1, 1, 1, 1, dtype=torch.bfloat16)] * 2)
    store.append(*[torch.ones(1, 1, 9, 1)] * 2)
    with pytest.raises(CacheError, match=r"the window has moved on, so 2 cannot be removed"):
        store.crop(2)
    with pytest.raises(CacheError, match=r"0 to 9, as many as the cache holds, got 12"):
        store.crop(12)
    with pytest.raises(CacheError, match=r"some of the 1 in the cache, got 1"):
        store.select([0, 1])

"""Prompts, positions, masks and stops of a generation of one's own."""

from __future__ import annotations

import pytest
import torch

from pytest_evalcheck.fixes.caches import CacheError, StopFlags, require_prompts, step_mask, step_positions


@pytest.mark.parametrize(
    ("prompts", "options", "said"),
    [
        ([[1], []], {}, r"prompts\[1\]: expected one token or more, got none"),
        ([[1], [9]], {"vocabulary": 9}, r"prompts\[1\]: expected ids from 0 to 8, got 9"),
        ([[1], [-1]], {"vocabulary": 9}, r"prompts\[1\]: expected ids from 0 to 8, got -1"),
        ([[1, 2, 3]], {"max_length": 4, "new_tokens": 2}, r"prompts\[0\]: 3 tokens and 2 new ones do not fit into 4"),
        (torch.ones(2, 2).long(), {"mask": torch.tensor([[1, 1], [0, 0]])}, r"prompts\[1\]: .*got padding alone"),
        (torch.ones(2, 2).long(), {"mask": torch.ones(2, 3)}, "mask: expected one entry for each id"),
        (torch.ones(2, 2).long(), {"mask": torch.ones(1, 2)}, "mask: expected one entry for each id"),
    ],
)
def test_a_prompt_that_is_refused_is_named(prompts, options, said):
    with pytest.raises(CacheError, match=said):
        require_prompts(prompts, **options)


def test_prompts_without_their_padding():
    ids, mask = torch.tensor([[0, 4, 5], [6, 7, 8]]), torch.tensor([[0, 1, 1], [1, 1, 1]])
    assert require_prompts(ids, mask=mask, vocabulary=9, max_length=5, new_tokens=2) == [[4, 5], [6, 7, 8]]


def test_positions_and_masks_of_steps_are_those_of_the_whole_text():
    real = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    ids = torch.zeros(2, 5, dtype=torch.int64)
    whole, mask = step_positions(ids, 0, real), step_mask(ids, 0, real)
    for seen in range(1, 5):
        assert torch.equal(step_positions(ids[:, seen:], seen, real), whole[:, seen:])
        assert torch.equal(step_mask(ids[:, seen:], seen, real), mask[:, seen:])
    assert whole.tolist() == [[0, 0, 0, 1, 2], [0, 1, 2, 3, 4]]
    assert bool(mask.any(-1).all())  # attention to nothing is NaN
    assert torch.equal(step_positions(ids, 3), torch.arange(3, 8).expand(2, 5))
    assert torch.equal(step_mask(ids, 0)[0], torch.ones(5, 5).tril().bool())


@pytest.mark.parametrize("count", [step_positions, step_mask])
def test_a_mask_of_the_new_ids_alone_is_refused(count):
    with pytest.raises(CacheError, match=r"expected a mask of the whole text, \(1, 4\): 3 positions .* got \(1, 1\)"):
        count(torch.tensor([[1]]), 3, torch.tensor([[1]]))


def test_rows_stop_alone_and_repeat_their_last_token():
    flags = StopFlags(3, [9])
    assert flags.add(torch.tensor([9, 1, 2])).tolist() == [9, 1, 2]
    assert flags.add(torch.tensor([5, 9, 2])).tolist() == [9, 9, 2]
    assert flags.tokens == [[9], [1, 9], [2, 2]]
    assert not flags.all_stopped
    with pytest.raises(CacheError, match="expected one for each of 3 rows"):
        flags.add(torch.tensor([1]))
    flags.add(torch.tensor([1, 1, 9]))
    assert flags.all_stopped

"""Cases of prompts: what is drawn, how small it shrinks, and the canonical case of given samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.decoder.cases import (
    STOP_STEPS,
    CacheProgram,
    ChunkedPrompts,
    OversizedBatch,
    PaddedBatch,
    Prompts,
    SameBatchSize,
    SmallerBatch,
    StopTokens,
    UnevenPrompts,
    even,
)

PROMPTS = es.prompts(vocab=9, special=(0, 1))
light = settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)


def minimal(strategy: Any, condition: Any = lambda _: True) -> Any:
    return find(
        strategy, condition, settings=settings(max_examples=3000, database=None, phases=[Phase.generate, Phase.shrink])
    )


def have_one_length(rows: list[list[int]]) -> bool:
    return len(set(map(len, rows))) == 1


@given(PROMPTS.sample)
@light
def test_a_prompt_has_ids_that_are_not_special(prompt: list[int]) -> None:
    assert 1 <= len(prompt) <= 12
    assert set(prompt) <= set(range(2, 9))
    assert PROMPTS.collate([prompt]) == [prompt]
    assert PROMPTS.collate([prompt])[0] is not prompt


def test_prompts_of_any_length_are_drawn() -> None:
    inputs = es.prompts(vocab=9, min_length=2, max_length=5)
    for length in range(2, 6):
        assert minimal(inputs.sample, lambda prompt, length=length: len(prompt) == length) == [1] * length
    assert minimal(PROMPTS.sample) == [2]


@pytest.mark.parametrize(
    "wrong", [{"vocab": 2}, {"vocab": 9, "min_length": 0}, {"vocab": 9, "min_length": 5, "max_length": 4}]
)
def test_prompts_that_cannot_be_drawn_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="expected at least two ids"):
        es.prompts(**wrong)


@given(ChunkedPrompts.strategy(PROMPTS))
@light
def test_chunks_add_up_to_the_rows(case: ChunkedPrompts) -> None:
    assert have_one_length(case.samples)
    assert sum(case.chunks) == len(case.samples[0])
    assert min(case.chunks) >= 1
    assert case.sizes(len(case.samples[0])) == case.chunks


@given(SmallerBatch.strategy(PROMPTS), SameBatchSize.strategy(PROMPTS))
@light
def test_a_later_batch_has_fewer_or_as_many_rows(fewer: SmallerBatch, same: SameBatchSize) -> None:
    assert 1 <= len(fewer.after) < len(fewer.samples) <= 4
    assert len(same.after) == len(same.samples)
    assert all(map(have_one_length, (fewer.samples, fewer.after, same.samples, same.after)))


@given(OversizedBatch.strategy(PROMPTS))
@light
def test_a_batch_is_larger_than_its_cache(case: OversizedBatch) -> None:
    assert 1 <= case.cache_rows < len(case.samples)
    assert have_one_length(case.samples)


@given(CacheProgram.strategy(PROMPTS))
@light
def test_a_program_names_existing_rows(case: CacheProgram) -> None:
    count = len(case.samples)
    assert case.program[0] == ("feed", len(case.samples[0]))
    assert case.program[-1][0] == "feed"
    for name, argument in case.program:
        if name == "reorder":
            assert len(argument) == count
        if name in ("reorder", "select"):
            assert set(argument) <= set(range(count))
        if name == "select":
            assert argument == sorted(set(argument)) != []
            count = len(argument)
        count *= argument if name == "repeat" else 1


@pytest.mark.parametrize("name", ["reorder", "select", "repeat", "crop"])
def test_a_program_shrinks_to_one_operation(name: str) -> None:
    case = minimal(CacheProgram.strategy(PROMPTS), lambda case: name in dict(case.program))
    assert [step for step, _ in case.program] == ["feed", name, "feed"]
    assert sorted(map(len, case.samples)) in ([1, 1], [2, 2])


@given(StopTokens.strategy(PROMPTS))
@light
def test_stops_are_steps_of_rows(case: StopTokens) -> None:
    for row, step in case.stops:
        assert row < len(case.samples)
        assert step < STOP_STEPS


@given(UnevenPrompts.strategy(PROMPTS))
@light
def test_uneven_prompts_are_mostly_of_unequal_length(case: UnevenPrompts) -> None:
    assert len(case.samples) in (2, 3)
    assert ("rows of unequal length" in case.conditions) is not have_one_length(case.samples)


@pytest.mark.parametrize("kind", [Prompts, UnevenPrompts, ChunkedPrompts, PaddedBatch])
def test_samples_have_a_canonical_case(kind: Any) -> None:
    case = kind.of(PROMPTS, [[2, 3], [4]])
    assert [row[:1] for row in case.samples] == [[2], [4]]
    assert kind.of(PROMPTS, []) is None


@given(st.lists(st.lists(st.integers(0, 3), min_size=1), min_size=1), st.integers(1, 9))
def test_even_rows_repeat_their_own_ids(rows: list[list[int]], length: int) -> None:
    for row, evened in zip(rows, even(rows, length), strict=True):
        assert len(evened) == length
        assert evened == (row * length)[:length]

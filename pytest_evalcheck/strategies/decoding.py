"""Samples of decoders: prompts as ids."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Sample, SampleStrategy


def prompts(*, vocab: int, min_length: int = 1, max_length: int = 12, special: Sequence[int] = (0,)) -> SampleStrategy:
    """Lists of ids below ``vocab``, of unequal length and without the ``special`` ones; collated as they are.

    Half of them are long, so that windows are exceeded. The prompts of one case are different. Special are the ids
    that a model treats as more than tokens: padding, beginning, end.
    """
    ids = sorted(set(range(vocab)) - set(special))
    if len(ids) < 2 or not 1 <= min_length <= max_length:
        raise ValueError(
            f"vocab={vocab}, special={tuple(special)}, min_length={min_length}, max_length={max_length}; "
            "expected at least two ids that are not special, and 1 <= min_length <= max_length"
        )
    token, long = st.sampled_from(ids), max(min_length, 2 * max_length // 3)
    return SampleStrategy(
        name="prompts",
        sample=st.one_of(
            st.lists(token, min_size=min_length, max_size=max_length),
            st.lists(token, min_size=long, max_size=max_length),
        ),
        collate=_collate,
        distinct=tuple,  # rows that are the same say nothing of each other
    )


def _collate(rows: Sequence[Sample]) -> list[list[int]]:
    return [list(row) for row in rows]

"""Behaviour of the fixes that the tests of their promises leave open."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pytest_evalcheck.fixes.eval_mode import evaluating


class TestNamedGenerators:
    """Random states of data loaders, which `evaluating` restores too."""

    def test_they_go_on_as_if_nothing_was_evaluated(self) -> None:
        mine, model = torch.Generator().manual_seed(3), nn.Linear(1, 1)
        before = mine.get_state()
        with evaluating(model, generators=[None, mine]):
            torch.rand(4, generator=mine)
        assert torch.equal(mine.get_state(), before)
        with evaluating(model):
            torch.rand(4, generator=mine)
        assert not torch.equal(mine.get_state(), before)

    def test_they_start_from_the_seed(self) -> None:
        mine = torch.Generator().manual_seed(3)
        with evaluating(nn.Linear(1, 1), seed=5, generators=[mine]):
            drawn = torch.rand(4, generator=mine)
        assert torch.equal(drawn, torch.rand(4, generator=torch.Generator().manual_seed(5)))

    def test_anything_else_is_an_error(self) -> None:
        with pytest.raises(TypeError, match="got a single one"):
            evaluating(nn.Linear(1, 1), generators=torch.Generator()).__enter__()  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"expected torch\.Generator or None, got int"):
            evaluating(nn.Linear(1, 1), generators=[3]).__enter__()  # type: ignore[list-item]

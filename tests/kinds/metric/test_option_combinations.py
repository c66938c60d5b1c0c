"""EC228: an option whose samples hold nothing that it is about is not judged, also where others are refused together."""

from __future__ import annotations

from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.correct_data import Shares


def shares(ignored: Any = (None,), *, silent: str = "") -> ec.Target:
    """Shares that never see a label of -7, and that refuse a scale beside one average; beside another it is ignored."""

    @ec.metric(inputs=Shares.inputs, options={"average": ..., "scale": ("fraction", "percent"), "ignored": ignored})
    def target(device: str, average: Any = "micro", scale: Any = "fraction", ignored: Any = None) -> Any:
        if average == "macro" and scale == "percent":
            raise ValueError("a mean of recalls is a fraction")
        if ignored == "refused":
            raise ValueError("nothing can be ignored")
        return Shares(average, "fraction" if average == silent else scale).to(device)

    return target


@pytest.mark.parametrize("ignored", [(None, -7), (None, -7, "refused")])
def test_what_is_refused_with_every_value_of_an_option_is_no_effect_of_it(ignored: tuple[Any, ...]) -> None:
    (cell,) = ec.run(shares(ignored), select="EC228", effort="quick").cells
    assert cell.outcome == "passed", cell.reason


def test_an_option_that_is_ignored_beside_another_one_is_red() -> None:
    (cell,) = ec.run(shares(silent="none"), select="EC228", effort="quick").cells
    assert cell.failure is not None
    assert "scale has no effect, in silence" in cell.failure.about
    assert "average='none'" in cell.failure.detail


def test_an_option_may_mean_nothing_at_the_limit_of_a_number() -> None:
    @ec.metric(inputs=Shares.inputs, options={"scale": ("fraction", "percent"), "least": (1, 2)})
    def target(device: str, scale: Any = "fraction", least: int = 1) -> Any:
        return (Shares("micro", scale) if least == 1 else Shares("macro")).to(device)

    (cell,) = ec.run(target, select="EC228", effort="quick").cells
    assert cell.outcome == "passed", cell.reason

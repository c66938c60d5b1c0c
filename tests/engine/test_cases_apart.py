"""No case sees what another one left: settings of the process, objects of the target, or the data that it was given."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.engine import runner
from pytest_evalcheck.kinds.common.process_state import isolated_process

MARK = 1_000.0


def state() -> tuple[Any, ...]:
    return (
        os.environ.get("EVALCHECK_LEFT"),
        os.getcwd(),
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    )


class Watched:
    """A mean that leaves traces wherever it can, and notes those of other cases."""

    case = 0
    found: list[str] = []
    sets = False
    """True if the metric changes settings of the process; that is reported at once, so there are few cases."""

    kept: Watched | None = None
    """Object that the factory returns every time, in place of a new one."""

    def __init__(self) -> None:
        self.made_in = Watched.case
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, values: list[float]) -> None:
        if self.made_in != Watched.case:
            Watched.found.append(f"an object of case {self.made_in} in case {Watched.case}")
        left = [value for value in values if value >= MARK and value != MARK + Watched.case]
        if left:
            Watched.found.append(f"data of case {left[0] - MARK:g} in case {Watched.case}")
        clean = [value for value in values if value < MARK]
        self.total += sum(clean)
        self.count += len(clean)
        values.append(MARK + Watched.case)

    def compute(self) -> float:
        if self.sets:
            os.environ["EVALCHECK_LEFT"] = str(Watched.case)
            os.chdir("/")
            torch.set_default_dtype(torch.float64)
            torch.set_num_threads(3)
            torch.set_grad_enabled(False)
            torch.use_deterministic_algorithms(True)
            random.seed(1)
        return self.total / self.count if self.count else float("nan")


@ec.metric(
    inputs=es.samples(
        st.integers(0, 9),
        collate=lambda rows: ([float(row) for row in rows],),
        name="numbers",
        wrong=lambda row: row + 1,
        contrast=(1, 2),
    )
)
def watched(device: Any) -> ec.Metric:
    """The mean that leaves traces."""
    return ec.Metric.of(Watched.kept or Watched())


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The state of the process at the start of each case."""
    seen: list[tuple[Any, ...]] = []

    @contextmanager
    def noting(*arguments: Any, **named: Any) -> Iterator[Any]:
        Watched.case += 1
        seen.append(state())
        with isolated_process(*arguments, **named) as given:
            yield given

    monkeypatch.setattr(runner, "isolated_process", noting)
    monkeypatch.setattr(Watched, "found", [])
    return seen


@pytest.mark.parametrize("sets", [False, True], ids=["data", "settings"])
def test_a_case_starts_as_if_it_were_the_first(
    sets: bool, cases: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watched, "sets", sets)
    before = state()
    ec.run(watched, effort="quick")
    assert not Watched.found
    assert set(cases) == {before}
    assert len(cases) > (50 if sets else 100)
    assert state() == before


def test_that_would_be_seen(cases: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "kept", Watched())
    ec.run(watched, select="EC201", effort="quick")
    assert len(cases) > 1
    assert Watched.found

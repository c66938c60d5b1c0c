"""Draws of a cell: they depend on its target, and not on what was imported before."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.engine.constants import constants_of

pytestmark = pytest.mark.skipif(
    not hasattr(providers, "_get_local_constants"), reason="this Hypothesis has constants elsewhere, or none"
)

UNLIKELY = 987_654_321


def drawn() -> list[int]:
    found: list[int] = []

    @hypothesis.seed(0)
    @settings(max_examples=500, database=None, derandomize=False)
    @given(st.lists(st.integers()))
    def search(values: list[int]) -> None:
        found.extend(values)

    search()
    return found


def test_constants_are_those_of_the_modules_that_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "module_with_constants"
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / f"{name}.py").write_text(f"A = {UNLIKELY}\nB = {UNLIKELY + 1}\n")
    with constants_of(["collections", "is_not_imported", ""]):
        without = drawn()
    importlib.import_module(name)
    with constants_of([]):
        assert drawn() == without
    with constants_of([name]):
        named = drawn()
    assert {UNLIKELY, UNLIKELY + 1} <= {*named}
    assert not {UNLIKELY, UNLIKELY + 1} & {*without}
    # Hypothesis goes on with all that are local, for the tests of the user.
    assert UNLIKELY in providers._get_local_constants().integers


KNOWN: list[set[int]] = []
"""The constants of local modules, at each update."""


@ec.metric(inputs=es.regression())
def a_mean():
    values: list[float] = []

    def update(predictions, targets):
        values.extend(predictions.tolist())
        KNOWN.append({*providers._get_local_constants().integers})

    return ec.Metric(update=update, compute=lambda: sum(values) / len(values))


def test_a_cell_draws_with_those_of_its_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(providers, "_get_local_constants", lambda: providers.Constants(integers={UNLIKELY}))
    ec.run(a_mean, select="EC201", effort="quick")
    assert KNOWN[0] == {UNLIKELY}, "no case is drawn yet"
    assert KNOWN[-1] == set(), "a file of tests has no constants for Hypothesis"

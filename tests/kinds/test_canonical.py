"""The cases that are tried first: they reach every condition, and are the same in every process."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from shipped_strategies import BY_KIND, fitting

from fixtures.gallery.table import CHECKS, SPECIMENS
from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.common.case import canonical_cases, given_cases
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.reports.case_codec import case_fields, is_plain
from pytest_evalcheck.strategies import SampleStrategy

MOST = 12
"""The most canonical cases of one class: each fault through both methods, and two more."""
FITTING = fitting()
BY_CODE = {code: list(every) for code, every in groupby(FITTING, key=lambda each: each[0].code)}
"""A check and the shipped strategies that its cases fit, in one test: thousands of tests take longer than what they try."""


def unreachable(inputs: SampleStrategy) -> dict[str, str]:
    """The conditions that no case of these samples reaches, and why."""
    reasons = {}
    if inputs.distinct is not None:
        reasons["a constant stream"] = "no sample may occur twice"
        reasons["a weight of two"] = "no sample may occur twice"
        reasons["equal samples"] = "no sample may occur twice"
    if inputs.padding is not None and inputs.padding.blank is None:
        reasons["a row of padding"] = "there is no row of padding"
    if inputs.min_samples > 1:
        reasons["a batch of one"] = f"a value needs {inputs.min_samples} samples"
    return reasons


def cases_of(check: Check, inputs: SampleStrategy) -> list[Any]:
    return canonical_cases(check.case, inputs, check.conditions)


def test_every_shipped_strategy_is_tried_with_the_kind_that_it_fits() -> None:
    made = {name for name in es.__all__ if inspect.isfunction(getattr(es, name)) and name not in ("grid", "answers_of")}
    tried = {name.split(",")[0].split(" ")[0] for strategies in BY_KIND.values() for name in strategies}
    assert tried == made


def test_every_shipped_case_class_has_canonical_cases_of_its_own() -> None:
    assert not [check.code for check in shipped() if not hasattr(check.case, "canonical")]


@pytest.mark.parametrize("code", BY_CODE)
def test_canonical_cases_reach_every_condition(code: str) -> None:
    for check, name, inputs in BY_CODE[code]:
        cases = cases_of(check, inputs)
        reached = set().union(*(case.conditions for case in cases))
        missing = set(check.conditions) - reached - unreachable(inputs).keys()
        assert not missing, f"{name}: {cases}"
        assert not reached & unreachable(inputs).keys(), name
        assert 1 <= len(cases) <= MOST, name
        assert len(set(map(repr, cases))) == len(cases), name
        assert all(is_plain(list(case_fields(case).values())) for case in cases), name


GALLERY = {
    (s.code, s.bug.name): (CHECKS[s.code], s.bug.inputs)
    for s in SPECIMENS
    if any(check.code == s.code for check, _, _ in FITTING)
}


@pytest.mark.parametrize(("check", "inputs"), GALLERY.values(), ids=[f"{code} {name}" for code, name in GALLERY])
def test_canonical_cases_of_the_gallery_reach_every_condition(check: Check, inputs: SampleStrategy) -> None:
    reached = set().union(*(case.conditions for case in cases_of(check, inputs)))
    missing = set(check.conditions) - reached - unreachable(inputs).keys()
    assert not missing


@pytest.mark.parametrize("code", BY_CODE)
def test_samples_of_an_author_become_a_case_or_none(code: str) -> None:
    for check, name, inputs in BY_CODE[code]:
        for count in range(1, 8):
            rows = inputs.fixed(max(count, inputs.min_samples))
            for case in given_cases(check.case, inputs, [rows]):
                assert is_plain(list(case_fields(case).values())), name


SMALL = {
    code: [each for each in every if {"metric", "wrapper"} & set(each[0].kinds) and each[2].min_samples == 1]
    for code, every in BY_CODE.items()
}


@pytest.mark.parametrize("code", [code for code, every in SMALL.items() if every])
def test_canonical_cases_of_metrics_and_wrappers_are_small(code: str) -> None:
    for check, name, inputs in SMALL[code]:
        for case in cases_of(check, inputs):
            assert len(getattr(case, "samples", [])) <= 5, (name, case)


def printed(seed: int, hash_seed: int, *modules: str) -> list[str]:
    script = Path(__file__).with_name("shipped_strategies.py")
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": os.pathsep.join(sys.path)}
    arguments = [sys.executable, "-W", "ignore", str(script), "--seed", str(seed)]
    more = ["--modules", *modules] if modules else []
    return subprocess.run(
        [*arguments, *more], capture_output=True, text=True, check=True, env=environment
    ).stdout.split("\n")


@pytest.mark.slow
def test_canonical_cases_are_the_same_in_every_process() -> None:
    # Hypothesis draws constants that it reads in the modules that are loaded.
    one, other = printed(1, 11), printed(2, 22, "fixtures.gallery.table", "calendar", "colorsys")
    assert len(one) > len(FITTING)
    assert [line for line in one if line not in other] == []


class TestFixedSamples:
    @pytest.mark.parametrize("name", BY_KIND["metric"])
    def test_they_are_the_same_every_time_and_differ(self, name: str) -> None:
        inputs = BY_KIND["metric"][name]
        first, again = inputs.fixed(4), inputs.replace().fixed(4)
        assert first == again
        assert len(set(map(repr, first))) == 4
        assert inputs.fixed(3) == first[:3]

    def test_right_and_wrong_predictions_are_among_them(self) -> None:
        rows = es.multiclass(classes=3).fixed(4)
        assert rows[0][0] == rows[0][1]
        assert rows[2][0] != rows[2][1]

    def test_what_must_be_distinct_stays_so(self) -> None:
        assert len({row[0] for row in es.retrieval().fixed(6)}) == 6

    def test_too_few_different_samples_are_an_error(self) -> None:
        two = es.samples(st.booleans(), collate=tuple, distinct=bool)
        assert sorted(two.fixed(2)) == [False, True]
        with pytest.raises(ValueError, match="2 different samples were drawn, 3 are needed"):
            two.fixed(3)

    def test_samples_of_one_kind_are_repeated(self) -> None:
        assert es.samples(st.just(7), collate=tuple).fixed(3) == [7, 7, 7]

    def test_a_caller_that_changes_them_changes_no_later_ones(self) -> None:
        prompts = es.prompts(vocab=9)
        prompts.fixed(2)[0].append(99)
        assert 99 not in prompts.fixed(2)[0]

    def test_rows_of_many_numbers_are_drawn_too(self) -> None:
        # More of them than Hypothesis draws at once.
        rows = es.images(classes=3, shape=(3, 16, 16)).fixed(3)
        assert len(set(map(repr, rows))) == 3

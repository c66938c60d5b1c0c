"""Cases of batches: which are drawn, how small they shrink, and the canonical case of given samples."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.errors import NoSuchExample

from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.wrapper.cases import Batch, Padded, SingleRow, TwoBatches
from pytest_evalcheck.strategies import SampleStrategy

PADDED = es.causal_lm(vocab=9, sides=("right", "left"))
IMAGES = es.images(classes=3, shape=(1, 1, 2), containers=("dict", "tuple"))
NO_BLANK = es.sequence_classification(vocab=9, classes=3)
both = pytest.mark.parametrize("inputs", [PADDED, IMAGES], ids=["padded", "images"])
light = settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)


def minimal(strategy: Any, condition: Any = lambda _: True) -> Any:
    return find(
        strategy, condition, settings=settings(max_examples=3000, database=None, phases=[Phase.generate, Phase.shrink])
    )


@both
def test_a_batch_is_never_empty_and_in_a_container_of_its_target(inputs: SampleStrategy) -> None:
    @light
    @given(Batch.strategy(inputs))
    def check(case: Batch) -> None:
        assert 1 <= len(case.samples) <= 4
        assert case.container in inputs.containers
        assert case.conditions == {"a batch of one" if len(case.samples) == 1 else "several rows"}

    check()
    for name in inputs.containers:
        assert minimal(Batch.strategy(inputs), lambda case, name=name: case.container == name).samples


def test_a_batch_has_the_rows_that_its_samples_need() -> None:
    case = minimal(Batch.strategy(IMAGES.replace(min_samples=2)))
    assert len(case.samples) == 2


@both
def test_a_row_is_in_all_its_batches(inputs: SampleStrategy) -> None:
    @light
    @given(SingleRow.strategy(inputs))
    def check(case: SingleRow) -> None:
        blank = inputs.padding.blank if inputs.padding else None
        own = case.samples[case.row]
        assert sorted(case.order) == list(range(len(case.samples)))
        batches = case.batches(blank)
        assert all(rows[index] == own for rows, index in batches.values())
        assert batches["alone"] == ([own], 0)
        if inputs.padding:
            assert case.blanks in (1, 2)
            rows, _ = batches[f"beside {case.blanks} blank rows"]
            assert rows == [*case.samples, *[blank] * case.blanks]
        else:
            assert list(batches) == ["alone", "in another order"]

    check()


def test_blank_rows_are_drawn_only_where_samples_have_one() -> None:
    assert NO_BLANK.padding is not None
    assert not minimal(SingleRow.strategy(NO_BLANK)).blanks
    assert not minimal(Padded.strategy(NO_BLANK)).blank
    assert minimal(SingleRow.strategy(PADDED)).blanks == 1
    assert minimal(Padded.strategy(PADDED), lambda case: case.blank).blank


def test_another_order_of_rows_is_a_condition() -> None:
    drawn, both_conditions = SingleRow.strategy(IMAGES), {"one row of many", "rows in another order"}
    assert minimal(drawn, lambda case: case.order == [1, 0]).conditions == both_conditions
    assert minimal(drawn, lambda case: case.order == [0, 1]).conditions == {"one row of many"}


@pytest.mark.slow
def test_padding_is_added_on_every_side_that_the_model_supports() -> None:
    @light
    @given(Padded.strategy(PADDED))
    def check(case: Padded) -> None:
        assert 1 <= case.extra <= 3
        assert 1 <= len(case.samples) <= 3
        assert case.conditions == {"more padding"} | ({"a row of padding"} if case.blank else set())

    check()
    drawn = Padded.strategy(PADDED)
    assert (minimal(drawn).side, minimal(drawn, lambda case: case.side == "left").extra) == ("right", 1)
    with pytest.raises(NoSuchExample):
        minimal(Padded.strategy(NO_BLANK), lambda case: case.side == "left")


@both
def test_two_batches_share_no_row_and_leave_none_out(inputs: SampleStrategy) -> None:
    @light
    @given(TwoBatches.strategy(inputs))
    def check(case: TwoBatches) -> None:
        assert [*case.first, *case.second] == list(range(len(case.samples)))
        assert case.first_rows
        assert case.second_rows
        assert [*case.first_rows, *case.second_rows] == case.samples
        assert len(case.as_many_first_rows) == len(case.second_rows)
        assert all(row in case.first_rows for row in case.as_many_first_rows)
        assert case.as_many_first_rows[: len(case.first_rows)] == case.first_rows[: len(case.second_rows)]

    check()
    drawn = TwoBatches.strategy(inputs)
    for condition in ("batches of one size", "batches of unequal sizes"):
        case = minimal(drawn, lambda case, condition=condition: condition in case.conditions)
        assert (len(case.first_rows) == len(case.second_rows)) == (condition == "batches of one size")


def test_cases_of_given_samples() -> None:
    rows = [((1, 2), 0), ((3,), 0), ((4, 5, 6), 1)]
    assert Batch.of(PADDED, rows) == Batch(samples=rows, container="dict")
    rowwise = SingleRow.of(PADDED, rows)
    assert rowwise == SingleRow(samples=rows, row=2, order=[2, 1, 0], blanks=1)
    padded = Padded.of(PADDED, rows)
    assert padded == Padded(samples=rows, side="left", extra=2, blank=True)
    pair = TwoBatches.of(PADDED, rows)
    assert pair == TwoBatches(samples=rows, first=[0], second=[1, 2])


@pytest.mark.parametrize("kind", [Batch, SingleRow, Padded, TwoBatches])
def test_there_is_no_case_of_no_samples(kind: Any) -> None:
    assert kind.of(PADDED, []) is None


def test_there_is_no_case_of_samples_that_lack_what_it_needs() -> None:
    row = [((0.0, 0.0), 1)]
    assert SingleRow.of(IMAGES, row) is None
    assert TwoBatches.of(IMAGES, row) is None
    assert Padded.of(IMAGES, row) is None
    assert SingleRow.of(IMAGES, row * 2) == SingleRow(samples=row * 2, row=1, order=[1, 0], blanks=0)

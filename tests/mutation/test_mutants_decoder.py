"""The parts of the subject of decoders that count rows and positions, one by one."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import Growing
from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.decoder.checks_cache import culprit
from pytest_evalcheck.kinds.decoder.nan_reads import watching_forwards
from pytest_evalcheck.kinds.decoder.subject import (
    LIST_OPERATIONS,
    DecoderUnderTest,
    _positions,
    all_rows_or_none,
    plural,
)


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows")])
def test_a_number_of_rows_is_text(number: int, text: str) -> None:
    assert plural(number, "row") == text


@pytest.mark.parametrize(
    ("mask", "positions"),
    [
        ([1, 1, 1], [0, 1, 2]),
        ([0, 0, 1, 1], [0, 0, 0, 1]),
        ([1, 1, 0, 0], [0, 1, 0, 0]),
        ([1, 0, 1], [0, 0, 1]),
        ([], []),
    ],
)
def test_positions_count_the_tokens_that_are_there(mask: list[int], positions: list[int]) -> None:
    assert _positions(mask) == positions


def test_operations_on_lists_of_rows() -> None:
    rows = [[1, 2], [3, 4], [5, 6]]
    assert LIST_OPERATIONS["reorder"](rows, [2, 0, 0]) == [[5, 6], [1, 2], [1, 2]]
    assert LIST_OPERATIONS["select"](rows, [1]) == [[3, 4]]
    assert LIST_OPERATIONS["repeat"](rows[:2], 2) == [[1, 2], [1, 2], [3, 4], [3, 4]]
    assert LIST_OPERATIONS["crop"](rows, 1) == [[1], [3], [5]]
    assert LIST_OPERATIONS["reset"](rows) == LIST_OPERATIONS["tear_down"](rows) == []


def test_a_row_that_is_missing_leaves_no_result() -> None:
    assert all_rows_or_none([1], [1, 2]) is None
    assert all_rows_or_none([1, 2], [1, 2]) == [1, 2]
    assert all_rows_or_none("an error", [1, 2]) == "an error"


def outcome(made: type[Growing], code: str) -> tuple[str, Any]:
    target = ec.decoder(inputs=Growing.inputs)(lambda: made().record())
    (cell,) = ec.run(target, select=code, effort="quick").cells
    return cell.outcome, cell.failure or cell.reason


class TakesNoPadding(Growing):
    """Wrong wherever there is padding, as it says."""

    def step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        logits = super().step(ids, cache, mask, positions)
        return logits if mask.all() else logits * 0

    def more(self) -> dict[str, Any]:
        return {**super().more(), "refuses": ("padding",)}


class ThreeRows(Growing):
    """Has a cache for three rows."""

    def step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        if len(ids) > 3:
            raise ValueError(f"{len(ids)} rows, and a cache for 3")
        return super().step(ids, cache, mask, positions)

    def more(self) -> dict[str, Any]:
        return {**super().more(), "max_rows": 3}


def test_a_decoder_that_refuses_padding_gets_no_empty_prompt() -> None:
    found, why = outcome(TakesNoPadding, "EC312")
    assert found == "passed", why


def test_no_more_rows_are_added_than_a_cache_holds() -> None:
    found, why = outcome(ThreeRows, "EC305")
    assert found == "passed", why


def test_the_operation_that_goes_wrong_is_named() -> None:
    class TurnsNothing(Growing):
        @property
        def operations(self) -> dict[str, Any]:  # type: ignore[override]
            return {**super().operations, "reorder": lambda cache, order: None}

    class Subject:
        def prompts(self, rows: Any) -> Any:
            return rows

    class Case:
        samples = [[3, 1, 4, 1], [5, 9, 2, 6]]
        program = (("feed", 2), ("crop", 1), ("feed", 1), ("reorder", [1, 0]), ("feed", 1), ("crop", 1))

    decoder = DecoderUnderTest(TurnsNothing().record(), "cpu", Tolerance(rtol=1e-4, atol=1e-3), last_precision=True)
    assert culprit(decoder, Subject(), Case()) == "reorder"  # type: ignore[arg-type]


def test_ids_are_counted_at_the_first_embedding() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(5, 2), torch.nn.Linear(2, 2))
    with watching_forwards(model) as read:
        model(torch.zeros(1, 3, dtype=torch.int64))
        model(torch.zeros((), dtype=torch.int64))
    model(torch.zeros(1, 4, dtype=torch.int64))
    assert [forward.ids for forward in read] == [3, 1]
    with watching_forwards(torch.nn.Linear(2, 2)) as read:
        assert read == []


@pytest.mark.parametrize(("capacity", "spare", "length"), [(None, 4, 20), (10, 4, 6), (10, 0, 10), (3, 4, 1)])
def test_prompts_leave_room_in_the_cache(capacity: int | None, spare: int, length: int) -> None:
    class Bounded(Growing):
        def more(self) -> dict[str, Any]:
            return {**super().more(), "capacity": capacity}

    decoder = DecoderUnderTest(Bounded().record(), "cpu", Tolerance(rtol=1e-4, atol=1e-3), last_precision=True)
    assert [len(row) for row in decoder.truncate([list(range(20))], spare)] == [length]


def test_one_row_alone_has_no_padding() -> None:
    class OneRow(Growing):
        def more(self) -> dict[str, Any]:
            return {**super().more(), "max_rows": 1}

    found, why = outcome(OneRow, "EC306")
    assert (found, "it takes no rows of unequal length" in str(why)) == ("not applicable", True), why


@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_rows_give_the_logits_of_their_own_tokens(side: Any) -> None:
    decoder = DecoderUnderTest(Growing().record(), "cpu", Tolerance(rtol=1e-4, atol=1e-3), last_precision=True)
    rows = [[1, 2, 3, 4], [5, 6, 7], [8]]
    padded = decoder.start(3).decode_padded(rows, side)
    assert [len(own) for own in padded] == [4, 3, 1]
    for own, row in zip(padded, rows, strict=True):
        torch.testing.assert_close(own, decoder.start(1).decode_padded([row], side)[0])

"""Loops that are evaluated in parts, and streams without a state."""

from __future__ import annotations

from typing import Any

import pytest

import pytest_evalcheck as ec
from fixtures.gallery.loops_correct import Rows
from pytest_evalcheck.kinds.loop.record import LoopData


class Stream:
    """A stream of ids that knows its place."""

    def __init__(self, data: Any, batch_size: int) -> None:
        self.data, self.size, self.place = data, batch_size, 0

    def __iter__(self) -> Any:
        while self.place < len(self.data):
            self.place += self.size
            yield list(self.data.ids[self.place - self.size : self.place])

    def state_dict(self) -> dict[str, int]:
        return {"place": self.place}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.place = state["place"]


def run(record: ec.Loop, codes: str) -> list[ec.Cell]:
    def factory() -> ec.Loop:
        return record

    return list(ec.run(ec.loop(inputs=Rows.inputs)(factory), "cpu", select=codes, effort="quick").cells)


def test_a_stream_with_a_state_is_read_in_parts() -> None:
    loop = ec.Loop.from_stream(lambda data, batch_size=2: Stream(data, batch_size))
    data = LoopData([0.5] * 5, list)
    assert loop.evaluate_part is not None
    state = loop.evaluate_part(data, None, 2, batch_size=2)
    assert state == ([0, 1, 2, 3], {"place": 4}, False)
    state = loop.evaluate_part(data, state, 9, batch_size=2)
    assert state[0] == [0, 1, 2, 3, 4]
    assert state[2]  # what comes after the end would be another epoch
    assert loop.evaluate_part(data, state, None, batch_size=2) == loop.evaluate(data, batch_size=2)
    assert [cell.outcome for cell in run(loop, "EC530")] == ["passed"]


def test_a_stream_without_a_state_says_so() -> None:
    loop = ec.Loop.from_stream(lambda data, batch_size=2: [list(data.ids)])
    (cell,) = run(loop, "EC530")
    assert cell.outcome == "not applicable"
    assert "the stream is of type list, which has no state_dict() and load_state_dict()" in cell.reason


def test_a_state_that_does_not_pickle_is_an_error_of_the_loop() -> None:
    def part(data: Any, state: Any, batches: int | None, batch_size: int = 2) -> Any:
        return {"count": len(data)} if batches is None else (lambda: None)

    (cell,) = run(ec.Loop(evaluate=lambda data, batch_size=2: {"count": len(data)}, evaluate_part=part), "EC530")
    assert cell.outcome == "failed"
    assert "does not pickle" in str(cell.failure)


def test_a_part_that_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="evaluate_part=3; expected a function"):
        ec.Loop(evaluate=print, evaluate_part=3)  # type: ignore[arg-type]

"""Declarations of a decoder: no cache at all, a first call that is limited, and one stop token at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import Attention, Generating, Growing, Sliding, Window
from pytest_evalcheck.kinds.decoder.checks_rows import batched
from pytest_evalcheck.reports.failure_text import format_failure
from pytest_evalcheck.strategies.samples import padded


def cells(record: Any, select: str = "") -> dict[str, ec.Cell]:
    @ec.decoder(inputs=Growing.inputs)
    def made() -> Any:
        return record()

    report = ec.run(made, select=select, effort="quick") if select else ec.run(made, effort="quick")
    return {cell.code: cell for cell in report.cells}


def broken(found: dict[str, ec.Cell]) -> dict[str, str]:
    return {code: format_failure(cell) for code, cell in found.items() if cell.outcome == "failed"}


class Uncached:
    """Every token is generated from the whole text."""

    def __init__(self) -> None:
        self.model = Attention()

    def full(self, ids: Tensor, mask: Tensor, positions: Tensor) -> Any:
        return self.model(ids, mask, positions)

    def generate(self, prompts: list[list[int]], cache: None, count: int, stop: tuple[int, ...]) -> Any:
        assert cache is None
        if not all(prompts):
            raise ValueError(f"prompt {prompts.index([])} is empty")
        width = max(map(len, prompts))
        ids = torch.tensor([padded(row, "left", width, 0) for row in prompts])
        mask = torch.tensor([padded([1] * len(row), "left", width, 0) for row in prompts])
        for _ in range(count):
            new = self.full(ids, mask, self.positions(mask))[:, -1].argmax(-1, keepdim=True)
            ids, mask = torch.cat([ids, new], 1), torch.cat([mask, torch.ones_like(new)], 1)
        rows = ids[:, width:].tolist()
        return [row[: next((i + 1 for i, token in enumerate(row) if token in stop), count)] for row in rows]

    def positions(self, mask: Tensor) -> Tensor:
        return (mask.cumsum(1) - 1).clamp(min=0)

    def record(self) -> ec.Decoder:
        return ec.Decoder(self.model, make_cache=None, full=self.full, generate=self.generate)


class UncachedAndCountsPadding(Uncached):
    def positions(self, mask: Tensor) -> Tensor:
        return torch.arange(mask.shape[1]).expand_as(mask)


def test_a_decoder_without_a_cache_is_checked_by_what_it_generates() -> None:
    found = cells(lambda: Uncached().record())
    assert not broken(found)
    assert {code for code, cell in found.items() if cell.outcome == "passed"} == {
        "EC001",
        "EC301",
        "EC306",
        "EC309",
        "EC310",
        "EC312",
        "EC314",
        "EC315",
        "EC316",
    }
    no_others = "no other way to call it is described"
    assert {cell.reason for cell in found.values() if cell.outcome == "not applicable"} == {
        "the decoder has no cache",
        no_others,
        "the decoder offers no sampler with log-probabilities: ec.Decoder(..., samplers=...)",
        "the decoder offers no log-probabilities of texts: ec.Decoder(..., text_scores=...)",
    }
    assert set(broken(cells(lambda: UncachedAndCountsPadding().record()))) == {"EC306"}


class ShortPrefill(Sliding):
    """The cache keeps a window; a first call that is longer than this window is refused."""

    prefill: int | None = 4

    def make_cache(self, rows: int) -> Any:
        return Window(kept=3)

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        if cache is not None and ids.shape[1] == mask.shape[1] > 4:
            raise ValueError(f"a prompt of {ids.shape[1]} tokens, and a window of 4")
        return super().step(ids, cache, mask, positions)

    def more(self) -> dict[str, Any]:
        return {"prefill": self.prefill}


class ShortPrefillAndWindow(ShortPrefill):
    """The same, and the window is one short: only rows that are longer than the first call show it."""

    def make_cache(self, rows: int) -> Any:
        return Window(kept=2)


def test_a_first_call_that_is_limited_is_declared() -> None:
    assert not broken(cells(lambda: ShortPrefill().record()))
    undeclared = type("Undeclared", (ShortPrefill,), {"prefill": None})
    assert "EC301" in broken(cells(lambda: undeclared().record(), "EC301"))
    assert "EC301" in broken(cells(lambda: ShortPrefillAndWindow().record(), "EC301"))


class OneStop(Generating):
    """A generation that takes one stop token."""

    max_stops: int | None = 1

    def generate(self, prompts: list[list[int]], cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        if len(stop) > 1:
            raise ValueError(f"one stop token, got {len(stop)}")
        return super().generate(prompts, cache, count, stop)

    def more(self) -> dict[str, Any]:
        return {**super().more(), "max_stops": self.max_stops}


class OneStopOfAll(OneStop):
    """The same, and all rows end with the last one that stops."""

    def next_done(self, done: list[bool]) -> list[bool]:
        return [any(done)] * len(done)


def test_one_stop_token_at_a_time_is_declared() -> None:
    kept = cells(lambda: OneStop().record(), "EC310")
    assert not broken(kept)
    assert all(kept["EC310"].conditions.values()), kept["EC310"].conditions
    undeclared = type("Undeclared", (OneStop,), {"max_stops": None})
    assert "one stop token, got" in broken(cells(lambda: undeclared().record(), "EC310"))["EC310"]
    assert "EC310" in broken(cells(lambda: OneStopOfAll().record(), "EC310"))


def test_stop_tokens_come_in_parts() -> None:
    assert list(batched([1, 2, 3], 2)) == [(1, 2), (3,)]
    assert list(batched([1, 2], 2)) == [(1, 2)]


@pytest.mark.parametrize(("prefill", "sizes"), [(None, [5, 1, 3]), (3, [3, 1, 1, 1, 3]), (1, [1] * 9), (9, [5, 1, 3])])
def test_chunks_are_within_the_first_call(prefill: int | None, sizes: list[int]) -> None:
    from decoder_subjects import under_test

    made = Growing()
    decoder = under_test(ec.Decoder(made.model, make_cache=made.make_cache, step=made.step, prefill=prefill))
    assert decoder.within_prefill([5, 1, 3]) == sizes
    assert decoder.truncate([[1] * 9]) == [[1] * (prefill or 9)]
    assert decoder.truncate([[1] * 9], whole=True) == [[1] * 9]

"""Treatment of refusals, NaN, and decoders that only generate, by the checks of decoders."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import CAPACITY, Attention, Generating, Growing, Grown, Static
from pytest_evalcheck.kinds.decoder.cases import ChunkedPrompts, even
from pytest_evalcheck.reports.failure_text import format_failure


def run(record: Any, code: str, **keywords: Any) -> ec.Cell:
    @ec.decoder(inputs=Growing.inputs, **keywords)
    def made() -> Any:
        return record()

    (cell,) = ec.run(made, select=code, effort="quick").cells
    return cell


class RefusesChunks(Growing):
    refuses: tuple[str, ...] = ("chunks",)

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        if cache is not None and mask.shape[1] > ids.shape[1] > 1:
            raise NotImplementedError("one token at a time")
        return super().step(ids, cache, mask, positions)

    def more(self) -> dict[str, Any]:
        return {"refuses": self.refuses}


class RefusesPadding(RefusesChunks):
    refuses = ("padding",)

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        if not bool(mask.all()):
            raise ValueError("rows of unequal length")
        return self.model(ids, mask, positions, cache)


class RefusesSmallerBatches(RefusesChunks):
    refuses = ("smaller batches",)

    def make_cache(self, rows: int) -> Any:
        self.rows = rows
        return super().make_cache(rows)

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        if cache is not None and len(ids) != self.rows:
            raise ValueError(f"{len(ids)} rows, and a cache for {self.rows}")
        return self.model(ids, mask, positions, cache)


@pytest.mark.parametrize(
    ("kind", "code", "outcome"),
    [
        (RefusesChunks, "EC301", "passed"),  # one token at a time is left to be tried
        (RefusesPadding, "EC306", "passed"),  # and rows of one length
        (RefusesSmallerBatches, "EC302", "not applicable"),
    ],
)
def test_a_refusal_fails_a_check_unless_it_is_declared(kind: Any, code: str, outcome: str) -> None:
    cell = run(lambda: kind().record(), code)
    assert cell.outcome == outcome, format_failure(cell)
    undeclared = type("Undeclared", (kind,), {"refuses": ()})
    cell = run(lambda: undeclared().record(), code)
    assert (cell.outcome, cell.cause) == ("failed", ""), format_failure(cell)
    assert f"declare it: ec.Decoder(..., refuses={kind.refuses!r})" in format_failure(cell)


def test_an_operator_that_fails_is_no_declared_refusal() -> None:
    class Fails(RefusesSmallerBatches):
        def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
            if cache is not None and len(ids) != self.rows:
                return torch.stack([])
            return self.model(ids, mask, positions, cache)

    text = format_failure(run(lambda: Fails().record(), "EC302"))
    assert "The record declares that it refuses smaller batches, but no `raise`" in text
    assert "declare it" not in text


def test_chunks_that_are_refused_are_not_counted_as_tried() -> None:
    cell = run(lambda: RefusesChunks().record(), "EC301")
    assert cell.outcome == "passed"
    assert cell.conditions["several tokens at a time"] == 0


class OverflowsInDouble(Growing):
    """Rows with padding are NaN in float64, as where a softmax in float32 meets a row that is masked."""

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        logits = super().step(ids, cache, mask, positions)
        single = self.model.head.weight.dtype == torch.float32
        return logits if single or bool(mask.all()) else logits * float("nan")

    def single(self) -> ec.Decoder:
        made = type(self)()
        made.model.float()
        return made.record()

    def more(self) -> dict[str, Any]:
        return {"in_float32": self.single}


class CountsPaddingInFloat32(OverflowsInDouble):
    """The same, and in float32 the logits are wrong."""

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        places = torch.arange(mask.shape[1] - ids.shape[1], mask.shape[1]).expand_as(ids)
        return super().step(ids, cache, mask, places)


def test_nan_is_tried_again_in_float32() -> None:
    assert run(lambda: OverflowsInDouble().record(), "EC306").outcome == "passed"
    wrong = run(lambda: CountsPaddingInFloat32().record(), "EC306")
    assert (wrong.outcome, wrong.cause) == ("failed", "")
    assert "padding on the" in wrong.reason


class NanInDouble(Attention):
    """Rows with padding are NaN in float64, as where a softmax in float32 meets a row that is masked completely."""

    def forward(self, ids: Tensor, mask: Tensor, positions: Tensor, cache: Any = None) -> Tensor:
        logits = super().forward(ids, mask, self.counted(mask, positions), cache)
        if self.head.weight.dtype == torch.float32:
            return logits
        return torch.where(mask.all(1)[:, None, None], logits, torch.nan)

    def counted(self, mask: Tensor, positions: Tensor) -> Tensor:
        return positions


class GrownRows(Grown):
    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows


class GeneratesNan(Generating):
    """A decoder that generates, and is NaN in float64 where a row has padding; so it generates id 0."""

    model_type: type[Attention] = NanInDouble

    def __init__(self, single: bool = False) -> None:
        self.model = self.model_type()
        if single:
            self.model.float()

    def make_cache(self, rows: int) -> Any:
        return GrownRows(rows)

    def record(self) -> ec.Decoder:
        def full(ids: Tensor, mask: Tensor, positions: Tensor) -> Any:
            return self.model(ids, mask, positions)

        return ec.Decoder(
            self.model,
            make_cache=self.make_cache,
            full=full,
            generate=self.generate,
            in_float32=lambda: type(self)(single=True).record(),
        )


class CountsPadding(NanInDouble):
    """The same, and positions count the padding."""

    def counted(self, mask: Tensor, positions: Tensor) -> Tensor:
        return torch.arange(mask.shape[1] - positions.shape[1], mask.shape[1]).expand_as(positions)


class GeneratesNanAndCountsPadding(GeneratesNan):
    model_type = CountsPadding


def test_tokens_of_logits_that_are_nan_are_tried_again_in_float32() -> None:
    kept = run(lambda: GeneratesNan().record(), "EC306")
    assert kept.outcome == "passed", format_failure(kept)
    wrong = run(lambda: GeneratesNanAndCountsPadding().record(), "EC306")
    assert (wrong.outcome, wrong.cause) == ("failed", "")
    assert "the tokens of prompts that are padded" in wrong.reason
    alone = run(lambda: replace(GeneratesNan().record(), in_float32=None), "EC306")
    assert alone.outcome == "failed"
    assert "in_float32=" in format_failure(alone)


class GeneratesOnly(Generating):
    """A decoder that generates, and gives logits without a cache alone."""

    def record(self) -> ec.Decoder:
        def full(ids: Tensor, mask: Tensor, positions: Tensor) -> Any:
            return self.model(ids, mask, positions)

        operations = {"reset": lambda cache: cache.reset()}
        return ec.Decoder(
            self.model,
            make_cache=self.make_cache,
            full=full,
            generate=self.generate,
            capacity=CAPACITY,
            operations=operations,
        )


def test_a_decoder_that_only_generates_is_checked_by_generation() -> None:
    @ec.decoder(inputs=Growing.inputs)
    def generates() -> Any:
        return GeneratesOnly().record()

    report = ec.run(generates, effort="quick")
    assert not report.of("failed")
    others = {"EC307", "EC319", "EC320", "EC321", "EC322", "EC323"}
    assert {cell.code for cell in report.of("not applicable")} == others


@pytest.mark.parametrize(
    ("changes", "code", "why"),
    [
        ({"operations": {}}, "EC304", "the cache offers no reset"),
        ({"operations": {"reset": lambda cache: cache.reset()}}, "EC307", "the cache offers no operation on rows"),
        ({}, "EC308", "the cache grows"),
        ({}, "EC310", "it decodes by step alone"),
        ({"sides": ()}, "EC306", "it takes no rows of unequal length"),
        ({"max_rows": 1}, "EC303", "a cache takes no more rows"),
        ({"max_rows": 1}, "EC302", "a cache takes no more than one row"),
        ({"tensors": lambda cache: []}, "EC313", ""),
    ],
)
def test_what_is_not_offered_is_not_applicable(changes: dict[str, Any], code: str, why: str) -> None:
    made = Growing()
    given = {"make_cache": made.make_cache, "step": made.step, "operations": made.operations}
    cell = run(lambda: ec.Decoder(made.model, **{**given, **changes}), code)
    assert (cell.outcome, cell.reason) == (("not applicable", why) if why else ("passed", "")), format_failure(cell)


def test_a_capacity_is_respected_by_all_other_checks() -> None:
    class Small(Static):
        def make_cache(self, rows: int) -> Any:
            cache = super().make_cache(rows)
            cache.keys, cache.values = cache.keys[:, :, :5], cache.values[:, :, :5]
            return cache

        def more(self) -> dict[str, Any]:
            return {**super().more(), "capacity": 5}

    @ec.decoder(inputs=Growing.inputs)
    def small() -> Any:
        return Small().record()

    report = ec.run(small, effort="quick")
    assert not report.of("failed"), format_failure(report.of("failed")[0])


def test_a_tolerance_is_the_targets_own() -> None:
    class Rough(Growing):
        def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
            return super().step(ids, cache, mask, positions) + (0.01 if cache is not None else 0)

    assert run(lambda: Rough().record(), "EC301").outcome == "failed"
    assert run(lambda: Rough().record(), "EC301", tolerance=ec.Tolerance(atol=0.02)).outcome == "passed"


def test_chunks_are_cut_with_their_rows() -> None:
    assert even([[1, 2], [3]], 3) == [[1, 2, 1], [3, 3, 3]]
    assert ChunkedPrompts(samples=[[1] * 6], chunks=[3, 2, 1]).sizes(4) == [3, 1]


class Halved(Growing):
    """A decoder in bfloat16 that computes in float64 with a cache, and as it is without one: they are rounded apart."""

    in_single = True
    """True if the decoder can be built in float32."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.exact, self.dtype = copy.deepcopy(self.model), dtype
        self.model.to(dtype)

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        model = self.model if cache is None else self.exact
        return model(ids, mask, positions, cache).to(self.dtype)

    def more(self) -> dict[str, Any]:
        return {"in_float32": lambda: type(self)(torch.float32).record()} if self.in_single else {}


class HalvedAlone(Halved):
    in_single = False


class HalvedAndCountsPadding(Halved):
    """The same, and positions count the padding."""

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        places = torch.arange(mask.shape[1] - ids.shape[1], mask.shape[1]).expand_as(ids)
        return super().step(ids, cache, mask, places)


class HalvedWithItsCache(Halved):
    """The same, and its caches are in bfloat16 whatever it computes in: a copy in float32 cannot use them."""

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        if cache is not None and self.dtype == torch.float32:
            raise RuntimeError("index_copy_(): self and source expected to have the same dtype")
        return super().step(ids, cache, mask, positions)


class HalvedWithItsCacheAndCountsPadding(HalvedAndCountsPadding, HalvedWithItsCache):
    pass


class HalvedAloneAndCountsPadding(HalvedAndCountsPadding):
    in_single = False


CODES_OF_STEPS = ("EC301", "EC302", "EC304", "EC306", "EC307", "EC311", "EC312", "EC314")


@pytest.mark.parametrize("code", CODES_OF_STEPS)
@pytest.mark.parametrize("kind", [Halved, HalvedAlone, HalvedWithItsCache])
def test_rounding_in_half_precision_is_no_fault(kind: type[Halved], code: str) -> None:
    cell = run(lambda: kind().record(), code)
    assert cell.outcome == "passed", format_failure(cell)


@pytest.mark.parametrize(
    "kind", [HalvedAndCountsPadding, HalvedAloneAndCountsPadding, HalvedWithItsCacheAndCountsPadding]
)
@pytest.mark.slow(every=3)
def test_more_than_rounding_in_half_precision_is_a_fault(kind: type[Halved]) -> None:
    cell = run(lambda: kind().record(), "EC306")
    assert (cell.outcome, cell.cause) == ("failed", ""), format_failure(cell)
    assert "padding on the" in cell.reason


def test_half_precision_differs_by_rounding_here() -> None:
    """Guard of the two tests above: the calls that they compare differ by rounding."""
    made, ids = Halved(), torch.tensor([[3, 5, 7, 9]])
    mask, positions = torch.ones_like(ids), torch.arange(4)[None]
    with torch.no_grad():
        off = made.step(ids, Grown(), mask, positions) - made.step(ids, None, mask, positions)
    assert 1e-3 < float(off.abs().max()) < 0.3

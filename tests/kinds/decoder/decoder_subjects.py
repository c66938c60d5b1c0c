"""Decoders that tests look into."""

from __future__ import annotations

from typing import Any

from torch import Tensor

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import Growing
from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.decoder.subject import DecoderUnderTest

TOLERANCE = Tolerance(rtol=1e-4, atol=1e-3)
ROWS = [[3, 1, 4, 1], [5, 9, 2, 6]]


def under_test(record: ec.Decoder | None = None, *, last_precision: bool = True) -> DecoderUnderTest:
    return DecoderUnderTest(record or Growing().record(), "cpu", TOLERANCE, last_precision=last_precision)


class RecordingDecoder(Growing):
    """A decoder that records its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs: list[tuple[Any, ...]] = []

    def step(self, ids: Tensor, cache: Any, mask: Tensor, positions: Tensor) -> Any:
        self.inputs.append((ids.tolist(), mask.tolist(), positions.tolist()))
        return super().step(ids, cache, mask, positions)

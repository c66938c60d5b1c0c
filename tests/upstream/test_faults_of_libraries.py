"""Faults of libraries whose metrics have no targets of ours: each is seen, and it is no error of a user."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

CASES: tuple[tuple[str, str, str, str], ...] = (
    ("torcheval-nan-is-a-prediction", "EC216", "torcheval.metrics:BinaryAUROC()", "es.binary()"),
    ("torcheval-keeps-references", "EC207", "torcheval.metrics:BinaryAUROC()", "es.binary()"),
    ("torcheval-compute-returns-its-state", "EC219", "torcheval.metrics:Max()", "es.values()"),
    ("torcheval-window-loses-its-place", "EC209", "torcheval.metrics:WindowedMeanSquaredError()", "es.regression()"),
    ("torcheval-float16-sums-overflow", "EC211", "torcheval.metrics:MeanSquaredError()", "es.regression()"),
    ("torcheval-state-takes-on-the-dtype", "EC212", "torcheval.metrics:R2Score()", "es.regression(outputs=2)"),
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library that is imported
@pytest.mark.parametrize(("fault", "code", "made", "inputs"), CASES, ids=[case[0] for case in CASES])
def test_a_fault_of_a_library_is_known(fault: str, code: str, made: str, inputs: str) -> None:
    module, _, construction = made.partition(":")
    names = vars(pytest.importorskip(module.partition(".")[0]) and importlib.import_module(module))

    @ec.metric(inputs=eval(inputs, {"es": es}))
    def metric(device: str) -> Any:
        return eval(construction, dict(names))

    (cell,) = ec.run(metric, select=code, effort="normal").cells
    assert (cell.upstream, cell.outcome) == (fault, "known"), cell.signature

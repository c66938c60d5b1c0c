"""Conclusions of `benchmarks/peers.py` from the result of another project's test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture(scope="module")
def causes() -> Iterator[ModuleType]:
    sys.path.insert(0, BENCHMARKS)
    import peers_causes

    yield peers_causes
    sys.path.remove(BENCHMARKS)


def _line(outcome: str = "failed", kind: str = "RuntimeError", text: str = "a text", **more: Any) -> dict[str, Any]:
    return {
        "suite": "pytorch",
        "test": "test_some.py::TestSomeCUDA::test_one_cuda",
        "outcome": outcome,
        "type": kind,
        "text": text,
        "limits": [],
        **more,
    }


@pytest.mark.parametrize(
    ("line", "plain", "verdict"),
    [
        (_line("passed"), None, "as the device"),
        (_line("skipped"), None, "skipped by the test"),
        (_line("begun"), None, "false refusal"),
        (_line(), None, "false refusal"),
        (_line(kind="TooLong", text=""), None, "stopped at the limit of time"),
        (_line(), _line("passed"), "false refusal"),
        (_line(), _line(), "fails without a simulation too"),
        (_line(limits=["CUDA graphs"]), None, "documented limit"),
        (_line(refused=["CUDA graphs"]), None, "documented limit"),
        (_line(kind="AssertionError", text="RuntimeError not raised"), None, "wrong acceptance"),
        (_line(kind="Failed", text="DID NOT RAISE RuntimeError"), _line("passed"), "wrong acceptance"),
        (_line(kind="ModuleNotFoundError", text="No module named 'timm'"), None, "needs what is not installed"),
    ],
)
def test_a_result_says(causes: ModuleType, line: dict[str, Any], plain: dict[str, Any] | None, verdict: str) -> None:
    assert causes.judge(line, plain).verdict == verdict


def test_a_failure_that_nobody_looked_into_has_no_cause(causes: ModuleType) -> None:
    assert not causes.judge(_line(), None).why
    assert all(cause.why and (cause.test or cause.error) for cause in causes.CAUSES)


def test_the_same_test_on_the_cpu(causes: ModuleType) -> None:
    assert causes  # puts the benchmarks on the path
    from peers_suites import plain_name

    generated = "test_cuda_x.py::TestTorchCUDA::test_cuda_sum_cuda_float32"
    assert plain_name(generated) == "test_cuda_x.py::TestTorchCPU::test_cuda_sum_cpu_float32"
    assert plain_name("a.py::TestMPS::test_b_mps") == "a.py::TestCPU::test_b_cpu"
    assert plain_name("tests/test_cuda.py::TestHooks::test_on_cuda") == "tests/test_cuda.py::TestHooks::test_on_cuda"


def test_the_table_counts_every_result_once(causes: ModuleType) -> None:
    from peers_table import written

    lines = [_line("passed"), _line("skipped"), _line(limits=["CUDA graphs"]), _line()]
    text = written([causes.judge(line, None) for line in lines])
    assert "| pytorch | 3 | 1 | 1 | 1 | 0 | 66.67% | 1 | 0 | 0 | 0 |" in text
    assert "not looked into: RuntimeError: a text" in text

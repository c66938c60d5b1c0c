"""The kind of engines."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.engine.record import Engine
from pytest_evalcheck.kinds.engine.subject import EngineSubject

_ROOM = "pytest_evalcheck.kinds.engine"

SPEC = KindSpec(
    name="engine",
    record=Engine,
    subject=EngineSubject,
    checks=tuple(f"{_ROOM}.checks_{name}" for name in ("requests", "parameters", "programs")),
    example="prompts(vocab=64)",
    expected="an ec.Engine, an ec.Endpoint, or an LLM of vLLM",
    methods=("complete",),
    complete_hint="It has complete(): return `ec.Engine(it.complete)`.",
    partial_hint="`ec.Engine(complete)`",
    # Log-probabilities of float32 engines are 3e-5 apart; those of a request with another's cache are 0.1 apart.
    tolerance=Tolerance(rtol=1e-4, atol=1e-3),
    copyable=False,
)

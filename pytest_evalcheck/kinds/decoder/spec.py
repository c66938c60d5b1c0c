"""The kind of decoders."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Tolerance
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.common.calling import describe
from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.decoder.record import Decoder
from pytest_evalcheck.kinds.decoder.subject import DecoderSubject

_ROOM = "pytest_evalcheck.kinds.decoder"
_CHECKS = ("cache", "batches", "rows", "state", "conventions", "repeats", "log_probabilities")


def _incomplete(decoder: Decoder) -> TargetError:
    alone = f"{describe(decoder.model)} with make_cache alone" if decoder.generate is None else "generate=... alone"
    return TargetError(
        "the decoder does not say how it decodes",
        expected="step=..., or both generate=... and full=...; a model of transformers needs neither",
        actual=alone,
        cause="factory",
    )


SPEC = KindSpec(
    name="decoder",
    record=Decoder,
    subject=DecoderSubject,
    checks=tuple(f"{_ROOM}.checks_{name}" for name in _CHECKS),
    example="prompts(vocab=64)",
    expected="an ec.Decoder, or a model of transformers, torchtune or lm_eval",
    methods=("make_cache", "step"),
    complete_hint=("It has make_cache() and step(): return `ec.Decoder(it, make_cache=it.make_cache, step=it.step)`."),
    partial_hint="`ec.Decoder(model, make_cache=..., step=...)`",
    # Honest differences of float64 logits reach 2e-5, wrong caches start at 0.05.
    tolerance=Tolerance(rtol=1e-4, atol=1e-3),
    copyable=False,
    wrapped=lambda decoder: None if decoder.complete else decoder.model,
    incomplete=_incomplete,
)

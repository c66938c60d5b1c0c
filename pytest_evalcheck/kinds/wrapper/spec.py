"""The kind of model wrappers."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.wrapper.subject import Wrapper, WrapperSubject

_ROOM = "pytest_evalcheck.kinds.wrapper"
_CHECKS = ("batch", "rows", "state", "conventions", "log_probabilities", "device")

SPEC = KindSpec(
    name="wrapper",
    record=Wrapper,
    subject=WrapperSubject,
    checks=tuple(f"{_ROOM}.checks_{name}" for name in _CHECKS),
    example="causal_lm(vocab=40)",
    expected="an ec.Wrapper, or a model of Composer, transformers or Lightning",
    methods=("forward",),
    complete_hint=(
        "It has forward(): return `ec.Wrapper.of(it, loss=...)` for a torch.nn.Module, "
        "or `ec.Wrapper(forward=..., update=...)`."
    ),
    partial_hint="`ec.Wrapper(forward=..., update=...)`",
    copyable=False,
)

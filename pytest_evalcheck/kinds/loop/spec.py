"""The kind of evaluation loops."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.kind import KindOption, KindSpec
from pytest_evalcheck.kinds.loop.record import Loop
from pytest_evalcheck.kinds.loop.subject import LoopSubject
from pytest_evalcheck.variants import read

_ROOM = "pytest_evalcheck.kinds.loop"

SPEC = KindSpec(
    name="loop",
    record=Loop,
    subject=LoopSubject,
    checks=tuple(f"{_ROOM}.checks_{name}" for name in ("batches", "samples", "state", "inputs", "resumed", "variants")),
    example="tabular(features=3, classes=4)",
    expected="an ec.Loop, a Trainer of transformers or Composer, a pipeline, a LightningModule, an Engine of ignite, "
    "or an LM of lm_eval",
    methods=("evaluate",),
    complete_hint="It has evaluate(): return `ec.Loop(evaluate=...)` with a function of a data set and a batch size.",
    partial_hint="`ec.Loop(evaluate=...)`, or `ec.Loop.of(model, loss=...)` for a torch.nn.Module",
    copyable=False,
    options={"variants": KindOption(read=read)},
)

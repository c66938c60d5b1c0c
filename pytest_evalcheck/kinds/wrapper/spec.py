"""The kind of model wrappers."""

from __future__ import annotations

from pytest_evalcheck.kinds.common.kind import KindSpec
from pytest_evalcheck.kinds.wrapper.subject import Wrapper, WrapperSubject

_ROOM = "pytest_evalcheck.kinds.wrapper"
_ADAPTERS = "pytest_evalcheck.adapters"

SPEC = KindSpec(
    name="wrapper",
    record=Wrapper,
    subject=WrapperSubject,
    checks=tuple(f"{_ROOM}.checks_{name}" for name in ("batch", "rows", "state", "conventions")),
    example="causal_lm(vocab=40)",
    expected="an ec.Wrapper, or a model of Composer, transformers or Lightning",
    methods=("forward",),
    complete_hint=(
        "It has forward(): return `ec.Wrapper.of(it, loss=...)` for a torch.nn.Module, "
        "or `ec.Wrapper(forward=..., update=...)`."
    ),
    partial_hint="`ec.Wrapper(forward=..., update=...)`",
    adapters={
        "composer.models.base.ComposerModel": f"{_ADAPTERS}.composer.wrapper",
        "lightning.pytorch.core.module.LightningModule": f"{_ADAPTERS}.lightning.wrapper",
        "peft.peft_model.PeftModel": f"{_ADAPTERS}.transformers.wrapper",
        "pytorch_lightning.core.module.LightningModule": f"{_ADAPTERS}.lightning.wrapper",
        "transformers.modeling_utils.PreTrainedModel": f"{_ADAPTERS}.transformers.wrapper",
    },
    copyable=False,
)

"""Objects of libraries we know become records, without importing a library that is not there already."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

from pytest_evalcheck.kinds.common.calling import TargetError
from pytest_evalcheck.kinds.decoder.record import Decoder
from pytest_evalcheck.kinds.loop.record import Loop
from pytest_evalcheck.kinds.metric.subject import Metric
from pytest_evalcheck.kinds.scorer.subject import Scorer
from pytest_evalcheck.kinds.wrapper.subject import Wrapper

_RECORDS: dict[str, type] = {"decoder": Decoder, "loop": Loop, "metric": Metric, "scorer": Scorer, "wrapper": Wrapper}

_KNOWN: dict[str, dict[str, str]] = {
    "decoder": {
        "lm_eval.models.huggingface.HFLM": "lm_eval.decoder",
        "torchtune.modules.transformer.TransformerDecoder": "torchtune.decoder",
        "transformers.modeling_utils.PreTrainedModel": "transformers.decoder",
    },
    "loop": {
        "composer.trainer.trainer.Trainer": "composer.loop",
        "lightning.pytorch.core.module.LightningModule": "lightning.loop",
        "lm_eval.models.huggingface.HFLM": "lm_eval.loop",
        "pytorch_lightning.core.module.LightningModule": "lightning.loop",
        "transformers.pipelines.base.Pipeline": "transformers.pipeline_loop",
        "transformers.trainer.Trainer": "transformers.loop",
    },
    "metric": {
        "torchmetrics.collections.MetricCollection": "torchmetrics.metric",
        "torchmetrics.metric.Metric": "torchmetrics.metric",
        "evaluate.module.CombinedEvaluations": "evaluate.metric",
        "evaluate.module.EvaluationModule": "evaluate.metric",
    },
    "scorer": {
        "evaluate.module.CombinedEvaluations": "evaluate.scorer",
        "evaluate.module.EvaluationModule": "evaluate.scorer",
        "lm_eval.api.filter.Filter": "lm_eval.scorer",
        "lm_eval.api.filter.FilterEnsemble": "lm_eval.scorer",
        "lm_eval.api.task.ConfigurableTask": "lm_eval.scorer",
    },
    "wrapper": {
        "composer.models.base.ComposerModel": "composer.wrapper",
        "lightning.pytorch.core.module.LightningModule": "lightning.wrapper",
        "pytorch_lightning.core.module.LightningModule": "lightning.wrapper",
        "transformers.modeling_utils.PreTrainedModel": "transformers.wrapper",
    },
}
"""By kind: from the qualified name of a class to our module that knows it."""

_NEEDED = {
    "decoder": ("make_cache", "step"),
    "loop": ("evaluate",),
    "metric": ("update", "compute"),
    "scorer": ("score",),
    "wrapper": ("forward",),
}
_EXPECTED = {
    "decoder": "an ec.Decoder, or a model of transformers, torchtune or lm_eval",
    "loop": "an ec.Loop, a Trainer of transformers or Composer, a pipeline, a LightningModule, or an HFLM of lm_eval",
    "metric": "an ec.Metric, or an object of torchmetrics or Hugging Face evaluate",
    "scorer": "an ec.Scorer, or a filter or task of lm_eval, or a metric of Hugging Face evaluate",
    "wrapper": "an ec.Wrapper, or a model of Composer, transformers or Lightning",
}
_HINTS = {
    "decoder": (
        "It has make_cache() and step(): return `ec.Decoder(it, make_cache=it.make_cache, step=it.step)`.",
        "`ec.Decoder(model, make_cache=..., step=...)`",
    ),
    "loop": (
        "It has evaluate(): return `ec.Loop(evaluate=...)` with a function of a data set and a batch size.",
        "`ec.Loop(evaluate=...)`, or `ec.Loop.of(model, loss=...)` for a torch.nn.Module",
    ),
    "metric": ("It has update() and compute(): return `ec.Metric.of(it)`.", "`ec.Metric(update=..., compute=...)`"),
    "scorer": (
        "It has score(): return `ec.Scorer(score=it.score)`, if that takes responses and documents.",
        "`ec.Scorer(score=...)`, or `ec.Scorer.of(function)` for a function that scores one document",
    ),
    "wrapper": (
        "It has forward(): return `ec.Wrapper.of(it, loss=...)` for a torch.nn.Module, "
        "or `ec.Wrapper(forward=..., update=...)`.",
        "`ec.Wrapper(forward=..., update=...)`",
    ),
}


def record(kind: str, made: Any) -> Any:
    """The record of what the factory of a target of this kind returned.

    Raises:
        TargetError: when it is none, nor an object of a library that is known.
    """
    given = made.model if isinstance(made, Decoder) else made
    if isinstance(made, _RECORDS[kind]) and not (isinstance(made, Decoder) and not made.complete):
        return made
    for cls in type(given).__mro__:
        module = _KNOWN[kind].get(f"{cls.__module__}.{cls.__qualname__}")
        if module:
            return importlib.import_module(f"pytest_evalcheck.adapters.{module}").record(made)
    if isinstance(made, Decoder):
        raise TargetError(
            "the decoder does not say how it decodes",
            expected="step=..., or both generate=... and full=...; a model of transformers needs neither",
            actual=f"{_describe(given)} with make_cache alone" if made.generate is None else "generate=... alone",
            cause="factory",
        )
    raise TargetError(
        f"the factory returned {_describe(made)}",
        expected=_EXPECTED[kind],
        actual=repr(made)[:120],
        detail=_hint(kind, made),
        cause="factory",
    )


def _describe(made: Any) -> str:
    if made is None:
        return "None (does it end without `return`?)"
    if isinstance(made, type):
        return f"the class {made.__name__}, not an instance of it"
    return f"an object of type {type(made).__module__}.{type(made).__qualname__}"


def _hint(kind: str, made: Any) -> str:
    methods = [name for name in dir(made) if not name.startswith("_")]
    missing = [name for name in _NEEDED[kind] if name not in methods]
    whole, parts = _HINTS[kind]
    if not missing:
        return whole
    near = {name: difflib.get_close_matches(name, methods, n=1) for name in missing}
    likely = [f"{found[0]}() for {name}" for name, found in near.items() if found]
    return f"Describe it: {parts}" + (f", perhaps with {', '.join(likely)}." if likely else ".")

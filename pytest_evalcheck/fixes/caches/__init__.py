"""Key/value caches that serve any batch up to their size, and what goes around them (EC301 to EC311).

`pad_batch` and `trim` fill a batch and take the added rows away; `plan_batches` and `expand_choices` pack requests
into full batches and give the results back in the caller's order; `decode` generates greedily with a cache that is
kept between batches. `NarrowStaticCache` stands in for transformers' ``StaticCache``, `kept_kv_cache` for torchtune's
``local_kv_cache``, `KeptCacheLM` and `TorchtuneLM` for lm-eval's ``HFLM``; each of these imports its library when it
is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.caches.errors import CacheError, UnservedModel
from pytest_evalcheck.fixes.caches.filling import pad_batch, trim
from pytest_evalcheck.fixes.caches.packing import BatchPlan, Expansion, expand_choices, plan_batches
from pytest_evalcheck.fixes.lazy import lazily

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.caches.decoding import decode
    from pytest_evalcheck.fixes.caches.lm_eval_models import KeptCacheLM, KeptTorchtuneCache, TorchtuneLM
    from pytest_evalcheck.fixes.caches.torchtune_cache import KeptCaches, kept_kv_cache
    from pytest_evalcheck.fixes.caches.torchtune_decoder import TorchtuneDecoder
    from pytest_evalcheck.fixes.caches.transformers_cache import NarrowStaticCache
    from pytest_evalcheck.fixes.caches.transformers_decoder import TransformersDecoder

_HOMES = {
    "KeptCacheLM": "lm_eval_models",
    "KeptCaches": "torchtune_cache",
    "KeptTorchtuneCache": "lm_eval_models",
    "NarrowStaticCache": "transformers_cache",
    "TorchtuneDecoder": "torchtune_decoder",
    "TorchtuneLM": "lm_eval_models",
    "TransformersDecoder": "transformers_decoder",
    "decode": "decoding",
    "kept_kv_cache": "torchtune_cache",
}

__all__ = [
    "BatchPlan",
    "CacheError",
    "Expansion",
    "KeptCacheLM",
    "KeptCaches",
    "KeptTorchtuneCache",
    "NarrowStaticCache",
    "TorchtuneDecoder",
    "TorchtuneLM",
    "TransformersDecoder",
    "UnservedModel",
    "decode",
    "expand_choices",
    "kept_kv_cache",
    "pad_batch",
    "plan_batches",
    "trim",
]

__getattr__ = lazily(__name__, _HOMES)

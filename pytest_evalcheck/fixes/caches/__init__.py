"""Key/value caches that accept any batch up to their capacity, and the preparation of batches (EC301 to EC311).

`pad_batch` adds rows to a batch and `trim` removes them from the results; `plan_batches` and `expand_choices` pack
requests into full batches and restore the caller's order; `decode` generates greedily with one cache for all batches.
`ResizableStaticCache` replaces transformers' ``StaticCache``, `persistent_kv_cache` torchtune's ``local_kv_cache``,
`PersistentCacheLM` and `TorchtuneLM` lm-eval's ``HFLM``; each of these imports its library when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.lazy import lazy_exports

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.caches.batch_padding import BatchPlan as BatchPlan
    from pytest_evalcheck.fixes.caches.batch_padding import CacheError as CacheError
    from pytest_evalcheck.fixes.caches.batch_padding import Expansion as Expansion
    from pytest_evalcheck.fixes.caches.batch_padding import UnsupportedModel as UnsupportedModel
    from pytest_evalcheck.fixes.caches.batch_padding import expand_choices as expand_choices
    from pytest_evalcheck.fixes.caches.batch_padding import pad_batch as pad_batch
    from pytest_evalcheck.fixes.caches.batch_padding import plan_batches as plan_batches
    from pytest_evalcheck.fixes.caches.batch_padding import trim as trim
    from pytest_evalcheck.fixes.caches.decoding import decode as decode
    from pytest_evalcheck.fixes.caches.generation import StopFlags as StopFlags
    from pytest_evalcheck.fixes.caches.generation import require_prompts as require_prompts
    from pytest_evalcheck.fixes.caches.generation import step_mask as step_mask
    from pytest_evalcheck.fixes.caches.generation import step_positions as step_positions
    from pytest_evalcheck.fixes.caches.lm_eval_models import PersistentCacheLM as PersistentCacheLM
    from pytest_evalcheck.fixes.caches.lm_eval_models import PersistentTorchtuneCache as PersistentTorchtuneCache
    from pytest_evalcheck.fixes.caches.lm_eval_models import TorchtuneLM as TorchtuneLM
    from pytest_evalcheck.fixes.caches.torchtune_cache import PersistentKVCaches as PersistentKVCaches
    from pytest_evalcheck.fixes.caches.torchtune_cache import TorchtuneDecoder as TorchtuneDecoder
    from pytest_evalcheck.fixes.caches.torchtune_cache import persistent_kv_cache as persistent_kv_cache
    from pytest_evalcheck.fixes.caches.transformers_cache import ResizableStaticCache as ResizableStaticCache
    from pytest_evalcheck.fixes.caches.transformers_cache import TransformersDecoder as TransformersDecoder

# transformers, torchtune and lm-eval take seconds to import.
__getattr__, __all__ = lazy_exports(
    __name__,
    {
        "batch_padding": "BatchPlan CacheError Expansion UnsupportedModel expand_choices pad_batch plan_batches trim",
        "decoding": "decode",
        "generation": "StopFlags require_prompts step_mask step_positions",
        "lm_eval_models": "PersistentCacheLM PersistentTorchtuneCache TorchtuneLM",
        "torchtune_cache": "PersistentKVCaches TorchtuneDecoder persistent_kv_cache",
        "transformers_cache": "ResizableStaticCache TransformersDecoder",
    },
)

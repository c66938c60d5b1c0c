"""A static cache for transformers that accepts batches of every size up to its own, and a decoder with it.

The library's ``StaticCache`` keeps the size of the first batch and refuses every other one, and attention runs over
all of its positions, filled or not. `ResizableStaticCache` replaces it.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.batch_padding import CacheError, UnsupportedModel, require_context, require_size
from pytest_evalcheck.fixes.caches.decoding import Decoder
from pytest_evalcheck.fixes.caches.layer_cache import LayerCache, LayerCaches
from pytest_evalcheck.fixes.releases import known_release

with known_release("transformers", "ResizableStaticCache"):
    from transformers import cache_utils
    from transformers.cache_utils import Cache, CacheLayerMixin, StaticCache, get_layer_types_and_kwargs


class ResizableLayer(CacheLayerMixin):  # type: ignore[misc]
    """One layer of a `ResizableStaticCache`, with the methods of transformers' layers."""

    # The shapes of its views change from step to step, so nothing may be compiled for one of them.
    is_compileable = False
    supports_early_init = True

    def __init__(self, store: LayerCache):
        self.store = store
        self.max_cache_len = store.length
        self.is_sliding = store.kept is not None
        self.is_croppable = store.kept is None  # A window that has moved on cannot be moved back.

    @property
    def keys(self) -> Tensor | None:
        shown = self.store.visible()
        return shown and shown[0]

    @property
    def values(self) -> Tensor | None:
        shown = self.store.visible()
        return shown and shown[1]

    @property
    def is_initialized(self) -> bool:
        return bool(self.store.memory)

    @property
    def dtype(self) -> torch.dtype | None:
        return self.store.dtype

    @property
    def batch_size(self) -> int:
        return self.store.rows or self.store.capacity

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        if self.store.dtype not in (None, key_states.dtype):
            raise CacheError(f"keys: expected {self.store.dtype}, the dtype of the cache, got {key_states.dtype}")
        sizes = (key_states.shape[1], key_states.shape[-1], value_states.shape[-1])
        self.store.allocate(*sizes, key_states.dtype, key_states.device)

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        return self.store.append(key_states, value_states)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        before = self.store.earlier_positions
        return before + query_length, self.store.seen - before

    def get_seq_length(self) -> int:
        return self.store.seen

    def get_max_length(self) -> int:
        return self.max_cache_len

    def offload(self) -> None:
        raise CacheError("cache: a cache that is kept between batches cannot be offloaded")

    prefetch = offload

    def reset(self) -> None:
        self.store.reset()

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove > 0:
            raise CacheError(f"tokens_to_remove: expected the number of tokens below zero, got {tokens_to_remove}")
        self.store.crop(-tokens_to_remove)

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.store.seen:
            self.store.select(beam_idx.tolist())

    batch_select_indices = reorder_cache

    def batch_repeat_interleave(self, repeats: int) -> None:
        if self.store.seen:
            self.store.select([row for row in range(self.store.rows) for _ in range(repeats)])


class ResizableStaticCache(LayerCaches, StaticCache):  # type: ignore[misc]
    """Memory for ``max_batch_size`` rows and ``max_cache_len`` positions, which every smaller batch shares.

    Use it wherever transformers takes a cache, and call `start_batch` before every batch::

        cache = ResizableStaticCache(model.config, max_cache_len=512, max_batch_size=16)
        for batch in batches:
            model.generate(**batch, past_key_values=cache.start_batch(len(batch["input_ids"])))
        cache.release()

    Layers with full, sliding and chunked attention are supported. Beams and several sequences per prompt count as
    rows. ``dtype`` is that of the keys, by default that of the first ones. `CacheError` for a length beyond the
    model's context, `UnsupportedModel` for layers of another kind (those of state-space models, for example) and for
    an encoder-decoder, and later for a batch that does not fit, see `LayerCache`.

    `PersistentCacheLM` is lm-eval's ``HFLM`` with it.

    Symptom: the last batch, which is smaller, is refused, or it needs another cache.

    Before::

        from transformers import StaticCache

        def make_cache(rows):
            return StaticCache(model.config, max_cache_len=64)

    After::

        from pytest_evalcheck.fixes.caches import ResizableStaticCache

        def make_cache(rows):
            return ResizableStaticCache(model.config, max_cache_len=64, max_batch_size=rows)

    Costs: memory for the largest batch; a smaller one is computed without rows that are added.

    Limits: the cache of one batch at a time. Views change their shape with every step, so nothing is compiled.

    Target: ec.decoder(inputs=es.prompts(vocab=23)) with static(model, make_cache)

    Shown by: EC302.
    """

    def __init__(self, config: Any, max_cache_len: int, max_batch_size: int, dtype: torch.dtype | None = None):
        require_size(max_cache_len, "max_cache_len")
        require_size(max_batch_size, "max_batch_size")
        if getattr(config, "is_encoder_decoder", False):
            raise UnsupportedModel(f"config: expected that of a decoder, got {type(config).__name__}")
        text = config.get_text_config(decoder=True)
        require_context(max_cache_len, getattr(text, "max_position_embeddings", None))
        layers = [
            _layer(kind, max_batch_size, max_cache_len, dtype, options.get("sliding_window"))
            for kind, options in zip(*get_layer_types_and_kwargs(text), strict=True)
        ]
        Cache.__init__(self, layers=layers)
        self.max_cache_len = max_cache_len
        self.max_batch_size = self.capacity = max_batch_size

    def stores(self) -> list[LayerCache]:
        return [layer.store for layer in self.layers if isinstance(layer, ResizableLayer)]


def _layer(kind: str, rows: int, length: int, dtype: torch.dtype | None, window: int | None) -> Any:
    if kind == "dummy":
        return cache_utils.DummyLayer()  # of the releases that have layers of this kind
    if kind not in ("full_attention", "sliding_attention", "chunked_attention"):
        raise UnsupportedModel(f"config: expected layers of full, sliding or chunked attention, got {kind!r}")
    return ResizableLayer(LayerCache(rows, length, dtype, window))


class TransformersDecoder(Decoder):
    """A causal language model of transformers with one `ResizableStaticCache` for all batches.

    ``capacity`` is the largest number of rows of a batch, ``max_length`` the largest number of positions, prompt and
    new tokens together. `release`, or the end of a ``with`` block, frees the memory. The model has to be in
    ``eval()``, otherwise `CacheError`; for other errors see `ResizableStaticCache`.
    """

    def __init__(self, model: Any, *, capacity: int, max_length: int, dtype: torch.dtype | None = None):
        self.model, self.capacity, self.max_length = model, capacity, max_length
        self.cache = ResizableStaticCache(model.config, max_length, capacity, dtype)
        self.vocabulary = model.get_input_embeddings().num_embeddings
        accepted = inspect.signature(model.forward).parameters
        self._last = {"logits_to_keep": 1} if "logits_to_keep" in accepted else {}
        self._takes_positions = "position_ids" in accepted

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def step(self, ids: Tensor, positions: Tensor, real: Tensor | None) -> Tensor:
        options: dict[str, Any] = {"position_ids": positions} if self._takes_positions else {}
        if real is not None:
            options["attention_mask"] = real.long()
        logits = self.model(
            input_ids=ids, past_key_values=self.cache, use_cache=True, return_dict=True, **self._last, **options
        ).logits
        return logits[:, -1]

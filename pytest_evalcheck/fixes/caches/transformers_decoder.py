"""transformers' decoders, as `decode` drives them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.errors import CacheError, require_rows
from pytest_evalcheck.fixes.caches.transformers_cache import NarrowStaticCache


class TransformersDecoder:
    """A causal language model of transformers with a `NarrowStaticCache` that stays from batch to batch.

    ``capacity`` is the most rows of a batch, ``max_length`` the most positions, prompt and new tokens together.
    `release` gives the memory back; so does the end of a ``with`` block. The model has to be in ``eval()``:
    `CacheError` where it trains, and see `NarrowStaticCache`.
    """

    def __init__(self, model: Any, *, capacity: int, max_length: int, dtype: torch.dtype | None = None):
        self.model = model
        self.cache = NarrowStaticCache(model.config, max_length, capacity, dtype)
        self.capacity, self.max_length = capacity, max_length
        self.vocabulary = model.get_input_embeddings().num_embeddings
        taken = inspect.signature(model.forward).parameters
        self._last = {"logits_to_keep": 1} if "logits_to_keep" in taken else {}
        self._places = "position_ids" in taken

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    def fresh(self, rows: int) -> None:
        if self.model.training:
            raise CacheError("model: expected one in eval(), got one that trains, whose dropout changes tokens")
        require_rows(rows, self.capacity)
        self.cache.fresh(rows)

    def step(self, ids: Tensor, positions: Tensor, real: Tensor | None) -> Tensor:
        options: dict[str, Any] = {"position_ids": positions} if self._places else {}
        if real is not None:
            options["attention_mask"] = real.long()
        logits = self.model(
            input_ids=ids, past_key_values=self.cache, use_cache=True, return_dict=True, **self._last, **options
        ).logits
        return logits[:, -1]

    def select(self, rows: Sequence[int]) -> None:
        self.cache.select(rows)

    def release(self) -> None:
        """Give the memory of the cache back; the next batch takes it anew."""
        self.cache.release()

    def __enter__(self) -> TransformersDecoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

"""torchtune's decoders, as `decode` drives them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.errors import CacheError
from pytest_evalcheck.fixes.caches.torchtune_cache import KeptCaches


class TorchtuneDecoder:
    """A torchtune decoder with `KeptCaches` that stay from batch to batch.

    ``capacity`` is the most rows of a batch, ``max_length`` the most positions, prompt and new tokens together (the
    model's context where it is not given). The caches are in the model from here on until `release`, or the end of
    a ``with`` block. The model has to be in ``eval()``: `CacheError` where it trains, and see `KeptCaches`.
    """

    def __init__(self, model: Any, *, capacity: int, max_length: int | None = None, dtype: torch.dtype | None = None):
        self.model = model
        self.caches = KeptCaches(model, capacity=capacity, max_seq_len=max_length, dtype=dtype).install()
        self.capacity, self.max_length = capacity, self.caches.max_seq_len
        self.vocabulary = model.tok_embeddings.num_embeddings
        self._seen = 0

    @property
    def device(self) -> torch.device:
        return self.model.tok_embeddings.weight.device

    def fresh(self, rows: int) -> None:
        if self.model.training:
            raise CacheError("model: expected one in eval(), got one that trains, whose dropout changes tokens")
        self.caches.fresh(rows)
        self._seen = 0

    def step(self, ids: Tensor, positions: Tensor, real: Tensor | None) -> Tensor:
        new = ids.shape[1]
        width = self._seen + new
        places = torch.arange(width, device=ids.device)
        mask = (places <= places[self._seen :, None])[None]
        if real is not None:
            # Padding looks at itself, since attention to nothing is not a number.
            mask = (mask & real[:, None]) | (places == places[self._seen :, None])
        self._seen = width
        # Logits of the last position alone; the norm and the output see one position at a time.
        last = self.model.norm.register_forward_pre_hook(lambda _, given: (given[0][:, -1:],))
        try:
            logits = self.model(ids, mask=mask, input_pos=positions if new > 1 else positions[:, 0])
        finally:
            last.remove()
        while isinstance(logits, list):  # hidden states come before the output, and chunks of it in order
            logits = logits[-1]
        return logits[:, -1]

    def select(self, rows: Sequence[int]) -> None:
        self.caches.select(rows)

    def release(self) -> None:
        """Take the caches out of the model and give their memory back."""
        self.caches.release()

    def __enter__(self) -> TorchtuneDecoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

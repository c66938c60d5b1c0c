"""torchtune's caches, allocated once for every batch up to their size, and a decoder with them.

torchtune's ``local_kv_cache`` allocates its caches for one batch and deletes them after it, its evaluation recipe pads
a short batch with rows that are computed for nothing, and attention runs over all positions, filled or not.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from pytest_evalcheck.fixes.caches.batch_padding import CacheError, UnsupportedModel, require_context, require_size
from pytest_evalcheck.fixes.caches.decoding import Decoder
from pytest_evalcheck.fixes.caches.generation import step_mask
from pytest_evalcheck.fixes.caches.layer_cache import LayerCache, LayerCaches
from pytest_evalcheck.fixes.releases import known_release

with known_release("torchtune", "persistent_kv_cache"):
    from torchtune.modules import TransformerCrossAttentionLayer, TransformerDecoder
    from torchtune.modules.kv_cache import KVCache


class ResizableKVCache(KVCache):  # type: ignore[misc]
    """The cache of one attention module, with the methods of torchtune's, over a `LayerCache`."""

    def __init__(self, like: Any, store: LayerCache):
        nn.Module.__init__(self)
        self.store = store
        self.sizes = (like.k_cache.shape[1], like.k_cache.shape[-1], like.v_cache.shape[-1])
        self.batch_size = store.capacity

    @property
    def k_cache(self) -> Tensor:
        """The keys of the batch, (rows, heads, seen, dim)."""
        return self._visible()[0]

    @property
    def v_cache(self) -> Tensor:
        """The values of the batch, (rows, heads, seen, dim)."""
        return self._visible()[1]

    @property
    def cache_pos(self) -> Tensor:
        """The next positions, up to the last one of the memory."""
        return torch.arange(self.store.seen, self.store.length)

    @property
    def size(self) -> int:
        return self.store.seen

    def reset(self) -> None:
        self.store.reset()

    def update(self, k_val: Tensor, v_val: Tensor) -> tuple[Tensor, Tensor]:
        return self.store.append(k_val, v_val)

    def _visible(self) -> tuple[Tensor, Tensor]:
        shown = self.store.visible()
        if shown is None:
            raise CacheError("cache: its memory was released; set it up again")
        return shown

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Any:
        # Moving the model moves its caches.
        store = self.store
        if store.memory:
            store.memory = [fn(each) for each in store.memory]
            store.dtype = store.memory[0].dtype
        return super()._apply(fn, *args, **kwargs)


class PersistentKVCaches(LayerCaches):
    """The caches of all layers of a torchtune decoder, from `install` to `release`.

    ``capacity`` is the largest number of rows of a batch, ``max_seq_len`` the largest number of positions (by default
    the model's context), ``dtype`` by default that of the model. `persistent_kv_cache` is the same as a context
    manager.

    torchtune's ``generate``, ``reset_caches`` and ``disable_kv_cache`` work as with its own caches. Masks may be as
    wide as the caches are long, as ``generate`` makes them: the part behind the filled positions is cut off.

    `CacheError` for a length beyond the model's context, for a dtype that is not the model's, and for a model that has
    caches already; `UnsupportedModel` for one with cross-attention.
    """

    def __init__(self, model: Any, *, capacity: int, max_seq_len: int | None = None, dtype: torch.dtype | None = None):
        if not isinstance(model, TransformerDecoder):
            raise UnsupportedModel(f"model: expected a TransformerDecoder of torchtune, got {type(model).__name__}")
        if any(isinstance(module, TransformerCrossAttentionLayer) for module in model.modules()):
            raise UnsupportedModel(
                "model: expected self-attention alone, got cross-attention layers; use local_kv_cache"
            )
        self.model = model
        self.capacity = require_size(capacity, "capacity")
        self.max_seq_len = model.max_seq_len if max_seq_len is None else require_size(max_seq_len, "max_seq_len")
        require_context(self.max_seq_len, model.max_seq_len)
        weight = model.tok_embeddings.weight
        self.dtype, self.device = dtype or weight.dtype, weight.device
        if self.dtype != weight.dtype:
            raise CacheError(f"dtype: expected {weight.dtype}, the model's, got {self.dtype}")
        self._hooks: list[Any] = []
        self._installed: list[tuple[Any, ResizableKVCache]] = []

    def stores(self) -> list[LayerCache]:
        return [cache.store for _, cache in self._installed]

    def install(self) -> PersistentKVCaches:
        """Allocate the memory and put the caches into the model."""
        if self.model.caches_are_setup():
            raise CacheError("model: it has caches already; delete_kv_caches of torchtune removes them")
        try:
            self._install()
        except BaseException:
            self.release()
            raise
        return self

    def release(self) -> None:
        """Remove the caches from the model and free their memory."""
        for attention, cache in self._installed:
            if attention.kv_cache is cache:
                attention.kv_cache, attention.cache_enabled = None, False
        super().release()
        for hook in self._hooks:
            hook.remove()
        if self._installed:
            self.model.decoder_max_cache_seq_len = None
        self._installed, self._hooks = [], []

    def _install(self) -> None:
        for attention in _attentions(self.model):
            window = getattr(attention, "sliding_window_size", None)
            attention.setup_cache(1, self.dtype, 1)  # Only the module itself knows how many heads it stores.
            cache = ResizableKVCache(
                attention.kv_cache, LayerCache(self.capacity, self.max_seq_len, self.dtype, window)
            )
            self._installed.append((attention, cache))
            attention.kv_cache = cache
            cache.store.allocate(*cache.sizes, self.dtype, self.device)
            if window is not None:
                self._hooks.append(attention.register_forward_pre_hook(_window_mask, with_kwargs=True))
        self.model.decoder_max_cache_seq_len = self.max_seq_len
        self._hooks.append(self.model.register_forward_pre_hook(self._cut_mask, with_kwargs=True))

    def _cut_mask(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tokens, mask = args[0] if args else kwargs["tokens"], kwargs.get("mask")
        if not model.caches_are_enabled():
            # With caches that are set up but disabled, torchtune's attention without a mask attends to later tokens.
            return (args, kwargs) if mask is not None else (args, {**kwargs, "mask": _causal(tokens)})
        seen, positions = self._installed[0][1].size, kwargs.get("input_pos")
        # Reading the positions in every step would wait for an accelerator.
        readable = isinstance(positions, Tensor) and (tokens.shape[1] > 1 or positions.device.type == "cpu")
        if seen and readable and bool(torch.eq(positions, 0).any()):
            raise CacheError(
                f"cache: a new batch begins, but {seen} positions of the batch before are in the cache; "
                "call start_batch(rows), or the model's reset_caches(), before each batch"
            )
        if isinstance(mask, Tensor) and mask.shape[-1] > seen + tokens.shape[1]:
            kwargs = {**kwargs, "mask": mask[..., : seen + tokens.shape[1]]}
        return args, kwargs


def _attentions(model: Any) -> list[Any]:
    return [module for module in model.modules() if hasattr(module, "kv_cache") and hasattr(module, "setup_cache")]


def _causal(tokens: Tensor) -> Tensor:
    return torch.ones(1, tokens.shape[1], tokens.shape[1], dtype=torch.bool, device=tokens.device).tril()


def _window_mask(attention: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the arguments of a sliding layer with a mask of the positions in its window.

    The layer's own mask counts windows from the first new position, not from the first of all, and a step with one
    position attends to the oldest ones.
    """
    mask = kwargs.get("mask")
    if not attention.cache_enabled or not isinstance(mask, Tensor):
        return None
    new = mask.shape[-2]
    here = min(mask.shape[-1], attention.kv_cache.store.earlier_positions + new)
    mask = mask[..., mask.shape[-1] - here :]
    places = torch.arange(here, device=mask.device)
    inside = places > places[here - new :, None] - attention.sliding_window_size
    return args, {**kwargs, "mask": mask & inside}


@contextlib.contextmanager
def persistent_kv_cache(
    model: Any, *, capacity: int, max_seq_len: int | None = None, dtype: torch.dtype | None = None
) -> Iterator[PersistentKVCaches]:
    """Set up caches of a torchtune decoder for all batches of a block, as ``local_kv_cache`` does for one of them.

    ::

        with persistent_kv_cache(model, capacity=16, max_seq_len=512) as caches:
            for prompts in batches:
                caches.start_batch(len(prompts))
                tokens, _ = generate(model, prompts, max_generated_tokens=64)

    See `PersistentKVCaches`.

    `TorchtuneLM` and the mixin `PersistentTorchtuneCache` bring it to lm-eval.

    Symptom: torchtune's caches are made again for each batch, or a smaller batch is filled with rows for nothing.

    Before::

        from torchtune.generation import generate
        from torchtune.modules.common_utils import local_kv_cache

        for rows in (4, 3):
            cpu = torch.device("cpu")
            with local_kv_cache(model, batch_size=rows, device=cpu, dtype=torch.float32, decoder_max_seq_len=32):
                tokens, _ = generate(model, torch.full((rows, 5), 7), max_generated_tokens=4)

    After::

        from pytest_evalcheck.fixes.caches import persistent_kv_cache
        from torchtune.generation import generate

        with persistent_kv_cache(model, capacity=4, max_seq_len=32) as caches:
            for rows in (4, 3):
                caches.start_batch(rows)
                tokens, _ = generate(model, torch.full((rows, 5), 7), max_generated_tokens=4)

    Costs: memory for the largest batch until the block ends.

    Limits: a batch that was not started is refused where positions begin at 0 again; elsewhere it is not noticed.

    Target: torchtune

    Shown by: EC302, EC313.
    """
    caches = PersistentKVCaches(model, capacity=capacity, max_seq_len=max_seq_len, dtype=dtype).install()
    try:
        yield caches
    finally:
        caches.release()


class TorchtuneDecoder(Decoder):
    """A torchtune decoder with one set of `PersistentKVCaches` for all batches.

    ``capacity`` is the largest number of rows of a batch, ``max_length`` the largest number of positions, prompt and
    new tokens together (by default the model's context). The caches are in the model until `release`, or the end of
    a ``with`` block. The model has to be in ``eval()``, otherwise `CacheError`; see also `PersistentKVCaches`.
    """

    def __init__(self, model: Any, *, capacity: int, max_length: int | None = None, dtype: torch.dtype | None = None):
        caches = PersistentKVCaches(model, capacity=capacity, max_seq_len=max_length, dtype=dtype).install()
        self.model, self.cache, self.capacity, self.max_length = model, caches, capacity, caches.max_seq_len
        self.vocabulary = model.tok_embeddings.num_embeddings
        self._seen = 0

    @property
    def device(self) -> torch.device:
        return self.model.tok_embeddings.weight.device

    def start_batch(self, rows: int) -> None:
        super().start_batch(rows)
        self._seen = 0

    def step(self, ids: Tensor, positions: Tensor, real: Tensor | None) -> Tensor:
        new = ids.shape[1]
        mask = step_mask(ids, self._seen, real)
        self._seen += new
        # Logits of the last position alone: the norm and the output get one position of each row.
        last = self.model.norm.register_forward_pre_hook(lambda _, given: (given[0][:, -1:],))
        try:
            logits = self.model(ids, mask=mask, input_pos=positions if new > 1 else positions[:, 0])
        finally:
            last.remove()
        while isinstance(logits, list):  # hidden states come before the output, and chunks of it in order
            logits = logits[-1]
        return logits[:, -1]

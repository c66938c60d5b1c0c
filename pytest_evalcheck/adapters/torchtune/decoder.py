"""torchtune: a `TransformerDecoder`, whose caches are state of its attention layers, and its ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from pytest_evalcheck.adapters.torchtune import conventions
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.decoder.record import Decoder, truncate_at_stop

CLASSES = ("torchtune.modules.transformer.TransformerDecoder",)

DISABLED = ("masked", "unmasked")
"""Ways in which `decoder` may decode without a cache: with a mask of its own, or with none, as training does."""


def record(made: Any) -> Decoder:
    """The record of a model, or of a `Decoder` that creates its caches and does not say how to decode."""
    if not isinstance(made, Decoder):
        return decoder(made)
    known = _Model(made.model, made.capacity or 64)
    generating = {} if made.generate else conventions.generation_conventions(known)
    return replace(
        made,
        step=known.step,
        generate=made.generate or known.generate,
        operations=made.operations or known.operations,
        tensors=made.tensors or known.tensors,
        conventions={**conventions.step_conventions(known), **generating, **made.conventions},
    )


def decoder(model: Any, *, length: int = 64, disabled: str = "masked", **fields: Any) -> Decoder:
    """A model whose caches ``setup_caches`` creates, ``reset_caches`` empties and ``delete_kv_caches`` removes.

    Without a cache it decodes under ``disable_kv_cache``, where caches are set up. A batch of fewer rows than they were
    made for is an error of a tensor operation: `local` is how its recipes decode one.

    Args:
        model: a `TransformerDecoder`.
        length: how many tokens the caches hold.
        disabled: one of `DISABLED`.
        fields: of `Decoder`, in addition to or instead of what is known of the model.
    """
    if disabled not in DISABLED:
        raise ValueError(f"disabled={disabled!r}; expected one of {', '.join(map(repr, DISABLED))}")
    known = _Model(model, length, unmasked=disabled == "unmasked")
    return record(Decoder(model, make_cache=known.set_up, full=known.full, capacity=length, **fields))


def local(model: Any, *, length: int = 64, **fields: Any) -> Decoder:
    """A model that generates under ``local_kv_cache``: caches of one batch, made for it and deleted after it.

    A batch of fewer rows than those of ``make_cache`` is filled up with rows of stop tokens, as its evaluation recipe
    does.
    """
    known = _Model(model, length)
    return Decoder(
        model,
        make_cache=lambda rows: rows,
        full=known.full,
        generate=known.generate_locally,
        operations={"reset": lambda _rows: None},
        capacity=length,
        tensors=lambda _rows: known.tensors(),
        **{"conventions": conventions.local_generation_conventions(known), **fields},
    )


@dataclass(frozen=True)
class _Model:
    model: Any
    length: int = 64
    unmasked: bool = False

    @property
    def operations(self) -> dict[str, Callable[..., Any]]:
        from torchtune.modules.common_utils import delete_kv_caches

        return {"reset": lambda _cache: self.model.reset_caches(), "tear_down": delete_kv_caches}

    def set_up(self, rows: int) -> Any:
        """Caches for so many rows, inside the model, which is the handle to them."""
        from torchtune.modules.common_utils import delete_kv_caches

        if self.model.caches_are_setup():
            delete_kv_caches(self.model)
        weight = next(self.model.parameters())
        with weight.device:  # as in the recipes: caches are made on the default device, and stay there
            self.model.setup_caches(rows, weight.dtype, decoder_max_seq_len=self.length)
        for cache in self._caches():
            cache.train(self.model.training)  # a module that is added later does not get the mode of the model
        return self.model

    def tensors(self, _cache: Any = None) -> list[Any]:
        """The keys and values in the caches, and the positions."""
        return [tensor for cache in self._caches() for tensor in cache.buffers()]

    def full(self, ids: Any, mask: Any, positions: Any) -> Any:
        """The logits without a cache; caches that are set up are disabled meanwhile."""
        import torch
        from torchtune.modules.common_utils import disable_kv_cache

        unmasked = bool(mask.all()) and self.unmasked
        options = {} if unmasked else {"mask": self.visible(mask, ids.shape[1], ids.shape[1]), "input_pos": positions}
        with torch.no_grad():
            if not self.model.caches_are_setup():
                return called(self.model, ids, **options)
            with disable_kv_cache(self.model):
                return self.model(ids, **options)

    def step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        """The logits of new ids, whose positions follow those in the caches."""
        import torch

        if cache is None:
            return self.full(ids, mask, positions)
        width = int(self.model.decoder_max_cache_seq_len)
        with torch.no_grad():
            return called(self.model, ids, mask=self.visible(mask, ids.shape[1], width), input_pos=positions)

    def generate(self, prompts: list[list[int]], _cache: Any, max_new_tokens: int, stop: tuple[int, ...]) -> Any:
        """Generate with ``torchtune.generation.generate``, for prompts that are padded on the left.

        Rows of stop tokens are added up to the number that the caches are made for, as its evaluation recipe does.
        """
        return self.filled(prompts, self._caches()[0].batch_size, max_new_tokens, stop)

    def generate_locally(
        self, prompts: list[list[int]], rows: int, max_new_tokens: int, stop: tuple[int, ...], *, flat: bool = False
    ) -> Any:
        """The same under ``local_kv_cache``."""
        from torchtune.modules.common_utils import local_kv_cache

        weight = next(self.model.parameters())
        with local_kv_cache(
            self.model, batch_size=rows, device=weight.device, dtype=weight.dtype, decoder_max_seq_len=self.length
        ):
            return self.filled(prompts, rows, max_new_tokens, stop, flat=flat)

    def filled(
        self, prompts: list[list[int]], rows: int, max_new_tokens: int, stop: tuple[int, ...], *, flat: bool = False
    ) -> Any:
        """Call ``generate`` for prompts and rows of stop tokens; ``flat`` gives one prompt in one dimension."""
        import torch
        from torchtune.data import left_pad_sequence
        from torchtune.generation import generate

        device = next(self.model.parameters()).device
        ids = [torch.tensor(prompt, dtype=torch.long, device=device) for prompt in prompts]
        padded = left_pad_sequence(ids, batch_first=True, padding_value=0)
        missing = max(0, rows - len(prompts))
        padded = torch.nn.functional.pad(padded, (0, 0, 0, missing), value=stop[0] if stop else 1)
        tokens, _ = generate(
            self.model,
            padded[0] if flat else padded,
            max_generated_tokens=max_new_tokens,
            pad_id=0,
            temperature=0.0,
            stop_tokens=list(stop),
        )
        # After the first stop token of a row ``generate`` puts zeros.
        new = tokens[: len(prompts), padded.shape[1] :].tolist()
        return [truncate_at_stop(row, stop, keep_stop=True) for row in new]

    def _caches(self) -> list[Any]:
        from torchtune.modules import KVCache

        return [module for module in self.model.modules() if isinstance(module, KVCache)]

    @staticmethod
    def visible(mask: Any, new: int, width: int) -> Any:
        """Return the mask of attention of the last ``new`` tokens, ``[rows, new, width]``: at least themselves."""
        import torch

        count = mask.shape[1]
        key = torch.arange(count, device=mask.device)
        query = key[-new:, None]
        visible = ((key <= query) & mask[:, None, :].bool()) | (key == query)
        return torch.nn.functional.pad(visible, (0, width - count))

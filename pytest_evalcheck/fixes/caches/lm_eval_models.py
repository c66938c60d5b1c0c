"""lm-eval's ``HFLM`` with one cache for all batches, for models of transformers and of torchtune."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.batch_padding import UnsupportedModel
from pytest_evalcheck.fixes.caches.decoding import Decoder, decode
from pytest_evalcheck.fixes.caches.generation import require_prompts
from pytest_evalcheck.fixes.caches.transformers_cache import TransformersDecoder
from pytest_evalcheck.fixes.releases import known_release

with known_release("lm_eval", "PersistentCacheLM"):
    from lm_eval.api.model import TemplateLM
    from lm_eval.models.huggingface import HFLM

# Options of a generation config that do not change greedy generation.
_HARMLESS = {
    *("_from_model_config", "bos_token_id", "eos_token_id", "pad_token_id", "transformers_version"),
    *("max_length", "max_new_tokens", "use_cache", "do_sample", "temperature", "top_k", "top_p", "typical_p"),
}


class _PersistentDecoder:
    """Mixin: a decoder for the largest batch so far, until ``generate_until`` ends."""

    _decoder: Any = None

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Return what ``HFLM.generate_until`` returns, and free the memory of the cache at the end."""
        try:
            return super().generate_until(requests, disable_tqdm=disable_tqdm)  # type: ignore[misc, no-any-return]
        finally:
            self.release_cache()

    def release_cache(self) -> None:
        """Free the memory of the cache."""
        if self._decoder is not None:
            self._decoder.release()
            self._decoder = None

    def _make_decoder(self, capacity: int, length: int) -> Decoder:
        raise NotImplementedError

    def _decoder_for(self, rows: int, length: int) -> Any:
        """Return the decoder while batches fit; the longest come first, so that it is seldom made twice."""
        held, least = self._decoder, self.batch_size if isinstance(self.batch_size, int) else 1  # type: ignore[attr-defined]
        if held is None or rows > held.capacity or length > held.max_length:
            self.release_cache()
            grown = (held.capacity, held.max_length) if held is not None else (least, 1)
            self._decoder = self._make_decoder(max(rows, grown[0]), max(length, grown[1]))
        return self._decoder

    def _stop(self, texts: Sequence[str] | None) -> Callable[[list[int]], bool] | None:
        """Return a function that finds the texts in new tokens: in the last few and, if so, in all of them."""
        wanted = [text for text in texts or () if text]
        if not wanted:
            return None
        # A token is a byte or more, and the tokens before the last one were searched before.
        tail = max(len(text.encode()) for text in wanted) + 4

        def stopped(tokens: list[int]) -> bool:
            found = self.tok_decode(tokens[-tail:])  # type: ignore[attr-defined]
            if len(tokens) > tail and any(text in found for text in wanted):
                found = self.tok_decode(tokens)  # type: ignore[attr-defined]
            return any(text in found for text in wanted)

        return stopped


class PersistentCacheLM(_PersistentDecoder, HFLM):  # type: ignore[misc]
    """lm-eval's ``HFLM``, created and used like it, whose ``generate_until`` uses one cache for all batches.

    Batches may have any size up to the largest; beams and sequences count as rows. Greedy generation of a decoder
    continues with the rows that have not stopped; anything else runs through the model's own ``generate`` with the
    same cache. Encoder-decoders and layers that a `ResizableStaticCache` does not support run as they do in ``HFLM``.
    The answers are those of ``HFLM``. A prompt without tokens, which is a row of padding there, is a `CacheError`.

    For a subclass of ``HFLM`` write ``class Ours(PersistentCacheLM, OurHFLM)``.
    """

    def _model_generate(self, context: Tensor, max_length: int, stop: list[str], **kwargs: Any) -> Tensor:
        rows = len(context) * max(1, kwargs.get("num_beams") or 1) * max(1, kwargs.get("num_return_sequences") or 1)
        prompts = require_prompts(context, mask=kwargs.get("attention_mask"), where="context")
        decoder = None
        if self.backend == "causal" and kwargs.get("past_key_values") is None:
            with contextlib.suppress(UnsupportedModel):
                decoder = self._decoder_for(rows, max_length)
        if decoder is not None and self._greedy(kwargs):
            room = max_length - context.shape[1]
            found = decode(decoder, prompts, room, self._stop_tokens(), self._stop(stop))
            return _appended(context, found, self.tokenizer.pad_token_id)
        if decoder is not None:
            kwargs["past_key_values"] = decoder.cache.start_batch(rows)
        return super()._model_generate(context, max_length, stop, **kwargs)

    def _make_decoder(self, capacity: int, length: int) -> TransformersDecoder:
        return TransformersDecoder(self.model, capacity=capacity, max_length=length)

    def _stop_tokens(self) -> list[int]:
        given = self.model.generation_config.eos_token_id
        return [] if given is None else [given] if isinstance(given, int) else list(given)

    def _greedy(self, kwargs: dict[str, Any]) -> bool:
        given = {name for name, value in kwargs.items() if value is not None}
        return (
            given <= {"attention_mask", "do_sample", "temperature"}
            and not kwargs.get("do_sample")
            and not kwargs.get("temperature")
            and self.mixed_precision_dtype is None
            and self.model.generation_config.to_diff_dict().keys() <= _HARMLESS
        )


class PersistentTorchtuneCache(_PersistentDecoder):
    """Mixin before the wrapper of torchtune's evaluation recipe: one cache, and the options of each request.

    ``class Ours(PersistentTorchtuneCache, _LLMEvalWrapper)``. No rows are added; the request's own number of tokens
    is generated, where the recipe always generates 256 and runs past its cache with them; a row ends at its own
    stop, and is padded with the end token, where the recipe pads with id 0; and no id in a prompt means padding,
    since the length of a prompt is known. Greedy generation alone, as in the recipe.
    """

    _model: Any
    _tokenizer: Any

    def tok_batch_encode(
        self, text: list[str], left_truncate_len: int | None = None, **_: Any
    ) -> tuple[Tensor, Tensor]:
        """Encode texts to (rows, longest) ids, padded on the left, and a mask that is 0 at the padding."""
        rows = [self.tok_encode(each) for each in text]  # type: ignore[attr-defined]
        if left_truncate_len is not None:
            rows = [row[-left_truncate_len:] for row in rows]
        width = max(map(len, rows))
        ids = [[self._tokenizer.pad_id] * (width - len(row)) + list(row) for row in rows]
        mask = [[0] * (width - len(row)) + [1] * len(row) for row in rows]
        return torch.tensor(ids), torch.tensor(mask)

    def _model_generate(
        self,
        context: Tensor,
        max_length: int | None = None,
        stop: list[str] | None = None,
        attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Tensor:
        if kwargs.get("do_sample") or kwargs.get("temperature") or (kwargs.get("num_beams") or 1) > 1:
            raise RuntimeError("generation_kwargs: only greedy generation is offered for torchtune's models")
        prompts = require_prompts(context, mask=attention_mask, where="context")
        asked = context.shape[1] + self.max_gen_toks if max_length is None else max_length  # type: ignore[attr-defined]
        decoder = self._decoder_for(len(prompts), asked)
        room = asked - context.shape[1]
        with torch.inference_mode():
            found = decode(decoder, prompts, room, self._tokenizer.stop_tokens, self._stop(stop))
        return _appended(context, found, self._tokenizer.eos_id)

    def _make_decoder(self, capacity: int, length: int) -> Any:
        from pytest_evalcheck.fixes.caches.torchtune_cache import TorchtuneDecoder

        return TorchtuneDecoder(self._model, capacity=capacity, max_length=length)


class TorchtuneLM(PersistentTorchtuneCache, HFLM):  # type: ignore[misc]
    """A torchtune decoder and its tokenizer for lm-eval, as its evaluation recipe wraps them, without a hub.

    ``tokenizer`` has ``encode(text, add_bos, add_eos)``, ``decode(ids)``, ``bos_id``, ``eos_id``, ``pad_id`` and
    ``stop_tokens``, as torchtune's do. ``max_seq_length`` is the largest number of tokens of a prompt and its answer
    together (by default the model's context). ``loglikelihood`` runs without caches.
    """

    def __init__(self, model: Any, tokenizer: Any, *, batch_size: int = 8, max_seq_length: int | None = None):
        TemplateLM.__init__(self)
        self._model, self._tokenizer = model, tokenizer
        self._device = model.tok_embeddings.weight.device
        self._max_length = model.max_seq_len if max_seq_length is None else max_seq_length
        self.batch_size_per_gpu, self.batch_schedule = batch_size, 1
        self.batch_sizes: dict[int, int] = {}
        self.backend, self.truncation, self.logits_cache, self.add_bos_token = "causal", True, True, False
        self.softmax_dtype = self.mixed_precision_dtype = self.think_end_token = self.enable_thinking = None

    @property
    def eot_token_id(self) -> int:
        return self._tokenizer.eos_id  # type: ignore[no-any-return]

    @property
    def prefix_token_id(self) -> int:
        return self._tokenizer.bos_id  # type: ignore[no-any-return]

    def tok_encode(self, string: str, *_: Any, **__: Any) -> list[int]:
        return list(self._tokenizer.encode(text=string, add_bos=False, add_eos=False))

    def tok_decode(self, tokens: Any, *_: Any, **__: Any) -> str:
        return str(self._tokenizer.decode([tokens] if isinstance(tokens, int) else list(tokens)))

    def _model_call(self, inps: Tensor, *_: Any, **__: Any) -> Tensor:
        with torch.no_grad():
            return self._model(inps)

    def get_model_info(self) -> dict[str, Any]:
        weights = list(self._model.parameters())
        return {"model_num_parameters": sum(map(Tensor.numel, weights)), "model_dtype": weights[0].dtype}


def _appended(context: Tensor, found: list[list[int]], fill: int) -> Tensor:
    width = max(map(len, found))
    rows = [row + [fill] * (width - len(row)) for row in found]
    return torch.cat([context, torch.tensor(rows, dtype=context.dtype, device=context.device)], dim=1)

"""transformers: an encoder-decoder, whose cache also holds the keys and values of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.adapters.transformers import conventions
from pytest_evalcheck.adapters.transformers.decoder import (
    OPERATIONS,
    cache_factory,
    float32_copy,
    generated,
    tensors,
)
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.decoder.record import Decoder

_SOURCE = 8
"""Number of ids the encoder reads of a row that is decoded by step: more than a window of a tiny model holds."""


def by_step(model: Any, *, sides: Sequence[Any] = (), **fields: Any) -> Decoder:
    """Its decoder, one step at a time: ids are those of the target.

    The source of a row is derived from its first token, so that rows differ in it. It is encoded with the first chunk;
    from then on it is in the cache only.

    Args:
        model: a `PreTrainedModel` for conditional generation.
        sides: of `Decoder`. None by default: most such decoders number positions themselves, padding or not.
        fields: of `Decoder`, in addition to or instead of what is known of the model.
    """
    known = _Model(model)
    return Decoder(
        model,
        step=known.step,
        sides=tuple(sides),
        in_float32=lambda: by_step(float32_copy(model), sides=sides, **fields),
        **{
            "operations": OPERATIONS,
            "conventions": conventions.target_step_conventions(known),
            **_cache_of(model),
            **fields,
        },
    )


def by_generation(model: Any, *, end: int, **fields: Any) -> Decoder:
    """Its ``generate``: a prompt is a source, and the tokens are those of the target, from its start token on.

    Args:
        model: a `PreTrainedModel` for conditional generation.
        end: the id that ends every prompt, and occurs nowhere else in it.
        fields: of `Decoder`, in addition to or instead of what is known of the model.
    """
    known = _Model(model, end)
    return Decoder(
        model,
        full=known.full,
        generate=known.generate,
        operations={"reset": OPERATIONS["reset"]},
        in_float32=lambda: by_generation(float32_copy(model), end=end, **fields),
        **{"conventions": conventions.target_generation_conventions(known), **_cache_of(model), **fields},
    )


def _cache_of(model: Any) -> dict[str, Any]:
    return {"make_cache": cache_factory(model, "encoder-decoder", 0), "tensors": tensors}


@dataclass(frozen=True)
class _Model:
    model: Any
    end: int = -1

    def step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        """The logits of new ids of the target."""
        del positions  # it takes none
        return self._decoded(ids, self.states(ids, mask), decoder_attention_mask=mask, cache=cache)

    def unmasked_step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        """The same without a mask of the target."""
        del positions
        return self._decoded(ids, self.states(ids, mask), cache=cache)

    def states(self, ids: Any, mask: Any) -> Any:
        """The encoded source of each row; zeros where the cache holds its keys and values."""
        if mask.shape[1] == ids.shape[1]:
            return self._encoded(self._sources(ids, mask))
        table = self.model.get_input_embeddings().weight
        return table.new_zeros(len(ids), _SOURCE, table.shape[1])

    def full(self, ids: Any, mask: Any, positions: Any) -> Any:
        """The logits of the tokens after the end of each prompt; 0 at the tokens of the prompt, which have none."""
        import torch

        del mask, positions  # rows of one length, without padding
        rows = []
        for row in ids:
            ends = (row == self.end).nonzero()
            end = int(ends[0]) if len(ends) else len(row) - 1
            target = torch.cat([row.new_tensor([self._start]), row[end + 1 :]])[None]
            logits = self._decoded(target, self._encoded(row[None, : end + 1]))[0]
            rows.append(torch.nn.functional.pad(logits, (0, 0, end, 0)))
        return torch.stack(rows)

    def generate(self, prompts: list[list[int]], cache: Any, max_new_tokens: int, stop: tuple[int, ...]) -> Any:
        """Generate greedily with its own ``generate``, for sources that are padded on the right."""
        return self.generated(prompts, max_new_tokens, stop, past_key_values=cache)

    def generated(self, prompts: list[list[int]], count: int, stop: tuple[int, ...], **options: Any) -> Any:
        """Generate with its own ``generate`` and these options."""
        return generated(self.model, prompts, "right", count, stop, decoder_start_token_id=self._start, **options)

    @property
    def _start(self) -> int:
        configs = [getattr(self.model, name, None) for name in ("generation_config", "config")]
        starts = [getattr(config, "decoder_start_token_id", None) for config in configs]
        start = next((token for token in starts if token is not None), None)
        if start is None:
            raise ValueError("neither generation_config nor config has a decoder_start_token_id; set it to an id")
        return int(start)

    def _sources(self, ids: Any, mask: Any) -> Any:
        import torch

        first = ids.gather(1, mask.argmax(1, keepdim=True))
        return (first + torch.arange(_SOURCE, device=ids.device)) % self.model.config.vocab_size

    def _encoded(self, sources: Any) -> Any:
        import torch

        with torch.no_grad():
            return called(called(self.model.get_encoder), input_ids=sources).last_hidden_state

    def _decoded(self, ids: Any, states: Any, cache: Any = None, **more: Any) -> Any:
        import torch
        from transformers.modeling_outputs import MoEModelOutput  # some read router logits from it

        cached = {} if cache is None else {"past_key_values": cache}
        with torch.no_grad():
            outputs = called(
                self.model,
                decoder_input_ids=ids,
                encoder_outputs=called(MoEModelOutput, last_hidden_state=states),
                use_cache=cache is not None,
                **cached,
                **more,
            )
        return outputs.logits

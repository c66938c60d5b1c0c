"""transformers: an encoder-decoder, whose cache also holds what its decoder reads of the source."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.adapters.transformers.decoder import GREEDY, until
from pytest_evalcheck.adapters.transformers.decoder_caches import OPERATIONS, maker, tensors
from pytest_evalcheck.kinds.decoder.record import Decoder

_SOURCE = 5
"""How many ids the encoder reads of a row that is decoded by step."""


def by_step(model: Any, *, sides: Sequence[Any] = (), **fields: Any) -> Decoder:
    """Its decoder, one step at a time: ids are those of the target.

    The source of a row is made of its first token, so that rows differ in it. It is encoded with the first piece; from
    then on only the cache knows it.

    Args:
        model: a `PreTrainedModel` for conditional generation.
        sides: of `Decoder`. None by default: most such decoders number positions themselves, padding or not.
        fields: of `Decoder`, beside or instead of what is known of the model.
    """
    known = _Model(model)
    return Decoder(
        model,
        step=known.step,
        sides=tuple(sides),
        in_float32=lambda: by_step(_in_float32(model), sides=sides, **fields),
        **{
            "make_cache": maker(model, "encoder-decoder", 0),
            "operations": OPERATIONS,
            "tensors": tensors,
            **fields,
        },
    )


def by_generation(model: Any, *, end: int, **fields: Any) -> Decoder:
    """Its ``generate``: a prompt is a source, and the tokens are those of the target, from its start token on.

    Args:
        model: a `PreTrainedModel` for conditional generation.
        end: the id that ends every prompt, and stands nowhere else in it.
        fields: of `Decoder`, beside or instead of what is known of the model.
    """
    known = _Model(model, end)
    return Decoder(
        model,
        full=known.full,
        generate=known.generate,
        operations={"reset": OPERATIONS["reset"]},
        in_float32=lambda: by_generation(_in_float32(model), end=end, **fields),
        **{"make_cache": maker(model, "encoder-decoder", 0), "tensors": tensors, **fields},
    )


def _in_float32(model: Any) -> Any:
    return copy.deepcopy(model).float()


@dataclass(frozen=True)
class _Model:
    model: Any
    end: int = -1

    def step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        """The logits of new ids of the target."""
        del positions  # it takes none
        if mask.shape[1] == ids.shape[1]:
            states = self._encoded(self._sources(ids, mask))
        else:  # the cache holds what the decoder reads of the source
            table = self.model.get_input_embeddings().weight
            states = table.new_zeros(len(ids), _SOURCE, table.shape[1])
        return self._decoded(ids, states, decoder_attention_mask=mask, cache=cache)

    def full(self, ids: Any, mask: Any, positions: Any) -> Any:
        """The logits of prompts and of what follows their ends; 0 where a place has none, within a prompt."""
        import torch

        del mask, positions  # rows of one length, without padding
        rows = []
        for row in ids:
            ends = (row == self.end).nonzero()
            place = int(ends[0]) if len(ends) else len(row) - 1
            target = torch.cat([row.new_tensor([self._start]), row[place + 1 :]])[None]
            logits = self._decoded(target, self._encoded(row[None, : place + 1]))[0]
            rows.append(torch.nn.functional.pad(logits, (0, 0, place, 0)))
        return torch.stack(rows)

    def generate(self, prompts: list[list[int]], cache: Any, max_new_tokens: int, stop: tuple[int, ...]) -> Any:
        """What its own ``generate`` gives, greedily, of sources that are padded on the right."""
        import torch

        width = max(map(len, prompts))
        padded = [[*prompt, *[0] * (width - len(prompt))] for prompt in prompts]
        masks = [[1] * len(prompt) + [0] * (width - len(prompt)) for prompt in prompts]
        found = self.model.generate(
            input_ids=torch.tensor(padded, device=self.model.device),
            attention_mask=torch.tensor(masks, device=self.model.device),
            past_key_values=cache,
            decoder_start_token_id=self._start,
            max_new_tokens=max_new_tokens,
            eos_token_id=list(stop) or None,
            **GREEDY,
        )
        return [until(row, stop) for row in found[:, 1:].tolist()]

    @property
    def _start(self) -> int:
        told = [getattr(self.model, name, None) for name in ("generation_config", "config")]
        found = [getattr(one, "decoder_start_token_id", None) for one in told]
        start = next((one for one in found if one is not None), None)
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
            return self.model.get_encoder()(input_ids=sources).last_hidden_state

    def _decoded(self, ids: Any, states: Any, cache: Any = None, **more: Any) -> Any:
        import torch
        from transformers.modeling_outputs import MoEModelOutput  # some look for what routers said

        held = {"past_key_values": cache} if cache is not None else {}
        with torch.no_grad():
            outputs = self.model(
                decoder_input_ids=ids,
                encoder_outputs=MoEModelOutput(last_hidden_state=states),
                use_cache=cache is not None,
                **held,
                **more,
            )
        return outputs.logits

"""Greedy generation with one cache for all batches: stopped rows are removed, and no row or position is added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from pytest_evalcheck.fixes.caches.batch_padding import CacheError, plan_batches, require_size
from pytest_evalcheck.fixes.caches.generation import require_id, require_prompts
from pytest_evalcheck.fixes.caches.layer_cache import LayerCaches

Self = TypeVar("Self", bound="Decoder")

_REMOVED_SHARE = 8  # Stopped rows are removed once they are an eighth of the batch.


class Decoder:
    """A model with a cache, as `decode` uses it; a subclass sets the attributes and implements `step`."""

    model: Any
    cache: LayerCaches
    capacity: int
    max_length: int
    vocabulary: int

    @property
    def device(self) -> torch.device:
        """The device of the ids."""
        raise NotImplementedError

    def start_batch(self, rows: int) -> None:
        """Forget the previous batch; the next one has ``rows`` rows."""
        if self.model.training:
            raise CacheError("model: expected one in eval(), got one that trains, whose dropout changes tokens")
        self.cache.start_batch(rows)

    def step(self, ids: Tensor, positions: Tensor, real: Tensor | None) -> Tensor:
        """Run (rows, new) ids at these positions and return the logits after the last, (rows, vocabulary).

        ``real`` (rows, seen + new) is False where padding is, and None where there is none.
        """
        raise NotImplementedError

    def select(self, rows: Sequence[int]) -> None:
        """Continue with these rows only, in this order."""
        self.cache.select(rows)

    def release(self) -> None:
        """Free the memory of the cache."""
        self.cache.release()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def decode(
    decoder: Decoder,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    stop_tokens: Iterable[int] = (),
    stop: Callable[[list[int]], bool] | None = None,
) -> list[list[int]]:
    """Continue every prompt greedily, and return the tokens of each, in the order of the prompts.

    ``prompts`` are token ids of any number and any lengths: they are packed into full batches, and where lengths
    differ, the shorter ones are padded on the left and masked by their length, so that no id means padding. A row
    ends with its first stop token, which is part of its result, where ``stop(tokens)`` is true of all its new
    tokens, or after ``max_new_tokens``.

    `CacheError`, before anything is computed, for a prompt without tokens, an id outside the vocabulary, and a
    prompt that leaves no room in the cache for ``max_new_tokens``.

    `TransformersDecoder` and `TorchtuneDecoder` bring a model and one cache for all batches.

    Symptom: prompts of several lengths get other answers in a batch than alone.

    Before::

        def generate(prompts, cache, count, stop):
            rows = [torch.tensor(prompt) for prompt in prompts]
            ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
            found = model.generate(ids, max_new_tokens=count, eos_token_id=[*stop] or None, do_sample=False)
            return found[:, ids.shape[1] :].tolist()

    After::

        from pytest_evalcheck.fixes.caches import TransformersDecoder, decode

        def generate(prompts, cache, count, stop):
            with TransformersDecoder(model, capacity=4, max_length=64) as decoder:
                return decode(decoder, prompts, count, stop)

    Costs: memory for ``capacity`` rows of ``max_length`` positions; rows that have stopped cost nothing.

    Limits: greedy generation; nothing is compiled, since shapes change with every step; no state-space layers and no
    cross-attention. For beams and sampling give a `ResizableStaticCache` to the model's own ``generate``.

    Target: ec.decoder(inputs=es.prompts(vocab=23)) with whole(model, generate)

    Shown by: EC306, EC310.
    """
    require_size(max_new_tokens, "max_new_tokens")
    stops = frozenset(stop_tokens)
    for token in stops:
        require_id(token, decoder.vocabulary, "stop_tokens")
    require_prompts(prompts, vocabulary=decoder.vocabulary, max_length=decoder.max_length, new_tokens=max_new_tokens)
    plan = plan_batches(map(len, prompts), decoder.capacity)
    batches = ([prompts[index] for index in batch] for batch in plan.batches)
    with torch.no_grad():
        return plan.restore(_Batch(decoder, batch, max_new_tokens, stops, stop).run() for batch in batches)


class _Batch:
    def __init__(
        self,
        decoder: Decoder,
        prompts: Sequence[Sequence[int]],
        limit: int,
        stops: frozenset[int],
        stop: Callable[[list[int]], bool] | None,
    ):
        self.decoder, self.limit, self.stops, self.stop = decoder, limit, stops, stop
        self.ids, self.lengths = left_padded(prompts, decoder.device)
        self.found: list[list[int]] = [[] for _ in prompts]
        self.live = list(range(len(prompts)))  # The row of the batch that each row of the cache is.
        self.ended: set[int] = set()
        width = self.ids.shape[1]
        self.real: Tensor | None = None
        if min(map(len, prompts)) < width:
            positions = torch.arange(width + limit, device=decoder.device)
            self.real = positions >= (width - self.lengths)[:, None]

    def run(self) -> list[list[int]]:
        decoder, width = self.decoder, self.ids.shape[1]
        decoder.start_batch(len(self.live))
        # Padding has a position as well, that of the first token; it is masked.
        positions = (torch.arange(width, device=decoder.device) - (width - self.lengths)[:, None]).clamp(min=0)
        logits = decoder.step(self.ids, positions, self._real(width))
        for new in range(1, self.limit):
            tokens = logits.argmax(dim=-1)
            going = self._record(tokens.tolist())
            if not going:
                return self.found
            if len(going) <= len(self.live) - max(1, len(self.live) // _REMOVED_SHARE):
                tokens = tokens[self._remove_stopped(going)]
            logits = decoder.step(tokens[:, None], (self.lengths + (new - 1))[:, None], self._real(width + new))
        self._record(logits.argmax(dim=-1).tolist())
        return self.found

    def _real(self, width: int) -> Tensor | None:
        return None if self.real is None else self.real[:, :width]

    def _record(self, tokens: list[int]) -> list[int]:
        """Append the token of every row that has not ended, and return the rows of the cache that continue."""
        going = []
        for index, (row, token) in enumerate(zip(self.live, tokens, strict=True)):
            if row in self.ended:
                continue
            found = self.found[row]
            found.append(token)
            if token in self.stops or (self.stop is not None and self.stop(found)):
                self.ended.add(row)
            else:
                going.append(index)
        return going

    def _remove_stopped(self, going: list[int]) -> Tensor:
        """Remove the stopped rows with the fewest copies: the last rows that continue replace them."""
        keep = len(going)
        spare = [row for row in going if row >= keep]
        stay = set(going[: keep - len(spare)])
        chosen = [row if row in stay else spare.pop() for row in range(keep)]
        self.decoder.select(chosen)
        index = torch.tensor(chosen, device=self.decoder.device)
        self.live = [self.live[row] for row in chosen]
        self.lengths = self.lengths[index]
        if self.real is not None:
            self.real = self.real[index]
        return index


def left_padded(prompts: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return (rows, longest) ids, padded on the left, and the (rows,) lengths of prompts; padding is to be masked."""
    width = max(map(len, prompts))
    # Any id of the vocabulary will do, and the row's own first one is in it.
    ids = [[*[prompt[0]] * (width - len(prompt)), *prompt] for prompt in prompts]
    return torch.tensor(ids, device=device), torch.tensor([len(prompt) for prompt in prompts], device=device)

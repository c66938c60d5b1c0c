"""transformers: the log-probabilities of the tokens that ``generate`` draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.decoder.log_probabilities import Sampler, TokenDistribution
from pytest_evalcheck.strategies.samples import padded

_DECLARED = {
    "temperature": TokenDistribution(temperature=0.6),
    "top_k": TokenDistribution(temperature=1.5, top_k=4),
    "top_p": TokenDistribution(temperature=0.8, top_p=0.7),
    "min_p": TokenDistribution(min_p=0.1),
}


def samplers(model: Any) -> Mapping[str, Sampler]:
    """The ways to draw tokens by ``generate``: by each way to truncate, with normalised scores or with raw logits."""
    found = {name: Sampler(draw=_Draw(model, each, "scores"), distribution=each) for name, each in _DECLARED.items()}
    raw = _DECLARED["top_k"]
    logits = Sampler(draw=_Draw(model, raw, "logits"), distribution=raw, reported=TokenDistribution())
    return {**found, "raw logits": logits}


@dataclass(frozen=True)
class _Draw:
    model: Any
    declared: TokenDistribution
    output: str
    """The output of ``generate`` for each step: ``scores`` or ``logits``."""

    def __call__(self, prompts: list[list[int]], count: int, seed: int) -> Any:
        import torch

        width, declared = max(map(len, prompts)), self.declared
        ids, masks = ([padded(row, "left", width, 0) for row in rows] for rows in (prompts, _ones(prompts)))
        inputs = [torch.tensor(rows, device=self.model.device) for rows in (ids, masks)]
        with torch.random.fork_rng():
            called(torch.manual_seed, seed)
            drawn = called(
                self.model.generate,
                input_ids=inputs[0],
                attention_mask=inputs[1],
                max_new_tokens=count,
                do_sample=True,
                temperature=declared.temperature,
                top_k=declared.top_k or 0,
                top_p=declared.top_p,
                min_p=declared.min_p or None,
                eos_token_id=None,
                pad_token_id=0,
                disable_compile=True,
                return_dict_in_generate=True,
                **{f"output_{self.output}": True},
            )
        steps = drawn[self.output]
        reported = called(self.model.compute_transition_scores, drawn.sequences, steps, normalize_logits=True)
        tokens = drawn.sequences[:, -count:]
        return list(zip(tokens.tolist(), reported.tolist(), strict=True))


def _ones(prompts: list[list[int]]) -> list[list[int]]:
    return [[1] * len(prompt) for prompt in prompts]

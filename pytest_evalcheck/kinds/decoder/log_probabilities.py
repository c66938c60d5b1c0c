"""Records of what reports log-probabilities of tokens, and these log-probabilities by the logits without a cache."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

Draw = Callable[[list[list[int]], int, int], Sequence[Any]]
"""``draw(prompts, max_new_tokens, seed)`` returns for each prompt ``(tokens, log_probabilities)``, of one length.

Every prompt gets so many tokens: nothing stops it. ``seed`` decides all random numbers.
"""
ScoreText = Callable[[list[list[int]], list[list[int]]], Sequence[Any]]
"""``score(contexts, continuations)`` returns for each pair of ids the log-probability of the continuation.

It is one number, or a list of that of each token; or a pair of either and whether greedy decoding gives these tokens.
"""


@dataclass(frozen=True, kw_only=True)
class TokenDistribution:
    """Probabilities of the next token: the softmax of ``logits / temperature`` after the truncation that is declared.

    Where several are declared, each applies to what those before it leave, in the order of the fields.
    """

    temperature: float = 1.0
    """Divisor of the logits, above 0."""
    top_k: int | None = None
    """Number of tokens with the largest logits that are left; None for all."""
    top_p: float = 1.0
    """Probability of the smallest set of likeliest tokens that is left."""
    min_p: float = 0.0
    """Share of the largest probability below which a token is left out."""

    def __post_init__(self) -> None:
        if not (self.temperature > 0 and math.isfinite(self.temperature)):
            raise TypeError(f"temperature={self.temperature!r}; expected a number above 0 (top_k=1 is greedy)")
        if self.top_k is not None and self.top_k < 1:
            raise TypeError(f"top_k={self.top_k!r}; expected a number of at least 1, or None")
        if not 0 < self.top_p <= 1 or not 0 <= self.min_p <= 1:
            raise TypeError(f"top_p={self.top_p!r}, min_p={self.min_p!r}; expected 0 < top_p <= 1, 0 <= min_p <= 1")

    def log_softmax(self, logits: Any, slack: float = 0.0) -> Any:
        """Return the log-probabilities ``[n, vocab]`` of logits in float64, -inf for tokens that are left out.

        ``slack`` moves each bound, so that a token within rounding of it is left, or left out where it is negative.
        """
        scores = logits.double() / self.temperature
        if self.top_k is not None:
            least = scores.topk(min(self.top_k, scores.shape[-1])).values[:, -1:]
            scores = scores.masked_fill(scores < least - slack, -math.inf)
        if self.top_p < 1:
            # The set ends with the token that reaches `top_p`: those before it have less.
            likeliest = scores.softmax(-1).sort(descending=True, stable=True)
            before = likeliest.values.cumsum(-1) - likeliest.values
            beyond = before >= self.top_p + slack
            scores = scores.masked_fill(beyond.scatter(-1, likeliest.indices, beyond), -math.inf)
        if self.min_p:
            shares = scores.softmax(-1)
            least = self.min_p * (1 - slack) * shares.max(-1, keepdim=True).values
            scores = scores.masked_fill(shares < least, -math.inf)
        return scores.log_softmax(-1)


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """A way to draw tokens that reports the log-probability of each."""

    draw: Draw
    distribution: TokenDistribution = field(default_factory=TokenDistribution)
    """The distribution that tokens are drawn from."""
    reported: TokenDistribution | None = None
    """The distribution that the log-probabilities are of, such as that of the model alone; None for the one above."""


@dataclass(frozen=True, kw_only=True)
class TextScore:
    """A way to get the log-probability of a text that is given."""

    score: ScoreText
    prefix: tuple[int, ...] = ()
    """Ids that it puts before every context."""
    whole: bool = False
    """True if it scores whole texts: every context is empty. A first token that nothing is before has no probability,
    and does not count."""
    temperature: float = 1.0
    """Divisor of the logits."""


def log_probabilities(
    logits: Any, tokens: Sequence[int], distribution: TokenDistribution, near: Any = None, slack: float = 0.0
) -> Any:
    """Return the log-probability ``[n]`` of each token by its logits ``[n, vocab]``.

    A token within ``slack`` of a bound of the truncation may be left or not: what is nearer to ``near`` is right.
    """
    import torch

    ids = torch.tensor(tokens, dtype=torch.int64, device=logits.device)[:, None]
    bounds = (0.0, slack, -slack) if near is not None and len(near) == len(tokens) else (0.0,)
    found = [distribution.log_softmax(logits, bound).gather(-1, ids)[:, 0] for bound in bounds]
    if len(found) == 1:
        return found[0]
    apart = torch.stack([(one - near.to(one)).abs().nan_to_num(0.0, math.inf) for one in found])
    return torch.stack(found).gather(0, apart.argmin(0)[None])[0]


def tail_of_counts(counts: Any, shares: Any) -> float:
    """Return how likely counts ``[vocab]`` are to be as far from their shares, or farther: Pearson's test.

    Tokens of which fewer than five are expected are one group. With a count of a token of share 0 it is 0.
    """
    import torch

    if bool(counts[shares == 0].any()):
        return 0.0
    expected = shares * counts.sum()
    often = expected >= 5
    groups = [(counts[often], expected[often]), (counts[~often].sum()[None], expected[~often].sum()[None])]
    seen, wanted = (torch.cat(parts).double() for parts in zip(*groups, strict=True))
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    statistic = ((seen - wanted) ** 2 / wanted).sum()
    degrees = torch.tensor(len(wanted) - 1.0, dtype=torch.float64)
    return float(torch.special.gammaincc(degrees / 2, statistic / 2)) if degrees > 0 else 1.0

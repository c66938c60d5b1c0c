"""EC320 to EC323: log-probabilities of tokens that are drawn, and of texts that are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, compared, expect, inconclusive, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.decoder.cases import DrawnTokens, Prompts, ScoredTexts, even
from pytest_evalcheck.kinds.decoder.log_probabilities import (
    TextScore,
    TokenDistribution,
    log_probabilities,
    tail_of_counts,
)
from pytest_evalcheck.kinds.decoder.subject import NEW_TOKENS, DecoderSubject, DecoderUnderTest, all_rows_or_none

_DRAWS = 768
_ROWS = 128
"""Number of tokens that are drawn after one prompt, and of rows in a batch of it."""
_UNLIKELY = 1e-7

Pair = tuple[list[int], list[int]]
"""A context and its continuation."""


@check("EC320", conditions=("one row", "rows of unequal length"), examples=6, after=("EC301", "EC306"))
def drawn_tokens_have_the_log_probabilities_of_the_model(subject: DecoderSubject, case: Prompts) -> None:
    """The log-probability that a sampler reports of a token is the log-softmax of the logits before it.

    The logits are those without a cache, divided by the temperature and truncated as the sampler declares.

    Why: they are averaged into perplexities and confidences, and are the weights of training with rewards.
    Usual cause: the temperature or the truncation is applied to the draw alone, or the logits are those of the step
    after.
    Fix: `logits[:, -1].div(temperature).log_softmax(-1)` of the logits that the token is drawn from.
    """
    for decoder in subject.precisions():
        rows = _prompts(decoder, subject, case)
        for name, sampler in _offered(decoder, "samplers"):
            drawn = decoder.draw(name, rows, NEW_TOKENS, seed=len(rows))
            if isinstance(drawn, Raised):
                refused(drawn)
                continue
            about = f"the number of tokens and of log-probabilities by {name!r}"
            sizes, wanted = (
                [(len(tokens), len(given)) for tokens, given in drawn],
                [(NEW_TOKENS, NEW_TOKENS)] * len(rows),
            )
            expect(sizes).equals(wanted, about=about, id=f"sizes-by-{slug(name)}")
            declared = sampler.reported or sampler.distribution
            expected = [
                text_log_probabilities(decoder, row, tokens, declared, near=given, drawn=not sampler.reported)
                for row, (tokens, given) in zip(rows, drawn, strict=True)
            ]
            about = f"the log-probabilities of drawn tokens by {name!r}"
            assert_same(decoder, [given for _, given in drawn], expected, about=about, id=f"log-probs-by-{slug(name)}")


@check("EC321", conditions=("a prompt",), examples=1, after=("EC301", "EC320"))
def tokens_are_drawn_with_their_probabilities(subject: DecoderSubject, case: DrawnTokens) -> None:
    """Tokens have the frequencies of the distribution that a sampler declares, and one seed draws the same tokens.

    768 tokens are drawn after one prompt. By Pearson's test a correct sampler fails once in ten million.

    Why: pass@k, diversity and the weights of samples are about the temperature that is named beside them.
    Usual cause: a configuration of the model truncates as well, a temperature is applied twice, or every row or batch
    is drawn by the same random numbers.
    Fix: pass all of `temperature`, `top_k`, `top_p` and `min_p`, and one generator for all draws.
    """
    for decoder in subject.precisions():
        (prompt,) = decoder.truncate(subject.prompts(case.samples), 1)
        size = min(decoder.record.max_rows or _ROWS, _ROWS)
        for name, sampler in _offered(decoder, "samplers"):
            batches = [decoder.draw(name, [prompt] * size, 1, seed) for seed in range(_DRAWS // size)]
            error = next((batch for batch in batches if isinstance(batch, Raised)), None)
            logits = decoder.decode_uncached([prompt])
            if error or isinstance(logits, Raised):
                refused(error or logits)
                continue
            tokens = [token for batch in batches for row, _ in batch for token in row]
            again = [row for row, _ in decoder.draw(name, [prompt] * size, 1, 0)]
            first = [row for row, _ in batches[0]]
            expect(again).equals(first, about=f"tokens by {name!r} and the same seed", id=f"same-seed-by-{slug(name)}")
            chance = _chance(decoder, logits[0][-1:].cpu(), tokens, sampler.distribution)
            if chance is None:
                decoder.retry_in_float32 = not decoder.last_precision
                continue
            about = f"{len(tokens)} tokens by {name!r} are not of the distribution that is declared"
            expect(chance).holds(chance >= _UNLIKELY, about=about, id=f"frequencies-by-{slug(name)}")


@check("EC322", conditions=("a continuation of one token", "several tokens"), examples=8, after=("EC301",))
def a_text_has_one_log_probability(subject: DecoderSubject, case: ScoredTexts) -> None:
    """The log-probability of a text is that of its tokens by the logits without a cache, however it is asked for.

    If a way says whether greedy decoding gives the text, each of its tokens is the likeliest.

    Why: choices are compared by it, and perplexities of two runs are compared with each other.
    Usual cause: the logits of a token are taken for those of the next one, the sum includes the context or padding, or
    the first token of a window is lost.
    Fix: `logits[:-1].log_softmax(-1).gather(-1, ids[1:, None])`, and of it the last `len(continuation)`.
    """
    for decoder in subject.precisions():
        for name, way in _offered(decoder, "text_scores"):
            pairs = case.pairs(_texts(decoder, subject, case))
            for pair in (_asked(way, pair) for pair in [*pairs, *greedy_pairs(decoder, way, pairs[0])]):
                scored, expected = decoder.score_texts(name, [pair]), expected_score(decoder, way, pair)
                if isinstance(scored, Raised) or isinstance(expected, Raised):
                    refused(scored if isinstance(scored, Raised) else expected)
                    continue
                if not _agree(decoder, way, scored, [pair]):  # what was asked before may be the reason
                    scored = subject.another(decoder).score_texts(name, [pair])
                ((actual, greedy),) = scored
                about = f"the log-probability of a text by {name!r}"
                assert_same(
                    decoder, [actual], [_shaped_like(actual, expected)], about=about, id=f"text-by-{slug(name)}"
                )
                likeliest = is_greedy(decoder, way, pair)
                if None not in (greedy, likeliest):
                    about = f"whether greedy decoding gives a text, by {name!r}"
                    expect(greedy).equals(likeliest, about=about, id=f"greedy-by-{slug(name)}")


@check("EC323", conditions=("several texts", "equal contexts"), examples=8, after=("EC301", "EC322"))
def other_texts_do_not_change_a_log_probability(subject: DecoderSubject, case: ScoredTexts) -> None:
    """The log-probability of a text is the same beside other texts, in any order, and after others were asked for.

    Some of the texts are equal, some have the same context, and some are the beginning of another.

    Why: a score must not depend on which questions are in a batch, or were asked before.
    Usual cause: results are not put back into the order of the requests, or what is remembered of a common beginning
    is found by its length, or by a part of it.
    Fix: `results[request.index] = score`, and look up what is remembered by all ids before the token.
    """
    for decoder in subject.precisions():
        for name, way in _offered(decoder, "text_scores"):
            pairs = [_asked(way, pair) for pair in case.pairs(_texts(decoder, subject, case))]
            for order, words in ((1, "together"), (-1, "in the other order, after the same texts")):
                asked = pairs[::order]
                scored = decoder.score_texts(name, asked)
                if isinstance(scored, list) and _agree(decoder, way, scored, asked):
                    compared()
                    continue
                alone = [subject.another(decoder).score_texts(name, [pair]) for pair in asked]
                error = next((each for each in alone if isinstance(each, Raised)), None)
                actual = scored if isinstance(scored, Raised) else [value for value, _ in scored]
                expected = [error] if error else [each[0][0] for each in alone]
                about, id = f"the log-probabilities of texts {words}, by {name!r}", f"{slug(words)}-by-{slug(name)}"
                assert_same(decoder, actual, expected, about=about, id=id)


def expected_score(decoder: DecoderUnderTest, way: TextScore, pair: Pair) -> Any:
    """The log-probability ``[n]`` of a continuation by logits without a cache, or the error."""
    declared = TokenDistribution(temperature=way.temperature)
    return text_log_probabilities(decoder, [*way.prefix, *pair[0]], pair[1], declared)


def text_log_probabilities(
    decoder: DecoderUnderTest,
    before: Sequence[int],
    tokens: Sequence[int],
    distribution: TokenDistribution,
    near: Any = None,
    *,
    drawn: bool = False,
) -> Any:
    """The log-probability ``[n]`` of tokens after ids, by logits without a cache; of a first token there is none.

    Tokens that are ``drawn`` are none of those that generations suppress. Returns the error where there are no logits.
    """
    rows = decoder.decode_uncached([[*before, *tokens]])
    if isinstance(rows, Raised):
        return rows
    # What a sampler reports is on the CPU.
    logits, counted = rows[0][max(0, len(before) - 1) : -1].cpu(), tokens if before else tokens[1:]
    logits = _suppressed(decoder, logits) if drawn else logits
    return log_probabilities(logits, counted, distribution, near, decoder.tolerance.atol)


def assert_same(decoder: DecoderUnderTest, actual: Any, expected: Sequence[Any], *, about: str, id: str) -> None:
    """Compare log-probabilities of rows. One that is NaN is wrong where the logits are numbers."""
    error = next((row for row in expected if isinstance(row, Raised)), None)
    numbers = not error and not any(bool(row.isnan().any()) for row in expected)
    if numbers and isinstance(actual, list) and any(bool(row.isnan().any()) for row in actual):
        expect(actual).equals(expected, about=about, id=id, tolerance=decoder.tolerance)
    else:
        decoder.assert_same(actual, error or all_rows_or_none(list(expected), expected), about=about, id=id)


def _offered(decoder: DecoderUnderTest, field: str) -> Sequence[tuple[str, Any]]:
    found = list(getattr(decoder.record, field).items())
    if not found:
        what = {"samplers": "no sampler with log-probabilities", "text_scores": "no log-probabilities of texts"}[field]
        raise NotApplicable(f"the decoder offers {what}: ec.Decoder(..., {field}=...)")
    return found


def _prompts(decoder: DecoderUnderTest, subject: DecoderSubject, case: Prompts) -> list[list[int]]:
    rows = decoder.truncate(subject.prompts(case.samples), NEW_TOKENS)
    return even(rows) if decoder.refuses("padding") else rows


def _texts(decoder: DecoderUnderTest, subject: DecoderSubject, case: ScoredTexts) -> list[list[int]]:
    """Texts of at least two ids: what a shorter one has again."""
    return decoder.truncate([even([row], max(2, len(row)))[0] for row in subject.prompts(case.samples)], 2, whole=True)


def _asked(way: Any, pair: Pair) -> Pair:
    return ([], [*pair[0], *pair[1]]) if way.whole else pair


def _suppressed(decoder: DecoderUnderTest, logits: Any) -> Any:
    return logits.index_fill(-1, logits.new_tensor(decoder.record.suppressed).long(), float("-inf"))


def _chance(decoder: DecoderUnderTest, logits: Any, tokens: Sequence[int], distribution: TokenDistribution) -> Any:
    """Return how likely these draws are, by what is right of a token at the bound of a truncation; None for NaN."""
    import torch

    if bool(logits.isnan().any()):
        inconclusive("logits are NaN")
        return None
    logits = _suppressed(decoder, logits)
    counts = torch.bincount(torch.tensor(tokens), minlength=logits.shape[-1])
    slack = decoder.tolerance.atol
    shares = [distribution.log_softmax(logits, bound)[0].exp() for bound in (0.0, slack, -slack)]
    return max(tail_of_counts(counts, each) for each in shares)


def greedy_pairs(decoder: DecoderUnderTest, way: TextScore, pair: Pair) -> list[Pair]:
    """Return the context with its two likeliest tokens, and with a given token and the likeliest after it."""
    context, (first, *_) = pair
    before = [[*way.prefix, *context], [*way.prefix, *context, first]]
    both, after = (decoder.greedy([ids], [[]], count) for ids, count in zip(before, (2, 1), strict=True))
    return (
        []
        if isinstance(both, Raised) or isinstance(after, Raised)
        else [(context, both[0]), (context, [first, *after[0]])]
    )


def is_greedy(decoder: DecoderUnderTest, way: TextScore, pair: Pair) -> bool | None:
    """Return whether each token is the likeliest; None where two are as likely, or a first one has no logits."""
    before, tokens = [*way.prefix, *pair[0]], pair[1]
    rows = decoder.decode_uncached([[*before, *tokens]])
    if isinstance(rows, Raised) or not before or bool(rows[0].isnan().any()):
        return None
    logits = rows[0][len(before) - 1 : -1].cpu()
    best, own = logits.topk(2).values, logits[range(len(tokens)), list(tokens)]
    apart = best[:, 0] - own.where(own < best[:, 0], best[:, 1])
    return None if bool((apart < decoder.tolerance.atol).any()) else bool((own == best[:, 0]).all())


def _agree(decoder: DecoderUnderTest, way: TextScore, scored: Sequence[Any], pairs: Sequence[Pair]) -> bool:
    """Return whether scores are those of the logits without a cache."""
    expected = [expected_score(decoder, way, pair) for pair in pairs]
    if any(isinstance(each, Raised) for each in expected):
        return False
    values = [value for value, _ in scored]
    return decoder.agrees(values, [_shaped_like(value, each) for value, each in zip(values, expected, strict=True)])


def _shaped_like(actual: Any, expected: Any) -> Any:
    """Return the log-probability of each token, or their sum where ``actual`` is one."""
    return expected if len(actual) == len(expected) else expected.sum()[None]

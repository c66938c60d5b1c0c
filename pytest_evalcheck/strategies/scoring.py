"""Samples of scorers: a document and the responses to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.samples import Sample, SampleStrategy

_QUESTIONS = 40


def responses(
    *,
    answers: Sequence[str] = ("4", "5", "12"),
    template: str = "{}",
    min_repeats: int = 1,
    max_repeats: int = 1,
) -> SampleStrategy:
    """``(document, responses)``: ``{"question": ..., "answer": ...}`` and a list of texts; collated to two lists.

    A response is ``template`` with one of ``answers``, the right one more often than another. The questions of one
    case are different. Odd responses are an empty text, blanks, None, and, where repeats vary, none at all.
    """
    if "{}" not in template or not answers or not 1 <= min_repeats <= max_repeats:
        raise ValueError(
            f"answers={answers!r}, template={template!r}, min_repeats={min_repeats}, max_repeats={max_repeats}; "
            "expected some answers, a template with {}, and 1 <= min_repeats <= max_repeats"
        )
    text = st.sampled_from([template.format(answer) for answer in answers])
    document = st.fixed_dictionaries({"question": _question(), "answer": st.sampled_from(list(answers))})
    repeated = partial(st.lists, min_size=min_repeats, max_size=max_repeats)
    odd = repeated(st.one_of(st.sampled_from(["", "  ", None]), text))
    missing: st.SearchStrategy[list[Any]] = st.just([])

    def aimed(sample: Sample, right: bool) -> Sample:
        asked, given = sample
        chosen = asked["answer"] if right else next((a for a in answers if a != asked["answer"]), "none")
        return asked, [template.format(chosen)] * len(given)

    def answered(asked: Any, given: Sequence[str | None]) -> Sample:
        return asked, [template.format(asked["answer"]) if one is None else one for one in given]

    return SampleStrategy(
        name="responses",
        # Half of them are right: of wrong ones alone most scores are zero, whatever the scorer does.
        sample=st.builds(answered, document, repeated(st.one_of(st.none(), text))),
        collate=_collate,
        distinct=lambda sample: sample[0]["question"],
        right=lambda sample: aimed(sample, True),
        wrong=lambda sample: aimed(sample, False),
        contrast=tuple(
            ({"question": f"q{i}", "answer": answer}, [template.format(answer)] * min_repeats)
            for i, answer in enumerate(answers)
        ),
        odd=st.tuples(document, st.one_of(odd, missing) if min_repeats < max_repeats else odd),
    )


def choices(*, count: int = 3) -> SampleStrategy:
    """``(document, responses)``: a question with ``count`` choices, and of each its log-likelihood and greediness.

    The document is ``{"question": ..., "choices": [...], "answer": index}``; a response is ``(logprob, is_greedy)``.
    Log-likelihoods of one document are different: a tie has no right order.
    """
    names = [f"choice {place}" + "." * place for place in range(count)]
    logprobs = st.permutations([-(place + 1) / 2 for place in range(count)])
    document = st.builds(
        lambda question, answer: {"question": question, "choices": names, "answer": answer},
        _question(),
        st.integers(0, count - 1),
    )

    def aimed(sample: Sample, right: bool) -> Sample:
        asked, given = sample
        best = asked["answer"] if right else (asked["answer"] + 1) % len(given)
        return asked, [(-0.5 if place == best else -40.0 - place, place == best) for place in range(len(given))]

    plain = ({"question": "q0", "choices": names, "answer": 0}, [(-1.0, False)] * count)
    return SampleStrategy(
        name="choices",
        sample=st.tuples(document, logprobs.map(lambda found: [(value, False) for value in found])),
        collate=_collate,
        distinct=lambda sample: sample[0]["question"],
        right=lambda sample: aimed(sample, True),
        wrong=lambda sample: aimed(sample, False),
        contrast=tuple(({**plain[0], "question": f"q{i}", "answer": i}, plain[1]) for i in range(count)),
    )


def loglikelihoods() -> SampleStrategy:
    """``(document, responses)``: a text to be continued, and of the continuation ``(logprob, is_greedy)``."""
    document = st.builds(lambda question: {"question": question, "answer": question[::-1]}, _question())
    response = st.tuples(st.integers(1, 16).map(lambda i: -i / 8), st.booleans())
    return SampleStrategy(
        name="log-likelihoods",
        sample=st.tuples(document, response.map(lambda one: [one])),
        collate=_collate,
        distinct=lambda sample: sample[0]["question"],
        right=lambda sample: (sample[0], [(-0.125, True)]),
        wrong=lambda sample: (sample[0], [(-40.0, False)]),
        contrast=(({"question": "q0", "answer": "0q"}, [(-1.0, True)]),) * 2,
    )


def _question() -> st.SearchStrategy[str]:
    return st.integers(0, _QUESTIONS - 1).map(lambda i: f"q{i}")


def _collate(rows: Sequence[Sample]) -> tuple[list[Any], list[Any]]:
    return [list(given) for _, given in rows], [dict(document) for document, _ in rows]

"""Samples of scorers: a document and the responses to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    case are distinct, and one of many is empty; a similar document has the same question and another answer. Odd
    responses are an empty text, blanks, None, and, where repeats vary, none at all.
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

    def predicted(sample: Sample, right: bool) -> Sample:
        document, texts = sample
        chosen = document["answer"] if right else next((a for a in answers if a != document["answer"]), "none")
        return document, [template.format(chosen)] * len(texts)

    def filled(document: Any, texts: Sequence[str | None]) -> Sample:
        return document, [template.format(document["answer"]) if text is None else text for text in texts]

    return SampleStrategy(
        name="responses",
        # Half of them are right: with wrong ones only, most scores would be zero whatever the scorer does.
        sample=st.builds(filled, document, repeated(st.one_of(st.none(), text))),
        collate=_collate,
        distinct=lambda sample: sample[0]["question"],
        right=lambda sample: predicted(sample, True),
        wrong=lambda sample: predicted(sample, False),
        contrast=tuple(
            ({"question": f"q{i}", "answer": answer}, [template.format(answer)] * min_repeats)
            for i, answer in enumerate(answers)
        ),
        similar=_with_the_next_answer(answers) if len(set(answers)) > 1 else None,
        odd=st.tuples(document, st.one_of(odd, missing) if min_repeats < max_repeats else odd),
    )


def _with_the_next_answer(answers: Sequence[str]) -> Callable[[Sample], Sample]:
    following = dict(zip(answers, [*answers[1:], answers[0]], strict=True))
    return lambda sample: ({**sample[0], "answer": following[sample[0]["answer"]]}, sample[1])


_CHOICES: tuple[Callable[[int], str], ...] = (
    lambda i: f"choice {i}" + "." * i,
    lambda i: f"choice {'abcdef'[i % 6]}{i // 6}",
    lambda i: " ".join(["choice", *["more"] * i]),
)
"""Wordings of choices: of different lengths, of one length, and each as the beginning of the next."""


def choices(*, count: int | None = None) -> SampleStrategy:
    """``(document, responses)``: a question with ``count`` choices, and the log-likelihood and greediness of each.

    The document is ``{"question": ..., "choices": [...], "answer": index}``; a response is ``(logprob, is_greedy)``.
    The log-likelihoods of one document are distinct: a tie has no right order. Without ``count`` there are 2 to 6
    choices, of different lengths or of one, or each the beginning of the next. A similar document has the same question
    and choices, and another answer.
    """
    sizes, wording = (st.just(count), st.just(_CHOICES[0])) if count else (st.integers(2, 6), st.sampled_from(_CHOICES))

    def sample(count: int) -> st.SearchStrategy[Sample]:
        logprobs = st.permutations([-(i + 1) / 2 for i in range(count)])
        document = st.builds(
            lambda question, worded, answer: {
                "question": question,
                "choices": [worded(i) for i in range(count)],
                "answer": answer,
            },
            _question(),
            wording,
            st.integers(0, count - 1),
        )
        return st.tuples(document, logprobs.map(lambda values: [(value, False) for value in values]))

    def predicted(sample: Sample, right: bool) -> Sample:
        document, responses = sample
        best = document["answer"] if right else (document["answer"] + 1) % len(responses)
        return document, [(-0.5 if i == best else -40.0 - i, i == best) for i in range(len(responses))]

    def similar(sample: Sample) -> Sample:
        document, responses = sample
        return {**document, "answer": (document["answer"] + 1) % len(responses)}, responses

    size = count or 3
    plain = ({"question": "q0", "choices": [_CHOICES[0](i) for i in range(size)], "answer": 0}, [(-1.0, False)] * size)
    return SampleStrategy(
        name="choices",
        sample=sizes.flatmap(sample),
        collate=_collate,
        distinct=lambda sample: sample[0]["question"],
        right=lambda sample: predicted(sample, True),
        wrong=lambda sample: predicted(sample, False),
        contrast=tuple(({**plain[0], "question": f"q{i}", "answer": i}, plain[1]) for i in range(size)),
        similar=similar,
    )


def loglikelihoods() -> SampleStrategy:
    """``(document, responses)``: a text to continue, and ``(logprob, is_greedy)`` of the continuation."""
    question = _question().filter(bool)  # the answer is never empty: of no text there is no log-likelihood
    document = st.builds(lambda question: {"question": question, "answer": question[::-1]}, question)
    response = st.tuples(st.integers(1, 16).map(lambda i: -i / 8), st.booleans())
    return SampleStrategy(
        name="log-likelihoods",
        sample=st.tuples(document, response.map(lambda response: [response])),
        collate=_collate,
        distinct=lambda sample: sample[0]["question"],
        right=lambda sample: (sample[0], [(-0.125, True)]),
        wrong=lambda sample: (sample[0], [(-40.0, False)]),
        contrast=(({"question": "q0", "answer": "0q"}, [(-1.0, True)]),) * 2,
    )


def _question() -> st.SearchStrategy[str]:
    return st.integers(0, _QUESTIONS - 1).map(lambda i: f"q{i}" if i else "")


def _collate(rows: Sequence[Sample]) -> tuple[list[Any], list[Any]]:
    return [list(responses) for _, responses in rows], [dict(document) for document, _ in rows]

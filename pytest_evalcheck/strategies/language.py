"""Samples of language: token logits with labels, pairs of texts, retrieval, and prompts of decoders."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from pytest_evalcheck.strategies.logits import are_large, large_logits
from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy, float_tensor, integer_tensor


def tokens(*, vocab: int = 4, length: int = 3, ignore_index: int | None = None) -> SampleStrategy:
    """Token-level language modelling: ``(logits, labels)`` of T rows; ``preds`` (N, T, V), ``target`` (N, T).

    With ``ignore_index`` some labels of a sample are ignored. The metric gets batches of T + 2 positions, too, of which
    two of each row are ignored: they must count as the same batch without them.
    """
    row = st.permutations(range(vocab)).map(lambda p: tuple(r / 2 for r in p))
    label = st.integers(0, vocab - 1)
    sample = counted = st.tuples(st.tuples(*[row] * length), st.tuples(*[label] * length))
    if ignore_index is not None:
        # Real batches mix counted and ignored positions in one row.
        label = st.one_of(label, label, st.just(ignore_index))
        sample = st.tuples(st.tuples(*[row] * length), st.tuples(*[label] * length))
        sample = sample.filter(lambda s: any(t != ignore_index for t in s[1]))

    def predicted(labels: Sequence[int], shift: int) -> Sample:
        def scores(label: int) -> tuple[float, ...]:
            winner = 0 if label == ignore_index else (label + shift) % vocab
            return tuple(vocab / 2 if v == winner else ((v - winner) % vocab) / 4 for v in range(vocab))

        return tuple(scores(label) for label in labels), tuple(labels)

    def collate(rows: Sequence[Sample]) -> tuple[Any, Any]:
        positions = len(rows[0][1]) if rows else length
        logits = float_tensor([r[0] for r in rows], len(rows), positions, vocab)
        return logits, integer_tensor([r[1] for r in rows], len(rows), positions)

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)

        def scores(label: int) -> tuple[float, ...]:
            if are_large(size):
                return large_logits(rng, size, label, vocab)
            return tuple(rng.gauss(0, 2) for _ in range(vocab))

        rows = []
        for _ in range(size.rows):
            labels = tuple(rng.randrange(vocab) for _ in range(length))
            rows.append((tuple(map(scores, labels)), labels))
        return rows

    def corrupted(sample: Sample, bad: float) -> Sample:
        logits, labels = sample
        position = next(i for i, label in enumerate(labels) if label != ignore_index)
        return (*logits[:position], (bad, *logits[position][1:]), *logits[position + 1 :]), labels

    @st.composite
    def partly_ignored(draw: st.DrawFn) -> tuple[Sample, Sample]:
        without = draw(counted)
        if draw(st.booleans()):  # predictions that are drawn are mostly wrong, and what counts as wrong would not show
            without = predicted(without[1], 0)
        places = list(zip(*without, strict=True))
        for _ in range(_INSERTED):
            places.insert(draw(st.integers(0, len(places))), (draw(row), ignore_index))
        return tuple(zip(*places, strict=True)), without

    ramp = [tuple((s + t) % vocab for t in range(length)) for s in range(vocab)]
    blank = st.just((ignore_index,) * length)
    return SampleStrategy(
        name="tokens",
        sample=sample,
        collate=collate,
        right=lambda s: predicted(s[1], 0),
        wrong=lambda s: predicted(s[1], 1),
        contrast=tuple(predicted(labels, 0) for labels in ramp),
        ignored=None if ignore_index is None else st.tuples(st.tuples(*[row] * length), blank),
        partly_ignored=None if ignore_index is None else partly_ignored(),
        corrupted=corrupted,
        bulk=bulk,
    )


_INSERTED = 2
"""Number of positions of a row are ignored and must count as if they were not there."""

_WORDS = ("a", "cat", "the", "mat", "sat", "on")


def text_pairs(
    *,
    references: int | None = None,
    min_words: int = 1,
    max_words: int = 6,
    words: Sequence[str] = _WORDS,
    split: bool = False,
) -> SampleStrategy:
    """``(prediction, reference)`` texts; collated to two lists of str.

    With ``references`` given, each prediction has that many references and the second list holds lists. With ``split``
    each text is collated to the list of its words, as BLEU and ROUGE of several libraries take it. Some predictions are
    empty, as those of models are, but where ``min_words`` is more than 1; ``min_words=0`` also draws empty references.
    ``words`` are what texts are made of, such as some with accents, of other scripts, or with punctuation.

    Raises:
        ValueError: where there are fewer than two words, or one of them is no text.
    """
    _check_words(words)
    text = st.lists(st.sampled_from(list(words)), min_size=min_words, max_size=max_words).map(" ".join)
    reference = text if references is None else st.lists(text, min_size=references, max_size=references).map(tuple)
    prediction = st.one_of(text, text, text, st.just("")) if min_words <= 1 else text

    def truth(sample: Sample) -> str:
        return str(sample[1] if references is None else sample[1][0])

    def collated(text: str) -> Any:
        return text.split() if split else text

    def collate(rows: Sequence[Sample]) -> tuple[list[Any], list[Any]]:
        return [collated(r[0]) for r in rows], [
            collated(r[1]) if references is None else [*map(collated, r[1])] for r in rows
        ]

    line = "the cat sat on a mat"
    return SampleStrategy(
        name="text pairs",
        sample=st.tuples(prediction, reference),
        collate=collate,
        right=lambda s: (truth(s), s[1]),
        wrong=lambda s: ("dog dog", s[1]),
        contrast=((line, line if references is None else (line,) * references),) * 2,
    )


def text_lists(
    *, words: Sequence[str] = _WORDS, min_words: int = 1, max_words: int = 6, aligned: bool = False
) -> SampleStrategy:
    """``(prediction, reference)`` as tuples of tokens; collated to two lists of N lists of str.

    With ``aligned`` both have one length, as tags of a sequence have: ``words=("O", "B-PER", "I-PER")``. With
    ``min_words=0`` there are empty ones too.

    >>> from pytest_evalcheck import strategies as es
    >>> preds, target = es.text_lists(words=("O", "B-PER", "I-PER"), aligned=True).example(3)
    >>> [len(tags) for tags in preds] == [len(tags) for tags in target]
    True

    Raises:
        ValueError: where there are fewer than two words, or one of them is no text.
    """
    _check_words(words)
    word = st.sampled_from(list(words))
    tokens = st.lists(word, min_size=min_words, max_size=max_words).map(tuple)
    pairs = st.lists(st.tuples(word, word), min_size=min_words, max_size=max_words).map(
        lambda rows: (tuple(row[0] for row in rows), tuple(row[1] for row in rows))
    )
    following = dict(zip(words, [*words[1:], words[0]], strict=True))
    line = tuple(words)[: max(2, max_words)]
    return SampleStrategy(
        name="text lists",
        sample=pairs if aligned else st.tuples(tokens, tokens),
        collate=lambda rows: ([list(row[0]) for row in rows], [list(row[1]) for row in rows]),
        right=lambda row: (row[1], row[1]),
        wrong=lambda row: (tuple(following[word] for word in row[1]), row[1]),
        contrast=((line, line), (line[::-1], line[::-1])),
    )


def _check_words(words: Sequence[str]) -> None:
    if isinstance(words, str) or len(set(words)) < 2 or not all(isinstance(word, str) for word in words):
        raise ValueError(f"words={words!r}; expected at least two texts, such as ('a', 'cat')")


def retrieval(*, queries: int = 2, ignore_index: int | None = None) -> SampleStrategy:
    """``(score, relevant, query)``: one candidate for a query; ``preds``, ``target``, ``indexes`` (N,).

    The scores of one case are distinct: a tie has no right order. ``ignore_index`` is the relevance of ignored samples.
    """
    score = st.integers(1, 63).map(lambda i: i / 64)

    def collate(rows: Sequence[Sample]) -> dict[str, Any]:
        return {
            "preds": float_tensor([r[0] for r in rows]),
            "target": integer_tensor([r[1] for r in rows]),
            "indexes": integer_tensor([r[2] for r in rows]),
        }

    return SampleStrategy(
        name="retrieval",
        sample=st.tuples(score, st.integers(0, 1), st.integers(0, queries - 1)),
        collate=collate,
        distinct=lambda s: s[0],
        right=lambda s: (0.9 if s[1] else 0.1, *s[1:]),
        wrong=lambda s: (0.1 if s[1] else 0.9, *s[1:]),
        ignored=None if ignore_index is None else st.tuples(score, st.just(ignore_index), st.integers(0, queries - 1)),
        # Queries differ in their shares of hits, which a metric of groups compares.
        contrast=((0.9, 1, 0), (0.2, 0, 0), (0.8, 1, 1), (0.1, 0, 1), (0.15, 0, 0), (0.12, 0, 1), (0.7, 1, 1)),
        corrupted=lambda s, bad: (bad, *s[1:]),
        numbered=lambda s, by: (*s[:2], s[2] * by),
    )


def prompts(
    *,
    vocab: int,
    min_length: int = 1,
    max_length: int = 12,
    special: Sequence[int] = (0,),
    repeats: bool = False,
) -> SampleStrategy:
    """Lists of ids below ``vocab``, of unequal length and without the ``special`` ones; collated as lists.

    Half of them are long, so that windows are exceeded. The prompts of one case are distinct, since equal ones cannot
    show which row a result belongs to; with ``repeats`` some occur twice, as in real data. Special are the ids that a
    model treats as more than tokens: padding, beginning, end. A similar prompt has the same ids in another order.
    """
    ids = sorted(set(range(vocab)) - set(special))
    if len(ids) < 2 or not 1 <= min_length <= max_length:
        raise ValueError(
            f"vocab={vocab}, special={tuple(special)}, min_length={min_length}, max_length={max_length}; "
            "expected at least two ids that are not special, and 1 <= min_length <= max_length"
        )
    token, long = st.sampled_from(ids), max(min_length, 2 * max_length // 3)
    return SampleStrategy(
        name="prompts",
        sample=st.one_of(
            st.lists(token, min_size=min_length, max_size=max_length),
            st.lists(token, min_size=long, max_size=max_length),
        ),
        collate=_lists,  # a loader pickles it for its workers
        distinct=None if repeats else tuple,  # equal rows cannot show which row a result belongs to
        similar=lambda row: _rearranged(row, ids),
    )


def text_prompts(*, words: Sequence[str] = _WORDS, min_words: int = 1, max_words: int = 6) -> SampleStrategy:
    """Texts of some words, distinct in one case; collated as a list. A similar text has the words in another order.

    >>> from pytest_evalcheck import strategies as es
    >>> all(isinstance(text, str) for text in es.text_prompts().example(3))
    True

    Raises:
        ValueError: where there are fewer than two words, or one of them is no text.
    """
    _check_words(words)
    ordered = list(words)

    def similar(text: str) -> str:
        return " ".join(_rearranged(text.split(" "), ordered))

    return SampleStrategy(
        name="text prompts",
        sample=st.lists(st.sampled_from(ordered), min_size=min_words, max_size=max_words).map(" ".join),
        collate=list,
        distinct=str,
        similar=similar,
    )


def _rearranged(row: Sequence[Any], ids: Sequence[Any]) -> list[Any]:
    """The ids of a prompt in another order; where all are the same, with another id at the end."""
    turned = [*row[1:], row[0]]
    return turned if turned != list(row) else [*row[:-1], ids[(ids.index(row[-1]) + 1) % len(ids)]]


def _lists(rows: Any) -> list[list[int]]:
    return [list(row) for row in rows]

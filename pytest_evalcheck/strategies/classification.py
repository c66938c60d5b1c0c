"""Samples of classification: a prediction and a label."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any, Literal

from hypothesis import strategies as st

from pytest_evalcheck.strategies.logits import are_large, binary_logit, large_logits
from pytest_evalcheck.strategies.samples import Bulk, Sample, SampleStrategy, float_tensor, integer_tensor

Form = Literal["labels", "probabilities", "logits"]
_SPANS: dict[str, tuple[float, float]] = {
    "labels": (0, 1),
    "probabilities": (0.0625, 0.9375),
    "logits": (-3.0625, 2.9375),
}
"""The prediction that is most negative and the one that is most positive."""


def binary(*, of: Form = "probabilities", ignore_index: int | None = None) -> SampleStrategy:
    """``(prediction, label)`` with labels 0 and 1; collated to ``preds`` (N,) and ``target`` (N,) int64.

    ``of`` is the form of a prediction: a label, the probability of class 1, or its logit. No probability is equal to
    the usual threshold of 0.5.
    """
    _check_form(of)
    span = _SPANS[of]
    prediction = st.integers(0, 1) if of == "labels" else st.integers(0, 7).map(_spread(*span, 8))

    def predict(label: int) -> Any:
        return label if of == "labels" else span[label]

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        rows = []
        for _ in range(size.rows):
            label = rng.randrange(2)
            if of == "logits":
                rows.append((binary_logit(rng, size, label), label))
                continue
            probability = min(0.999, max(0.001, rng.gauss(0.4 + 0.2 * label, 0.25)))
            rows.append((predict(round(probability)) if of == "labels" else probability, label))
        return rows

    return SampleStrategy(
        name=f"binary {of}",
        sample=st.tuples(prediction, st.integers(0, 1)),
        collate=lambda rows: _tensors(rows, pred_float=of != "labels"),
        right=lambda row: (predict(row[1]), row[1]),
        wrong=lambda row: (predict(1 - row[1]), row[1]),
        contrast=((predict(0), 0), (predict(1), 1)) * 2,
        ignored=None if ignore_index is None else st.tuples(prediction, st.just(ignore_index)),
        **_form_fields(of, corrupted=lambda row, bad: (bad, row[1]), bulk=bulk),
    )


def multiclass(*, classes: int, of: Form = "labels", ignore_index: int | None = None) -> SampleStrategy:
    """``(prediction, label)`` with labels below ``classes``; ``preds`` (N,) or (N, C), ``target`` (N,) int64.

    The scores of one sample are distinct: a tie has no right answer.
    """
    _check_form(of)
    check_classes(classes)
    label = st.integers(0, classes - 1)
    prediction = label if of == "labels" else st.permutations(range(classes)).map(lambda p: _scores(p, of))

    def predict(winner: int) -> Any:
        if of == "labels":
            return winner
        others = [c for c in range(classes) if c != winner]
        ranks = dict(zip([*others, winner], range(classes), strict=True))
        return _scores([ranks[c] for c in range(classes)], of)

    def corrupted(row: Any, bad: float) -> Any:
        at = row[1] % classes  # a loss reads no score but that of the true class; a label that is ignored has none
        return (*row[0][:at], bad, *row[0][at + 1 :]), row[1]

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        rows = []
        for _ in range(size.rows):
            truth = rng.randrange(classes)
            if of == "logits" and are_large(size):
                rows.append((large_logits(rng, size, truth, classes), truth))
                continue
            logits = [rng.gauss(1.0 if c == truth else 0.0, 1.0) for c in range(classes)]
            rows.append((tuple(_softmax(logits)) if of == "probabilities" else tuple(logits), truth))
        return rows

    return SampleStrategy(
        name=f"multiclass {of}",
        sample=st.tuples(prediction, label),
        collate=lambda rows: _tensors(rows, pred_float=of != "labels", pred_shape=() if of == "labels" else (classes,)),
        right=lambda row: (predict(row[1]), row[1]),
        wrong=lambda row: (predict((row[1] + 1) % classes), row[1]),
        contrast=tuple((predict(c), c) for c in range(classes)) * 2,
        ignored=None if ignore_index is None else st.tuples(prediction, st.just(ignore_index)),
        **_form_fields(of, corrupted=corrupted, bulk=bulk),
    )


def multilabel(*, labels: int, of: Form = "probabilities", ignore_index: int | None = None) -> SampleStrategy:
    """``(predictions, labels)``, each of length L with labels 0 and 1; ``preds`` and ``target`` (N, L).

    With ``ignore_index`` some labels of a sample are ignored: predictions there must not matter.
    """
    _check_form(of)
    check_classes(labels, "labels")
    span = _SPANS[of]
    score = st.integers(0, 1) if of == "labels" else st.integers(0, 7).map(_spread(*span, 8))
    prediction, truth = st.tuples(*[score] * labels), st.tuples(*[st.integers(0, 1)] * labels)
    if ignore_index is not None:
        label = st.sampled_from([0, 1, ignore_index])
        truth = st.tuples(*[label] * labels).filter(lambda row: set(row) != {ignore_index})

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        rows = []
        for _ in range(size.rows):
            target = tuple(rng.randrange(2) for _ in range(labels))
            if of == "logits":
                rows.append((tuple(binary_logit(rng, size, t) for t in target), target))
            else:
                rows.append((tuple(min(0.999, max(0.001, rng.gauss(0.4 + 0.2 * t, 0.25))) for t in target), target))
        return rows

    def answer(row: Sample, right: bool) -> Sample:
        return tuple(span[(t == 1) == right] for t in row[1]), row[1]

    @st.composite
    def partly_ignored(draw: st.DrawFn) -> tuple[Sample, Sample]:
        place = draw(st.integers(0, labels - 1))
        of_labels, scores = list(draw(truth)), draw(prediction)
        of_labels[place], of_labels[place - 1] = ignore_index, draw(st.integers(0, 1))
        if draw(st.booleans()):  # predictions that are drawn are mostly wrong, and what counts as wrong would not show
            scores, _ = answer((scores, of_labels), True)
        low, high = span
        changed = tuple(
            (high if score < (low + high) / 2 else low) if label == ignore_index else score
            for score, label in zip(scores, of_labels, strict=True)
        )
        return (scores, tuple(of_labels)), (changed, tuple(of_labels))

    mixed = tuple(tuple((i + j) % 2 for j in range(labels)) for i in range(2))
    return SampleStrategy(
        name=f"multilabel {of}",
        sample=st.tuples(prediction, truth),
        collate=lambda rows: _tensors(rows, pred_float=of != "labels", pred_shape=(labels,), target_shape=(labels,)),
        right=lambda row: answer(row, True),
        wrong=lambda row: answer(row, False),
        contrast=tuple((t, t) for t in mixed) * 2,
        ignored=None if ignore_index is None else st.tuples(prediction, st.just((ignore_index,) * labels)),
        partly_ignored=None if ignore_index is None else partly_ignored(),
        **_form_fields(of, corrupted=lambda row, bad: ((bad, *row[0][1:]), row[1]), bulk=bulk),
    )


def rankings(*, length: int = 4, levels: int = 2) -> SampleStrategy:
    """``(scores, relevance)`` of one list of items; ``preds`` (N, L) float32, ``target`` (N, L) int64 below ``levels``.

    The scores of a list are distinct, since a tie has no right order. In each list some item is relevant and some is
    not: without that most metrics of rankings have no value. A right prediction orders the items by relevance, a wrong
    one the other way round.

    >>> from pytest_evalcheck import strategies as es
    >>> preds, target = es.rankings(length=5, levels=3).example(2)
    >>> preds.shape, int(target.max()) <= 2
    (torch.Size([2, 5]), True)

    Raises:
        ValueError: where there are fewer than two items or levels.
    """
    check_classes(length, "length")
    check_classes(levels, "levels")
    relevance = st.tuples(*[st.integers(0, levels - 1)] * length).filter(lambda row: 0 in row and any(row))

    def scores(ranks: Sequence[int]) -> tuple[float, ...]:
        return tuple((rank + 1) / (length + 1) for rank in ranks)

    def ordered(row: Sample, sign: int) -> Sample:
        order = sorted(range(length), key=lambda i: (sign * row[1][i], i))
        return scores([order.index(i) for i in range(length)]), row[1]

    def bulk(size: Bulk) -> list[Sample]:
        rng = random.Random(size.seed)
        ranks = list(range(length))
        rows = []
        for _ in range(size.rows):
            target = [0, rng.randrange(1, levels), *(rng.randrange(levels) for _ in range(length - 2))]
            rows.append((scores(rng.sample(ranks, length)), tuple(rng.sample(target, length))))
        return rows

    mixed = tuple(tuple((levels - 1) * ((i + j) % 2) for j in range(length)) for i in range(2))
    return SampleStrategy(
        name="rankings",
        sample=st.tuples(st.permutations(range(length)).map(scores), relevance),
        collate=lambda rows: _tensors(rows, pred_float=True, pred_shape=(length,), target_shape=(length,)),
        right=lambda row: ordered(row, 1),
        wrong=lambda row: ordered(row, -1),
        contrast=tuple(ordered((None, row), 1) for row in mixed),
        corrupted=lambda row, bad: ((bad, *row[0][1:]), row[1]),
        bulk=bulk,
        unit=1.0,
    )


def segmentation(*, classes: int, size: tuple[int, int] = (2, 3), ignore_index: int | None = None) -> SampleStrategy:
    """``(mask, mask)`` of class indices, each H rows of W; ``preds`` and ``target`` (N, H, W) int64.

    Masks of more than 64 pixels are regions, drawn by a seed.
    With ``ignore_index`` some pixels of a sample are ignored. The metric gets masks of W + 1 columns, too, of which the
    last one is ignored: they must count as the same masks without it.
    """
    check_classes(classes)
    height, width = size
    pixel, mask = st.integers(0, classes - 1), drawn_mask(classes, height, width)
    pair = st.tuples(mask, mask)
    sample = pair if ignore_index is None else with_ignored_pixels(pair, ignore_index)

    def collate(rows: Sequence[Sample]) -> tuple[Any, Any]:
        shape = (height, len(rows[0][1][0]) if rows else width)
        return _tensors(rows, pred_float=False, pred_shape=shape, target_shape=shape)

    blank = ((ignore_index,) * width,) * height
    ramp = tuple(
        tuple(tuple((shift + r * width + c) % classes for c in range(width)) for r in range(height))
        for shift in range(classes)
    )
    return SampleStrategy(
        name="segmentation",
        sample=sample,
        collate=collate,
        right=lambda row: (predicted_mask(row[1], classes, 0), row[1]),
        wrong=lambda row: (predicted_mask(row[1], classes, 1), row[1]),
        contrast=tuple((m, m) for m in ramp),
        ignored=None if ignore_index is None else st.tuples(mask, st.just(blank)),
        partly_ignored=None if ignore_index is None else beside_an_ignored_column(pair, pixel, ignore_index),
        integers=True,
    )


FEW_PIXELS = 64
"""Pixels up to which a mask or an image is drawn pixel by pixel: Hypothesis draws few numbers at once."""


def drawn_mask(classes: int, height: int, width: int) -> st.SearchStrategy[Sample]:
    """Masks of H rows of W class indices: of few pixels any, else those of `blotches`."""
    if height * width > FEW_PIXELS:
        return blotches(classes, height, width)
    return st.tuples(*[st.tuples(*[st.integers(0, classes - 1)] * width)] * height)


def blotches(classes: int, height: int, width: int) -> st.SearchStrategy[Sample]:
    """Masks of H rows of W class indices, in which every pixel has the class of the nearest of some points."""

    def by_seed(seed: int) -> Sample:
        import numpy as np

        rng = random.Random(seed)
        points = [(rng.randrange(height), rng.randrange(width)) for _ in range(2 * classes)]
        rows, columns = np.mgrid[:height, :width]
        nearest = np.argmin([(rows - row) ** 2 + (columns - column) ** 2 for row, column in points], axis=0)
        return tuple(map(tuple, (nearest % classes).tolist()))

    return st.integers(0, 9_999).map(by_seed)


def predicted_mask(mask: Sample, classes: int, shift: int) -> Sample:
    """The classes of a mask, each moved by a number of classes; what is no class, as an ignored pixel, is class 0."""
    return tuple(tuple(((p if 0 <= p < classes else 0) + shift) % classes for p in line) for line in mask)


@st.composite
def with_ignored_pixels(draw: st.DrawFn, pair: st.SearchStrategy[Sample], ignore_index: int) -> Sample:
    """A pair of masks, half of the time with a rectangle of the second one ignored, but not all of it."""
    predicted, true = draw(pair)
    height, width = len(true), len(true[0])
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    rows = range(top, top + draw(st.integers(0, height)))
    columns = range(left, left + draw(st.integers(1, width)) - (len(rows) == height))
    hole = tuple(
        tuple(ignore_index if r in rows and c in columns else p for c, p in enumerate(line))
        for r, line in enumerate(true)
    )
    return predicted, hole


@st.composite
def beside_an_ignored_column(
    draw: st.DrawFn, sample: st.SearchStrategy[Sample], pixel: st.SearchStrategy[int], ignore_index: int
) -> tuple[Sample, Sample]:
    """A pair of masks with a column more, which is ignored, and the same pair without it, half of them right."""
    predicted, true = draw(sample)
    predicted = true if draw(st.booleans()) else predicted
    longer = tuple((*line, draw(pixel)) for line in predicted), tuple((*line, ignore_index) for line in true)
    return longer, (predicted, true)


def _tensors(
    rows: Sequence[Sample],
    *,
    pred_float: bool,
    pred_shape: tuple[int, ...] = (),
    target_shape: tuple[int, ...] = (),
) -> tuple[Any, Any]:
    predictions = float_tensor if pred_float else integer_tensor
    return (
        predictions([row[0] for row in rows], len(rows), *pred_shape),
        integer_tensor([row[1] for row in rows], len(rows), *target_shape),
    )


def _form_fields(of: Form, *, corrupted: Any, bulk: Any) -> dict[str, Any]:
    if of == "labels":
        return {"integers": True}
    return {"corrupted": corrupted, "bulk": bulk, "unit": 1.0 if of == "probabilities" else 0.0}


def _spread(low: float, high: float, steps: int) -> Any:
    return lambda i: low + (high - low) * i / (steps - 1)


def _scores(ranks: Sequence[int], of: Form) -> tuple[float, ...]:
    # Ranks as scores: distinct, exact in half precision, and as probabilities summing to 1.
    if of == "logits":
        return tuple(float(r) - 1.0 for r in ranks)
    total = sum(r + 1 for r in ranks)
    return tuple((r + 1) / total for r in ranks)


def _softmax(logits: Sequence[float]) -> list[float]:
    exps = [math.exp(x) for x in logits]
    return [x / sum(exps) for x in exps]


def _check_form(of: str) -> None:
    if of not in ("labels", "probabilities", "logits"):
        raise ValueError(f"of={of!r}; expected 'labels', 'probabilities' or 'logits'")


def check_classes(count: int, name: str = "classes") -> None:
    """Require a whole number of at least 2.

    Raises:
        ValueError: where it is none.
    """
    if not isinstance(count, int) or count < 2:
        raise ValueError(f"{name}={count!r}; expected a whole number of at least 2")

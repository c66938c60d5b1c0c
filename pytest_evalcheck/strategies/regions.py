"""Samples of regions of images: masks of classes, boxes with scores, and captions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from hypothesis import strategies as st

from pytest_evalcheck.strategies.classification import (
    FEW_PIXELS,
    beside_an_ignored_column,
    blotches,
    check_classes,
    drawn_mask,
    predicted_mask,
    with_ignored_pixels,
)
from pytest_evalcheck.strategies.samples import Sample, SampleStrategy, float_tensor, integer_tensor
from pytest_evalcheck.strategies.signals import counts, generator, shape_of

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]


def masks(
    *,
    classes: int,
    height: int = 4,
    width: int = 4,
    form: Literal["index", "onehot"] = "index",
    ignore_index: int | None = None,
    complete: bool = False,
) -> SampleStrategy:
    """``(mask, mask)`` of class indices, each H rows of W; ``preds`` and ``target`` (N, H, W), or (N, C, H, W) one-hot.

    Both are int64. Some masks hold one class alone, so that the others are absent; with ``complete`` every mask has
    every class, as a distance between regions needs it. Large masks are drawn by a seed, as blotches. With
    ``ignore_index``, which needs the form of indices, some pixels are ignored. The metric gets masks of W + 1 columns,
    too, of which the last one is ignored: the only ignored pixels where ``complete``.

    >>> from pytest_evalcheck import strategies as es
    >>> preds, target = es.masks(classes=3, form="onehot").example(2)
    >>> preds.shape, int(target.sum(1).max())
    (torch.Size([2, 3, 4, 4]), 1)

    Raises:
        ValueError: where a size or the number of classes is too small, or the form is another one.
    """
    check_classes(classes)
    shape_of(height=height, width=width)
    if form not in ("index", "onehot"):
        raise ValueError(f"form={form!r}; expected 'index' or 'onehot'")
    if form == "onehot" and ignore_index is not None:
        raise ValueError(f"form='onehot', ignore_index={ignore_index}; a one-hot mask has no index that is ignored")
    if complete and height * width < 2 * classes:
        raise ValueError(f"{height} x {width} pixels are too few for masks that have all of {classes} classes")
    mask = _masks(classes, height, width, complete)
    ramp = tuple(
        tuple(tuple((shift + row * width + column) % classes for column in range(width)) for row in range(height))
        for shift in range(classes)
    )

    pair = st.tuples(mask, mask)
    sample = pair if ignore_index is None or complete else with_ignored_pixels(pair, ignore_index)

    def tensor(planes: Sequence[Any]) -> Any:
        indices = integer_tensor(planes, len(planes), height, len(planes[0][0]) if planes else width)
        if form == "index":
            return indices
        return indices.unsqueeze(1) == integer_tensor(list(range(classes))).reshape(1, classes, 1, 1)

    blank = ((ignore_index,) * width,) * height
    return SampleStrategy(
        name=f"masks {form}",
        sample=sample,
        collate=lambda rows: tuple(tensor([row[i] for row in rows]).long() for i in range(2)),
        right=lambda row: (predicted_mask(row[1], classes, 0), row[1]),
        wrong=lambda row: (predicted_mask(row[1], classes, 1), row[1]),
        contrast=tuple((m, m) for m in ramp),
        ignored=None if ignore_index is None else st.tuples(mask, st.just(blank)),
        partly_ignored=(
            None if ignore_index is None else beside_an_ignored_column(pair, st.integers(0, classes - 1), ignore_index)
        ),
        integers=True,
    )


def boxes(*, classes: int = 3, max_boxes: int = 3, format: BoxFormat = "xyxy") -> SampleStrategy:
    """``(number, predictions, truths)``: found boxes and true ones of one image, as lists of dicts of tensors.

    ``preds`` is a list of N dicts ``{"boxes": (M, 4) float32, "scores": (M,) float32, "labels": (M,) int64}`` and
    ``target`` one of N dicts ``{"boxes": (K, 4), "labels": (K,)}``; M and K differ from image to image and may be 0. In
    a sample a prediction is ``(box, label, level)`` and a true box ``(box, label)``, with ``box`` as whole numbers
    ``(x1, y1, x2, y2)`` in an image of 64 x 64, whatever ``format`` the batch has.

    Predictions are true boxes that were moved a little, some without a true one. A level is the first digit of a score.
    The scores of one case are distinct, since a tie has no right order: the number of a sample, which occurs once in a
    case, is part of its scores. A right prediction has the true boxes; a wrong one has boxes elsewhere, of other
    classes; a corrupted one has one coordinate of a true box replaced.

    >>> from pytest_evalcheck import strategies as es
    >>> preds, target = es.boxes().example(4)
    >>> sorted(preds[0]), sorted(target[0]), {tuple(image["boxes"].shape[1:]) for image in preds}
    (['boxes', 'labels', 'scores'], ['boxes', 'labels'], {(4,)})

    Raises:
        ValueError: where there is no class or box, or the format is another one.
    """
    shape_of(classes=classes, max_boxes=max_boxes)
    if max_boxes > _PLACES:
        raise ValueError(f"max_boxes={max_boxes}; expected at most {_PLACES}, so that all scores of a case differ")
    if format not in _FORMATS:
        raise ValueError(f"format={format!r}; expected one of {', '.join(map(repr, _FORMATS))}")

    def located(rows: Sequence[Any]) -> Any:
        return float_tensor([_FORMATS[format](*box) for box, *_ in rows], len(rows), 4)

    def found(number: int, rows: Sequence[Any]) -> dict[str, Any]:
        scores = [_score(number, place, level) for place, (_, _, level) in enumerate(rows)]
        return {
            "boxes": located(rows),
            "scores": float_tensor(scores, len(rows)),
            "labels": integer_tensor([row[1] for row in rows], len(rows)),
        }

    def true(rows: Sequence[Any]) -> dict[str, Any]:
        return {"boxes": located(rows), "labels": integer_tensor([row[1] for row in rows], len(rows))}

    def wrong(sample: Sample) -> Sample:
        number, _, truths = sample
        elsewhere = [(_AWAY, (label + 1) % classes, 7) for _, label in truths] or [(_AWAY, 0, 7)]
        return number, tuple(elsewhere), truths

    def corrupted(sample: Sample, bad: float) -> Sample:
        number, _, truths = sample
        # Where no box is true, it does not matter where one is found; and not every metric reads the scores.
        truths = truths or ((_PLAIN, 0),)
        (_, *more), label = truths[0]
        return number, (((bad, *more), label, 7), *((*truth, 7) for truth in truths[1:])), truths

    kinds = [(c, (), (((4 * c % 32, 4, 4 * c % 32 + 16, 24), c % classes),)) for c in range(max(2, classes))]
    # The last one has boxes of other sizes, which some numbers are about.
    return SampleStrategy(
        name="boxes",
        sample=_images(classes, max_boxes),
        collate=lambda rows: ([found(row[0], row[1]) for row in rows], [true(row[2]) for row in rows]),
        distinct=lambda sample: sample[0],
        right=lambda sample: (sample[0], tuple((*truth, 7) for truth in sample[2]), sample[2]),
        wrong=wrong,
        contrast=(*kinds, (len(kinds), (), (((0, 0, 60, 60), 0), ((0, 0, 240, 240), 1 % classes))[:max_boxes])),
        corrupted=corrupted,
    )


_COLOURS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1), "white": (1, 1, 1)}


def caption_pairs(*, height: int = 8, width: int = 8) -> SampleStrategy:
    """``(seed, colour, caption)``: an image of one colour with noise, and a text about it; no model is needed.

    Collated to ``images`` (N, 3, H, W) float32 between 0 and 1, and a list of N captions such as ``"a red image"``. A
    right caption names the colour, a wrong one another colour.

    >>> from pytest_evalcheck import strategies as es
    >>> images, captions = es.caption_pairs().example(3)
    >>> images.shape, len(captions), captions[0].endswith(" image")
    (torch.Size([3, 3, 8, 8]), 3, True)

    Raises:
        ValueError: where a size is no positive whole number.
    """
    size = shape_of(height=height, width=width)
    colour = st.sampled_from(sorted(_COLOURS))

    def image(seed: int, name: str) -> Any:
        import numpy as np

        noise = counts(generator(seed), 17, (3, *size)) / 64
        return np.asarray(_COLOURS[name]).reshape(3, 1, 1) * 0.75 + noise

    def collate(rows: Sequence[Sample]) -> tuple[Any, list[str]]:
        planes = [image(*row[:2]).tolist() for row in rows]
        return float_tensor(planes, len(rows), 3, *size), [row[2] for row in rows]

    def next_colour(name: str) -> str:
        names = sorted(_COLOURS)
        return names[(names.index(name) + 1) % len(names)]

    return SampleStrategy(
        name="caption pairs",
        sample=st.tuples(st.integers(0, 9_999), colour, colour.map(_caption)),
        collate=collate,
        right=lambda row: (row[0], row[1], _caption(row[1])),
        wrong=lambda row: (row[0], row[1], _caption(next_colour(row[1]))),
        contrast=tuple((seed, name, _caption(name)) for seed, name in enumerate(sorted(_COLOURS))),
    )


def _caption(colour: str) -> str:
    return f"a {colour} image"


def _masks(classes: int, height: int, width: int, complete: bool) -> st.SearchStrategy[Any]:
    def plain(label: int) -> Any:
        return ((label,) * width,) * height

    pixel, tiny = st.integers(0, classes - 1), height * width <= FEW_PIXELS
    if complete:
        # Every class once, then anything, in any order.
        rest = st.lists(pixel, min_size=height * width - classes, max_size=height * width - classes)
        flat = rest.map(lambda others: [*range(classes), *others]).flatmap(st.permutations)
        found = blotches(classes, height, width).filter(lambda mask: len({p for line in mask for p in line}) == classes)
        return (
            flat.map(lambda row: tuple(tuple(row[i : i + width]) for i in range(0, len(row), width))) if tiny else found
        )
    drawn = drawn_mask(classes, height, width)
    return st.one_of(drawn, drawn, pixel.map(plain))


_PLAIN = (4, 4, 20, 24)
_AWAY = (60, 60, 64, 64)
"""A box that overlaps with no other one."""


@st.composite
def _images(draw: st.DrawFn, classes: int, most: int) -> Sample:
    side, start = st.integers(4, 24), st.integers(2, 30)
    label, level = st.integers(0, classes - 1), st.integers(1, 7)
    box = st.tuples(start, start, side, side).map(lambda b: (b[0], b[1], b[0] + b[2], b[1] + b[3]))
    truths = draw(st.lists(st.tuples(box, label), max_size=most))
    found = []
    for (x1, y1, x2, y2), true_label in truths:
        if draw(st.integers(0, 3)) < 3:  # three of four are found
            dx, dy = draw(st.integers(-2, 2)), draw(st.integers(-2, 2))
            named = draw(st.one_of(st.just(true_label), st.just(true_label), label))
            found.append(((x1 + dx, y1 + dy, x2 + dx, y2 + dy), named, draw(level)))
    found += draw(st.lists(st.tuples(box, label, level), max_size=max(0, min(1, most - len(found)))))
    return draw(st.integers(0, _NUMBERS - 1)), tuple(found), tuple(truths)


_NUMBERS = 100
_PLACES = 8


def _score(number: int, place: int, level: int) -> float:
    """A score between 0 and 1 that no other prediction of a case has."""
    return (level * 1000 + number * _PLACES + place) / 8192


_FORMATS: dict[str, Any] = {
    "xyxy": lambda x1, y1, x2, y2: (x1, y1, x2, y2),
    "xywh": lambda x1, y1, x2, y2: (x1, y1, x2 - x1, y2 - y1),
    "cxcywh": lambda x1, y1, x2, y2: ((x1 + x2) / 2, (y1 + y2) / 2, x2 - x1, y2 - y1),
}

"""Images, masks, boxes, waveforms, captions, rankings and lists of tokens: what is in their batches."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.strategies import Bulk

light = settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None, database=None)


def mse(pair: tuple[Any, Any]) -> float:
    return float(((pair[0] - pair[1]) ** 2).mean())


class TestSignals:
    @pytest.mark.parametrize("inputs", [es.image_pairs(), es.audio(), es.audio(speakers=2)], ids=["i", "a", "s"])
    def test_right_is_near_and_wrong_is_far(self, inputs: es.SampleStrategy) -> None:
        rows = inputs.fixed(8)
        assert inputs.right is not None
        assert inputs.wrong is not None
        right, wrong = (inputs.collate([change(row) for row in rows]) for change in (inputs.right, inputs.wrong))
        assert 0 < mse(right) < 1e-3 < 100 * mse(right) < mse(wrong)
        assert torch.equal(right[1], wrong[1])

    def test_images_lie_in_their_range(self) -> None:
        preds, target = es.image_pairs(value_range=(-1, 3)).example(8)
        assert float(target.min()) < -0.9
        assert float(target.max()) > 2.9
        assert -1 <= float(preds.min()) <= float(preds.max()) <= 3
        assert len({tuple(row.flatten().tolist()) for row in target}) == 8

    def test_whole_numbers(self) -> None:
        inputs = es.image_pairs(value_range=(0, 255), whole=True)
        preds, target = inputs.example(4)
        assert all(torch.equal(t, t.round()) for t in (preds, target))
        assert preds.dtype is torch.float32
        assert float(target.max()) > 250
        assert inputs.integers
        assert not es.image_pairs(value_range=(-128, 127), whole=True).integers
        assert not es.image_pairs().integers

    def test_they_are_the_same_in_every_release(self) -> None:
        # A replay must not depend on a release of NumPy: its old generator keeps its stream.
        _, target = es.image_pairs(channels=1, height=1, width=4, value_range=(0, 255), whole=True).collate([(7, 1.0)])
        assert target.flatten().tolist() == [19.0, 199.0, 112.0, 185.0]

    def test_large_ones_are_short_and_have_no_bulk(self) -> None:
        inputs = es.image_pairs(height=176, width=176)
        assert inputs.bulk is None
        assert all(len(repr(row)) < 30 for row in inputs.fixed(8))
        assert inputs.example(2)[0].shape == (2, 1, 176, 176)

    def test_a_corrupted_sample_has_one_such_number(self) -> None:
        inputs = es.audio(length=16, speakers=2)
        assert inputs.corrupted is not None
        preds, target = inputs.collate([inputs.corrupted(inputs.fixed(1)[0], float("nan"))])
        assert int(preds.isnan().sum()) == 1
        assert not target.isnan().any()

    @given(es.audio(length=8).rows(min_size=1))
    @light
    def test_no_waveform_is_silent(self, rows: Any) -> None:
        preds, target = es.audio(length=8).collate(rows)
        assert float(target.abs().amax(-1).min()) > 0.05
        assert float(preds.abs().amax(-1).min()) > 0
        assert float(target.abs().max()) <= 1


class TestMasks:
    @pytest.mark.parametrize("size", [{}, {"height": 12, "width": 20}], ids=["small", "large"])
    def test_one_hot_masks_are_the_index_masks(self, size: dict[str, int]) -> None:
        index, onehot = (es.masks(classes=3, form=form, **size).example(6) for form in ("index", "onehot"))  # type: ignore[arg-type]
        for plain, planes in zip(index, onehot, strict=True):
            assert planes.dtype is torch.int64
            assert torch.equal(planes.argmax(1), plain)
            assert torch.equal(planes.sum(1), torch.ones_like(plain))
        assert len(set(index[1].flatten().tolist())) == 3

    def test_some_have_one_class_alone(self) -> None:
        counts = {len(set(mask.flatten().tolist())) for mask in es.masks(classes=3).example(12)[1]}
        assert 1 in counts
        assert counts != {1}

    @pytest.mark.parametrize("size", [{}, {"height": 12, "width": 20}], ids=["small", "large"])
    def test_complete_ones_have_every_class(self, size: dict[str, int]) -> None:
        inputs = es.masks(classes=3, complete=True, **size)  # type: ignore[arg-type]
        for change in (lambda row: row, inputs.right, inputs.wrong):
            batch = inputs.collate([change(row) for row in inputs.fixed(12)])  # type: ignore[misc]
            assert all(len(mask.unique()) == 3 for masks in batch for mask in masks)


class TestBoxes:
    @given(es.boxes(max_boxes=8).rows(min_size=2, max_size=6))
    @light
    def test_boxes_are_valid_and_scores_distinct(self, rows: Any) -> None:
        preds, target = es.boxes(max_boxes=8).collate(rows)
        for image in (*preds, *target):
            boxes = image["boxes"]
            assert boxes.shape == (len(image["labels"]), 4)
            assert bool((boxes[:, :2] < boxes[:, 2:]).all())
            assert 0 <= float(boxes.min() if len(boxes) else 0) <= float(boxes.max() if len(boxes) else 0) <= 64
        scores = torch.cat([image["scores"] for image in preds]).tolist()
        assert len(set(scores)) == len(scores)
        assert all(0 < score < 1 for score in scores)

    def test_images_without_boxes_are_among_them(self) -> None:
        preds, target = es.boxes().example(12)
        assert {0, 1} <= {min(len(image["labels"]), 1) for image in preds}
        assert {0, 1} <= {min(len(image["labels"]), 1) for image in target}

    def test_formats_are_of_the_same_boxes(self) -> None:
        corners, sizes, centres = (es.boxes(format=form).example(8)[1] for form in ("xyxy", "xywh", "cxcywh"))  # type: ignore[arg-type]
        for a, b, c in zip(corners, sizes, centres, strict=True):
            x1, y1, x2, y2 = a["boxes"].T
            assert torch.equal(b["boxes"], torch.stack([x1, y1, x2 - x1, y2 - y1], -1))
            assert torch.equal(c["boxes"][:, :2] * 2, torch.stack([x1 + x2, y1 + y2], -1))

    def test_right_and_wrong_predictions(self) -> None:
        inputs = es.boxes()
        assert inputs.right is not None
        assert inputs.wrong is not None
        preds, target = inputs.collate([inputs.right(row) for row in inputs.fixed(8)])
        for found, true in zip(preds, target, strict=True):
            assert torch.equal(found["boxes"], true["boxes"])
            assert torch.equal(found["labels"], true["labels"])
        preds, target = inputs.collate([inputs.wrong(row) for row in inputs.fixed(8)])
        for found, true in zip(preds, target, strict=True):
            assert len(found["labels"]) == max(1, len(true["labels"]))
            assert bool((found["boxes"][:, None, 0] > true["boxes"][None, :, 2]).all())


class TestOthers:
    def test_captions_name_the_colour(self) -> None:
        inputs = es.caption_pairs()
        assert inputs.right is not None
        images, captions = inputs.collate([inputs.right(row) for row in inputs.fixed(8)])
        for image, caption in zip(images, captions, strict=True):
            means = image.mean((1, 2))
            bright = {"red": 0, "green": 1, "blue": 2}.get(caption.split()[1])
            assert bright is None or int(means.argmax()) == bright
        assert 0 <= float(images.min()) <= float(images.max()) <= 1

    @given(es.rankings(length=5, levels=3).rows(min_size=1))
    @light
    def test_rankings_have_relevant_items_and_no_ties(self, rows: Any) -> None:
        preds, target = es.rankings(length=5, levels=3).collate(rows)
        assert bool(((target > 0).any(1) & (target == 0).any(1)).all())
        assert all(len(set(row)) == 5 for row in preds.tolist())

    def test_a_right_ranking_orders_by_relevance(self) -> None:
        inputs = es.rankings(length=5, levels=3)
        assert inputs.right is not None
        assert inputs.wrong is not None
        for change, sign in ((inputs.right, 1), (inputs.wrong, -1)):
            preds, target = inputs.collate([change(row) for row in inputs.fixed(6)])
            order = preds.argsort(1)
            assert bool((sign * target.gather(1, order).diff(dim=1) >= 0).all())

    def test_bulk_rankings_are_rankings(self) -> None:
        inputs = es.rankings(length=5, levels=3)
        assert inputs.bulk is not None
        preds, target = inputs.collate(list(inputs.bulk(Bulk(seed=3, rows=200))))
        assert bool(((target > 0).any(1) & (target == 0).any(1)).all())
        assert all(len(set(row)) == 5 for row in preds.tolist())

    def test_words_of_texts(self) -> None:
        words = ("naïve", "北京", "don't")
        preds, _ = es.text_pairs(words=words).example(8)
        assert {word for text in preds for word in text.split()} <= {*words, "dog"}
        lists, _ = es.text_lists(words=words, min_words=0).example(12)
        assert [] in lists

    def test_prompts_may_occur_twice(self) -> None:
        assert es.prompts(vocab=9).distinct is tuple
        assert es.prompts(vocab=9, repeats=True).distinct is None

    def test_spreads(self) -> None:
        wide, offset = es.regression(spread="wide").example(12), es.regression(spread="offset").example(12)
        assert float(max(t.abs().max() for t in wide)) > 100
        assert float(max(t.abs().max() for t in wide)) <= 250
        assert all(9_990 < float(t.min()) <= float(t.max()) < 10_010 for t in offset)
        assert es.regression(spread="wide").integers
        assert not es.regression(spread="offset").integers
        assert not es.values(spread="offset").integers
        for nearly in es.regression(spread="narrow").example(12):
            assert 99.8 < float(nearly.min()) < float(nearly.max()) < 100.2
        assert not es.regression(spread="narrow").integers
        assert es.regression(spread="small").fixed(6) == es.regression().fixed(6)


class TestSpreadsFindWhatSmallNumbersHide:
    """Planted bugs that numbers between -4 and 4 do not show, and their correct twins."""

    class Count:
        def __init__(self) -> None:
            self.total, self.count = 0.0, 0

        def update(self, value: Any) -> None:
            self.total += float(value.sum(dtype=torch.float32))
            self.count += len(value)

        def compute(self) -> float:
            return self.total / max(1, self.count)

    class Wraps(Count):
        """Sums in the dtype of the batch, which holds no more than 255."""

        def update(self, value: Any) -> None:
            self.total += float(value.sum(dtype=value.dtype))
            self.count += len(value)

    class Cancels:
        """A variance as a difference of float32 sums."""

        def __init__(self) -> None:
            self.sums = torch.zeros(3)

        def update(self, value: Any) -> None:
            value = value if value.is_floating_point() else value.float()
            self.sums = self.sums + torch.stack([torch.ones_like(value).sum(), value.sum(), (value * value).sum()])

        def compute(self) -> Any:
            count, total, squares = self.sums
            return squares / count - (total / count) ** 2

    class Keeps(Cancels):
        def __init__(self) -> None:
            self.sums = torch.zeros(3, dtype=torch.float64)

        def update(self, value: Any) -> None:
            super().update(value.double())

    def outcomes(self, made: Any, code: str) -> dict[str, str]:
        found = {}
        for spread in ("small", "wide", "offset"):
            target = ec.metric(inputs=es.values(spread=spread))(lambda: ec.Metric.of(made()))  # type: ignore[arg-type]
            (cell,) = ec.run(target, select=code).cells
            found[spread] = cell.outcome
        return found

    def test_a_sum_that_wraps(self) -> None:
        # Small integers alone would hide it, so that EC212 tries all of uint8 beside them.
        assert self.outcomes(self.Wraps, "EC212") == {"small": "failed", "wide": "failed", "offset": "passed"}
        assert set(self.outcomes(self.Count, "EC212").values()) == {"passed"}

    def test_a_variance_that_cancels(self) -> None:
        found = self.outcomes(self.Cancels, "EC201")
        assert (found["small"], found["offset"]) == ("passed", "failed")
        assert set(self.outcomes(self.Keeps, "EC201").values()) == {"passed"}


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: es.image_pairs(height=0), "height=0; expected a whole number of at least 1"),
        (lambda: es.image_pairs(channels=True), "channels=True; expected"),
        (
            lambda: es.image_pairs(value_range=(1, 0)),
            r"value_range=\(1, 0\); expected two numbers, the lower one first",
        ),
        (lambda: es.image_pairs(value_range=3), "value_range=3; expected two numbers"),  # type: ignore[arg-type]
        (lambda: es.image_pairs(value_range=(0, 0.5), whole=True), "expected two whole numbers"),
        (lambda: es.image_pairs(value_range=(0, float("inf"))), "expected two numbers"),
        (lambda: es.audio(length=4), "length=4; expected at least 8"),
        (lambda: es.audio(speakers=0), "speakers=0; expected a whole number"),
        (lambda: es.masks(classes=1), "classes=1; expected a whole number of at least 2"),
        (lambda: es.masks(classes=2, form="one-hot"), "form='one-hot'; expected 'index' or 'onehot'"),  # type: ignore[arg-type]
        (lambda: es.masks(classes=2, form="onehot", ignore_index=0), "has no index that is ignored"),
        (lambda: es.boxes(format="xxyy"), "format='xxyy'; expected one of 'xyxy', 'xywh', 'cxcywh'"),  # type: ignore[arg-type]
        (lambda: es.masks(classes=9, complete=True), "4 x 4 pixels are too few for masks that have all of 9 classes"),
        (lambda: es.boxes(max_boxes=9), "max_boxes=9; expected at most 8"),
        (lambda: es.rankings(length=1), "length=1; expected a whole number of at least 2"),
        (lambda: es.text_lists(words="abc"), "words='abc'; expected at least two texts"),
        (lambda: es.text_pairs(words=("a",)), "expected at least two texts"),
        (lambda: es.regression(spread="big"), "spread='big'; expected one of 'small', 'wide', 'offset', 'narrow'"),  # type: ignore[arg-type]
        (lambda: es.values(spread="offsets"), "did you mean 'offset'"),  # type: ignore[arg-type]
        (lambda: es.caption_pairs(width=-1), "width=-1"),
    ],
)
def test_parameters_are_validated(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


@pytest.mark.parametrize("module", ["signals", "regions", "classification", "language"])
def test_the_examples_of_docstrings_are_right(module: str) -> None:
    found = doctest.testmod(importlib.import_module(f"pytest_evalcheck.strategies.{module}"))
    assert found.attempted
    assert not found.failed

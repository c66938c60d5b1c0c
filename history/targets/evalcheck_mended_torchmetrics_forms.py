"""Configurations in which an earlier release of torchmetrics was wrong: retrieval, collections, wrappers, other inputs.

See history/torchmetrics.toml. What classifies, and what compares numbers and images, is in the file beside this one.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import groupby, permutations
from typing import Any

from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

metrics = partial(ec.metric, requires=("torchmetrics>=1.9",), budget=None)
PROBABILITIES = es.multiclass(classes=3)


def gain_with_ties(ranked: list[tuple[float, int]]) -> float:
    """The discounted gain of the documents of one query; those of one score share their places (McSherry and Najork)."""
    gain, place = 0.0, 1
    for _, group in groupby(sorted(ranked, reverse=True), key=lambda row: row[0]):
        held = [relevant for _, relevant in group]
        discounts = sum(1 / math.log2(i + 1) for i in range(place, place + len(held)))
        gain, place = gain + discounts * sum(held) / len(held), place + len(held)
    return gain


def normalized_gain(rows: Any) -> float:
    scores = []
    for query in {row[2] for row in rows}:
        held = [(row[0], row[1]) for row in rows if row[2] == query]
        best = gain_with_ties([(relevant, relevant) for _, relevant in held])
        scores.append(gain_with_ties(held) / best if best else 0.0)
    return sum(scores) / len(scores)


@metrics(
    inputs=es.retrieval().replace(
        name="documents of equal scores",
        sample=st.tuples(st.sampled_from((0.25, 0.5, 0.75)), st.integers(0, 1), st.integers(0, 1)),
        distinct=None,
    ),
    reference=normalized_gain,
)
def gain_of_equal_scores(device: str) -> Any:
    """Documents of one score have no order among themselves."""
    from torchmetrics.retrieval import RetrievalNormalizedDCG

    return RetrievalNormalizedDCG().to(device)


@metrics(inputs=PROBABILITIES)
def collection_of_equal_labels(device: str) -> Any:
    """Both members name their results after the classes."""
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassPrecision, MulticlassRecall
    from torchmetrics.wrappers import ClasswiseWrapper

    labels = ["cat", "dog", "owl"]
    scores = {"recall": MulticlassRecall, "precision": MulticlassPrecision}
    members = {name: ClasswiseWrapper(score(3, average=None), labels, "of_") for name, score in scores.items()}
    return MetricCollection(members).to(device)


DRAWN = (
    'BootStrapper: "generates new data by sampling with replacement along the first dimension": of each batch its own'
)


@metrics(
    inputs=es.regression().named("preds", "target"),
    not_applicable=dict.fromkeys(("EC201", "EC208", "EC221"), DRAWN),
)
def bootstrapped_by_name(device: str) -> Any:
    """A wrapper passes on what it is given by name. The resamples of an update have a seed."""
    import torch
    from torchmetrics.regression import MeanSquaredError
    from torchmetrics.wrappers import BootStrapper

    class Seeded(BootStrapper):
        def update(self, *arguments: Any, **keywords: Any) -> None:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.update_count)
                super().update(*arguments, **keywords)

    return Seeded(MeanSquaredError(), num_bootstraps=4, sampling_strategy="multinomial").to(device)


LABELS_OF_A_SIGNAL = st.tuples(*[st.integers(0, 2)] * 4)


def signals(rows: Any) -> Any:
    import torch

    return tuple(torch.tensor([row[i] for row in rows], dtype=torch.int64).reshape(-1, 4) for i in range(2))


def linear_dice(rows: Any) -> float:
    """Twice what is right, by what is said and what is true: with equal weights, the share of right labels."""
    return sum(sum(p == t for p, t in zip(*row, strict=True)) / 4 for row in rows) / len(rows)


@metrics(
    inputs=es.samples(
        st.tuples(LABELS_OF_A_SIGNAL, LABELS_OF_A_SIGNAL),
        collate=signals,
        name="signals with a label at each step",
        right=lambda row: (row[1], row[1]),
        wrong=lambda row: (tuple((label + 1) % 3 for label in row[1]), row[1]),
    ),
    reference=linear_dice,
)
def dice_of_signals(device: str) -> Any:
    """One dimension, where images have two."""
    from torchmetrics.segmentation import GeneralizedDiceScore

    return GeneralizedDiceScore(num_classes=3, weight_type="linear", input_format="index").to(device)


CATEGORIES = st.tuples(*[st.sampled_from((0, 1, 8))] * 4)


def panoptic(rows: Any) -> Any:
    """Images of two by two pixels, each with a category and an instance, which is 0."""
    import torch

    def image(side: int) -> Any:
        found = torch.tensor([row[side] for row in rows], dtype=torch.int64).reshape(-1, 2, 2, 1)
        return torch.cat([found, torch.zeros_like(found)], dim=-1)

    return image(0), image(1)


def qualities(rows: Any) -> Any:
    """The quality of each category: "things first and then stuffs, and numerically sorted within each". 0 where it is nowhere."""
    import torch

    found = []
    for category in (1, 8, 0):
        matched, right, single = 0.0, 0, 0
        for said, true in rows:
            p, t = ({i for i in range(4) if labels[i] == category} for labels in (said, true))
            if p & t and len(p & t) / len(p | t) > 0.5:
                matched, right = matched + len(p & t) / len(p | t), right + 1
            else:
                single += bool(p) + bool(t)
        found.append(matched / (right + single / 2) if right + single else 0.0)
    return torch.tensor([found], dtype=torch.float64)


@metrics(
    inputs=es.samples(
        st.tuples(CATEGORIES, CATEGORIES),
        collate=panoptic,
        name="images of three categories",
        right=lambda row: (row[1], row[1]),
        wrong=lambda row: (tuple({0: 1, 1: 8, 8: 0}[label] for label in row[1]), row[1]),
    ),
    reference=qualities,
)
def quality_of_each_category(device: str) -> Any:
    """A set of numbers is not ordered by their size."""
    from torchmetrics.detection import PanopticQuality

    return PanopticQuality(things={8, 1}, stuffs={0}, return_per_class=True).to(device)


SPEECH = es.audio(length=8, speakers=2)


def negative_error(preds: Any, target: Any, weight: float = 1.0) -> Any:
    return -weight * (preds - target).abs().mean((-1, -2))


def best_order(rows: Any) -> float:
    preds, target = SPEECH.collate(rows)
    each = [
        max(-2 * float((said[list(order)].double() - true.double()).abs().mean()) for order in permutations(range(2)))
        for said, true in zip(preds, target, strict=True)
    ]
    return sum(each) / len(each)


@metrics(inputs=SPEECH, reference=best_order)
def best_order_of_speakers(device: str) -> Any:
    """The function has an argument of its own: "Additional keyword arguments for either the ``metric_func`` ..."."""
    from torchmetrics.audio import PermutationInvariantTraining

    return PermutationInvariantTraining(negative_error, mode="permutation-wise", weight=2.0).to(device)

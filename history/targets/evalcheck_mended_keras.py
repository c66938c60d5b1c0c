"""Configurations in which an earlier release of keras was wrong (history/keras.toml), with references."""

from __future__ import annotations

import os

os.environ.setdefault("KERAS_BACKEND", "torch")  # read when keras is imported

from functools import partial
from typing import Any

from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

metrics = partial(ec.metric, requires=("keras>=3",))


@metrics(inputs=es.binary().swapped())
def accuracy_of_single_labels() -> Any:
    """Labels of one dimension."""
    import keras

    return keras.metrics.BinaryAccuracy()


def weighted(weights: tuple[float, ...], name: str) -> Any:
    """Labels, scores and weights of samples."""

    def collate(rows: Any) -> dict[str, Any]:
        import torch

        columns = [[row[i] for row in rows] for i in range(3)]
        labels, scores, held = (torch.tensor(column, dtype=torch.float32) for column in columns)
        return {"y_true": labels, "y_pred": scores, "sample_weight": held}

    sample = st.tuples(st.integers(0, 1), st.sampled_from((0.125, 0.25, 0.75, 0.875)), st.sampled_from(weights))
    return es.samples(sample, collate=collate, name=name)


def precision(rows: Any) -> float:
    """The weight of what is rightly said to be positive, by that of all that is said to be; 0 where nothing is."""
    said = [(label, weight) for label, score, weight in rows if score > 0.5]
    return sum(w for label, w in said if label) / sum(w for _, w in said) if said else 0.0


@metrics(inputs=weighted((1e-6, 2e-6, 4e-6), "small weights"), reference=precision)
def precision_of_small_weights() -> Any:
    """Weights that are probabilities of rare samples: a share does not depend on their scale."""
    import keras

    return keras.metrics.Precision()


@metrics(
    inputs=weighted((1.0, 2.0, float("inf")), "weights of which some are infinite"),
    reference=lambda rows: sum(weight for label, score, weight in rows if label and score > 0.5),
)
def weight_of_what_is_right() -> Any:
    """A sum of weights has those of its samples alone."""
    import keras

    return keras.metrics.TruePositives()


def intersection_of_class_1(rows: Any) -> float:
    """Return what is both by what is either; a prediction of another class is no prediction of this one."""
    either = [row for row in rows if 1 in row]
    return sum(row == (1, 1) for row in either) / len(either) if either else 0.0


@metrics(
    inputs=es.multiclass(classes=2)
    .replace(
        name="predictions of which some are of another class",
        sample=st.tuples(st.integers(0, 2), st.integers(0, 1)),
    )
    .swapped(),
    reference=intersection_of_class_1,
)
def intersection_beside_another_class() -> Any:
    """The model knows a class that the labels have not, such as the border of an object."""
    import keras

    return keras.metrics.IoU(num_classes=2, target_class_ids=[1])

"""The target files of our side: `MulticlassAccuracy` in one or every configuration, and the whole gallery."""

from __future__ import annotations

import re
from itertools import product

_HEAD = """\
import pytest_evalcheck as ec
from fixtures.targets._torchmetrics import empty_rank, nan_is_an_answer, universal
from pytest_evalcheck import strategies as es
from sklearn.metrics import accuracy_score
from torchmetrics.classification import MulticlassAccuracy

ONE, TWO = (0.1, 0.4, 0.3, 0.15, 0.05), (0.1, 0.3, 0.4, 0.15, 0.05)
BLANK = (float("nan"), *ONE[1:])
SCORES = universal((ONE, 1), (ONE, 2), (TWO, 2)) | {
    "EC216": nan_is_an_answer(dict(samples=[(BLANK, 1)], batches=[[0]], corrupted=0, number=BLANK[0]))
}
MASK_1, MASK_2 = ((1, 1, 1),) * 2, ((2, 2, 2),) * 2
MASKS = universal((MASK_1, MASK_1), (MASK_1, MASK_2), (MASK_2, MASK_2)) | {
    "EC203": empty_rank(dict(samples=[(MASK_1, MASK_1)], shards=[[[0]], []]))
}
A_ROW_EACH = {"EC213": "an ignored sample has an entry of its own in a value with one entry a sample"}


def share_of_right_answers(samples):
    rows = [(max(range(5), key=scores.__getitem__), label) for scores, label in samples if label != -1]
    return accuracy_score([label for _, label in rows], [guess for guess, _ in rows]) if rows else 0.0
"""

_TARGET = """

@ec.metric(inputs=es.{samples}, ignore_index={ignored}), reference={reference}, {known})
def {name}(device):
    return MulticlassAccuracy(
        num_classes=5, average={average!r}, multidim_average={multidim!r}, ignore_index={ignored}
    ).to(device)
"""

_GALLERY = """\
from fixtures.gallery.table import SPECIMENS

for index, specimen in enumerate(SPECIMENS):
    if specimen.code.startswith("{code}"):
        globals()[f"planted_{{index}}"] = specimen.bug
        globals()[f"correct_{{specimen.twin.name}}"] = specimen.twin
del specimen
"""


def gallery(code: str = "EC") -> str:
    """Both sides of every pair, or of one check: ``planted_0``, ``correct_MeanSquaredError``, ``planted_1``, ..."""
    return _GALLERY.format(code=code)


def one_configuration() -> str:
    """One target: micro average, ignored labels, held against scikit-learn as torchmetrics' own test is."""
    return _HEAD + _target("micro", "global", -1, reference="share_of_right_answers")


def every_configuration() -> str:
    """A target for each of the 24 configurations that torchmetrics' own test class goes through."""
    choices = product(("micro", "macro", "weighted", None), ("global", "samplewise"), (None, 0, -1))
    return _HEAD + "".join(_target(*choice) for choice in choices)


def _target(average: str | None, multidim: str, ignored: int | None, *, reference: str | None = None) -> str:
    whole = multidim == "global"
    return _TARGET.format(
        name=re.sub(r"\W", "_", f"{average}_{multidim}_ignoring_{ignored}".replace("-", "minus_")),
        samples="multiclass(classes=5, of='probabilities'" if whole else "segmentation(classes=5",
        known=f"known_failures={'SCORES' if whole else 'MASKS, not_applicable=A_ROW_EACH'}",
        average=average,
        multidim=multidim,
        ignored=ignored,
        reference=reference,
    )

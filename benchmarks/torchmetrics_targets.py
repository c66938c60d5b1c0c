"""The target files of our side: `MulticlassAccuracy` in one and in every configuration, and the gallery's pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product

KNOWN: Mapping[str, str] = {}
"""What `MulticlassAccuracy` is known to break, by code: the reason. Strict, as in any target file."""

_HEAD = """\
import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from torchmetrics.classification import MulticlassAccuracy
"""

_ONE = """
from sklearn.metrics import accuracy_score


def counted_share_of_right_answers(samples):
    rows = [(max(range(5), key=scores.__getitem__), label) for scores, label in samples if label != -1]
    return accuracy_score([label for _, label in rows], [guess for guess, _ in rows]) if rows else 0.0


@ec.metric(
    inputs=es.multiclass(classes=5, of="probabilities", ignore_index=-1),
    reference=counted_share_of_right_answers,
    known_failures={known},
)
def accuracy(device):
    return MulticlassAccuracy(num_classes=5, average="micro", ignore_index=-1).to(device)
"""

_CONFIGURATION = """

@ec.metric(inputs={inputs}, known_failures={known})
def {name}(device):
    return MulticlassAccuracy(num_classes=5, {arguments}).to(device)
"""

_GALLERY_SIDE = """

{name}_class, {name}_inputs = attrgetter({path!r})(import_module({module!r})), attrgetter({inputs!r})(import_module({home!r}))


@ec.metric(inputs={name}_inputs)
def {name}(device):
    return {name}_class().to(device)
"""


def one_configuration() -> str:
    """One target: micro average, ignored labels, held against scikit-learn as torchmetrics' own test is."""
    return _HEAD + _ONE.format(known=_known(KNOWN))


def every_configuration() -> str:
    """A target for each of the 24 configurations that torchmetrics' own test class goes through."""
    text = _HEAD
    choices = product(("micro", "macro", "weighted", None), ("global", "samplewise"), (None, 0, -1))
    for average, multidim, ignored in choices:
        whole = multidim == "global"
        samples = "multiclass(classes=5, of='probabilities'" if whole else "segmentation(classes=5"
        text += _CONFIGURATION.format(
            name=re.sub(r"\W", "_", f"{average}_{multidim}_ignoring_{ignored}".replace("-", "minus_")),
            inputs=f"es.{samples}, ignore_index={ignored})",
            arguments=f"average={average!r}, multidim_average={multidim!r}, ignore_index={ignored}",
            # Only probabilities can be NaN, and only there is that promise tried.
            known=_known({code: why for code, why in KNOWN.items() if whole or code != "EC216"}),
        )
    return text


def gallery(pairs: Sequence[Mapping[str, str]]) -> str:
    """Both sides of every pair as targets ``planted_0``, ``correct_0``, ``planted_1``, ..."""
    text = "from importlib import import_module\nfrom operator import attrgetter\n\nimport pytest_evalcheck as ec\n"
    for index, pair in enumerate(pairs):
        home, inputs = pair["inputs"].split(":")
        for role in ("planted", "correct"):
            module, path = pair[role].split(":")
            text += _GALLERY_SIDE.format(
                name=f"{role}_{index}", module=module, path=path, home=home, inputs=inputs
            )
    return text


def _known(table: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{code!r}: ec.KnownFailure({why!r})" for code, why in table.items()) + "}"

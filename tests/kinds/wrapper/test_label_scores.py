"""Log-probabilities that a wrapper reports of labels: shapes, labels that do not count, and mistakes in a record."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from fixtures.gallery.wrappers_texts import ReportsTexts
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.wrapper.label_scores import alike

LOGITS = torch.tensor([[[0.0, 0.0], [math.log(3.0), 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
LABELS = torch.tensor([[1, 0], [-100, 1]])
FOUND = [math.log(0.5), math.log(0.75), math.log(0.5)]
EXPECTED = ec.LabelScore(score=print, logits=print).by_logits(LOGITS, LABELS)  # type: ignore[arg-type]


def test_labels_that_do_not_count_have_no_log_probability() -> None:
    assert EXPECTED[~EXPECTED.isnan()].tolist() == pytest.approx(FOUND)
    assert EXPECTED.isnan().tolist() == [[False, False], [True, False]]


def test_logits_are_divided_by_the_temperature() -> None:
    found = ec.LabelScore(score=print, logits=print, temperature=0.5).by_logits(LOGITS, LABELS)  # type: ignore[arg-type]
    assert found[0, 1].item() == pytest.approx(math.log(0.9))


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        (torch.tensor([[1.0, 2.0], [9.0, 3.0]]), FOUND),
        ([1.0, 2.0], [FOUND[0] + FOUND[1], FOUND[2]]),
        (1.0, sum(FOUND) / 3),
    ],
)
def test_the_shape_decides_what_is_compared(reported: Any, expected: Any) -> None:
    actual, found = alike(reported, EXPECTED, "mine")
    assert actual.shape == found.shape
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("reported", [torch.zeros(7), "none", None, [[1.0], [2.0, 3.0]]])
def test_what_is_no_log_probability_is_a_mistake_in_the_target(reported: Any) -> None:
    with pytest.raises(TargetError, match=r"log_probabilities\['mine'\] reports no log-probabilities of labels") as got:
        alike(reported, EXPECTED, "mine")
    assert "the sum for each row, [2], or one number" in str(got.value)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"score": 1}, "score=1; expected a function"),
        ({"logits": None}, "logits=None; expected a function"),
        ({"temperature": 0}, "temperature=0; expected a number above 0"),
    ],
)
def test_a_wrong_record_says_what_is_expected(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ec.LabelScore(**{"score": print, "logits": print, **fields})


def test_a_function_in_place_of_a_record_is_refused() -> None:
    with pytest.raises(TypeError, match=r"log_probabilities\['loss'\] is of type builtin.*; expected an ec.LabelScore"):
        ec.Wrapper(forward=print, log_probabilities={"loss": print})  # type: ignore[dict-item]


class WithoutLabels(ReportsTexts):
    """A wrapper whose batches have no labels."""

    def record(self) -> ec.Wrapper:
        made = super().record()
        ways = {"each": ec.LabelScore(score=made.log_probabilities["each"].score, logits=lambda *_: None)}
        return ec.Wrapper(forward=made.forward, model=made.model, log_probabilities=ways)


def test_batches_without_labels_say_nothing() -> None:
    def factory() -> ec.Wrapper:
        return WithoutLabels().record()

    target = ec.wrapper(inputs=WithoutLabels.inputs)(factory)
    cell = ec.run(target, "cpu", select="EC117", effort="quick").cells[0]
    assert (cell.outcome, cell.reason) == ("not applicable", "no label counts, or logits are NaN")


@pytest.mark.parametrize(
    ("logits", "labels", "said"),
    [
        (None, LABELS, r"shapes ['no tensor'] and [2, 2]"),
        (LOGITS, LABELS[0], "shapes [2, 2, 2] and [2]"),
        (LOGITS, LABELS.double(), "of torch.float64"),
        (LOGITS, LABELS + 1, "the label 2, and logits of 2 classes"),
    ],
)
def test_logits_without_labels_are_a_mistake_in_the_target(logits: Any, labels: Any, said: str) -> None:
    with pytest.raises(TargetError, match="gave no logits of labels") as got:
        ec.LabelScore(score=print, logits=print).by_logits(logits, labels)  # type: ignore[arg-type]
    assert said in got.value.actual

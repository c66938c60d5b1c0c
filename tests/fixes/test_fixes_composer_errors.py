"""Errors of the fixed ``HuggingFaceModel`` for batches and outputs that cannot be scored."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("composer")
    from composer.models import HuggingFaceModel as Original
    from composer_cases import CASES, Recorder, equal, scored, text

from pytest_evalcheck.fixes.composer import HuggingFaceModel

# What Composer, torchmetrics and transformers warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")


def bad(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**text(1), **changes}.items() if value is not ...}


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        ([text(1)], TypeError, "batch: expected a mapping such as a dict or a BatchEncoding, got list"),
        ({}, ValueError, "batch: expected fields, got an empty dict"),
        (bad(labels=..., label=1), KeyError, "expected a field 'labels', .*; did you mean 'label'?"),
        (bad(labels=None), KeyError, r"batch\['labels'\]: expected a value, got None"),
        (bad(labels=torch.ones(2, 6).long()), ValueError, r"batch\['labels'\]: expected 3 rows .* got 2"),
        (bad(attention_mask=torch.ones(2, 6)), ValueError, r"batch\['attention_mask'\]: expected 3 rows .* got 2"),
        (bad(labels=torch.ones(3, 6)), TypeError, r"batch\['labels'\]: expected a tensor of integers.* torch.float32"),
        (bad(labels=torch.ones(3).long()), ValueError, r"batch\['labels'\]: expected the shape \(rows, tokens"),
        (bad(labels=[1, 2, 3]), TypeError, r"batch\['labels'\]: expected a tensor of integers, got list"),
        (bad(mode="generate", attention_mask=...), KeyError, "expected a field 'attention_mask'"),
        (bad(mode="generate", labels=["a"]), ValueError, r"batch\['labels'\]: expected 3 rows .* got 1"),
        (bad(mode="generate"), ValueError, "tokenizer: generate mode needs the tokenizer"),
        ({key: value[:0] for key, value in text(1).items()}, ValueError, "expected at least one row"),
    ],
)
def test_a_bad_batch_is_refused_by_field_and_the_wrapper_still_works(batch: Any, error: Any, message: str):
    case = CASES["gpt2 logits"]
    wrapper = case.wrapper(HuggingFaceModel)
    before = repr(batch)
    with pytest.raises(error, match=message):
        wrapper.eval_forward(batch)
    assert repr(batch) == before
    assert equal(scored(wrapper, case.batch(1)), scored(case.wrapper(Original), case.batch(1)))


@pytest.mark.parametrize(
    ("outputs", "error", "message"),
    [
        (torch.ones(3, 6, 20), TypeError, "outputs: expected a mapping with 'logits', got Tensor"),
        ((torch.ones(3, 6, 20),), TypeError, "outputs: expected a mapping with 'logits', got tuple"),
        ({"loss": torch.ones(())}, KeyError, "outputs: expected 'logits' among the model's outputs, got 'loss'"),
        ({"logits": [1]}, TypeError, "outputs: expected logits that are a tensor, got list"),
    ],
)
def test_outputs_of_another_kind_are_refused(outputs: Any, error: Any, message: str):
    with pytest.raises(error, match=message):
        CASES["gpt2 logits"].wrapper(HuggingFaceModel).eval_forward(text(1), outputs)


@pytest.mark.parametrize(
    ("outputs", "error", "message"),
    [
        (torch.ones(3, 6, 20), TypeError, "outputs: expected a tuple of the model's outputs, got Tensor"),
        ((torch.ones(()),), KeyError, "outputs: expected 'logits' among the model's outputs, got 0"),
        (("logits",), TypeError, "got str"),
    ],
)
def test_outputs_of_another_kind_are_refused_where_they_are_tuples(outputs: Any, error: Any, message: str):
    with pytest.raises(error, match=message):
        CASES["gpt2 tuples"].wrapper(HuggingFaceModel).eval_forward(text(1), outputs)


def test_a_metric_that_answers_with_something_else_is_named():
    class Talkative(Recorder):
        def update(self, outputs: Any, labels: Any) -> Any:
            return 7

    with pytest.raises(TypeError, match=r"Talkative.update: expected a mapping or None to be returned, got int"):
        scored(CASES["gpt2 logits"].wrapper(HuggingFaceModel), text(1), metrics=[Talkative(needs_batch=False)])


def test_an_encoder_decoder_that_cannot_make_its_decoder_ids_says_so():
    case = CASES["t5 logits"]
    wrapper = case.wrapper(HuggingFaceModel)
    wrapper.model = torch.nn.Linear(1, 1)
    with pytest.raises(RuntimeError, match=r"batch: expected 'decoder_input_ids'.* Linear has no prepare_decoder"):
        wrapper.eval_forward(text(1))

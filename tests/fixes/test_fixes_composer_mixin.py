"""Behaviour of `fixes.composer` that can be seen without Composer."""

from __future__ import annotations

import subprocess
import sys
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_evalcheck.fixes import composer
from pytest_evalcheck.fixes.composer import CleanEvaluation


class Model:
    """The part of Composer's class that the mixin stands on."""

    tokenizer = None
    use_logits = True
    shift_labels = True
    config = SimpleNamespace(use_return_dict=True, is_encoder_decoder=False)

    def forward(self, batch: Any) -> Any:
        assert "labels" not in batch
        return {"logits": torch.nn.functional.one_hot(batch["input_ids"], 9).float()}


class Mended(CleanEvaluation, Model):
    pass


class Metric:
    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        self.given: list[Any] = []

    def update(self, outputs: Any, labels: Any) -> None:
        self.given.append(labels)


def batch(**changes: Any) -> dict[str, Any]:
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
    return {"input_ids": ids, "labels": ids.clone(), **changes}


def test_the_module_neither_imports_nor_needs_composer():
    program = "import sys, pytest_evalcheck.fixes.composer as c; c.CleanEvaluation; print('composer' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("False", 0), done.stderr


def test_without_composer_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(vars(composer), "HuggingFaceModel", raising=False)
    monkeypatch.setitem(sys.modules, "composer", None)
    monkeypatch.setitem(sys.modules, "composer.models", None)
    with pytest.raises(ImportError, match=r"HuggingFaceModel needs Composer.*pip install mosaicml transformers"):
        from pytest_evalcheck.fixes.composer import HuggingFaceModel  # noqa: F401
    with pytest.raises(AttributeError, match="has no attribute 'HuggingFaceModels'"):
        composer.HuggingFaceModels  # noqa: B018


def test_the_batch_is_scored_with_its_own_shifted_labels_and_left_alone():
    wrapper, given = Mended(), batch()
    for _ in range(2):
        outputs = wrapper.eval_forward(given)
        metric = Metric("cpu")
        assert wrapper.update_metric(given, outputs, metric) == {}
        assert metric.given[0].tolist() == [[2, 3, -100], [5, 6, -100]]
    assert outputs.shape == (2, 3, 9)
    assert all(torch.equal(given[key], value) for key, value in batch().items())
    assert not vars(wrapper)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_labels_come_to_the_cpu_for_a_metric_there_and_stay_for_any_other(device: str):
    wrapper, metric = Mended(), Metric(device)
    wrapper.shift_labels = False
    nested = [torch.zeros(2), {"inner": (torch.ones(2), "text")}]
    for labels in (torch.zeros(2), nested):
        wrapper.update_metric(batch(labels=labels), None, metric)
    assert metric.given[0].device.type == "cpu"
    assert type(metric.given[1][1]["inner"]) is tuple
    assert metric.given[1][1]["inner"][1] == "text"
    assert (metric.given[1] is nested) == (device == "meta")


def test_masks_that_the_model_broadcasts_and_empty_outputs_are_no_error():
    wrapper = Mended()
    for mask in (torch.ones(1, 3), torch.ones(4, 1, 3, 3)):
        assert wrapper.eval_forward(batch(attention_mask=mask), {}).shape == (2, 3, 9)
    with pytest.raises(ValueError, match=r"batch\['attention_mask'\]: expected 2 rows"):
        wrapper.eval_forward(batch(attention_mask=torch.ones(3, 3)))


def test_a_read_only_batch_of_an_encoder_decoder_is_left_alone_and_given_on_whole():
    wrapper, metric, given = Mended(), Metric("cpu"), MappingProxyType(batch())
    wrapper.config = SimpleNamespace(use_return_dict=True, is_encoder_decoder=True)
    wrapper.model = SimpleNamespace(prepare_decoder_input_ids_from_labels=lambda labels: labels - 1)
    wrapper.forward = lambda inputs: {"logits": inputs["decoder_input_ids"].float()}
    assert wrapper.eval_forward(given).tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert list(given) == ["input_ids", "labels"]
    metric.needs_batch = True
    metric.update = lambda batch, outputs, labels: metric.given.append(batch)
    wrapper.update_metric(given, None, metric)
    assert list(metric.given[0]) == ["input_ids", "decoder_input_ids"]
    wrapper.use_logits = False
    wrapper.update_metric(given, None, metric)
    assert type(metric.given[1]) is MappingProxyType
    assert list(metric.given[1]) == ["input_ids", "labels"]


def test_a_failed_call_leaves_nothing_behind():
    wrapper = Mended()
    with pytest.raises(KeyError, match="expected a field 'labels', got 'input_ids'"):
        wrapper.eval_forward({"input_ids": torch.ones(2, 3)})
    with pytest.raises(TypeError, match="expected a mapping with 'logits', got list"):
        wrapper.eval_forward(batch(), [1])
    assert not vars(wrapper)
    assert wrapper.eval_forward(batch()).shape == (2, 3, 9)

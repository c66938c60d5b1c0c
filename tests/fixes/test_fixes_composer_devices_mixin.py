"""Behaviour of `fixes.composer_devices` that can be seen without Composer."""

from __future__ import annotations

import copy
import gc
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.fixes import composer_devices
from pytest_evalcheck.fixes.composer import CleanEvaluation
from pytest_evalcheck.fixes.composer_devices import OneDevice
from pytest_evalcheck.fixes.devices import DevicePolicy


class Classifier:
    """The part of a Composer model that the mixin stands on."""

    def eval_forward(self, batch: Any, outputs: Any = None) -> Any:
        return batch["inputs"] * 2 if outputs is None else outputs

    def update_metric(self, batch: Any, outputs: Any, metric: Any) -> Any:
        return metric.update(outputs, batch["labels"])


class Mended(OneDevice, Classifier):
    pass


class Language:
    tokenizer = None
    use_logits = True
    shift_labels = True
    config = SimpleNamespace(use_return_dict=True, is_encoder_decoder=False)

    def forward(self, batch: Any) -> Any:
        return {"logits": torch.nn.functional.one_hot(batch["input_ids"], 9).float()}


class CleanLanguage(OneDevice, CleanEvaluation, Language):
    pass


class Metric:
    device = torch.device("cpu")

    def __init__(self) -> None:
        self.given: list[Any] = []

    def update(self, outputs: Any, labels: Any) -> Any:
        self.given.append((outputs, labels))
        return outputs + labels  # fails on two devices


def batch() -> dict[str, Any]:
    return {"inputs": torch.tensor([1.0, 2.0]), "labels": torch.tensor([3.0, 4.0]), "unread": torch.ones(100)}


def loaded(given: dict[str, Any]) -> dict[str, Any]:
    return {key: value.to("mps") for key, value in given.items()}


def test_the_module_neither_imports_nor_needs_composer():
    program = "import sys, pytest_evalcheck.fixes.composer_devices as c; c.OneDevice; print('composer' in sys.modules)"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.stdout.strip(), done.returncode) == ("False", 0), done.stderr


@pytest.mark.parametrize("name", ["HuggingFaceModel", "ComposerClassifier"])
def test_without_composer_the_error_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(vars(composer_devices), name, raising=False)
    for module in ("composer", "composer.models", "composer.devices"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"{name} needs Composer.*pip install mosaicml transformers"):
        getattr(composer_devices, name)
    with pytest.raises(ImportError, match=r"OneDevice.on_mps needs Composer"):
        Mended().on_mps()
    with pytest.raises(AttributeError, match="has no attribute 'Classifier'"):
        composer_devices.Classifier  # noqa: B018


def test_what_the_metrics_are_handed_crosses_once_for_all_of_them_and_nothing_else_does():
    with simulate("mps") as ledger:
        model, given = Mended(), loaded(batch())
        outputs = model.eval_forward(given)
        with pytest.raises(RuntimeError, match="same device"):
            Classifier().update_metric(given, outputs.cpu(), Metric())
        with ledger.span() as seen:
            sums = [model.update_metric(given, outputs, metric) for metric in (Metric(), Metric(), Metric())]
        assert [each.tolist() for each in sums] == [[5.0, 8.0]] * 3
        assert [(each.source, each.bytes) for each in seen.transfers] == [("mps:0", 8)] * 2


def test_a_batch_begins_with_its_forward():
    with simulate("mps") as ledger, torch.inference_mode():
        model, given, metric = Mended(), loaded(batch()), Metric()
        buffer = torch.zeros(2, device="mps")
        for value in (1.0, 2.0):
            buffer.fill_(value)  # of which torch keeps no count here
            model.update_metric(given, model.eval_forward(given, buffer), metric)
        assert [outputs.tolist() for outputs, _ in metric.given] == [[1.0, 1.0], [2.0, 2.0]]
        assert len([each for each in ledger.transfers if each.target == "cpu"]) == 4


def test_batches_that_are_forwarded_ahead_are_scored_with_what_is_theirs():
    with simulate("mps"):
        model, metric = Mended(), Metric()
        batches = [loaded(batch()), loaded({**batch(), "labels": torch.zeros(2)})]
        outputs = [model.eval_forward(each) for each in batches]
        for each, output in zip(batches, outputs, strict=True):
            model.update_metric(each, output, metric)
        assert [labels.tolist() for _, labels in metric.given] == [[3.0, 4.0], [0.0, 0.0]]


def test_a_loaded_batch_comes_back_without_a_transfer_unless_it_was_written_to():
    with simulate("mps") as ledger:
        model, given, metric = Mended(), batch(), Metric()
        there = model._load(given, torch.device("mps"))
        with ledger.span() as seen:
            model.update_metric(there, model.eval_forward(there), metric)
        assert [(each.target, each.bytes) for each in seen.transfers] == [("cpu", 8)]
        assert metric.given[0][1] is given["labels"]
        there["labels"].add_(1)
        model.update_metric(there, there["inputs"], metric)
        assert metric.given[1][1].tolist() == [4.0, 5.0]


def test_shifted_labels_cross_once_before_they_are_shifted_for_each_metric():
    with simulate("mps") as ledger:
        ids = torch.tensor([[1, 2, 3], [4, 5, 6]])
        model, given, metrics = CleanLanguage(), loaded({"input_ids": ids, "labels": ids.clone()}), [Metric(), Metric()]
        outputs = model.eval_forward(given)
        for metric in metrics:
            metric.update = lambda outputs, labels, metric=metric: metric.given.append((outputs, labels))
        with ledger.span() as seen:
            for metric in metrics:
                model.update_metric(given, outputs, metric)
        assert [each.bytes for each in seen.transfers] == [48, 216]
        assert [metric.given[0][1].tolist() for metric in metrics] == [[[2, 3, -100], [5, 6, -100]]] * 2
        assert metrics[0].given[0][1] is not metrics[1].given[0][1]


def test_labels_are_brought_to_where_the_policy_takes_the_metric():
    class Moving(Metric):
        def to(self, device: torch.device) -> None:
            self.device = device

        def update(self, outputs: Any, labels: Any) -> None:
            self.given.append((outputs, labels))

    with simulate("mps") as ledger:
        ids = torch.tensor([[1, 2, 3]])
        model, given, metric = CleanLanguage(), loaded({"input_ids": ids, "labels": ids.clone()}), Moving()
        model.device_policy = DevicePolicy("outputs")
        with ledger.span() as seen:
            model.update_metric(given, model.eval_forward(given), metric)
        assert not seen.transfers
        assert str(metric.device) == "mps:0"
        assert metric.given[0][1].cpu().tolist() == [[2, 3, -100]]


def test_a_policy_of_a_subclass_or_an_instance_holds():
    class Reading(Mended):
        device_policy = DevicePolicy(reads=("logits",))

    class Logits(Metric):
        def update(self, outputs: Any, labels: Any) -> Any:
            return outputs["logits"] + 0 * labels

    with simulate("mps") as ledger:
        for model in (Reading(), Mended()):
            model.device_policy = DevicePolicy(reads=("logits",))
            given = loaded(batch())
            outputs = {"logits": given["inputs"], "hidden": given["unread"]}
            with ledger.span() as seen:
                model.update_metric(given, outputs, Logits())
            assert [each.bytes for each in seen.transfers] == [8, 8]


def test_copies_go_with_their_batch_and_a_copy_of_the_model_has_none():
    with simulate("mps"):
        model, given = Mended(), loaded(batch())
        outputs = model.eval_forward(given)
        model.update_metric(given, outputs, Metric())
        copies = model._placement.transfers._copies
        assert len(copies) == 2
        assert not copy.deepcopy(model)._placement.transfers._copies
        del given, outputs
        gc.collect()
        assert not copies

"""Composer's own Trainer on simulated accelerators: its models beside the fixed ones, and its historical bug put back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("composer")
    from composer import DataSpec, Evaluator, Trainer
    from composer.models import ComposerClassifier as OriginalClassifier
    from composer.models import HuggingFaceModel as OriginalHuggingFaceModel
    from composer_cases import Loss, bert, gpt2, masked, text
    from torchmetrics import Metric
    from transformers import BatchEncoding, BertForMaskedLM

from fixtures.gallery.devices_composer import outputs_moved_alone
from pytest_evalcheck.devices import Ledger, simulate
from pytest_evalcheck.fixes.composer_devices import ComposerClassifier, HuggingFaceModel, OneDevice
from pytest_evalcheck.fixes.devices import DevicePolicy

# What Composer, torchmetrics and transformers warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

# Of torchmetrics, and of a kernel of MPS that makes a graph, as that of a cross entropy does: torchmetrics knows only
# the text of other kernels.
REPORT = "Encountered different devices in metric calculation|Placeholder storage has not been allocated on MPS device"
DEVICES = {"mps": "mps", "cuda": "gpu"}
each_device = pytest.mark.parametrize("kind", DEVICES)


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3)


def pictures(container: Any = tuple) -> list[Any]:
    torch.manual_seed(1)
    return [container((torch.randn(rows, 4), torch.arange(rows) % 3)) for rows in (3, 3, 1)]


def sentences(container: Any = dict) -> list[Any]:
    return [container(text(seed, rows)) for seed, rows in enumerate((3, 3, 1))]


class Reads(Metric):
    """Adds up what a function finds in the outputs, with the labels; on one device, or an error."""

    full_state_update = False

    def __init__(self, find: Callable[[Any], torch.Tensor]) -> None:
        super().__init__()
        self.find = find
        self.add_state("total", torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, outputs: Any, labels: Any) -> None:
        found = self.find(outputs)
        self.total += (found.sum(-1) * labels[: len(found)].float().mean()).mean()

    def compute(self) -> torch.Tensor:
        return self.total


def outputs_as(wrap: Callable[[torch.Tensor], Any], find: Callable[[Any], torch.Tensor]) -> Callable[[Any], Any]:
    """A classifier whose outputs come in a container."""

    def make(kind: Any) -> Any:
        class Contained(kind):
            def forward(self, batch: Any) -> Any:
                return wrap(super().forward(batch))

        return Contained(network(), num_classes=3, val_metrics=Reads(find))

    return make


def language(metrics: Callable[[], list[Any]] | None = None, **options: Any) -> Callable[[Any], Any]:
    def make(kind: Any) -> Any:
        from composer.metrics import LanguageCrossEntropy, MaskedAccuracy

        torch.manual_seed(5)
        chosen = metrics() if metrics else [LanguageCrossEntropy(), MaskedAccuracy()]
        return kind(gpt2(), eval_metrics=chosen, **options)

    return make


def masked_language(kind: Any) -> Any:
    torch.manual_seed(5)
    from composer.metrics import LanguagePerplexity

    return kind(bert(BertForMaskedLM), eval_metrics=[LanguagePerplexity()], use_logits=True)


CLASSIFIER = (OriginalClassifier, ComposerClassifier)
HUGGING_FACE = (OriginalHuggingFaceModel, HuggingFaceModel)
MODELS: dict[str, tuple[tuple[Any, Any], Callable[[Any], Any], Callable[[], list[Any]]]] = {
    "classifier": (CLASSIFIER, lambda kind: kind(network(), num_classes=3), pictures),
    "classifier of lists": (CLASSIFIER, lambda kind: kind(network(), num_classes=3), lambda: pictures(list)),
    "outputs in a dict": (CLASSIFIER, outputs_as(lambda x: {"logits": x}, lambda o: o["logits"]), pictures),
    "outputs in a list": (CLASSIFIER, outputs_as(lambda x: [x, x.max()], lambda o: o[0] + o[1]), pictures),
    "logits": (HUGGING_FACE, language(use_logits=True), sentences),
    "logits of encodings": (HUGGING_FACE, language(use_logits=True), lambda: sentences(BatchEncoding)),
    "masked": (HUGGING_FACE, masked_language, lambda: [masked(seed) for seed in range(3)]),
    "loss": (HUGGING_FACE, language(lambda: [Loss()], use_logits=False), sentences),
}
NESTED: dict[str, tuple[tuple[Any, Any], Callable[[Any], Any], Callable[[], list[Any]]]] = {
    "dict in a dict": (CLASSIFIER, outputs_as(lambda x: {"a": {"b": x}}, lambda o: o["a"]["b"]), pictures),
    "list in a dict": (CLASSIFIER, outputs_as(lambda x: {"a": [x, x]}, lambda o: o["a"][1]), pictures),
    "tuple in a tuple": (CLASSIFIER, outputs_as(lambda x: ((x,), x), lambda o: o[0][0]), pictures),
}
each_model = pytest.mark.parametrize("name", MODELS)


def evaluated(model: Any, batches: list[Any], device: Any) -> dict[str, float]:
    def rows(batch: Any) -> int:
        return len(batch["input_ids"]) if hasattr(batch, "keys") else len(batch[0])

    trainer = Trainer(model=model, device=device, precision="fp32", progress_bar=False, loggers=[], seed=1)
    data = DataSpec(batches, get_num_samples_in_batch=rows)
    evaluator = Evaluator(label="kept", dataloader=data, device_eval_microbatch_size=8)
    try:
        trainer.eval(eval_dataloader=evaluator)
        return {name: metric.compute().item() for name, metric in trainer.state.eval_metrics["kept"].items()}
    finally:
        trainer.close()


def on_cpu(name: str, table: dict[str, Any] = MODELS) -> dict[str, float]:
    (original, _), make, batches = table[name]
    return evaluated(make(original), batches(), "cpu")


@each_device
@each_model
def test_composers_trainer_gives_the_values_of_the_cpu_with_either_model(name: str, kind: str):
    classes, make, batches = MODELS[name]
    for each in classes:
        with simulate(kind):
            assert evaluated(make(each), batches(), DEVICES[kind]) == on_cpu(name)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "loss"])
def test_with_the_historical_bug_the_original_fails_as_reported_and_the_fixed_one_gives_the_value_of_the_cpu(name: str):
    (original, fixed), make, batches = MODELS[name]
    with simulate("mps"), outputs_moved_alone():
        with pytest.raises(RuntimeError, match=REPORT):
            evaluated(make(original), batches(), "mps")
        assert evaluated(make(fixed), batches(), "mps") == on_cpu(name)


@pytest.mark.parametrize("name", NESTED)
def test_outputs_in_nested_containers_fail_as_reported_to_this_day_and_not_with_the_fix(name: str):
    (original, fixed), make, batches = NESTED[name]
    with simulate("mps"):
        with pytest.raises(RuntimeError, match=REPORT):
            evaluated(make(original), batches(), "mps")
        assert evaluated(make(fixed), batches(), "mps") == on_cpu(name, NESTED)
        model = make(fixed)
        assert evaluated(model, batches(), model.on_mps()) == on_cpu(name, NESTED)


def test_outputs_lose_their_type_on_mps_alone_and_keep_it_with_the_fixed_device():
    make = language(lambda: [Reads(lambda outputs: outputs.logits)], use_logits=False)
    expected = evaluated(make(HuggingFaceModel), sentences(), "cpu")
    with simulate("mps"):
        with pytest.raises(AttributeError, match="'dict' object has no attribute 'logits'"):
            evaluated(make(HuggingFaceModel), sentences(), "mps")
        model = make(HuggingFaceModel)
        assert evaluated(model, sentences(), model.on_mps()) == expected


class Counting:
    """Notes what crosses from when a batch is handed to the device until the last metric has been fed."""

    ledger: Ledger
    crossed: list[tuple[str, int]]

    def update_metric(self, batch: Any, outputs: Any, metric: Any) -> Any:
        result = super().update_metric(batch, outputs, metric)  # type: ignore[misc]
        self.crossed = [
            (each.target, each.bytes) for each in self.ledger.transfers[self.before :] if _evaluates(each.file)
        ]
        return result


def _evaluates(file: str) -> bool:
    return file.endswith(("devices/device_cpu.py", "devices/device_mps.py", "trainer.py", "classification.py"))


def counted(kind: Any, make: Any, batch: Any, *, fixed_device: bool) -> list[tuple[str, int]]:
    """Bytes by target that crossed for a batch, in the order in which they did."""

    class Counted(Counting, kind):
        def batch_begins(self) -> None:
            self.before = len(self.ledger.transfers)

    class Noted(DataSpec):
        def __init__(self, model: Any) -> None:
            super().__init__([batch], get_num_samples_in_batch=lambda _: 3)
            self.batch_transforms = lambda batch: (model.batch_begins(), batch)[1]

    model = make(Counted)
    with simulate("mps") as ledger:
        model.ledger = ledger
        trainer = Trainer(
            model=model,
            device=model.on_mps() if fixed_device else "mps",
            precision="fp32",
            progress_bar=False,
            loggers=[],
        )
        trainer.eval(eval_dataloader=Evaluator(label="x", dataloader=Noted(model), device_eval_microbatch_size=8))
        trainer.close()
    return model.crossed


BATCH = [("mps:0", 48), ("mps:0", 24)]
"""Three rows of four float32, and three int64 labels."""


def test_composer_brings_back_all_of_the_batch_and_the_fixed_device_only_what_the_metrics_read():
    def make(kind: Any) -> Any:
        return kind(network(), num_classes=3)

    (batch, *_) = pictures()
    outputs = ("cpu", 36)
    theirs = counted(OriginalClassifier, make, batch, fixed_device=False)
    assert theirs == [*BATCH, outputs, ("cpu", 48), ("cpu", 24)]
    assert counted(ComposerClassifier, make, batch, fixed_device=False) == theirs
    assert counted(ComposerClassifier, make, batch, fixed_device=True) == [*BATCH, outputs]


def test_labels_that_were_loaded_from_the_cpu_are_scored_there_for_every_metric_without_another_transfer():
    class Kept(HuggingFaceModel):
        seen: list[str] = []

        def _move_labels(self, labels: Any, outputs: Any, metric: Any) -> Any:
            near = super()._move_labels(labels, outputs, metric)
            self.seen.append(near.data_ptr() == given["labels"].data_ptr())  # split, so a view
            return near

    given = sentences()[0]
    make = language(use_logits=True)
    with simulate("mps"):
        model = make(Kept)
        assert evaluated(model, [given], model.on_mps()) == evaluated(
            make(OriginalHuggingFaceModel), sentences()[:1], "cpu"
        )
    assert Kept.seen == [True, True]


def test_a_policy_can_put_the_metric_on_the_device_of_the_outputs_but_not_one_of_float64():
    class Following(HuggingFaceModel):
        device_policy = DevicePolicy("outputs")
        places: set[tuple[str, str]] = set()

        def update_metric(self, batch: Any, outputs: Any, metric: Any) -> Any:
            result = super().update_metric(batch, outputs, metric)
            self.places.add((type(metric).__name__, str(metric.device)))
            return result

    make = language(lambda: [Single(), Double()], use_logits=True)
    with simulate("mps"):
        model = make(Following)
        values = evaluated(model, sentences(), model.on_mps())
    assert Following.places == {("Single", "mps:0"), ("Double", "cpu")}
    assert values == evaluated(make(OriginalHuggingFaceModel), sentences(), "cpu")


class Single(Reads):
    def __init__(self) -> None:
        super().__init__(lambda outputs: outputs[..., 0])


class Double(Reads):
    """A state of float64, which MPS has not."""

    def __init__(self) -> None:
        super().__init__(lambda outputs: outputs[..., 0])
        self.set_dtype(torch.float64)


def test_training_metrics_are_those_of_the_cpu():
    def trained(device: str) -> list[float]:
        model = ComposerClassifier(network(), num_classes=3)
        trainer = Trainer(
            model=model,
            device=model.on_mps() if device == "mps" else device,
            train_dataloader=DataSpec(pictures()[:2]),
            optimizers=torch.optim.SGD(model.parameters(), lr=0.1),
            max_duration="2ba",
            device_train_microbatch_size=3,
            precision="fp32",
            progress_bar=False,
            loggers=[],
            seed=1,
        )
        trainer.fit()
        values = [metric.compute().item() for metric in trainer.state.train_metrics.values()]
        trainer.close()
        return [*values, *model.module.weight.detach().cpu().flatten().tolist()]

    expected = trained("cpu")
    with simulate("mps"):
        assert trained("mps") == expected


def test_labels_that_a_model_keeps_as_an_attribute_are_brought_too():
    class Keeps(OriginalClassifier):
        def eval_forward(self, batch: Any, outputs: Any = None) -> Any:
            self.kept = {"of": [batch[1]]}
            return super().eval_forward(batch, outputs)

        def update_metric(self, batch: Any, outputs: Any, metric: Any) -> None:
            metric.update(outputs, self.kept["of"][0])

    class Mended(OneDevice, Keeps):
        pass

    with simulate("mps"):
        with pytest.raises(RuntimeError, match=REPORT):
            evaluated(Keeps(network(), num_classes=3), pictures(), "mps")
        assert evaluated(Mended(network(), num_classes=3), pictures(), "mps") == on_cpu("classifier")


def test_the_models_are_composers_and_the_device_is_one_that_it_takes():
    from composer.devices import Device, DeviceMPS

    assert issubclass(ComposerClassifier, OriginalClassifier)
    assert issubclass(HuggingFaceModel, OriginalHuggingFaceModel)
    assert ComposerClassifier.__doc__.endswith(OriginalClassifier.__doc__)
    model = ComposerClassifier(network(), num_classes=3)
    with pytest.raises(RuntimeError, match="MPS"):
        model.on_mps()
    with simulate("mps"):
        device = model.on_mps(metrics="mps")
        assert isinstance(device, Device)
        assert not isinstance(device, DeviceMPS)
        assert (device.name, device.dist_backend) == ("mps", DeviceMPS.dist_backend)
        assert str(device.module_to_device(Double().set_dtype(torch.float32)).device) == "mps:0"
        assert evaluated(model, pictures(), device) == on_cpu("classifier")

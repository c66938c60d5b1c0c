"""Evaluation loops of other libraries on simulated accelerators: the numbers of the CPU, at an exact price.

A price is what six batches (or tokens) cost more than three do, divided by three: what a library does once is not in it.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

from pytest_evalcheck.devices import Ledger, simulate

# At once: pytester, in other tests of the same process, forgets what is imported after it, and some modules load only once.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for _name in ("torchmetrics", "transformers", "accelerate", "lightning"):
        with contextlib.suppress(ImportError):
            importlib.import_module(_name)

# What the libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

VOCAB, CLASSES, TOKENS, ROWS = 40, 3, 5, 4
FLOAT32, INT64 = 4, 8
TABULAR = ROWS * (4 * FLOAT32 + INT64)
each_device = pytest.mark.parametrize("kind", ["mps", "cuda"])


@pytest.fixture(autouse=True)
def forgotten_devices() -> Iterator[None]:
    yield
    if "accelerate" in sys.modules:  # which remembers the first device for all that comes after
        from accelerate.state import AcceleratorState, GradientState, PartialState

        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()


class Price(NamedTuple):
    """For each batch or token: tensors and bytes to the device and back, and how often the host waits."""

    there: float
    bytes_there: float
    back: float
    bytes_back: float
    waits: float


def spent(ledger: Ledger) -> Price:
    there = [each for each in ledger.transfers if each.source == "cpu"]
    back = [each for each in ledger.transfers if each.target == "cpu"]
    return Price(len(there), ledger.bytes("cpu"), len(back), ledger.bytes(target="cpu"), len(ledger.syncs))


def priced(kind: str, run: Callable[[str, int], Any], *, few: int = 3, many: int = 6) -> Price:
    """The price on a device, where the results have to be those of the CPU, bit for bit."""
    totals = []
    for count in (few, many):
        expected = run("cpu", count)
        with simulate(kind) as ledger:
            assert equal_results(run(kind, count), expected)
        totals.append(spent(ledger))
    return Price(*((after - before) / (many - few) for before, after in zip(*totals, strict=True)))


def equal_results(left: Any, right: Any) -> bool:
    if isinstance(left, torch.Tensor):
        return left.device.type == "cpu" and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(equal_results(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(equal_results, left, right))
    return type(left) is type(right) and bool(left == right)


def classifier() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=VOCAB, num_labels=CLASSES, max_position_embeddings=32, **sizes)
    return transformers.BertForSequenceClassification(config).eval()


def language_model() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=VOCAB, **sizes, **ids)).eval()


def tokenizer() -> Any:
    """One character, one token."""
    tokenizers = pytest.importorskip("tokenizers")
    from transformers import PreTrainedTokenizerFast

    texts = ["<pad>", "<s>", "</s>", "<unk>", *map(chr, range(ord("A"), ord("A") + VOCAB - 4))]
    vocabulary = {text: index for index, text in enumerate(texts)}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    names = ["input_ids", "attention_mask"]
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", model_input_names=names)


def tabular(batches: int) -> Any:
    torch.manual_seed(1)
    rows = list(zip(torch.randn(batches * ROWS, 4), torch.arange(batches * ROWS) % CLASSES, strict=True))
    return torch.utils.data.DataLoader(rows, batch_size=ROWS)  # type: ignore[arg-type]


@each_device
def test_trainer_of_transformers(kind: str, tmp_path: Path):
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    def run(device: str, batches: int) -> Any:
        torch.manual_seed(2)
        rows = [
            {"input_ids": torch.randint(3, VOCAB, (TOKENS,)), "labels": torch.tensor(i % CLASSES)}
            for i in range(batches * ROWS)
        ]
        arguments = TrainingArguments(
            str(tmp_path), per_device_eval_batch_size=ROWS, report_to=[], use_cpu=device == "cpu", disable_tqdm=True
        )
        assert arguments.device.type == device

        def accuracy(predicted: Any) -> dict[str, float]:
            return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}

        model = classifier()
        for layer in model.modules():  # a mask comes from the generator of the device, the order of rows from the CPU's
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        trainer = Trainer(model, args=arguments, eval_dataset=rows, compute_metrics=accuracy)
        found = trainer.evaluate()
        return {name: found[name] for name in ("eval_loss", "eval_accuracy")}

    # There: ids and labels, and the shape of the logits, which accelerate sends though there is no other process. Back,
    # and waited for: that shape. Logits, labels and losses come back once, at the end, as one tensor each.
    batch, shape, kept = ROWS * (TOKENS + 1) * INT64, 2 * INT64, ROWS * (CLASSES * FLOAT32 + INT64 + FLOAT32)
    assert priced(kind, run) == Price(3, batch + shape, 1, shape + kept, 1)


@each_device
def test_pipeline_of_transformers(kind: str):
    pipeline = pytest.importorskip("transformers").pipeline

    def run(device: str, batches: int) -> Any:
        classify = pipeline("text-classification", model=classifier(), tokenizer=tokenizer(), device=device)
        assert classify.device.type == device
        return classify(["ABC", "DEFG"] * batches, batch_size=2)

    # There: ids and mask. Back: logits. The other wait asks whether anything is masked.
    assert priced(kind, run) == Price(2, 2 * 2 * 4 * INT64, 1, 2 * CLASSES * FLOAT32, 2)


@each_device
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate_of_transformers(kind: str, cache: str):
    def run(device: str, tokens: int) -> Any:
        model = language_model().to(device)
        ids = torch.tensor([[5, 6, 7], [0, 8, 9]])
        chosen = {"cache_implementation": "static"} if cache == "static" else {}
        out = model.generate(
            ids.to(device),
            attention_mask=(ids != 0).long().to(device),
            max_new_tokens=tokens,
            min_new_tokens=tokens,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
            disable_compile=True,
            **chosen,
        )
        return out.sequences.cpu(), torch.stack(out.logits).cpu()

    kept = 2 * (VOCAB * FLOAT32 + INT64)  # what this test takes back, at the end
    price = priced(kind, run)
    if (kind, cache) == ("mps", "dynamic"):
        # Whether to stop comes back while the next token is computed, and is waited for one token late.
        assert price == Price(0, 0, 1, kept + 1, 2)
    else:
        # One wait for whether to stop; with a growing cache, one for whether anything is masked.
        assert price == Price(0, 0, 0, kept, 2 if cache == "dynamic" else 1)


def test_generate_of_an_encoder_decoder_that_returns_its_cache_fails_on_mps_alone():
    # docs/findings/devices.md; when this one fails, the finding is history.
    transformers = pytest.importorskip("transformers")
    sizes = {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2, "decoder_start_token_id": 0}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=8, **sizes)).eval()

    def run(device: str) -> Any:
        ids = torch.tensor([[3, 4]]).to(device)
        out = copy.deepcopy(model).to(device).generate(ids, max_new_tokens=2, return_dict_in_generate=True)
        return out.sequences.cpu()

    with simulate("cuda"):
        assert equal_results(run("cuda"), run("cpu"))
    with simulate("mps"), pytest.raises(AttributeError, match="'EncoderDecoderCache' object has no attribute 'layers'"):
        run("mps")


@each_device
def test_loop_of_accelerate(kind: str):
    accelerate = pytest.importorskip("accelerate")
    from accelerate.state import AcceleratorState, GradientState, PartialState
    from torchmetrics.classification import MulticlassAccuracy

    def run(device: str, batches: int) -> Any:
        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()
        torch.manual_seed(0)
        accelerator = accelerate.Accelerator(cpu=device == "cpu")
        model, loader = accelerator.prepare(torch.nn.Linear(4, CLASSES), tabular(batches))
        metric, outputs = MulticlassAccuracy(num_classes=CLASSES).to(accelerator.device), []
        with torch.no_grad():
            for inputs, labels in loader:
                logits, labels = accelerator.gather_for_metrics((model(inputs), labels))
                metric.update(logits, labels)
                outputs.append(logits)
        assert accelerator.device.type == device
        return metric.compute().cpu(), torch.cat(outputs).cpu()

    # Outputs are kept on the device and come back once. On CUDA torchmetrics counts with bincount, whose size is waited for.
    assert priced(kind, run) == Price(2, TABULAR, 0, ROWS * CLASSES * FLOAT32, kind == "cuda")


@each_device
def test_validate_of_lightning(kind: str):
    lightning = pytest.importorskip("lightning")
    from torchmetrics.classification import MulticlassAccuracy

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.accuracy = torch.nn.Linear(4, CLASSES), MulticlassAccuracy(num_classes=CLASSES)

        def validation_step(self, batch: Any, index: int) -> None:
            inputs, labels = batch
            logits = self.linear(inputs)
            self.log("loss", torch.nn.functional.cross_entropy(logits, labels))
            self.accuracy(logits, labels)
            self.log("accuracy", self.accuracy)

    def run(device: str, batches: int) -> Any:
        torch.manual_seed(0)
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        trainer = lightning.Trainer(accelerator={"cuda": "gpu"}.get(device, device), devices=1, **quiet)
        assert trainer.strategy.root_device.type == device
        return trainer.validate(Model(), tabular(batches), verbose=False)

    # For CUDA the wait is for the size in bincount. On MPS it is for a number that torchmetrics writes through a mask when
    # it computes, which for CUDA is `masked_fill_`.
    assert priced(kind, run) == Price(2, TABULAR, 0, 0, 1)


def test_trainer_of_transformers_over_two_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("accelerate")
    from transformers import Trainer, TrainingArguments

    from pytest_evalcheck.kinds.common.process_ranks import on_processes

    rows = [{"input_ids": torch.arange(3, 3 + TOKENS) + i, "labels": torch.tensor(i % CLASSES)} for i in range(9)]

    def evaluated(rank: int, *, use_cpu: bool) -> Any:
        for name in ("RANK", "LOCAL_RANK"):
            monkeypatch.setenv(name, str(rank))
        for name, value in (("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "1")):
            monkeypatch.setenv(name, value)  # accelerate asks for them; the group is there already
        arguments = TrainingArguments(
            str(tmp_path / str(rank)), per_device_train_batch_size=2, per_device_eval_batch_size=2, max_steps=2,
            ddp_backend="gloo", report_to=[], use_cpu=use_cpu, disable_tqdm=True, save_strategy="no", logging_strategy="no",
        )  # fmt: skip

        def accuracy(predicted: Any) -> dict[str, float]:
            right = (predicted.predictions.argmax(-1) == predicted.label_ids).mean()
            return {"accuracy": float(right), "rows": len(predicted.label_ids)}

        model = classifier()
        for layer in model.modules():  # a mask comes from the generator of the device, the order of rows from the CPU's
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0
        trainer = Trainer(model, args=arguments, train_dataset=rows, eval_dataset=rows, compute_metrics=accuracy)
        trainer.train()
        found = trainer.evaluate()
        return str(arguments.device), {name: found[f"eval_{name}"] for name in ("loss", "accuracy", "rows")}

    def on_rank(rank: int) -> Any:
        from accelerate.state import AcceleratorState, GradientState, PartialState

        _, expected = evaluated(rank, use_cpu=True)
        for state in (AcceleratorState, PartialState, GradientState):
            state._reset_state()
        with simulate("cuda:1"):
            device, found = evaluated(rank, use_cpu=False)
        return device, found == expected, found["rows"]

    ranks = [lambda: on_rank(0), lambda: on_rank(1)]
    assert on_processes(ranks, seconds=180) == [("cuda:0", True, 9), ("cuda:1", True, 9)]

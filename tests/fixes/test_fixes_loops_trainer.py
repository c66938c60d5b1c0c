"""`ExactLossTrainer` on the real Trainer: eval_loss is that of one sample at a time in float64, whatever the batches."""

from __future__ import annotations

import inspect
import os
import socket
from functools import partial
from typing import Any

import pytest
import torch
from loop_models import Stream, bert, gpt, loss_one_by_one, padded, sentences, texts

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from transformers import Trainer, TrainingArguments

from pytest_evalcheck.fixes.loops import ExactLossMixin, ExactLossTrainer
from pytest_evalcheck.kinds.common.process_ranks import on_processes

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CASES: dict[str, Any] = {
    "causal": (gpt, texts()),
    "masked": (partial(bert, "BertForMaskedLM"), texts(masked=True)),
    "tokens": (partial(bert, "BertForTokenClassification", 23), texts(masked=True)),
    "classes": (partial(bert, "BertForSequenceClassification"), sentences()),
    "numbers": (partial(bert, "BertForSequenceClassification", 1), sentences(labels=1)),
}


def trainer(kind: Any, model: Any, rows: Any, folder: Any, **options: Any) -> Any:
    functions = {name: options.pop(name) for name in ("compute_loss_func", "compute_metrics") if name in options}
    arguments = TrainingArguments(
        output_dir=str(folder), report_to=[], use_cpu=True, disable_tqdm=True, remove_unused_columns=False, **options
    )
    return kind(model=model, args=arguments, data_collator=padded, eval_dataset=rows, **functions)


def losses(kind: Any, model: Any, rows: Any, folder: Any, **options: Any) -> list[float]:
    return [
        trainer(kind, model, rows, folder, per_device_eval_batch_size=size, **options).evaluate()["eval_loss"]
        for size in (1, 2, 3, 7, 64)
    ]


@pytest.mark.parametrize(
    ("case", "smoothing"),
    [(case, smoothing) for case in CASES for smoothing in (0.0, 0.2) if (case, smoothing) != ("numbers", 0.2)],
)
def test_eval_loss_is_that_of_all_items_whatever_the_batch_size(case: str, smoothing: float, tmp_path: Any):
    make, rows = CASES[case]
    model = make()
    expected = loss_one_by_one(model, rows, smoothing=smoothing)
    found = losses(ExactLossTrainer, model, rows, tmp_path, label_smoothing_factor=smoothing)
    assert found == pytest.approx([expected] * 5, rel=1e-5)


@pytest.mark.parametrize("case", ["causal", "masked", "tokens"])
def test_the_plain_trainer_differs_with_the_batch_size(case: str, tmp_path: Any):
    make, rows = CASES[case]
    found = losses(Trainer, make(), rows, tmp_path)
    assert abs(found[0] / found[-1] - 1) > 1e-4


def test_the_plain_trainer_counts_a_token_too_many_per_row_of_gpt_2(tmp_path: Any):
    model, row = gpt(), texts()[:1]
    made = trainer(Trainer, model, row, tmp_path)
    tokens, expected = len(row[0]["labels"]), loss_one_by_one(model, row)
    assert made.evaluate()["eval_loss"] == pytest.approx(expected * (tokens - 1) / tokens, rel=1e-5)
    assert losses(ExactLossTrainer, model, row, tmp_path)[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("size", [1, 3])
def test_predict_and_a_data_set_without_length_and_several_data_sets(size: int, tmp_path: Any):
    model, rows = gpt(), texts()
    made = trainer(ExactLossTrainer, model, Stream(rows), tmp_path, per_device_eval_batch_size=size)
    expected = loss_one_by_one(gpt(), rows)
    assert made.evaluate()["eval_loss"] == pytest.approx(expected, rel=1e-5)
    assert made.predict(rows).metrics["test_loss"] == pytest.approx(expected, rel=1e-5)
    both = made.evaluate({"a": rows[:2], "b": rows[3:]})
    assert both["eval_a_loss"] == pytest.approx(loss_one_by_one(gpt(), rows[:2]), rel=1e-5)
    assert both["eval_b_loss"] == pytest.approx(loss_one_by_one(gpt(), rows[3:]), rel=1e-5)


def test_a_batch_without_labels_that_count_adds_nothing(tmp_path: Any):
    model, rows = bert("BertForMaskedLM"), texts(masked=True)
    empty = {"input_ids": [1, 2], "labels": [-100, -100]}
    found = losses(ExactLossTrainer, model, [rows[0], empty, *rows[1:]], tmp_path, logging_nan_inf_filter=False)
    assert found == pytest.approx([loss_one_by_one(model, rows)] * 5, rel=1e-5)


def test_a_loss_that_is_no_number_is_not_left_out(tmp_path: Any):
    rows = sentences(labels=1)
    rows[3] = {**rows[3], "labels": float("nan")}
    made = {"per_device_eval_batch_size": 2}
    exact = trainer(ExactLossTrainer, bert("BertForSequenceClassification", 1), rows, tmp_path, **made).evaluate()
    assert exact["eval_loss"] != exact["eval_loss"]
    if "logging_nan_inf_filter" in inspect.getsource(Trainer.evaluation_loop):  # older releases leave nothing out
        plain = trainer(Trainer, bert("BertForSequenceClassification", 1), rows, tmp_path, **made).evaluate()
        assert plain["eval_loss"] == plain["eval_loss"]


def by_items(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    logits = outputs.logits[:, :-1].reshape(-1, outputs.logits.shape[-1])
    total = 2 * torch.nn.functional.cross_entropy(logits, labels[:, 1:].reshape(-1), reduction="sum")
    return total / num_items_in_batch


def by_rows(outputs: Any, labels: Any, num_items_in_batch: Any = None) -> Any:
    return by_items(outputs, labels, len(labels))


def test_a_custom_loss_over_items_is_as_exact(tmp_path: Any):
    found = losses(ExactLossTrainer, gpt(), texts(), tmp_path, compute_loss_func=by_items)
    assert found == pytest.approx([2 * loss_one_by_one(gpt(), texts())] * 5, rel=1e-5)


def test_a_custom_loss_that_is_no_mean_over_the_items_is_refused_until_it_says_what_counts(tmp_path: Any):
    made = trainer(ExactLossTrainer, gpt(), texts(), tmp_path, compute_loss_func=by_rows, per_device_eval_batch_size=4)
    with pytest.raises(ValueError, match=r"the loss of 4 rows.*is not the mean.*override it for a loss of your own"):
        made.evaluate()

    class OverRows(ExactLossTrainer):
        def loss_items(self, inputs: Any) -> int:
            return len(inputs["input_ids"])

    items = sum(len(row["labels"]) - 1 for row in texts())
    expected = 2 * loss_one_by_one(gpt(), texts()) * items / len(texts())
    found = losses(OverRows, gpt(), texts(), tmp_path, compute_loss_func=by_rows)
    assert found == pytest.approx([expected] * 5, rel=1e-5)


def test_all_else_the_trainer_says_stays(tmp_path: Any):
    def accuracy(found: Any) -> dict[str, float]:
        return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}

    both = [
        trainer(kind, bert("BertForSequenceClassification"), sentences(), tmp_path, compute_metrics=accuracy).evaluate()
        for kind in (Trainer, ExactLossTrainer)
    ]
    assert both[0].keys() == both[1].keys()
    assert both[0]["eval_accuracy"] == both[1]["eval_accuracy"]


def test_training_with_evaluations_within_gives_the_same_weights(tmp_path: Any):
    weights = []
    for kind in (Trainer, ExactLossTrainer):
        model = gpt()
        trainer_ = kind(
            model=model,
            args=TrainingArguments(
                output_dir=str(tmp_path),
                report_to=[],
                use_cpu=True,
                disable_tqdm=True,
                max_steps=4,
                eval_steps=2,
                eval_strategy="steps",
                save_strategy="no",
                seed=1,
                per_device_train_batch_size=2,
            ),
            data_collator=padded,
            train_dataset=texts(),
            eval_dataset=texts(),
        )
        trainer_.train()
        assert len([each for each in trainer_.state.log_history if "eval_loss" in each]) == 2
        weights.append(torch.cat([each.detach().reshape(-1) for each in model.parameters()]))
    assert torch.equal(*weights)


def test_the_mixin_goes_before_any_trainer_and_a_failed_evaluation_leaves_it_as_it_was(tmp_path: Any):
    class Mine(Trainer):
        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **options: Any) -> Any:
            if len(inputs["labels"]) == 1 and options:
                raise RuntimeError("no")
            return super().compute_loss(model, inputs, return_outputs, **options)

    class Exact(ExactLossMixin, Mine):
        exact_loss_check = False

    made = trainer(Exact, gpt(), texts(), tmp_path, per_device_eval_batch_size=3)
    with pytest.raises(RuntimeError, match="no"):
        made.evaluate()
    assert made.args.average_tokens_across_devices
    assert made._exact is None
    assert made.evaluate(texts(6))["eval_loss"] == pytest.approx(loss_one_by_one(gpt(), texts(6)), rel=1e-5)


def test_answers_are_counted_where_both_ends_lie_within(tmp_path: Any):
    rows = [
        {"input_ids": row["input_ids"], "start_positions": 0, "end_positions": number % 2}
        for number, row in enumerate(texts())
    ]
    found = [
        trainer(
            ExactLossTrainer,
            bert("BertForQuestionAnswering", 2),
            rows,
            tmp_path,
            per_device_eval_batch_size=size,
            label_names=["start_positions", "end_positions"],
        ).evaluate()["eval_loss"]
        for size in (1, 7)
    ]
    assert found[0] > 0
    outside = [{**rows[0], "end_positions": 40}, *rows[1:]]
    made = trainer(
        ExactLossTrainer,
        bert("BertForQuestionAnswering", 2),
        outside,
        tmp_path,
        label_names=["start_positions", "end_positions"],
    )
    with pytest.raises(ValueError, match="end_positions: expected them within the 12 tokens, got 1 of 7 outside"):
        made.evaluate()


def on_rank(rank: int, port: int, kind: Any, rows: Any, folder: Any, options: dict[str, Any]) -> float:
    os.environ.update(
        RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    from accelerate.state import AcceleratorState, PartialState

    AcceleratorState._reset_state(reset_partial_state=True)
    assert PartialState is not None
    made = trainer(kind, gpt(), rows, folder, ddp_backend="gloo", **options)
    assert made.accelerator.num_processes == 2
    return float(made.evaluate()["eval_loss"])


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.parametrize(
    ("count", "size", "stream"),
    [(7, 2, False), (7, 4, False), (5, 2, False), (6, 3, False), (1, 4, False), (7, 2, True)],
)
def test_over_two_real_ranks_every_sample_counts_once(count: int, size: int, stream: bool, tmp_path: Any):
    # What one rank fetches for all has to be of one length.
    rows = [row for row in texts(7 * count) if len(row["labels"]) == 9] if stream else texts(count)
    data = Stream(rows) if stream else rows
    work = partial(
        on_rank,
        port=free_port(),
        kind=ExactLossTrainer,
        rows=data,
        folder=tmp_path,
        options={"per_device_eval_batch_size": size},
    )
    found = on_processes([partial(work, rank) for rank in range(2)], seconds=90)
    assert found == pytest.approx([loss_one_by_one(gpt(), rows)] * 2, rel=1e-5)


def test_over_ranks_a_data_set_that_does_not_tell_its_padding_is_refused(tmp_path: Any):
    work = partial(
        on_rank,
        port=free_port(),
        kind=ExactLossTrainer,
        rows=Stream(texts()),
        folder=tmp_path,
        options={"per_device_eval_batch_size": 2, "accelerator_config": {"dispatch_batches": False}},
    )
    with pytest.raises(Exception, match="a data set of unknown length over several ranks"):
        on_processes([partial(work, rank) for rank in range(2)], seconds=90)

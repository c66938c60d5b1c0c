"""Composer's own ``HuggingFaceModel`` beside the fixed one, with Composer's own metrics and Trainer."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections import UserDict
from typing import Any

import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("composer")
    import transformers
    from composer import DataSpec, Evaluator, Trainer
    from composer.metrics import LanguageCrossEntropy, LanguagePerplexity, MaskedAccuracy
    from composer.models import HuggingFaceModel as Original
    from composer_cases import CASES, Case, Loss, Recorder, equal, gpt2, letters, scored, snapshot, text

from pytest_evalcheck.fixes.composer import CleanEvaluation, HuggingFaceModel

# What Composer, torchmetrics and transformers warn of is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")

each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
CONTAINERS = {"dict": dict, "UserDict": UserDict, "BatchEncoding": transformers.BatchEncoding}


@each_case
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_a_first_call_gives_what_the_original_gives_bit_for_bit(case: Case, container: Any):
    original = scored(case.wrapper(Original), container(case.batch(1)))
    fixed = scored(case.wrapper(HuggingFaceModel), container(case.batch(1)))
    assert type(fixed[0]) is type(original[0])
    assert equal(fixed, original)


@each_case
def test_the_original_pops_shifts_and_adds(case: Case):
    batch, kept = case.batch(1), case.batch(1)
    labels = batch["labels"]
    scored(case.wrapper(Original), batch)
    assert ("labels" not in batch) == case.pops
    assert (batch.keys() - kept.keys()) == set(case.adds)
    assert equal(labels, kept["labels"]) != case.shifts


@each_case
@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
def test_the_fixed_one_leaves_the_batch_as_it_is_and_scores_it_again_the_same(case: Case, container: Any):
    wrapper, batch = case.wrapper(HuggingFaceModel), container(case.batch(1))
    before = snapshot(batch)
    first = scored(wrapper, batch, metrics=[Recorder(needs_batch=False)])
    second = scored(wrapper, batch, metrics=[Recorder(needs_batch=False)])
    assert equal(first, second)
    assert snapshot(batch) == before
    assert type(batch) is container
    assert wrapper.labels is None


@each_case
def test_batches_that_are_forwarded_ahead_are_scored_with_their_own_labels(case: Case):
    def ahead(kind: Any) -> list[Any]:
        wrapper, metric = case.wrapper(kind), Recorder(needs_batch=False)
        batches = [case.batch(1), {**case.batch(2), "labels": case.batch(3)["labels"]}]
        with torch.no_grad():
            outputs = [wrapper.eval_forward(batch) for batch in batches]
        for batch, output in zip(batches, outputs, strict=True):
            wrapper.update_metric(batch, output, metric)
        return metric.given

    alone = []
    for batch in (case.batch(1), {**case.batch(2), "labels": case.batch(3)["labels"]}):
        metric = Recorder(needs_batch=False)
        # In loss mode the original feeds None for labels.
        scored(case.wrapper(Original if case.pops else HuggingFaceModel), batch, metrics=[metric])
        alone += metric.given
    assert equal(ahead(HuggingFaceModel), alone)
    differ = not case.pops or not equal(alone[0][1], alone[1][1])
    assert equal(ahead(Original), alone) != differ


@each_case
def test_metrics_that_need_the_batch_get_the_same_arguments_in_a_container_of_their_own(case: Case):
    given = {}
    for kind in (Original, HuggingFaceModel):
        metric, batch = Recorder(), case.batch(1)
        scored(case.wrapper(kind), batch, metrics=[metric])
        given[kind] = metric.given
    if not case.pops:
        assert given[Original][0].pop("labels") is None
        assert given[HuggingFaceModel][0].pop("labels") is not None
    assert equal(given[HuggingFaceModel], given[Original])
    given[HuggingFaceModel][0]["batch"].clear()
    assert "input_ids" in batch


@each_case
def test_cached_training_outputs_are_scored_without_another_forward(case: Case):
    results = []
    for kind in (Original, HuggingFaceModel):
        wrapper, batch = case.wrapper(kind), case.batch(1)
        if batch.get("mode") == "generate":
            return
        outputs = wrapper.forward(batch)
        wrapper.forward = None
        results.append(scored(wrapper, batch, outputs))
    assert equal(*results)


def test_any_metrics_any_number_of_times_in_any_order_even_one_that_writes_into_what_it_gets():
    class Writing(Recorder):
        def update(self, outputs: Any, labels: Any) -> None:
            labels.clamp_(min=0)

    case = CASES["gpt2 logits"]
    metrics = [LanguageCrossEntropy(), Writing(needs_batch=False), MaskedAccuracy(), LanguageCrossEntropy()]
    batch = case.batch(1)
    before = snapshot(batch)
    _, _, values = scored(case.wrapper(HuggingFaceModel), batch, metrics=metrics)
    assert values[0] == values[3]
    expected = scored(case.wrapper(Original), case.batch(1), metrics=[MaskedAccuracy(), LanguageCrossEntropy()])
    assert equal(values[2:], expected[2])
    assert snapshot(batch) == before


def test_labels_of_an_earlier_batch_are_never_scored():
    def loss_after_in_context(kind: Any, batch: Any) -> Any:
        wrapper, metric = CASES["gpt2 loss"].wrapper(kind), Recorder(needs_batch=False)
        scored(wrapper, {**text(1), "mode": "icl_task"}, metrics=[])
        scored(wrapper, batch, metrics=[metric])
        return metric.given[0][1]

    unlabelled = {"input_ids": text(2)["input_ids"]}
    for batch in (unlabelled, text(2)):
        assert equal(loss_after_in_context(Original, batch)[:, 0], text(1)["labels"][:, 1])
    assert equal(loss_after_in_context(HuggingFaceModel, text(2))[:, 0], text(2)["labels"][:, 1])
    with pytest.raises(KeyError, match="labels"):
        loss_after_in_context(HuggingFaceModel, unlabelled)
    case = CASES["gpt2 logits"]
    for kind, refuses in ((Original, False), (HuggingFaceModel, True)):
        wrapper, metric = case.wrapper(kind), LanguagePerplexity()
        outputs, _, _ = scored(wrapper, case.batch(1))
        unlabelled = {key: value for key, value in case.batch(2).items() if key != "labels"}
        if refuses:
            with pytest.raises(KeyError, match="expected a field 'labels'"):
                wrapper.update_metric(unlabelled, outputs, metric)
        else:
            wrapper.update_metric(unlabelled, outputs, metric)


def test_evaluating_twice_with_composers_trainer():
    sizes = (4, 4, 2)
    numbers: dict[Any, list[dict[str, float]]] = {}
    for kind in (Original, HuggingFaceModel):
        wrapper, batches = CASES["gpt2 logits"].wrapper(kind), [text(seed, rows) for seed, rows in enumerate(sizes)]
        trainer = Trainer(model=wrapper, device="cpu", progress_bar=False, loggers=[])
        for _ in range(2):
            evaluator = Evaluator(label="kept", dataloader=DataSpec(batches), device_eval_microbatch_size=2)
            trainer.eval(eval_dataloader=evaluator)
            metrics = trainer.state.eval_metrics["kept"]
            numbers.setdefault(kind, []).append({name: metric.compute().item() for name, metric in metrics.items()})
        trainer.close()
    # The Trainer makes a container of its own, so the labels are not missed; shifted again, they are scored in silence.
    assert set(numbers[Original][0]) == {"LanguagePerplexity", "LanguageCrossEntropy", "MaskedAccuracy"}
    assert all(numbers[Original][1][name] != value for name, value in numbers[Original][0].items())
    assert numbers[HuggingFaceModel] == [numbers[Original][0]] * 2
    assert equal(batches, [text(seed, rows) for seed, rows in enumerate(sizes)])


def test_training_metrics_of_composers_trainer_are_those_of_the_original():
    values = []
    for kind in (Original, HuggingFaceModel):
        torch.manual_seed(1)
        wrapper = kind(gpt2(resid_pdrop=0.0), use_logits=True, metrics=[LanguageCrossEntropy(), MaskedAccuracy()])
        trainer = Trainer(
            model=wrapper,
            device="cpu",
            progress_bar=False,
            loggers=[],
            train_dataloader=DataSpec([text(seed) for seed in range(3)]),
            optimizers=torch.optim.SGD(wrapper.parameters(), lr=0.1),
            max_duration="3ba",
            device_train_microbatch_size=2,
            seed=1,
        )
        trainer.fit()
        values.append([metric.compute() for metric in trainer.state.train_metrics.values()])
        trainer.close()
    assert equal(*values)


def test_it_is_a_huggingface_model_that_can_be_copied_pickled_and_reloaded():
    case = CASES["gpt2 loss"]
    wrapper = case.wrapper(HuggingFaceModel)
    assert isinstance(wrapper, Original)
    assert HuggingFaceModel.__doc__.endswith(Original.__doc__)
    for again in (copy.deepcopy(wrapper), pickle.loads(pickle.dumps(wrapper))):
        assert type(again) is HuggingFaceModel
        assert equal(scored(again, text(1)), scored(case.wrapper(Original), text(1)))
    assert list(wrapper.state_dict()) == list(case.wrapper(Original).state_dict())


def test_the_mixin_mends_a_subclass():
    class Ours(Original):
        def forward(self, batch: Any) -> Any:
            return super().forward({**batch, "input_ids": batch["input_ids"].flip(1)})

    class Mended(CleanEvaluation, Ours):
        pass

    case, batch = CASES["gpt2 logits"], text(1)
    expected = scored(case.wrapper(Ours), text(1))
    assert equal(scored(case.wrapper(Mended), batch), expected)
    assert equal(batch, text(1))
    assert not equal(expected, scored(case.wrapper(Original), text(1)))


def test_generated_texts_keep_the_space_that_sentencepiece_would_drop():
    class Dropping:
        pad_token_id = 0

        def __init__(self) -> None:
            self.letters = letters()

        def __len__(self) -> int:
            return len(self.letters)

        def __call__(self, *arguments: Any, **options: Any) -> Any:
            return {"input_ids": [0, 1]} if arguments == (" a",) else self.letters(*arguments, **options)

        def batch_decode(self, *arguments: Any, **options: Any) -> Any:
            return self.letters.batch_decode(*arguments, **options)

    case = CASES["gpt2 generate"]
    texts = {}
    for tokenizer in (letters(), Dropping()):
        for kind in (Original, HuggingFaceModel):
            torch.manual_seed(5)
            wrapper = kind(case.model(), tokenizer=tokenizer, eval_metrics=[Loss()]).eval()
            texts[type(tokenizer), kind] = wrapper.eval_forward(case.batch(1))
        assert texts[type(tokenizer), Original] == texts[type(tokenizer), HuggingFaceModel]
    assert all(each.startswith(" ") for each in texts[Dropping, HuggingFaceModel])

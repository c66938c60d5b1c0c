from __future__ import annotations

import pytest
import torch

from pytest_evalcheck import LoopData, adapters

transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from pytest_evalcheck.adapters.transformers import loop as transformers_loop  # noqa: E402
from pytest_evalcheck.adapters.transformers import pipeline_loop as transformers_pipeline_loop  # noqa: E402
from pytest_evalcheck.kinds.common.process_ranks import on_processes  # noqa: E402

# (ids, label) of unequal length
ROWS = [((1, 2, 3), 0), ((4,), 1), ((5, 6), 2), ((7, 8, 9, 1), 0), ((2, 2), 1)]


def collate(rows):
    width = max((len(ids) for ids, _ in rows), default=0)
    return {
        "input_ids": torch.tensor([[*ids, *[0] * (width - len(ids))] for ids, _ in rows]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (width - len(ids)) for ids, _ in rows]),
        "labels": torch.tensor([label for _, label in rows]),
    }


def collate_tokens(rows):
    batch = collate(rows)
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100) % 3
    return {**batch, "labels": labels.masked_fill(batch["attention_mask"] == 0, -100)}


def bert(head="Sequence"):
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_labels": 3}
    config = transformers.BertConfig(num_attention_heads=2, initializer_range=0.5, **sizes)
    return getattr(transformers, f"BertFor{head}Classification")(config)


def accuracy(found):
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


def trainer(folder, model=None, **options):
    own = {name: options.pop(name) for name in ("compute_metrics",) if name in options}
    args = transformers.TrainingArguments(str(folder), report_to=[], use_cpu=True, disable_tqdm=True, **options)
    return transformers.Trainer(model or bert(), args, **own)


def test_a_trainer_alone_becomes_a_loop_by_one_line(tmp_path, capsys):
    made = trainer(tmp_path, compute_metrics=accuracy)
    loop = adapters.record("loop", made)
    found = loop.evaluate(LoopData(ROWS, collate), batch_size=2)
    made.data_collator, made.args.per_device_eval_batch_size = collate, 2
    expected = made.evaluate(list(ROWS))
    assert found.numbers == {"loss": expected["eval_loss"], "accuracy": expected["eval_accuracy"]}
    assert [place for place, _ in found.records] == [0, 1, 2, 3, 4]
    assert [fields["label"] for _, fields in found.records] == [0, 1, 2, 0, 1]
    capsys.readouterr()


def test_every_rank_reports_all_samples(tmp_path, capfd):
    known = transformers.TrainingArguments.__dataclass_fields__
    own = {"average_tokens_across_devices": False}.items()  # not in releases before 4.46
    options = {"compute_metrics": accuracy, **{name: value for name, value in own if name in known}}
    loop = transformers_loop.loop(trainer(tmp_path, **options))
    rows = LoopData(ROWS[:4], collate)
    alone = loop.evaluate(rows, batch_size=2)
    found = on_processes([lambda: loop.on_rank(rows, batch_size=2)] * 2)
    for each in found:
        assert each.numbers == pytest.approx(alone.numbers)
        assert [place for place, _ in each.records] == [0, 1, 2, 3]
    capfd.readouterr()


@pytest.mark.parametrize("way", ["evaluate", "predict"])
def test_the_settings_of_one_evaluation_are_those_that_were_asked_for(way, tmp_path):
    made = trainer(tmp_path, compute_metrics=accuracy)
    seen, plain = [], made.model.forward
    made.model.forward = lambda **given: seen.append(len(given["input_ids"])) or plain(**given)
    loop = transformers_loop.loop(made, way)
    collator, metrics = made.data_collator, made.compute_metrics
    loop.evaluate(LoopData(ROWS, collate), batch_size=3, accumulation=1)
    assert seen == [3, 2]
    assert made.args.per_device_eval_batch_size == 8
    assert made.args.eval_accumulation_steps is None
    assert (made.data_collator, made.compute_metrics) == (collator, metrics)


def test_a_stream_gives_what_the_data_set_gives(tmp_path):
    loop = transformers_loop.loop(trainer(tmp_path, compute_metrics=accuracy))
    data = LoopData(ROWS, collate)
    assert loop.evaluate(data, batch_size=2, iterable=True) == loop.evaluate(data, batch_size=2)


def test_an_option_that_nobody_has_is_told(tmp_path):
    loop = transformers_loop.loop(trainer(tmp_path))
    with pytest.raises(TypeError, match=r"'batchsize' is no option: expected one of \['accumulation', 'batch_size'"):
        loop.evaluate(LoopData(ROWS, collate), batchsize=2)


def test_without_metrics_evaluate_shows_no_predictions_and_predict_does(tmp_path):
    made = trainer(tmp_path)
    data = LoopData(ROWS, collate)
    assert transformers_loop.loop(made).evaluate(data).records is None
    assert len(transformers_loop.loop(made, "predict").evaluate(data).records) == 5


@pytest.mark.parametrize("of_logits", [None, lambda logits, labels: logits.argmax(-1)], ids=["logits", "likeliest"])
@pytest.mark.parametrize("concatenated", [True, False])
def test_records_of_tokens_have_no_padding(concatenated, of_logits, tmp_path):
    made = trainer(tmp_path, bert("Token"))
    made.preprocess_logits_for_metrics = of_logits
    loop = transformers_loop.loop(made, "predict")
    found = loop.evaluate(LoopData(ROWS, collate_tokens), batch_size=2, concatenated=concatenated)
    assert [len(fields["prediction"]) for _, fields in found.records] == [3, 1, 2, 4, 2]
    assert [len(fields["label"]) for _, fields in found.records] == [3, 1, 2, 4, 2]


def test_several_data_sets_are_evaluated_in_one_call(tmp_path):
    loop = transformers_loop.loop(trainer(tmp_path))
    sets = {"first": LoopData(ROWS[:2], collate), "second": LoopData(ROWS[2:], collate)}
    found = loop.evaluators(sets, order=("second", "first"), batch_size=2)
    for name, data in sets.items():
        assert found[name].numbers == pytest.approx(loop.evaluate(data, batch_size=2).numbers)


def test_training_calls_between_once_and_evaluates_in_it(tmp_path):
    calls = []

    def trained(evaluating):
        made = trainer(tmp_path, save_strategy="steps")
        loop = transformers_loop.loop(made)
        data = LoopData(ROWS, collate)
        torch.manual_seed(1)
        between = (lambda: calls.append(loop.evaluate(data).numbers)) if evaluating else lambda: calls.append(None)
        found = loop.train(data, between)
        assert made.args.save_strategy == "steps"
        assert not list(tmp_path.iterdir())
        return found

    found = trained(False), trained(True)
    assert [one is None for one in calls] == [True, False]
    assert [len(one["losses"]) for one in found] == [4, 4]
    assert found[0]["losses"][:2] == found[1]["losses"][:2]


LETTERS = "abcdefgh"


def tokenizer():
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    ids = {"<pad>": 0, "<unk>": 1, **{letter: place for place, letter in enumerate(LETTERS, 2)}}
    made = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    names = ["input_ids", "attention_mask"]
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", model_input_names=names
    )


TEXTS = LoopData(
    [("abc", "LABEL_0"), ("d", "LABEL_1"), ("efgh", "LABEL_2")],
    lambda rows: ([text for text, _ in rows], [answer for _, answer in rows]),
)


@pytest.mark.parametrize("source", ["data set", "list", "generator"])
def test_a_pipeline_alone_becomes_a_loop_whatever_its_inputs_come_in(source):
    pipe = transformers.pipeline("text-classification", model=bert().eval(), tokenizer=tokenizer(), device="cpu")
    found = adapters.record("loop", pipe).evaluate(TEXTS, batch_size=2, source=source)
    alone = [pipe(text) for text, _ in TEXTS]
    scores = [one[0]["score"] if isinstance(one, list) else one["score"] for one in alone]
    assert found.numbers["score"] == pytest.approx(sum(scores) / 3)
    assert [place for place, _ in found.records] == [0, 1, 2]
    assert [fields["output"]["score"] for _, fields in found.records] == pytest.approx(scores)


def test_hits_are_outputs_that_are_the_answer():
    scored = transformers_pipeline_loop.default_score
    entities = [{"entity": "A", "score": 0.5}, {"entity": "B", "score": 1.0}]
    assert scored(entities, ("A", "B")) == {"hit": 1.0, "score": 0.75}
    assert scored(entities, "B") == {"hit": 0.0, "score": 0.75}
    assert scored([], "B") == {"hit": 0.0, "score": 0.0}
    assert scored([{"generated_text": "x"}], "x") == {"hit": 1.0, "score": 0.0}
    assert scored({"label": "A", "score": 0.25}, "A") == {"hit": 1.0, "score": 0.25}

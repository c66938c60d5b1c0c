from __future__ import annotations

import logging
import math

import pytest
import torch
from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import LoopData, adapters
from pytest_evalcheck import strategies as es

pytest.importorskip("lm_eval")
transformers = pytest.importorskip("transformers")

LETTERS = "abcdefgh"
ROWS = [("abc", "d"), ("e", "fg"), ("h", "abcd")]


def hflm():
    from lm_eval.models.huggingface import HFLM
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    logging.getLogger("lm_eval").setLevel("ERROR")
    ids = {"<pad>": 0, "<eos>": 1, **{letter: place for place, letter in enumerate(LETTERS, 2)}}
    made = Tokenizer(models.WordLevel(ids, unk_token="<pad>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")
    torch.manual_seed(0)
    sizes = {"vocab_size": 10, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    config = transformers.LlamaConfig(num_attention_heads=2, initializer_range=0.5, **sizes)
    model = transformers.LlamaForCausalLM(config).double().eval()
    return HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=16, device="cpu")


def documents(rows):
    return [{"question": question, "answer": answer} for question, answer in rows]


def likelihood(model, question, answer):
    before, ids = ([LETTERS.index(letter) + 2 for letter in text] for text in (question, answer))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([before + ids])).logits[0, len(before) - 1 : -1]
    return logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None]).sum().item()


def test_a_model_alone_becomes_a_loop_over_answers_that_continue_questions():
    lm = hflm()
    loop = adapters.record("loop", lm)
    found = loop.evaluate(LoopData(ROWS, documents), batch_size=2)
    values = [likelihood(lm.model, *row) for row in ROWS]
    assert found.numbers["perplexity"] == pytest.approx(math.exp(-sum(values) / len(values)))
    assert [place for place, _ in found.records] == [0, 1, 2]
    assert [fields["responses"][0][0] for _, fields in found.records] == pytest.approx(values)


def test_the_batch_size_that_is_asked_for_is_that_of_the_forwards_and_leaves_the_model_as_it_was():
    lm, seen = hflm(), []
    plain = lm.model.forward
    lm.model.forward = lambda *given, **named: (
        seen.append(len(given[0] if given else named["input_ids"])) or plain(*given, **named)
    )
    adapters.record("loop", lm).evaluate(LoopData(ROWS, documents), batch_size=3)
    assert seen == [3]
    assert lm.batch_size == 1


def test_a_decoder_of_a_harness_has_the_same_weights_in_float32():
    from tokenizers import decoders

    from pytest_evalcheck.adapters.lm_eval import decoder as lm_eval_decoder

    made = hflm()
    made.tokenizer.backend_tokenizer.decoder = decoders.Fuse()  # no blanks between letters
    double = lm_eval_decoder.record(made)
    single = double.in_float32()
    assert next(double.model.parameters()).dtype == torch.float64
    assert next(single.model.parameters()).dtype == torch.float32
    rows = [double.generate([[2, 3, 4], [5, 6]], decoder.make_cache(2), 3, ()) for decoder in (double, single)]
    assert rows[0] == rows[1]
    assert single.make_cache(2).model is single.model
    assert made.model is double.model


def language_model(**attributes):
    """An `LM` that is no `HFLM`: the likelihood of an answer is its length; `stale`: it is that of the last of a batch."""
    from lm_eval.api.model import LM

    class Lengths(LM):
        stale = False

        def loglikelihood(self, requests):
            size, found = getattr(self, "batch_size", len(requests)), []
            for start in range(0, len(requests), size):
                batch = [-float(len(request.args[1])) for request in requests[start : start + size]]
                found += [(batch[-1] if self.stale else value, True) for value in batch]
            return found

        def loglikelihood_rolling(self, requests):
            raise NotImplementedError

        generate_until = loglikelihood_rolling

    made = Lengths()
    vars(made).update(attributes)
    return made


def test_another_language_model_is_a_loop_with_the_options_that_it_has():
    assert adapters.record("loop", language_model()).offered == {}
    assert [*adapters.record("loop", language_model(batch_size=2)).offered] == ["batch_size"]
    assert [*adapters.record("loop", hflm()).offered] == ["batch_size", "logits_cache"]


@pytest.mark.parametrize(
    ("attributes", "outcome"),
    [({"batch_size": 2, "stale": True}, "failed"), ({"batch_size": 2}, "passed"), ({"stale": True}, "not applicable")],
)
def test_a_language_model_that_mixes_the_requests_of_a_batch_is_found(attributes, outcome):
    rows = st.tuples(st.sampled_from(LETTERS), st.text("abc", min_size=1, max_size=4))
    inputs = es.samples(rows, name="questions", collate=documents)
    (cell,) = ec.run(ec.loop(inputs=inputs)(lambda: language_model(**attributes)), "cpu", select="EC501").cells
    assert cell.outcome == outcome, cell.reason
    if outcome == "not applicable":
        assert cell.reason == "evaluate() has no option 'batch_size'"


def test_several_tasks_in_one_evaluation_are_several_evaluators():
    loop, sets = (
        adapters.record("loop", hflm()),
        {"first": LoopData(ROWS, documents), "second": LoopData(ROWS[:1], documents)},
    )
    found = loop.evaluators(sets, order=("second", "first"), batch_size=4)
    assert [*found] == ["second", "first"]
    alone = {name: loop.evaluate(data, batch_size=1) for name, data in sets.items()}
    for name, result in found.items():
        assert result.numbers == pytest.approx(alone[name].numbers)
        assert [place for place, _ in result.records] == [place for place, _ in alone[name].records]


@pytest.mark.parametrize(("mixed", "outcome"), [(True, "failed"), (False, "passed")])
def test_a_language_model_that_mixes_the_requests_of_two_tasks_is_found(mixed, outcome):
    # Its batches are those of one task, whatever its batch size: no batch size shows the fault.
    def lm():
        made, plain = language_model(), language_model().loglikelihood

        def loglikelihood(requests):
            found = plain(requests)
            several = len({request.task_name for request in requests}) > 1
            return found[::-1] if mixed and several else found

        made.loglikelihood = loglikelihood
        return made

    rows = st.tuples(st.sampled_from(LETTERS), st.text("abc", min_size=1, max_size=4))
    inputs = es.samples(rows, name="questions", collate=documents)
    report = ec.run(ec.loop(inputs=inputs)(lm), "cpu", select="EC501,EC502,EC503,EC504", effort="quick")
    assert report.cells[-1].outcome == outcome, report.cells[-1].reason
    assert {cell.outcome for cell in report.cells[:-1]} <= {"passed", "not applicable"}


def test_a_model_that_does_not_implement_the_task_is_not_tried():
    lm = language_model()
    lm.loglikelihood = lm.loglikelihood_rolling
    inputs = es.samples(st.tuples(st.sampled_from(LETTERS), st.just("a")), name="questions", collate=documents)
    report = ec.run(ec.loop(inputs=inputs)(lambda: lm), "cpu", select="EC001,EC504")
    assert {cell.outcome for cell in report.cells} == {"not applicable"}
    assert all(cell.reason.startswith("the model does not implement loglikelihood") for cell in report.cells)
    assert not report.ok

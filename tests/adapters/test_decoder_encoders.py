from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

transformers = pytest.importorskip("transformers")

from pytest_evalcheck.adapters.transformers import encoder_decoder as encoder_decoder  # noqa: E402
from pytest_evalcheck.adapters.transformers.decoder import OPERATIONS  # noqa: E402

END = 2
PROMPTS = es.prompts(vocab=40, special=(0, 1, END))
SOURCES = replace(PROMPTS, collate=lambda rows: [[*row, END] for row in rows])


def t5(**more):
    torch.manual_seed(0)
    sizes = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    ends = {"pad_token_id": 0, "eos_token_id": END, "decoder_start_token_id": 1}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **{**ends, **more})).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    return model.requires_grad_(False)


def outcome(made, check, inputs=PROMPTS):
    @ec.decoder(inputs=inputs)
    def target():
        return made

    (cell,) = ec.run(target, select=check, effort="quick").cells
    return cell.outcome, cell.cause


@pytest.mark.parametrize("check", ["EC301", "EC304", "EC306", "EC307", "EC311"])
def test_a_decoder_with_a_source_keeps_the_promises_of_steps(check):
    assert outcome(encoder_decoder.by_step(t5(), sides=("left",)), check) == ("passed", "")


@pytest.mark.parametrize("check", ["EC301", "EC305", "EC306", "EC310"])
def test_whole_generations_from_sources_keep_theirs(check):
    assert outcome(encoder_decoder.by_generation(t5(), end=END), check, SOURCES) == ("passed", "")


def test_a_source_that_is_not_reordered_with_its_row_is_seen():
    def half(cache, order):
        cache.self_attention_cache.reorder_cache(order)

    made = encoder_decoder.by_step(t5(), operations={"reorder": half})
    assert outcome(made, "EC307")[0] == "failed"


def test_a_source_that_stays_after_a_reset_is_seen():
    def half(cache):
        cache.self_attention_cache.reset()

    made = encoder_decoder.by_step(t5(), operations={"reset": half})
    assert outcome(made, "EC304")[0] == "failed"


def test_a_source_that_is_padded_and_not_masked_is_seen(monkeypatch):
    model = t5()
    generate = model.generate

    def unmasked(**given):
        return generate(**{**given, "attention_mask": torch.ones_like(given["attention_mask"])})

    monkeypatch.setattr(model, "generate", unmasked)
    assert outcome(encoder_decoder.by_generation(model, end=END), "EC306", SOURCES)[0] == "failed"


def test_logits_stand_where_the_next_token_is_told():
    made = encoder_decoder.by_generation(t5(), end=END)
    ids = torch.tensor([[5, 6, END, 7]])
    logits = made.full(ids, torch.ones_like(ids), torch.arange(4)[None])
    assert not logits[0, :2].any()
    assert logits[0, 2].argmax() == made.generate([[5, 6, END]], made.make_cache(1), 1, ())[0][0]


def test_a_model_without_a_start_token_is_told():
    made = encoder_decoder.by_generation(t5(decoder_start_token_id=None), end=END)
    with pytest.raises(ValueError, match="decoder_start_token_id; set it"):
        made.generate([[5, END]], made.make_cache(1), 1, ())


def test_its_cache_has_the_operations_of_others():
    assert encoder_decoder.by_step(t5()).operations is OPERATIONS

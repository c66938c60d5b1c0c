from __future__ import annotations

import pytest
import torch

from pytest_evalcheck import adapters

peft = pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")
# What peft asks transformers for is deprecated there.
pytestmark = pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")


def tuned():
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=20, **sizes)).eval()
    return peft.get_peft_model(model, peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)).eval()


def test_an_adapted_model_is_described_as_the_one_inside():
    model, batch = tuned(), {"input_ids": torch.tensor([[3, 4]]), "attention_mask": torch.ones(1, 2, dtype=torch.long)}
    wrapper, decoder = adapters.record("wrapper", model), adapters.record("decoder", model)
    logits = wrapper.rows(wrapper.forward(batch))["logits"]
    torch.testing.assert_close(logits, model(**batch).logits)
    stepped = decoder.step(batch["input_ids"], None, batch["attention_mask"], torch.tensor([[0, 1]]))
    torch.testing.assert_close(stepped, logits)
    assert decoder.generate([[3, 4]], decoder.make_cache(1), 2, ()) is not None

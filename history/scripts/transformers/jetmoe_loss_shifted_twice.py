"""JetMoe: the loss of a text, beside that of each token's logits and the next token."""

import sys

import torch
from transformers import JetMoeConfig, JetMoeForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_key_value_heads": 2, "kv_channels": 8, "intermediate_size": 32}
config = JetMoeConfig(vocab_size=40, num_local_experts=2, num_experts_per_tok=1, output_router_logits=False, **sizes)
model = JetMoeForCausalLM(config).eval()
with torch.no_grad():
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.copy_(torch.randn_like(weight) / weight.shape[-1] ** 0.5)
    ids = torch.randint(4, 40, (1, 8))
    output = model(ids, labels=ids)
    expected = torch.nn.functional.cross_entropy(output.logits[0, :-1].float(), ids[0, 1:]).item()
print("the loss is", output.loss.item(), "and should be", expected)
sys.exit(int(abs(output.loss.item() - expected) > 1e-3))

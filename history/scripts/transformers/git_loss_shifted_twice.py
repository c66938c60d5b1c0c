"""The loss of GitForCausalLM, beside the cross entropy of each token's logits and the next token."""

import sys

import torch
from transformers import GitConfig, GitForCausalLM

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
vision = {**sizes, "image_size": 8, "patch_size": 4}
model = GitForCausalLM(GitConfig(vocab_size=40, vision_config=vision, initializer_range=0.5, **sizes)).eval()
ids = torch.tensor([[5, 6, 7, 8, 9]])
picture = torch.zeros(1, 3, 8, 8)
with torch.no_grad():
    out = model(input_ids=ids, pixel_values=picture, labels=ids)
right = torch.nn.functional.cross_entropy(out.logits[0, -5:-1], ids[0, 1:]).item()
print("the loss is", out.loss.item(), "and should be", right)
sys.exit(int(abs(out.loss.item() - right) > 1e-4))

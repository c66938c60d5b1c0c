"""add_weighted_adapter with the weight -1, beside the negative of the adapter."""

import sys

import peft
import torch

torch.manual_seed(0)
peft.tuners.lora.torchao.is_torchao_available = lambda: False
model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False))
made = peft.get_peft_model(model, peft.LoraConfig(target_modules=["0"], r=2, lora_alpha=2, init_lora_weights=False))
x = torch.randn(3, 4)
with torch.no_grad():
    with made.disable_adapter():
        plain = made(x)
    added = made(x) - plain
    made.add_weighted_adapter(["default"], [-1.0], "negative", combination_type="linear")
    made.set_adapter("negative")
    away = (made(x) - plain + added).abs().max().item()
print("away from the negative by", away)
sys.exit(int(away > 1e-5))

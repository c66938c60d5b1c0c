"""SFTTrainer: whether evaluate gives back the numbers that it logs."""

import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

backend = Tokenizer(models.WordLevel({"<pad>": 0, "<eos>": 2, "<unk>": 3}, unk_token="<unk>"))
special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = LlamaForCausalLM(LlamaConfig(vocab_size=40, initializer_range=0.5, **sizes))
row = {"input_ids": [5, 6, 7, 8, 9, 10], "completion_mask": [0, 0, 0, 0, 1, 1]}
data = Dataset.from_list([row])
options = {"report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True, "gradient_checkpointing": False}
with tempfile.TemporaryDirectory() as folder:
    args = SFTConfig(folder, completion_only_loss=True, **options)
    trainer = SFTTrainer(model, args, train_dataset=data, eval_dataset=data, processing_class=tokenizer)
    found = trainer.evaluate()
logged = next(line for line in trainer.state.log_history if "eval_entropy" in line)
left_out = sorted(set(logged) - set(found) - {"epoch", "step"})
print("logged, but not returned:", left_out)
sys.exit(int(bool(left_out)))

"""KTOTrainer: the logits that are logged of an answer, beside the mean over its tokens and all words."""

import copy
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import KTOConfig, KTOTrainer

names = {"<pad>": 0, "<eos>": 2, "<unk>": 3, **{letter: i for i, letter in enumerate("abcdefgh", 4)}}
backend = Tokenizer(models.WordLevel(names, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = LlamaForCausalLM(LlamaConfig(vocab_size=40, initializer_range=0.5, **sizes))
rows = [
    {"prompt": "a b", "completion": " c d e", "label": True},
    {"prompt": "a", "completion": " f g", "label": False},
]
data = Dataset.from_list(rows)
options = {"report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True, "gradient_checkpointing": False}
with tempfile.TemporaryDirectory() as folder:
    args = KTOConfig(folder, per_device_train_batch_size=2, per_device_eval_batch_size=2, **options)
    trainer = KTOTrainer(
        model, copy.deepcopy(model), args, train_dataset=data, eval_dataset=data, processing_class=tokenizer
    )
    trainer.evaluate()
found = next(line["eval_logits/chosen"] for line in trainer.state.log_history if "eval_logits/chosen" in line)
ids = tokenizer("a b c d e")["input_ids"] + [2]
with torch.no_grad():
    right = model.eval()(torch.tensor([ids])).logits[0, 1:-1].mean().item()
print("logits/chosen is", found, "and the mean over tokens and words is", right)
sys.exit(int(abs(found - right) > 1e-3))

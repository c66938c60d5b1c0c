"""DPOTrainer: two sets that evaluate gets, with log-probabilities of the reference that are computed before."""

import sys
import tempfile

import torch
from datasets import Dataset, load_from_disk
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

names = {"<pad>": 0, "<eos>": 2, "<unk>": 3, **{letter: i for i, letter in enumerate("abcdefgh", 4)}}
backend = Tokenizer(models.WordLevel(names, unk_token="<unk>"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = LlamaForCausalLM(LlamaConfig(vocab_size=40, initializer_range=0.5, **sizes))
options = {"report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True, "gradient_checkpointing": False}
with tempfile.TemporaryDirectory() as folder:
    Dataset.from_list([{"prompt": "a b", "chosen": " c d e", "rejected": " f g"}]).save_to_disk(f"{folder}/data")
    data = load_from_disk(f"{folder}/data")
    args = DPOConfig(folder, precompute_ref_log_probs=True, **options)
    trainer = DPOTrainer(model, None, args, train_dataset=data, processing_class=tokenizer)
    alone = trainer.evaluate(data)["eval_loss"]
    try:
        found = trainer.evaluate({"one": data, "other": data})
    except (ValueError, RuntimeError, TypeError, KeyError) as error:
        print(type(error).__name__, str(error)[:200])
        sys.exit(1)
print("alone", alone, "and as one of two sets", found["eval_one_loss"])
sys.exit(int(abs(found["eval_one_loss"] - alone) > 1e-5))

"""An evaluation with a `compute_loss_func` that divides by the number of labels that it is given."""

import sys
import tempfile

import torch
from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments

torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
model = BertForTokenClassification(BertConfig(vocab_size=40, num_labels=2, **sizes)).eval()
rows = [{"input_ids": torch.tensor([5, 6, 7]), "labels": torch.tensor([0, 1, 0])}]


def loss_of(outputs, labels, num_items_in_batch=None):
    """The sum over the labels, divided by the number of labels that it is given."""
    logits = outputs["logits"].reshape(-1, 2)
    return torch.nn.functional.cross_entropy(logits, labels.reshape(-1), reduction="sum") / num_items_in_batch


with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(folder, report_to=[], use_cpu=True, disable_tqdm=True)
    try:
        found = Trainer(model, args, eval_dataset=rows, compute_loss_func=loss_of).evaluate()["eval_loss"]
    except TypeError as error:
        print("TypeError:", error)
        sys.exit(1)
print("the loss is", found)

"""Count the answers of a question-answering pipeline where words have several tokens."""

import sys

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast, pipeline

names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "##c", "d", "##e", "f"]
backend = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
backend.pre_tokenizer = pre_tokenizers.Whitespace()
backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
fewest = 9
for seed in range(20):
    torch.manual_seed(seed)
    model = BertForQuestionAnswering(BertConfig(vocab_size=len(names), initializer_range=1.0, **sizes)).eval()
    answering = pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu")
    found = answering(question="f", context="abc de abc f de", top_k=5)
    fewest = min(fewest, len(found) if isinstance(found, list) else 1)
print("of five answers that were asked for there are", fewest)
sys.exit(int(fewest < 5))

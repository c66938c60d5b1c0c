"""A Trainer reports another loss where larger batches make it faster.

The report: https://github.com/huggingface/transformers/issues/39241
"""

import tempfile

from transformers import LlamaConfig, LlamaForCausalLM, PrinterCallback, TrainingArguments

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

NEEDS = ("transformers>=5",)
TEXTS = es.causal_lm(vocab=40)
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
LLAMA = LlamaConfig(vocab_size=40, initializer_range=1.0, **SIZES)
FASTER = {"batches of 64": {"batch_size": 64}}


def loop(trainer):
    trainer.remove_callback(PrinterCallback)

    def evaluate(data, batch_size=2):
        trainer.data_collator, trainer.args.per_device_eval_batch_size = data.collate, batch_size
        return {"loss": trainer.evaluate(data)["eval_loss"]}

    return ec.Loop(evaluate=evaluate)


def arguments():
    return TrainingArguments(tempfile.mkdtemp(), report_to=[], use_cpu=True, disable_tqdm=True)


@ec.loop(inputs=TEXTS, variants=FASTER, requires=NEEDS)
def faulty():
    from transformers import Trainer

    return loop(Trainer(LlamaForCausalLM(LLAMA), arguments()))


# EC520 a_variant_gives_the_numbers_of_the_plain_configuration (of evaluate in the target's file)
#     the numbers of 'batches of 64'
#         expected  {'loss': ...
#         actual    {'loss': ...


@ec.loop(inputs=TEXTS, variants=FASTER, requires=NEEDS)
def mended():
    from pytest_evalcheck.fixes.loops import ExactLossTrainer as Trainer

    return loop(Trainer(LlamaForCausalLM(LLAMA), arguments()))

"""A wrapper takes the labels out of the batch, so that a second metric cannot run on it.

The report: https://github.com/mosaicml/composer/issues/3196
"""

import torch
from torchmetrics.classification import MulticlassAccuracy, MulticlassF1Score
from transformers import BertConfig, BertForSequenceClassification

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

NEEDS = ("transformers>=5", "torchmetrics>=1.9,<1.10")
SENTENCES = es.sequence_classification(vocab=40, classes=3)
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
BERT = BertConfig(vocab_size=40, num_labels=3, **SIZES)


class HuggingFaceModel(torch.nn.Module):
    """Composer's wrapper of a model of transformers, shortened."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config, self.use_logits, self.shift_labels = model, model.config, True, False

    def forward(self, batch):
        return self.model(**batch)

    def eval_forward(self, batch, outputs=None):
        self.labels = batch.pop("labels")
        return self.forward(batch).logits

    def update_metric(self, batch, outputs, metric):
        metric.update(outputs, self.labels)


def metrics():
    return {"accuracy": MulticlassAccuracy(num_classes=3), "f1": MulticlassF1Score(num_classes=3)}


def evaluated(wrapper):
    return ec.Wrapper(forward=wrapper.eval_forward, update=wrapper.update_metric, metrics=metrics, model=wrapper.model)


@ec.wrapper(inputs=SENTENCES, requires=NEEDS)
def faulty():
    return evaluated(HuggingFaceModel(BertForSequenceClassification(BERT)))


# EC101 forward_does_not_change_its_batch (of HuggingFaceModel.eval_forward in the target's file)
#     forward changed its batch
#         batch['labels'] is gone


@ec.wrapper(inputs=SENTENCES, requires=NEEDS)
def mended():
    from pytest_evalcheck.fixes.composer import CleanEvaluation

    class Mended(CleanEvaluation, HuggingFaceModel): ...

    return evaluated(Mended(BertForSequenceClassification(BERT)))

import smallmetrics

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es


@ec.metric(inputs=es.multiclass(classes=3, of="probabilities"))
def accuracy():
    return smallmetrics.Accuracy()


@ec.metric(inputs=es.multiclass(classes=3, of="probabilities"))
def batch_accuracy():
    return smallmetrics.BatchAccuracy()

"""What Hypothesis draws: samples for the authors of targets, cases for the authors of checks."""

from pytest_evalcheck.strategies.classification import binary, multiclass, multilabel, segmentation
from pytest_evalcheck.strategies.language import retrieval, text_pairs, tokens
from pytest_evalcheck.strategies.numbers import clusters, regression, values
from pytest_evalcheck.strategies.samples import Arguments, Bulk, Samples, grid, samples

__all__ = [
    "Arguments",
    "Bulk",
    "Samples",
    "binary",
    "clusters",
    "grid",
    "multiclass",
    "multilabel",
    "regression",
    "retrieval",
    "samples",
    "segmentation",
    "text_pairs",
    "tokens",
    "values",
]

"""Strategies of samples, for the authors of targets."""

from typing import NoReturn

from pytest_evalcheck.errors import missing_attribute
from pytest_evalcheck.strategies.classification import binary, multiclass, multilabel, rankings, segmentation
from pytest_evalcheck.strategies.documents import Rewriting, answers_of, documents
from pytest_evalcheck.strategies.language import prompts, retrieval, text_lists, text_pairs, tokens
from pytest_evalcheck.strategies.models import (
    causal_lm,
    images,
    masked_lm,
    multiple_choice,
    sequence_classification,
    sequence_to_sequence,
    token_classification,
)
from pytest_evalcheck.strategies.numbers import clusters, regression, tabular, values
from pytest_evalcheck.strategies.observed import arrays, rows
from pytest_evalcheck.strategies.outcomes import forecasts, survival
from pytest_evalcheck.strategies.regions import boxes, caption_pairs, masks
from pytest_evalcheck.strategies.samples import Arguments, Bulk, Padding, SampleStrategy, grid, samples
from pytest_evalcheck.strategies.scoring import choices, loglikelihoods, responses
from pytest_evalcheck.strategies.signals import audio, image_pairs
from pytest_evalcheck.strategies.structured import answers, tasks

__all__ = [
    "Arguments",
    "Bulk",
    "Padding",
    "Rewriting",
    "SampleStrategy",
    "answers",
    "answers_of",
    "arrays",
    "audio",
    "binary",
    "boxes",
    "caption_pairs",
    "causal_lm",
    "choices",
    "clusters",
    "documents",
    "forecasts",
    "grid",
    "image_pairs",
    "images",
    "loglikelihoods",
    "masked_lm",
    "masks",
    "multiclass",
    "multilabel",
    "multiple_choice",
    "prompts",
    "rankings",
    "regression",
    "responses",
    "retrieval",
    "rows",
    "samples",
    "segmentation",
    "sequence_classification",
    "sequence_to_sequence",
    "survival",
    "tabular",
    "tasks",
    "text_lists",
    "text_pairs",
    "token_classification",
    "tokens",
    "values",
]


def __getattr__(name: str) -> NoReturn:
    raise missing_attribute(__name__, name, __all__)

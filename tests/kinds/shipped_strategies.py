"""Strategies of samples for every kind of target: each one that the package ships, and those of the gallery."""

from __future__ import annotations

import argparse
import hashlib
import importlib
import sys
from pathlib import Path

import hypothesis
from hypothesis import strategies as st

from pytest_evalcheck import strategies as es
from pytest_evalcheck.kinds.common.case import canonical_cases
from pytest_evalcheck.kinds.common.check import Check
from pytest_evalcheck.kinds.registry import shipped
from pytest_evalcheck.strategies import SampleStrategy

OWN = es.samples(st.integers(0, 9), collate=lambda rows: (list(rows),))

_MODELS = {
    "causal_lm": es.causal_lm(vocab=9),
    "causal_lm, both sides": es.causal_lm(vocab=9, sides=("right", "left"), position_ids=True),
    "images": es.images(classes=3),
    "masked_lm": es.masked_lm(vocab=9),
    "multiple_choice": es.multiple_choice(vocab=9),
    "sequence_classification": es.sequence_classification(vocab=9, classes=3),
    "sequence_classification, ignored": es.sequence_classification(vocab=9, classes=3, ignore_index=-100),
    "sequence_to_sequence": es.sequence_to_sequence(vocab=9),
    "tabular": es.tabular(features=2, classes=3),
    "token_classification": es.token_classification(vocab=9, classes=3),
}
BY_KIND: dict[str, dict[str, SampleStrategy]] = {
    "decoder": {"prompts": es.prompts(vocab=9)},
    "engine": {"prompts": es.prompts(vocab=9), "text_prompts": es.text_prompts()},
    "loop": _MODELS,
    "metric": {
        "answers": es.answers(),
        "arrays": es.arrays((2, 2), (2, 2), dtypes=("float32",) * 2, ranges=((0, 1),) * 2),
        "arrays of counts": es.arrays((3,), dtypes=("int64",), ranges=((0, 9),)),
        "audio": es.audio(),
        "audio of speakers": es.audio(length=16, speakers=2),
        "binary": es.binary(ignore_index=-1),
        "binary labels": es.binary(of="labels"),
        "binary logits": es.binary(of="logits"),
        "boxes": es.boxes(),
        "caption_pairs": es.caption_pairs(),
        "clusters": es.clusters(),
        "image_pairs": es.image_pairs(),
        "image_pairs of whole numbers": es.image_pairs(value_range=(0, 255), whole=True),
        "masks": es.masks(classes=3, ignore_index=255),
        "masks, large": es.masks(classes=3, height=12, width=20, form="onehot"),
        "multiclass": es.multiclass(classes=3, ignore_index=-100),
        "multiclass logits": es.multiclass(classes=4, of="logits"),
        "multilabel": es.multilabel(labels=3, ignore_index=-1),
        "rankings": es.rankings(),
        "regression": es.regression(),
        "regression, wide": es.regression(spread="wide"),
        "regression of outputs": es.regression(outputs=2, positive=True, min_samples=2),
        "regression of many": es.regression(min_samples=6),
        "retrieval": es.retrieval(),
        "retrieval of ignored": es.retrieval(ignore_index=-1),
        "rows": es.rows([0.25, 0.5, 0.75], [0, 1, 1], dtypes=("float32", "int64")),
        "rows of texts": es.rows(["a", "b", "c", "d"], ["a", "c", "c", "b"], dtypes=(None, None), mixed=False),
        "samples": OWN,
        "segmentation": es.segmentation(classes=3, ignore_index=255),
        "forecasts": es.forecasts(),
        "survival": es.survival(),
        "tasks": es.tasks({"kind": es.binary(of="labels"), "size": es.regression()}),
        "text_lists": es.text_lists(),
        "text_pairs": es.text_pairs(),
        "text_pairs of several": es.text_pairs(references=2, min_words=0),
        "tokens": es.tokens(ignore_index=-100),
        "values": es.values(),
        "values with NaN": es.values().with_nan(),
        "values with weights": es.values(weighted=True),
    },
    "scorer": {
        "choices": es.choices(),
        "loglikelihoods": es.loglikelihoods(),
        "responses": es.responses(),
        "responses, several": es.responses(max_repeats=3),
    },
    "task": {"documents": es.documents(), "documents of one": es.documents([{"answer": "5"}])},
    "wrapper": {**_MODELS, "images in other containers": es.images(classes=3, containers=("tuple", "list", "dict"))},
}


def fitting() -> list[tuple[Check, str, SampleStrategy]]:
    """Every shipped check with every strategy of its kinds that gives what it needs, by name."""
    return [
        (check, name, inputs)
        for check in shipped()
        for kind in check.kinds
        for name, inputs in BY_KIND[kind].items()
        if all(getattr(inputs, need, need) is not None for need in check.needs)
    ]


def main() -> None:
    """Print a digest of the canonical cases of every check and strategy, with a seed and after importing modules."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int)
    parser.add_argument("--modules", nargs="*", default=[])
    asked = parser.parse_args()
    hypothesis.core.global_force_seed = asked.seed
    for module in asked.modules:
        importlib.import_module(module)
    for check, name, inputs in fitting():
        text = repr(canonical_cases(check.case, inputs, check.conditions))
        print(check.code, name, hashlib.sha256(text.encode()).hexdigest()[:16])


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))
    main()

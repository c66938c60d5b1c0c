"""BinaryClassificationEvaluator with two similarity functions, none of which is the cosine."""

import sys

import torch
from sentence_transformers.sentence_transformer.evaluation import BinaryClassificationEvaluator

TEXTS = ["a", "b", "c", "d"]


class Model:
    """A model that embeds texts."""

    similarity_fn_name = "cosine"

    def encode(self, texts, **_):
        return torch.tensor([[float(TEXTS.index(text)), 1.0] for text in texts]).numpy()


names = ["euclidean", "manhattan"]
evaluator = BinaryClassificationEvaluator(TEXTS[:2], TEXTS[2:], [0, 1], similarity_fn_names=names, write_csv=False)
evaluator.embed_inputs = lambda model, texts, **_: model.encode(texts)
try:
    scores = evaluator.compute_metrices(Model())
    evaluator.primary_metric = None
    evaluator.store_metrics_in_model_card_data = lambda *_, **__: None
    print(sorted(evaluator(Model())))
except KeyError as error:
    print("KeyError", error)
    sys.exit(1)

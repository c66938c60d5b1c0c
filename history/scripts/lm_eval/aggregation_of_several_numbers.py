"""A metric function that gives several numbers, with the aggregation max."""

import sys

import lm_eval
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask


class Says(LM):
    """A model that says the number that it is asked for."""

    def generate_until(self, requests, disable_tqdm=False):
        return [request.args[0] for request in requests]

    def loglikelihood(self, requests, disable_tqdm=False):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def several(references, predictions, **_):
    """The number, and its negative."""
    return {"number": float(predictions[0]), "negative": -float(predictions[0])}


def documents(**_):
    """Three numbers."""
    from datasets import Dataset

    return {"test": Dataset.from_list([{"q": str(i), "a": "x"} for i in (1, 2, 6)])}


metric = {"metric": several, "aggregation": max, "higher_is_better": True}
config = {"task": "one", "test_split": "test", "output_type": "generate_until", "metric_list": [metric]}
config |= {
    "doc_to_text": "q",
    "doc_to_target": "a",
    "generation_kwargs": {"until": ["\n"]},
    "custom_dataset": documents,
}
results = lm_eval.evaluate(Says(), {"one": ConfigurableTask(config=config)}, bootstrap_iters=0)["results"]
(found,) = results.values()
print("the largest of 1, 2 and 6, and of their negatives:", found)
sys.exit(int(found.get("number,none") != 6.0))

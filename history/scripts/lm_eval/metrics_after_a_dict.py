"""A metric that is listed after one whose function gives a mapping of several numbers."""

import sys

from lm_eval.api.task import ConfigurableTask


def several(references, predictions, **_):
    """Two numbers of a document."""
    return {"first": 1.0, "second": 2.0}


def exact(references, predictions, **_):
    """Return 1 for a right prediction, else 0."""
    return float(predictions[0] == references[0])


class InMemory(ConfigurableTask):
    """Releases before 0.4.9 load their data themselves."""

    def download(self, *_, **__):
        """One document."""
        from datasets import Dataset

        self.dataset = {"test": Dataset.from_list([{"q": "q", "a": "x"}])}


listed = [{"metric": each, "aggregation": "mean", "higher_is_better": True} for each in (several, exact)]
config = {"task": "one", "test_split": "test", "output_type": "generate_until", "metric_list": listed}
task = InMemory(config={**config, "doc_to_text": "q", "doc_to_target": "a", "generation_kwargs": {"until": ["\n"]}})
try:
    found = task.process_results({"q": "q", "a": "x"}, ["x"])
except KeyError as error:
    found = f"KeyError: {error}"
print("the numbers of a document:", found)
sys.exit(int(found != {"first": 1.0, "second": 2.0, "exact": 1.0}))

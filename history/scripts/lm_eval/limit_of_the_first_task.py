"""Half of the documents of two tasks, of which one has more than the other."""

import os
import sys

os.environ["HF_DATASETS_OFFLINE"] = "1"

import lm_eval
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask


class Silent(LM):
    """A model that says nothing."""

    def generate_until(self, requests, disable_tqdm=False):
        return ["" for _ in requests]

    def loglikelihood(self, requests, disable_tqdm=False):
        raise NotImplementedError

    loglikelihood_rolling = loglikelihood


def task(name, count):
    """A task of this many documents."""

    class InMemory(ConfigurableTask):
        """Releases before 0.4.9 load their data themselves."""

        def download(self, *_, **__):
            from datasets import Dataset

            self.dataset = {"test": Dataset.from_list([{"q": f"q{i}", "a": "x"} for i in range(count)])}

    length = {"metric": lambda items: 0.0, "aggregation": lambda items: float(len(items)), "higher_is_better": True}
    config = {"task": name, "test_split": "test", "output_type": "generate_until", "metric_list": [length]}
    return InMemory(config={**config, "doc_to_text": "q", "doc_to_target": "a", "generation_kwargs": {"until": ["\n"]}})


found = lm_eval.simple_evaluate(
    model=Silent(), tasks=[task("four", 4), task("twelve", 12)], limit=0.5, bootstrap_iters=0, num_fewshot=0
)
counts = {name: len(samples) for name, samples in found["samples"].items()}
print("half of four and of twelve documents:", counts)
sys.exit(int(counts != {"four": 2, "twelve": 6}))

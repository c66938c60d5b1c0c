"""The accuracy by mutual information, of log-likelihoods in the order in which the task asks for them."""

import sys

from lm_eval.api.task import ConfigurableTask

DOCUMENT = {"question": "q", "choices": ["a", "b", "c"], "answer": 1}
FOUND = {("q", " a"): -1.0, ("q", " b"): -2.0, ("q", " c"): -3.0, ("", "a"): -1.0, ("", "b"): -5.0, ("", "c"): -3.0}
metric = {"metric": "acc_mutual_info", "aggregation": "mean", "higher_is_better": True}
shape = {"task": "one", "test_split": "test", "doc_to_text": "question", "doc_to_target": "answer"}
options = {"output_type": "multiple_choice", "doc_to_choice": "choices", "metric_list": [metric]}


class InMemory(ConfigurableTask):
    """Releases before 0.4.9 load their data themselves."""

    def download(self, *_, **__):
        """One document."""
        from datasets import Dataset

        self.dataset = {"test": Dataset.from_list([DOCUMENT])}


task = InMemory(config={**shape, **options})
asked = task.construct_requests(DOCUMENT, "q", metadata=("one", 0, 1))
scores = task.process_results(
    DOCUMENT,
    [
        (FOUND[request.args[0], request.args[1] if request.args[0] else request.args[1].strip()], False)
        for request in asked
    ],
)
print("asked:", [request.args for request in asked])
print("b gains most by the question:", scores)
sys.exit(int(scores["acc_mutual_info"] != 1.0))

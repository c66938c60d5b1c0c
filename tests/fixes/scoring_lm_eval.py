"""A task and a model of lm-eval that need no network."""

from __future__ import annotations

import random
from pathlib import Path

DOCUMENTS = [{"id": f"q{number}", "q": f"{number}+1=", "a": str(number + 1)} for number in range(12)]
REPEATS = 5
KS = (1, 3)


def environment(folder):
    """Settings that lm-eval reads when it is imported: it stays off the network and out of its own package."""
    return {
        "DISABLE_MULTIPROC": "1",
        "LM_HARNESS_CACHE_PATH": str(folder),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def responses(prompt):
    """Return the model's next answer to a prompt: right about half of the time, and never the same way twice."""
    number = int(prompt.split("+")[0].split()[-1])
    draw = random.Random(number)
    return [str(number + 1) if draw.random() < 0.4 else f"wrong {turn}" for turn in range(REPEATS)]


def scripted_model():
    from lm_eval.api.model import LM

    class Scripted(LM):
        def __init__(self):
            super().__init__()
            self._turns = {}

        def generate_until(self, requests, disable_tqdm=False):
            answers = []
            for request in requests:
                turn = self._turns.setdefault(request.args[0], iter(responses(request.args[0])))
                answers.append(next(turn))
            return answers

        def loglikelihood(self, requests, disable_tqdm=False):
            raise NotImplementedError

        def loglikelihood_rolling(self, requests, disable_tqdm=False):
            raise NotImplementedError

    return Scripted()


def documents(**_):
    import datasets

    return {"test": datasets.Dataset.from_list(DOCUMENTS)}


def task(**config):
    from lm_eval.api.task import ConfigurableTask

    return ConfigurableTask(
        config={
            "task": "sums",
            "custom_dataset": documents,
            "test_split": "test",
            "output_type": "generate_until",
            "doc_to_text": "{{q}}",
            "doc_to_target": "a",
            "generation_kwargs": {"until": ["\n"]},
            "repeats": REPEATS,
            **config,
        }
    )


def evaluated(task, folder=None, **options):
    import lm_eval
    from lm_eval.tasks import TaskManager

    # By default it reads the thousands of tasks that lm-eval brings along.
    manager = TaskManager(include_path=folder, include_defaults=False)
    return lm_eval.simple_evaluate(
        model=scripted_model(), tasks=[task], task_manager=manager, bootstrap_iters=0, **options
    )


class Counted:
    """A score function that notes every call in a file, so that calls in other processes count."""

    def __init__(self, folder, score):
        self.folder = Path(folder)
        self.score = score

    def __call__(self, responses, document):
        with open(self.folder / "calls", "a") as file:
            file.write(".")
        return self.score(responses, document)

    @property
    def calls(self):
        path = self.folder / "calls"
        return path.stat().st_size if path.exists() else 0


def passes(responses, document):
    from pytest_evalcheck.fixes.scoring import pass_at

    return pass_at([response == document["a"] for response in responses], KS)


def expected():
    """The numbers, by the definition: no code of lm-eval's, none of ours."""
    from itertools import combinations
    from statistics import fmean

    made = {}
    for k in KS:
        shares = []
        for document in DOCUMENTS:
            right = [response == document["a"] for response in responses(document["q"])]
            shares.append(fmean(any(draw) for draw in combinations(right, k)))
        made[f"pass@{k}"] = fmean(shares)
    return made

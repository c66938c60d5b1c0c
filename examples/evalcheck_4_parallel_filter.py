"""A filter scores in parallel, and returns the scores in the order in which they are done.

The report: https://github.com/EleutherAI/lm-evaluation-harness/issues/2522
"""

from concurrent.futures import ThreadPoolExecutor, as_completed

import _small  # noqa: F401  (what lm_eval reads when it is imported)
from lm_eval.api.filter import Filter

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

NEEDS = ("lm_eval>=0.4.13,<0.5",)
RESPONSES = es.responses(max_repeats=3)


def simulate(responses, document):
    """Simulate each response once, for both numbers; `fixes.scoring.Numbers` aggregates each of them in a task."""
    right = [int(response) == int(document["answer"]) for response in responses]
    return {"pass@1": sum(right) / len(right), "pass@3": float(any(right))}


def expected(samples):
    return [simulate(responses, document) for document, responses in samples]


class InParallel(Filter):
    def __init__(self, score):
        self.score = score

    def apply(self, resps, docs):
        with ThreadPoolExecutor(4) as pool:
            jobs = [pool.submit(self.score, *pair) for pair in zip(resps, docs, strict=True)]
            return [job.result() for job in as_completed(jobs)]


@ec.scorer(inputs=RESPONSES, reference=expected, requires=NEEDS)
def faulty():
    return InParallel(simulate)


# EC401 every_document_gets_one_score_in_order (of InParallel in the target's file)
#     the scores are not in the order of their documents


@ec.scorer(inputs=RESPONSES, reference=expected, requires=NEEDS)
def mended():
    from pytest_evalcheck.fixes.scoring import ParallelFilter as InParallel

    return InParallel(simulate)

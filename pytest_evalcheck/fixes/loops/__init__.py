"""A correct evaluation loop: each part on its own, and `evaluate` with all of them (EC501 to EC508).

* `evaluating` (of `pytest_evalcheck.fixes`) restores the state of the model and of the random generators;
* `add_ids` and `IdCollator` put ids into batches, `PredictionsById` joins predictions by them over ranks, every
  sample once;
* `LossMean` and `sample_losses` keep sums and counts, `ExactLossTrainer` and `ExactLossMixin` do so for transformers;
* `transactional` and `retry_in_parts` let a batch that failed half way count once.

All of them import torch, and the two for transformers' Trainer import transformers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.lazy import lazy_exports

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.loops.evaluation import Evaluation as Evaluation
    from pytest_evalcheck.fixes.loops.evaluation import StepResult as StepResult
    from pytest_evalcheck.fixes.loops.evaluation import evaluate as evaluate
    from pytest_evalcheck.fixes.loops.evaluation import evaluating as evaluating
    from pytest_evalcheck.fixes.loops.losses import LossMean as LossMean
    from pytest_evalcheck.fixes.loops.losses import sample_losses as sample_losses
    from pytest_evalcheck.fixes.loops.oom_retry import retry_in_parts as retry_in_parts
    from pytest_evalcheck.fixes.loops.oom_retry import split_batch as split_batch
    from pytest_evalcheck.fixes.loops.oom_retry import transactional as transactional
    from pytest_evalcheck.fixes.loops.prediction_join import IdError as IdError
    from pytest_evalcheck.fixes.loops.prediction_join import JoinedPredictions as JoinedPredictions
    from pytest_evalcheck.fixes.loops.prediction_join import PredictionsById as PredictionsById
    from pytest_evalcheck.fixes.loops.ranks import gather_function as gather_function
    from pytest_evalcheck.fixes.loops.ranks import gather_objects as gather_objects
    from pytest_evalcheck.fixes.loops.sample_ids import BatchWithIds as BatchWithIds
    from pytest_evalcheck.fixes.loops.sample_ids import IdCollator as IdCollator
    from pytest_evalcheck.fixes.loops.sample_ids import IdentifiedSample as IdentifiedSample
    from pytest_evalcheck.fixes.loops.sample_ids import add_ids as add_ids
    from pytest_evalcheck.fixes.loops.trainer import ExactLossMixin as ExactLossMixin
    from pytest_evalcheck.fixes.loops.trainer import ExactLossTrainer as ExactLossTrainer

# transformers takes seconds to import.
__getattr__, __all__ = lazy_exports(
    __name__,
    {
        "evaluation": "Evaluation StepResult evaluate evaluating",
        "losses": "LossMean sample_losses",
        "oom_retry": "retry_in_parts split_batch transactional",
        "prediction_join": "IdError JoinedPredictions PredictionsById",
        "ranks": "gather_function gather_objects",
        "sample_ids": "BatchWithIds IdCollator IdentifiedSample add_ids",
        "trainer": "ExactLossMixin ExactLossTrainer",
    },
)

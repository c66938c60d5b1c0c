"""An evaluation loop, made right: each part on its own, and `evaluate` with all of them (EC501 to EC508).

* `lent` (of `pytest_evalcheck.fixes`) takes the model and the generators back as they were;
* `CarryIds` and `numbered` put ids into batches, `ById` joins predictions by them over ranks, every sample once;
* `LossMean` and `sample_losses` keep sums and counts, `ExactLossTrainer` and `ExactLossMixin` do so for transformers;
* `all_or_nothing` and `counted_once` let a batch that failed half way count once.

torch is all that they import, and transformers with the two that mend its Trainer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.lazy import lazily
from pytest_evalcheck.fixes.lending import lent
from pytest_evalcheck.fixes.loops.ids import Carried, CarryIds, Numbered, numbered
from pytest_evalcheck.fixes.loops.joining import ById, IdError, Joined
from pytest_evalcheck.fixes.loops.losses import LossMean, sample_losses
from pytest_evalcheck.fixes.loops.ranks import gather_with, gathered
from pytest_evalcheck.fixes.loops.reference import Evaluation, Step, evaluate
from pytest_evalcheck.fixes.loops.retry import all_or_nothing, counted_once, parts_of

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.loops.trainer import ExactLossMixin, ExactLossTrainer

__all__ = [
    "ById",
    "Carried",
    "CarryIds",
    "Evaluation",
    "ExactLossMixin",
    "ExactLossTrainer",
    "IdError",
    "Joined",
    "LossMean",
    "Numbered",
    "Step",
    "all_or_nothing",
    "counted_once",
    "evaluate",
    "gather_with",
    "gathered",
    "lent",
    "numbered",
    "parts_of",
    "sample_losses",
]

# transformers takes seconds to import.
__getattr__ = lazily(__name__, {"ExactLossMixin": "trainer", "ExactLossTrainer": "trainer"})

"""What a check is given: samples and a plan, as Hypothesis drew them.

Every case is plain data. It prints as valid Python, is read back from a replay blob or from the ``example``
of a known failure, and tells which regimes it reaches. Its ``strategy`` derives the plan from any `Samples`.
"""

from pytest_evalcheck.strategies.cases.batches import Batch, Padded, Pair, Rowwise
from pytest_evalcheck.strategies.cases.decoding import (
    STEPS,
    Beside,
    Ending,
    Overrun,
    Pieces,
    Program,
    Prompts,
    even,
)
from pytest_evalcheck.strategies.cases.documents import Crowd, Documents, Odd, OneOfMany
from pytest_evalcheck.strategies.cases.hostile import Contrast, Ignored, Poisoned, Rejected
from pytest_evalcheck.strategies.cases.interrupted import MODES, Exhausted, Interrupted, Spoilt
from pytest_evalcheck.strategies.cases.loops import Evaluation, Gathered, Sequel, Spread
from pytest_evalcheck.strategies.cases.plan import Case, Cut, Rows, cuts, explicit, pick
from pytest_evalcheck.strategies.cases.precision import Cast, LowPrecision
from pytest_evalcheck.strategies.cases.streams import FirstBatch, Gaps, Processes, Reordered, Shards, Stream
from pytest_evalcheck.strategies.cases.turns import Again, Fewer, Filled, TooMany

__all__ = [
    "MODES",
    "STEPS",
    "Again",
    "Batch",
    "Beside",
    "Case",
    "Cast",
    "Contrast",
    "Crowd",
    "Cut",
    "Documents",
    "Ending",
    "Evaluation",
    "Exhausted",
    "Fewer",
    "Filled",
    "FirstBatch",
    "Gaps",
    "Gathered",
    "Ignored",
    "Interrupted",
    "LowPrecision",
    "Odd",
    "OneOfMany",
    "Overrun",
    "Padded",
    "Pair",
    "Pieces",
    "Poisoned",
    "Processes",
    "Program",
    "Prompts",
    "Rejected",
    "Reordered",
    "Rows",
    "Rowwise",
    "Sequel",
    "Shards",
    "Spoilt",
    "Spread",
    "Stream",
    "TooMany",
    "cuts",
    "even",
    "explicit",
    "pick",
]

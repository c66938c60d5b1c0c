"""Scoring that is slow, made parallel: the same scores, in the same order, with every failure named (EC401 to EC408).

`score_documents` gives a list, `stream_scores` an iterator. Documents are scored in this process, in threads, in
processes (pebble), or on a Dask or Ray cluster. `pytest_evalcheck.fixes.scoring.harness` brings both to lm-eval.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.lazy import lazily
from pytest_evalcheck.fixes.scoring.api import Scores, score_documents, stream_scores
from pytest_evalcheck.fixes.scoring.cache import ScoreCache
from pytest_evalcheck.fixes.scoring.errors import DocumentError, ScoringError, SetupError
from pytest_evalcheck.fixes.scoring.numbers import Number, NumberError, Numbers, Summary, pass_at
from pytest_evalcheck.fixes.scoring.scheduler import RunReport
from pytest_evalcheck.fixes.scoring.seeding import document_seed
from pytest_evalcheck.fixes.scoring.stream import ScoreStream

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.scoring.harness import ParallelFilter

__all__ = [
    "DocumentError",
    "Number",
    "NumberError",
    "Numbers",
    "ParallelFilter",
    "RunReport",
    "ScoreCache",
    "ScoreStream",
    "Scores",
    "ScoringError",
    "SetupError",
    "Summary",
    "document_seed",
    "pass_at",
    "score_documents",
    "stream_scores",
]

# It is a class of lm-eval's, which takes seconds to import.
__getattr__ = lazily(__name__, {"ParallelFilter": "harness"})

"""The kinds of target, and what a check may call on each."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.subjects.decoding import DecoderSubject
from pytest_evalcheck.subjects.loop_live import LoopSubject
from pytest_evalcheck.subjects.metric import MetricSubject
from pytest_evalcheck.subjects.scorer import ScorerSubject
from pytest_evalcheck.subjects.wrapper import WrapperSubject

SUBJECTS: dict[str, Any] = {
    "decoder": DecoderSubject,
    "loop": LoopSubject,
    "metric": MetricSubject,
    "scorer": ScorerSubject,
    "wrapper": WrapperSubject,
}
"""By kind. Each has the fields of `Made`."""

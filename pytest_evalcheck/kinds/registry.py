"""The kinds of target, and what a check may call on each."""

from __future__ import annotations

from typing import Any

from pytest_evalcheck.kinds.decoder.subject import DecoderSubject
from pytest_evalcheck.kinds.loop.subject import LoopSubject
from pytest_evalcheck.kinds.metric.subject import MetricSubject
from pytest_evalcheck.kinds.scorer.subject import ScorerSubject
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject

SUBJECTS: dict[str, Any] = {
    "decoder": DecoderSubject,
    "loop": LoopSubject,
    "metric": MetricSubject,
    "scorer": ScorerSubject,
    "wrapper": WrapperSubject,
}
"""By kind. Each has the fields of `Subject`."""

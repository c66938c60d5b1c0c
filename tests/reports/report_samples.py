"""Reports to look at, and cells that Hypothesis makes as hostile as text can be."""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from pytest_evalcheck.reports.results import OUTCOMES, Cell, Failure, Report

NAMES = {
    "EC201": "cutting_a_stream_does_not_change_the_value",
    "EC203": "merging_shards_gives_the_value_of_the_whole",
    "EC204": "reset_restores_the_initial_state",
    "EC210": "a_rejected_batch_does_not_change_the_state",
}


PLACE = "KeyError at lm.py:7 (f)"
"""The origin of an error."""


def cell(target: str = "evalcheck_lm.py::accuracy", code: str = "EC201", outcome: Any = "passed", **more: Any) -> Cell:
    return Cell(
        **{
            "target": target,
            "kind": "metric",
            "check": NAMES.get(code, "a_promise_of_somebody_else"),
            "code": code,
            "device": "cpu",
            "outcome": outcome,
            **more,
        }
    )


def failure(about: str = "the value after merging the shards", **more: Any) -> Failure:
    return Failure(about=about, **more)


def small() -> Report:
    """Three files, every outcome, one cause with several hits."""
    replay = "pytest --evalcheck 'evalcheck_lm.py::accuracy::merging_shards[cpu]' --evalcheck-replay=AAEC"
    leak = {
        "outcome": "failed",
        "cause": "leak: default dtype",
        "reason": "the target left float64 behind as the default dtype",
        "failure": failure(
            "the default dtype",
            expected="torch.float32",
            actual="torch.float64",
            untestable=True,
            reproduce="pytest --evalcheck 'evalcheck_text.py::bleu::reset[cpu]' --evalcheck-replay=AAAA",
        ),
    }
    known = {"outcome": "known", "reason": "a rejected batch is counted", "see": "Lightning-AI/torchmetrics#2345"}
    return Report(
        [
            cell("evalcheck_text.py::bleu", "EC204", **leak),
            cell(code="EC210", **known),
            cell(
                code="EC203",
                outcome="failed",
                reason="the value after merging the shards: expected 0.5, got 0.25",
                failure=failure(
                    expected="0.5",
                    actual="0.25",
                    detail="at [0]\nand 2 more numbers",
                    case={"samples": [(0, float("inf"))], "shards": [[0], []]},
                    statement="The value does not depend on the number of shards.",
                    usual_cause="an average of averages",
                    fix="pytest_evalcheck.fixes.WeightedMean",
                    transfers=("cuda:0 -> cpu: 1 transfer, 4 bytes", "  lm.py:7: item: cuda:0 -> cpu, 1 time, 4 bytes"),
                    traceback="Traceback (most recent call last):\n  ZeroDivisionError",
                    location="evalcheck_lm.py:12",
                    reproduce=replay,
                ),
                seconds=1.5,
            ),
            cell(code="EC201", seconds=12.345),
            cell(code="EC204", outcome="not applicable", reason="it has no reset"),
            cell("evalcheck_lm.py::f1", "EC201", examples=7, conditions={"last batch of 1": 7, "all of size 1": 0}),
            cell("evalcheck_lm.py::f1", "EC203"),
            cell("evalcheck_lm.py::f1", "EC204", outcome="known", reason="the inner metric is kept"),
            cell("evalcheck_lm.py::f1", "EC210", **known),
            cell("evalcheck_text.py::bleu", "EC201", **leak),
            cell("evalcheck_text.py::rouge", "EC201", "not run", reason="nltk is not installed"),
            cell("evalcheck_text.py::rouge", "EC204", "not run", reason="nltk is not installed"),
            cell("evalcheck_mean.py::mean", "EC201"),
            cell("evalcheck_mean.py::mean", "EC203"),
        ]
    )


_PIECES = (
    "|", "\\", "\n", "\r", "\t", " ", "`", "```", "~~~", "*", "_", "#", "- ", "1. ", "---", "===", "> ", "<!--", "</details>",
    "<b>", "&lt;", "&#124;", "[a](b)", "![", "$x$", "@all", ":tada:", "org/repo#12", "https://a.b/c_d?e=1&f=2",
    "\x1b[31m", "\x1b]8;;http://a\x07", "\x1b]0;", "\x9b1m", "\x00", "\x07", "\x7f", "\x85", "\u2028", "\u202e", "\u200d", "\ufeff",
    "\ud83d", "\udc80", "表", "é", "e\u0301", "👨‍👩‍👧", "🇨🇭", "\u00a0", "::", "evalcheck_", "x" * 90, "EC201", "NaN", '"', "'",
)  # fmt: skip
_characters = st.integers(0, sys.maxunicode).map(chr)
texts = st.lists(st.sampled_from(_PIECES) | _characters, max_size=8).map("".join)
words = texts.filter(str.strip)

plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.binary(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(texts | st.integers(), inner, max_size=2)
    ),
    max_leaves=4,
)
failures = st.builds(
    Failure,
    **dict.fromkeys(
        (
            "about",
            "expected",
            "actual",
            "detail",
            "statement",
            "usual_cause",
            "fix",
            "traceback",
            "location",
            "reproduce",
        ),
        texts,
    ),
    untestable=st.booleans(),
    case=st.none() | st.dictionaries(texts, plain_values, max_size=3),
    origin=st.sampled_from(["", "KeyError", PLACE]) | texts,
    own=st.sampled_from(["", "RunningMean"]),
    after=st.lists(st.sampled_from(["EC201", "EC202", "EC203"]) | texts, max_size=2).map(tuple),
    given=st.lists(texts, max_size=2).map(tuple),
    transfers=st.lists(texts, max_size=2).map(tuple),
)
cells = st.builds(
    Cell,
    target=st.one_of(
        words, st.builds("{}::{}".format, words, words), st.sampled_from(["a.py::m", "a.py::n", "b.py::m"])
    ),
    kind=st.sampled_from(["metric", "wrapper", ""]),
    check=texts,
    code=st.sampled_from(["EC201", "EC202", "EC203", "EC210", "EC601", "ACME1", ""]) | words,
    device=st.sampled_from(["cpu", "sim:mps"]) | texts,
    outcome=st.sampled_from(OUTCOMES),
    reason=texts,
    cause=st.just("") | texts,
    see=texts,
    upstream=st.sampled_from(["", "library-cache"]) | texts,
    class_name=st.sampled_from(["", "library.Metric"]),
    signature=st.sampled_from(["", "EC201 the value"]),
    planned=st.integers(0, 1000),
    seconds=st.floats(min_value=0, max_value=1e5),
    examples=st.integers(0, 1000),
    conditions=st.dictionaries(texts, st.integers(0, 2), max_size=3),
    failure=st.none() | failures,
    file=texts,
    line=st.integers(0, 10**6),
)
reports = st.lists(cells, max_size=8).map(Report)

# A report is large and its rendering is not what is timed here.
thorough = settings(max_examples=50, deadline=None)

"""Traces of two targets: what each does with every document step by step, and the first step at which they part."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from pytest_evalcheck.reports import ReportError, write_file
from pytest_evalcheck.reports.results import plural
from pytest_evalcheck.reports.text import clip, line

FORMAT = "pytest-evalcheck trace 1"
STEPS = ("sample", "prompt", "ids", "parameters", "logits", "log-probabilities", "tokens", "text", "answer", "score")
"""The steps in the order of an evaluation."""
_EXPLAINED = {
    "sample": "the targets are given other documents: compare their inputs",
    "prompt": "the prompts are other texts: the template, the few-shot examples or the harness",
    "ids": "the same text has other tokens: the tokenizer, or special tokens that are added once more",
    "parameters": "the engines are asked for something else: limits, stop strings, the temperature or the seed",
    "logits": "the same tokens have other logits: the weights, the dtype, a cache or a kernel",
    "log-probabilities": "the same tokens have other log-probabilities: the weights, the dtype, a cache or a kernel",
    "tokens": "the logits agree and the choice does not: sampling, a tie, or a bias",
    "text": "the same tokens make another text: decoding, or the cut at a stop string",
    "answer": "the same text gives another answer: a filter or an extraction",
    "score": "the same answer gets another mark: the metric, its reference or its aggregation",
}
_BEGINNING = "one answer is the beginning of the other: a limit of tokens, or what ends an answer"
_WIDTH = 100
_NUMBERS = ("logits", "log-probabilities", "answer")
"""Steps whose numbers may lie apart by the tolerance: the answer of a harness can be a log-probability."""


@dataclass(frozen=True)
class Trace:
    """The steps of every document by name, and facts of the target such as its dtype and the installed versions."""

    name: str
    facts: Mapping[str, str]
    documents: Sequence[Mapping[str, Any]]

    def save(self, path: Path) -> None:
        """Write it as JSON; raises `OSError` when the file cannot be written."""
        data = {"format": FORMAT, "name": self.name, "facts": dict(self.facts), "documents": list(self.documents)}
        write_file(json.dumps(data, indent=1, ensure_ascii=False).encode(), path)

    @classmethod
    def load(cls, path: Path) -> Trace:
        """Read a saved trace.

        Raises:
            ReportError: when the file is none.
        """
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if data["format"] != FORMAT:
                raise ReportError(f"{path} has the format {data['format']!r}; expected {FORMAT!r}")
            return cls(str(data["name"]), dict(data["facts"]), [dict(document) for document in data["documents"]])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ReportError(f"{path} is no trace ({error!r}); expected what diff --save writes") from error


@dataclass(frozen=True)
class DocumentDifference:
    """The first step at which two traces of a document part."""

    index: int
    step: str
    first: Any
    second: Any
    flips: bool
    """True if the last step that both have differs, too: the mark, or the answer where there is no mark."""


@dataclass(frozen=True)
class TraceComparison:
    """Two traces, document by document."""

    first: Trace
    second: Trace
    tolerance: float = 1e-3
    drift: Mapping[str, float] = field(default_factory=dict)
    """The largest distance of numbers of a step, as far as the tokens before them are the same."""
    differences: Sequence[DocumentDifference] = ()

    @classmethod
    def of(cls, first: Trace, second: Trace, tolerance: float = 1e-3) -> TraceComparison:
        """Compare two traces; numbers may lie apart by the tolerance, scores are compared exactly."""
        drift: dict[str, float] = {}
        found = []
        for index, (one, other) in enumerate(zip(first.documents, second.documents, strict=False)):
            common = [step for step in STEPS if step in one and step in other]
            for step in common:
                apart = _distance(one, other, step)
                drift[step] = max(drift.get(step, 0.0), apart) if math.isfinite(apart) else drift.get(step, 0.0)
            parted = [step for step in common if not _agree(one, other, step, tolerance)]
            if parted:
                step = parted[0]
                found.append(DocumentDifference(index, step, one[step], other[step], common[-1] == parted[-1]))
        return cls(first, second, tolerance, {step: far for step, far in drift.items() if far}, found)

    @property
    def step(self) -> str:
        """The first step at which any document parts; empty where none does."""
        return min((each.step for each in self.differences), key=STEPS.index, default="")

    @property
    def count(self) -> int:
        """Number of documents that are compared."""
        return min(len(self.first.documents), len(self.second.documents))

    @property
    def flips(self) -> list[int]:
        """The documents whose mark flips, or whose answer does where there are no marks."""
        return [each.index for each in self.differences if each.flips]

    @property
    def explanation(self) -> list[str]:
        """Sentences: what a difference at the first step is about, and the facts in which the targets differ."""
        names = sorted({*self.first.facts, *self.second.facts})
        pairs = [(name, self.first.facts.get(name, "none"), self.second.facts.get(name, "none")) for name in names]
        facts = [f"{name}: {one} and {other}" for name, one, other in pairs if one != other]
        if not self.step:
            return facts
        pairs_of_lists = [(e.first, e.second) for e in self.differences if e.step == self.step == "tokens"]
        begins = pairs_of_lists and all(_is_beginning(one, other) for one, other in pairs_of_lists)
        return [_BEGINNING if begins else _EXPLAINED[self.step], *facts]

    def lines(self) -> Iterator[str]:
        """The comparison as lines of a terminal."""
        one, other = self.first.name, self.second.name
        yield f"{one} and {other}, {plural(self.count, 'document')}"
        if len(self.first.documents) != len(self.second.documents):
            yield f"  they have {len(self.first.documents)} and {len(self.second.documents)} documents"
        if not self.step:
            yield "  no step differs"
        else:
            yield f"  first step that differs: {self.step}, in {plural(len(self.differences), 'document')}"
            yield f"  the last step flips for {len(self.flips)} of {self.count}" + _listed(self.flips)
        yield from (f"  {step}: at most {far:.3g} apart" for step, far in self.drift.items())
        yield from (f"  {sentence}" for sentence in self.explanation)
        for each in sorted(self.differences, key=lambda found: STEPS.index(found.step))[:3]:
            yield f"  document {each.index}, {each.step}"
            yield f"    {clip(line(_shown(each.first, each.second)), _WIDTH)}"
            yield f"    {clip(line(_shown(each.second, each.first)), _WIDTH)}"

    def as_json(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return {
            "format": "pytest-evalcheck diff 1",
            "targets": [self.first.name, self.second.name],
            "documents": self.count,
            "step": self.step,
            "flips": self.flips,
            "drift": dict(self.drift),
            "explanation": self.explanation,
            "differences": [vars(each) for each in self.differences],
        }

    def html(self) -> str:
        """The comparison as a page that needs nothing else."""
        head = ("document", "first step", self.first.name, self.second.name, "mark")
        rows = [
            (str(each.index), each.step, _shown(each.first, each.second), _shown(each.second, each.first), mark)
            for each, mark in ((each, "flips" if each.flips else "") for each in self.differences)
        ]
        table = [_row("th scope=col", head), *(_row("td", row) for row in rows)]
        summary = [*self.lines()][: -3 * min(3, len(rows)) or None]
        title = escape(f"{self.first.name} and {self.second.name}")
        return _PAGE.format(
            title=title, summary="".join(f"<p>{escape(text.strip())}</p>" for text in summary), table="".join(table)
        )


_PAGE = """<!doctype html>
<html lang=en><meta charset=utf-8><title>{title}</title>
<style>
body {{ font: 16px sans-serif; margin: 2em }}
td, th {{ border: 1px solid #767676; padding: .3em; text-align: left; vertical-align: top; white-space: pre-wrap }}
</style>
<h1>{title}</h1>{summary}<table>{table}</table></html>
"""


def _row(tag: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag[:2]}>" for cell in cells) + "</tr>\n"


def _agree(one: Mapping[str, Any], other: Mapping[str, Any], step: str, tolerance: float) -> bool:
    if step in _NUMBERS:
        return _distance(one, other, step) <= tolerance
    return bool(one[step] == other[step] or str(one[step]) == str(other[step]))  # NaN is NaN


def _distance(one: Mapping[str, Any], other: Mapping[str, Any], step: str) -> float:
    """The largest distance of two lists of numbers, up to the first other token; infinite where they are not alike."""
    first, second = one[step], other[step]
    if step not in _NUMBERS:
        return 0.0
    if step == "log-probabilities" and isinstance(first, list) and "tokens" in one and "tokens" in other:
        pairs = zip(one["tokens"], other["tokens"], strict=False)
        same = next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
        first, second = first[:same], second[:same]
    return _apart(first, second)


def _apart(one: Any, other: Any) -> float:
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(_apart, one, other), default=0.0)
    if isinstance(one, float) and isinstance(other, float) and math.isfinite(one - other):
        return abs(one - other)
    return 0.0 if str(one) == str(other) else math.inf  # NaN is NaN


def _is_beginning(one: Any, other: Any) -> bool:
    shorter, longer = sorted((one, other), key=len)
    return bool(longer[: len(shorter)] == shorter)


def _shown(value: Any, beside: Any) -> str:
    """A value from the place on where it differs from another one."""
    text, other = (each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in (value, beside))
    start = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    return f"...{text[start - 20 :]}" if start > 40 else text


def _listed(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return f": {', '.join(map(str, numbers[:10]))}{more}" if numbers else ""

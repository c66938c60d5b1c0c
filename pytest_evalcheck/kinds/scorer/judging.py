"""The record of a scorer that asks a judge, and judges that give planned answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Judge = Callable[[str], str]
"""``judge(prompt)`` returns the text of an answer, as a model that judges does."""
REFUSAL = "I'm sorry, but I can't help with that."


def is_unscored(score: Any) -> bool:
    """Return whether a score says that there is none: None, NaN, an error, or a mapping of these alone.

    >>> is_unscored(None), is_unscored({"grade": float("nan")}), is_unscored(0.0), is_unscored({})
    (True, True, False, True)
    """
    if isinstance(score, Mapping):
        return all(map(is_unscored, score.values()))
    return score is None or isinstance(score, BaseException) or (isinstance(score, float) and math.isnan(score))


@dataclass(frozen=True, kw_only=True)
class Judging:
    """A scorer that asks a judge, with another judge in its place."""

    score: Callable[[Judge, Any, Any], Iterable[Any]]
    """``score(judge, responses, documents)`` returns one score per document."""
    verdicts: Sequence[str]
    """Answers of a judge that are parsed, such as ``"GRADE: C"``; at least two, of different scores."""
    unscored: Callable[[Any], bool] = is_unscored
    """Function that tells whether a score says that the document has none."""
    takes: str = ""
    """The verdict that counts of an answer with several, as documented: ``first`` or ``last``; empty for none."""
    pairwise: tuple[Any, Any] | None = None
    """The scores where the first of two responses is better, and where the second is, if a judge is asked for that.
    The first two ``verdicts`` then name the first and the second text of a prompt."""

    def __post_init__(self) -> None:
        if isinstance(self.verdicts, str) or len(set(self.verdicts)) < 2:
            raise TypeError(f"verdicts={self.verdicts!r}; expected at least two different answers of a judge")
        if self.takes not in ("", "first", "last"):
            raise TypeError(f"takes={self.takes!r}; expected 'first', 'last' or ''")

    @property
    def several(self) -> str:
        """An answer with two verdicts."""
        return f"{self.verdicts[0]}\n{self.verdicts[1]}"

    def unparsable(self) -> dict[str, Judge]:
        """Judges by what is wrong with their answers: nothing in them is a verdict."""
        cut = self.verdicts[0][: len(self.verdicts[0]) // 2]
        answers = {"empty": "", "blank": " \n", "refused": REFUSAL, "cut off": cut, "unrelated": "Here is my analysis."}
        judges: dict[str, Judge] = {name: _says(text) for name, text in answers.items()}
        return {**judges, "late": _is_late} if self.takes else {**judges, "late": _is_late, "two": _says(self.several)}


def _says(text: str) -> Judge:
    return lambda _prompt: text


def _is_late(_prompt: str) -> str:
    raise TimeoutError("the judge did not answer in time")


@dataclass
class Preferring:
    """A judge that prefers one of two texts at either place in the prompt."""

    text: str
    other: str
    verdicts: Sequence[str]
    asked: int = 0
    """Number of prompts with both texts."""

    def __call__(self, prompt: str) -> str:
        places = [prompt.find(text) for text in (self.text, self.other)]
        self.asked += min(places) >= 0
        return self.verdicts[0 if places[0] < places[1] else 1]

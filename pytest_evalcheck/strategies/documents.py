"""Documents of tasks, and the texts by which a right answer may be given: rewritings, and answers that are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st

from pytest_evalcheck.errors import nearest
from pytest_evalcheck.strategies.samples import SampleStrategy

_NUMBER = re.compile(r"-?(\d{1,3}(,\d{3})+|\d+)(\.\d+)?")
_LETTER = re.compile(r"[A-Z]")
_SENTENCE = re.compile(r"[^\W\d_]+( [^\W\d_]+){2,}")
_LISTED = {"and", "or"}
_CODE = re.compile(r"[\\{}_=<>]")


@dataclass(frozen=True)
class Rewriting:
    """Another text of the same answer.

    Known are, by name: ``decimal`` (29.0), ``cents`` (29.00), ``thousands`` (29,000), ``no thousands``, ``dollars``,
    ``lower case``, ``upper case``, ``stripped`` (no white space around it); ``parentheses`` (of a letter), ``bold``,
    ``boxed``, ``sentence`` and ``comma`` (a sentence that goes on); of the whole response ``full stop`` and
    ``spaces``, ``explanation`` and ``thinking``.
    """

    rewrite: Callable[[str], str | None]
    """From the text of an answer, or of a whole response, to an equal one; None where it has no such form."""
    of: Literal["notation", "answer", "response"] = "answer"
    """The part that is rewritten: the notation of a value (``29.0``), or what stands around the answer (``**29**``) or
    around the whole response, such as thoughts before it."""


def _number_rewriting(rewrite: Callable[[str], str | None]) -> Rewriting:
    return Rewriting(lambda text: rewrite(text) if _NUMBER.fullmatch(text) else None, "notation")


def _case_rewriting(rewrite: Callable[[str], str]) -> Rewriting:
    def changed(text: str) -> str | None:
        other = rewrite(text)
        # A program or a formula is another one in letters of another case.
        return None if other == text or _CODE.search(text) or other.casefold() != text.casefold() else other

    return Rewriting(changed, "notation")


REWRITINGS: Mapping[str, Rewriting] = {
    "decimal": _number_rewriting(lambda text: None if "." in text else f"{text}.0"),
    "cents": _number_rewriting(lambda text: None if "." in text else f"{text}.00"),
    "thousands": _number_rewriting(lambda text: _grouped(text) if _grouped(text) != text else None),
    "no thousands": _number_rewriting(lambda text: text.replace(",", "") if "," in text else None),
    "dollars": _number_rewriting(lambda text: f"-${text[1:]}" if text.startswith("-") else f"${text}"),
    "lower case": _case_rewriting(str.lower),
    "upper case": _case_rewriting(str.upper),
    "stripped": Rewriting(lambda text: text.strip() if text != text.strip() else None, "notation"),
    "parentheses": Rewriting(lambda text: f"({text})" if _LETTER.fullmatch(text) else None),
    "bold": Rewriting(lambda text: f"**{text}**"),
    "boxed": Rewriting(lambda text: rf"\boxed{{{text}}}"),
    "sentence": Rewriting(lambda text: f"The answer is {text}" + ("" if text.endswith(".") else ".")),
    "comma": Rewriting(lambda text: f"The answer is {text}, in total, as asked." if _NUMBER.fullmatch(text) else None),
    "full stop": Rewriting(lambda text: f"{text}." if text[-1:].isalnum() else None, "response"),
    "spaces": Rewriting(lambda text: f" {text} ", "response"),
    "explanation": Rewriting(lambda text: f"The steps are as follows.\n\n{text}", "response"),
    "thinking": Rewriting(lambda text: f"<think>\nThis is easy.\n</think>\n\n{text}", "response"),
}
"""Rewritings of a right answer, by name, in the order in which several are applied."""


def _grouped(text: str) -> str:
    whole, point, rest = text.replace(",", "").partition(".")
    sign, digits = ("-", whole[1:]) if whole.startswith("-") else ("", whole)
    return f"{sign}{int(digits):,}{point}{rest}" if not digits.startswith("0") else text


def rewritten(
    answer: str,
    names: Iterable[str],
    *,
    rewritings: Mapping[str, Rewriting] = REWRITINGS,
    response: Callable[[str], str] = lambda answer: answer,
) -> str | None:
    """Return the response that gives an answer with some rewritings, or None where one of them does not apply.

    ``response`` puts an answer into the form that a prompt asks for. A sentence around the answer is none of that form.

    >>> rewritten("29", ["dollars", "cents", "bold"])
    '**$29.00**'
    """
    chosen = [rewritings[name] for name in rewritings if name in {*names}]
    text: str | None = answer
    for each in (each for each in chosen if each.of != "response"):
        text = each.rewrite(text) if text is not None else None
    if text is None or ({"sentence", "comma"} & {*names} and response(answer) != answer):
        return None
    text = response(text)
    for each in (each for each in chosen if each.of == "response"):
        text = each.rewrite(text) if text is not None else None
    return text


def answers_of(
    document: Any,
    *,
    answer: str = "answer",
    rewritings: Mapping[str, Rewriting | Callable[[str], str | None]] | None = None,
    unequal: Iterable[str] = (),
    response: Callable[[str], str] = lambda answer: answer,
) -> st.SearchStrategy[str]:
    """Strategy of responses that give the right answer of a document: itself, and rewritings of it.

    ``document`` is the answer as a text, or a mapping whose field ``answer`` holds it. ``rewritings`` are your own, by
    name, beside those that are known (`Rewriting`). ``unequal`` names rewritings that are another answer here:
    ``"dollars"`` where the unit is asked for. A failing one shrinks to the fewest rewritings.

    Raises:
        ValueError: for a document without such an answer, or a name that is no rewriting.

    >>> from hypothesis import find
    >>> find(answers_of("29"), lambda text: "$" in text)
    '$29'
    """
    gold = document.get(answer) if isinstance(document, Mapping) else document
    if not isinstance(gold, str) or not gold:
        raise ValueError(f"{document!r} has no answer; expected a text, or a mapping with a text {answer!r}")
    known = _with_known(rewritings, unequal)

    def written(names: Sequence[str]) -> str | None:
        return rewritten(gold, names, rewritings=known, response=response)

    names = [name for name in known if name not in {*unequal} and written([name]) is not None]
    lists = st.lists(st.sampled_from(names), max_size=3, unique=True) if names else st.just([])
    return lists.map(written).filter(lambda text: text is not None)  # type: ignore[return-value]


def _with_known(
    own: Mapping[str, Rewriting | Callable[[str], str | None]] | None, unequal: Iterable[str]
) -> Mapping[str, Rewriting]:
    """Return all rewritings; those that are given as functions stand around an answer.

    Raises:
        ValueError: where ``unequal`` names what is none, with the nearest name.
    """
    found = {name: each if isinstance(each, Rewriting) else Rewriting(each) for name, each in (own or {}).items()}
    known = {**REWRITINGS, **found}
    for name in unequal:
        if name not in known:
            raise ValueError(f"{name!r} is no rewriting{nearest(str(name), known)}; expected one of {', '.join(known)}")
    return known


def wrong_answers(answer: str) -> Iterator[str]:
    """Yield answers that are near the right one and wrong: other numbers that hold its digits, another letter.

    Of three words or more the first and the last change places. The items of a list may have any order.

    >>> list(wrong_answers("29"))
    ['30', '290', '129', '-29', '2.9']
    >>> list(wrong_answers("Ada beat Boris"))
    ['Boris beat Ada']
    """
    if _NUMBER.fullmatch(answer):
        plain = answer.replace(",", "")
        value, whole, digits = float(plain), "." not in plain, plain.lstrip("-")
        yield str(int(value) + 1) if whole else f"{value + 1:g}"
        if whole and value:
            yield f"{plain}0"
        yield f"1{digits}"
        if value:
            yield digits if value < 0 else f"-{plain}"
        if whole and len(digits) > 1 and not digits.endswith("0"):
            yield f"{plain[:-1]}.{plain[-1]}"
    elif _LETTER.fullmatch(answer):
        yield "A" if answer != "A" else "B"
    elif _SENTENCE.fullmatch(answer) and not _LISTED & {*answer.casefold().split()}:
        first, *others, last = answer.split()
        if first.casefold() != last.casefold():
            yield " ".join([last, *others, first])


EMPTY = ("", " ", "\n")
"""Responses that give no answer."""
REFUSALS = ("I cannot answer that.", "I'm sorry, but I can't help with that.", "N/A")
"""Responses that refuse to answer."""


@dataclass(frozen=True, kw_only=True)
class Documents(SampleStrategy):
    """A strategy of documents of a task, by their index, with what may be another text of their answers."""

    documents: Sequence[Any] = ()
    """The documents; none for those of the task."""
    rewritings: Mapping[str, Rewriting] = field(default_factory=lambda: REWRITINGS)
    unequal: Mapping[str, str] = field(default_factory=dict)
    """Rewritings that are another answer in this task, with the reason."""

    def fixed(self, count: int) -> list[int]:
        """The first ``count`` documents."""
        return list(range(count))


def documents(
    rows: Sequence[Any] = (),
    *,
    rewritings: Mapping[str, Rewriting | Callable[[str], str | None]] | None = None,
    unequal: Mapping[str, str] | None = None,
) -> Documents:
    """Documents of a task: those that are given, or those of the task itself.

    A sample is the index of a document, counted around where there are fewer. ``rewritings`` are your own, by name:
    another text of the same answer. ``unequal`` gives the reason why a rewriting, yours or a known one (`Rewriting`),
    is another answer in this task.

    >>> documents([{"question": "2 + 3 = ?", "answer": "5"}]).fixed(2)
    [0, 1]

    Raises:
        TypeError: where ``rows`` is no sequence.
        ValueError: where ``unequal`` names what is no rewriting, or gives no reason.
    """
    if isinstance(rows, (str, bytes, Mapping)) or not (hasattr(rows, "__getitem__") and hasattr(rows, "__len__")):
        raise TypeError(f"{rows!r:.100} is no sequence of documents; expected a list of them")
    known = _with_known(rewritings, unequal or {})
    for name, reason in (unequal or {}).items():
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"unequal[{name!r}] is {reason!r}; expected the reason as text")
    return Documents(
        name="documents",
        sample=st.integers(0, _FEW - 1) | st.integers(0, _MOST - 1),
        collate=list,
        distinct=lambda index: index,
        documents=rows,
        rewritings=known,
        unequal=dict(unequal or {}),
    )


_FEW, _MOST = 8, 1000
"""Numbers of documents that cases are about: of the first ones, which a smallest input has, and of all."""

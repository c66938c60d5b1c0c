"""A decoder in use, what it answers to rows, and how answers are held against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised, Tolerance, difference
from pytest_evalcheck.expectations.failures import expect, inconclusive, refused
from pytest_evalcheck.kinds.common.calling import TargetError, attempt
from pytest_evalcheck.kinds.common.subject import Rows, Subject
from pytest_evalcheck.kinds.common.tensor_search import find_tensors
from pytest_evalcheck.kinds.decoder.cached_decoding import Conversation
from pytest_evalcheck.kinds.decoder.calls import Calls, Ids
from pytest_evalcheck.kinds.decoder.generation import greedy
from pytest_evalcheck.kinds.decoder.record import Decoder

NEW = 3
"""How many tokens are generated where their number is not the point."""


class Live(Calls):
    """One decoder in one precision."""

    def __init__(self, record: Decoder, device: str, tolerance: Tolerance, *, last: bool) -> None:
        super().__init__(record, device)
        self.tolerance, self.last, self.again = tolerance, last, False

    @property
    def ways(self) -> tuple[str, ...]:
        """How it decodes with a cache: by ``step``, by ``generate``, or both."""
        return tuple(name for name in ("step", "generate") if getattr(self.record, name) is not None)

    def offers(self, operation: str) -> bool:
        """Whether the cache has an operation."""
        return operation in self.record.operations

    def refuses(self, what: str) -> bool:
        """Whether it may refuse something that others may not."""
        return what in self.record.refuses

    def declared(self, found: Any, what: str) -> bool:
        """Whether this is an error that the decoder says it raises; such a case says nothing about a promise."""
        declared = isinstance(found, Raised) and self.refuses(what)
        if declared:
            inconclusive(f"it says that it refuses {what}, and does: {found}")
        return declared

    def room(self, rows: Ids, spare: int = 0) -> list[list[int]]:
        """As many rows as a cache takes, cut so that it has room for ``spare`` more tokens."""
        most = None if self.record.capacity is None else max(1, self.record.capacity - spare)
        return [list(row[:most]) for row in rows[: self.record.max_rows]]

    def start(self, rows: int) -> Conversation:
        """A new cache for so many rows."""
        return Conversation(self, rows)

    def answers(self, way: str, conversation: Conversation, rows: Ids) -> Any:
        """What rows of one length get: their logits, the last token by itself; or `NEW` tokens; or the error."""
        if way == "generate":
            return conversation.error or self.generate(rows, conversation.cache, NEW)
        length = len(rows[0])
        return conversation.feed_pieces(rows, [length - 1, 1] if length > 1 else [1])

    def fresh(self, way: str, rows: Ids, made_for: int = 0) -> Any:
        """The same with a new cache, made for these rows or for another number. None where a row is missing."""
        return whole(self.answers(way, self.start(made_for or len(rows)), rows), rows)

    def uncached(self, rows: Ids) -> Any:
        """For each of these rows of one length the logits without a cache ``[n, vocab]``, or the error."""
        logits = self.full(rows)
        return logits if isinstance(logits, Raised) else list(logits)

    def greedy(self, prompts: Ids, found: Any, count: int = NEW) -> Any:
        """For each prompt the tokens that are generated without a cache, or the error; None where a row is missing."""
        return greedy(self, prompts, found, count, self.tolerance.atol)

    def in_turn(self, way: str, made_for: int, batches: Sequence[Ids]) -> list[Any]:
        """What batches get that come one after the other into one cache, which is reset between them."""
        conversation, found = self.start(made_for), []
        for place, rows in enumerate(batches):
            if place:
                conversation.error = None  # what was refused must not stay in a cache that is reset
                conversation.operate("reset")
            found.append(self.answers(way, conversation, rows))
        return found

    def memory(self, cache: Any) -> list[Any]:
        """The tensors of a cache that hold numbers."""
        given = self.record.tensors
        found = attempt("tensors", lambda: list((given or _held)(cache)))
        if isinstance(found, Raised):
            raise TargetError("tensors() gave no tensors", actual=str(found), expected="tensors", cause="tensors")
        state = getattr(self.record.model, "parameters", None)
        own = {tensor.data_ptr() for tensor in state()} if callable(state) else set()
        dense = [part for tensor in found for part in _dense(tensor)]
        return [tensor for tensor in dense if tensor.is_floating_point() and tensor.data_ptr() not in own]

    def same(self, actual: Any, expected: Any, *, about: str) -> None:
        """Hold what a list of rows got against another.

        Where the expected is an error, or lacks a row, another promise is broken, and this one says nothing.
        """
        if expected is None:
            inconclusive("rows are lost wherever rows are generated; EC305 tells")
        elif isinstance(expected, Raised):
            refused(expected)
        elif _has_nan(actual) or _has_nan(expected):
            if self.last:
                raise TargetError("logits are NaN", actual=about, expected="numbers", cause="nan")
            self.again = True
        elif self._close(actual, expected):
            expect(actual).holds(True, about=about)
        else:
            expect(actual).equals(expected, about=about, tolerance=self.tolerance)

    def agree(self, actual: Any, expected: Any) -> bool:
        """Whether two answers say the same."""
        return self._close(actual, expected) or difference(actual, expected, self.tolerance) is None

    def begins(self, actual: Any, expected: Any) -> bool:
        """Whether the first rows of an answer are those that are expected; where these are no rows, that is so."""
        if not isinstance(expected, list):
            return True
        return isinstance(actual, list) and self.agree(actual[: len(expected)], expected)

    def _close(self, actual: Any, expected: Any) -> bool:
        import torch

        if not (isinstance(actual, list) and isinstance(expected, list) and len(actual) == len(expected)):
            return False
        rtol, atol = self.tolerance.rtol, self.tolerance.atol
        return all(
            isinstance(a, torch.Tensor)
            and isinstance(e, torch.Tensor)
            and a.shape == e.shape
            and torch.allclose(a, e.to(a.dtype), rtol=rtol, atol=atol)
            for a, e in zip(actual, expected, strict=True)
        )


@dataclass(frozen=True)
class DecoderSubject(Subject):
    """The decoder under test: new ones on demand, and prompts to give them."""

    build: Callable[[], Decoder]

    def tries(self) -> Iterator[Live]:
        """A new decoder; and, where NaN came up, the same in float32."""
        record = self.build()
        live = Live(record, self.device, self.tolerance, last=record.in_float32 is None)
        yield live
        if live.again:
            made = attempt("in_float32", record.in_float32)  # type: ignore[arg-type]
            if not isinstance(made, Decoder):
                raise TargetError(
                    "in_float32() gave no decoder", actual=str(made), expected="an ec.Decoder", cause="nan"
                )
            yield Live(made, self.device, self.tolerance, last=True)

    def prompts(self, rows: Rows) -> list[list[int]]:
        """The ids of these samples.

        Raises:
            TargetError: where the collate gives anything else than one list of ids a sample.
        """
        made = attempt("the collate", self.inputs.collate, list(rows))
        good = isinstance(made, list) and len(made) == len(rows)
        if not good or not all(isinstance(row, list) and row and all(map(_is_id, row)) for row in made):
            raise TargetError(
                "the collate did not give prompts",
                actual=str(made)[:200],
                expected=f"{len(rows)} lists of at least one id",
                cause="collate",
            )
        return made  # type: ignore[no-any-return]


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {what}" + "s" * (number != 1)


def whole(answers: Any, rows: Sequence[Any]) -> Any:
    """Answers that can be held against others: None where there is not one for each row."""
    return None if isinstance(answers, list) and len(answers) != len(rows) else answers


def _dense(tensor: Any) -> Iterator[Any]:
    """The tensors that a tensor keeps its numbers in, such as the integers and scales of a quantised one; or itself."""
    if not hasattr(tensor, "__tensor_flatten__"):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from _dense(getattr(tensor, name))


def _held(cache: Any) -> list[Any]:
    return list(find_tensors(cache).values())


def _has_nan(rows: Any) -> bool:
    return isinstance(rows, list) and any(hasattr(row, "isnan") and bool(row.isnan().any()) for row in rows)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)

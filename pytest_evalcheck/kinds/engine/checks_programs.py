"""EC815: requests that are submitted, streamed, forked, cancelled and evicted in any order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.engine.cases import Program
from pytest_evalcheck.kinds.engine.record import Completion, Parameters, Prompt
from pytest_evalcheck.kinds.engine.subject import EngineSubject, EngineUnderTest, assert_same, joined

Answer = tuple[str, int, Any]
"""A request by name, the index of its prompt, and the answer or the error."""


class Requests:
    """The state machine of EC815: open streams of an engine, and the answers so far."""

    def __init__(self, engine: EngineUnderTest, prompts: Sequence[Prompt]) -> None:
        self.engine, self.prompts = engine, prompts
        self.open: list[tuple[int, Any, list[Completion]]] = []

    def step(self, name: str, *numbers: int) -> Iterator[Answer]:
        """Apply one step of a program; yields the answers that it completes."""
        if name == "evict":
            self.engine.evict()
        elif name in ("take", "cancel"):
            if self.open:
                yield from self._read(numbers[0] % len(self.open), cancel=name == "cancel")
        elif name != "fork" or {"n", "seed", "temperature"} <= set(self.engine.record.supports):
            yield from self._ask(name, [number % len(self.prompts) for number in numbers])

    def finish(self) -> Iterator[Answer]:
        """Read all open streams to their end, a piece of each in turn."""
        turn = 0
        while self.open:
            turn = (turn + 1) % len(self.open)
            yield from self._read(turn)

    def _ask(self, name: str, indices: Sequence[int]) -> Iterator[Answer]:
        asked = [self.prompts[index] for index in indices]
        if name == "open":
            stream = self.engine.opened(asked[0], self.given(name))
            if isinstance(stream, Raised):
                yield name, indices[0], stream
            else:
                self.open.append((indices[0], stream, []))
                yield from self._read(len(self.open) - 1)
            return
        answers = self.engine.choices(asked, self.given(name))
        for place, index in enumerate(indices):
            yield name, index, answers if isinstance(answers, Raised) else answers[place : place + 1]

    def given(self, name: str) -> Parameters:
        """The parameters of a step: greedy decoding, and sampling of two answers for a fork."""
        return {**self.engine.sampled(seed=1), "n": 2} if name == "fork" else self.engine.greedy()

    def _read(self, place: int, *, cancel: bool = False) -> Iterator[Answer]:
        index, stream, pieces = self.open[place]
        if cancel:
            attempt("cancel", stream.close)
            del self.open[place]
            return
        piece = attempt("stream", next, stream, None)
        if isinstance(piece, Completion):
            pieces.append(piece)
            return
        del self.open[place]
        yield "stream", index, piece if isinstance(piece, Raised) else joined(pieces)


@check(
    "EC815",
    conditions=("a stream is open", "a request is cancelled", "the cache is emptied"),
    after=("EC801", "EC802", "EC803", "EC804", "EC805", "EC809", "EC810"),
)
def requests_in_any_order_get_their_own_answers(subject: EngineSubject, case: Program) -> None:
    """Whatever is submitted, forked, streamed, cancelled and evicted in any order: each answer is that of it alone.

    Why: a server schedules the requests of an evaluation in an order that nobody chooses.
    Usual cause: an eviction or a cancelled request frees memory that another request still reads.
    Fix: count who reads a block: `block.readers += 1`, and free it at zero.
    """
    prompts, engine = subject.prompts(case.samples), subject.engine()
    if engine.record.stream is None:
        raise NotApplicable("the engine has no streams: ec.Engine(..., stream=...)")
    requests = Requests(engine, prompts)
    answers = [answer for name, *numbers in case.steps for answer in requests.step(name, *numbers)]
    alone: dict[Any, Any] = {}
    for name, index, answer in [*answers, *requests.finish()]:
        key = (index, name == "fork")
        if key not in alone:
            alone[key] = subject.engine().choices([prompts[index]], requests.given(name))
        about = f"what the request {name} of prompt {index} gets"
        expected = alone[key]
        if name == "stream" and not isinstance(expected, Raised) and isinstance(answer, dict):
            assert_same(answer, expected[0][0], about=about, id="stream")
        else:
            expect(answer).equals(expected, about=about, id=f"answer-to-{name}")

"""The engine under test, which checks call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, TargetError, expect, note_value
from pytest_evalcheck.kinds.common.calling import attempt
from pytest_evalcheck.kinds.common.subject import OrdinarySubject, Rows
from pytest_evalcheck.kinds.engine.record import Completion, Engine, Parameters, Prompt

NEW_TOKENS = 6
"""Number of tokens that an answer has at most, where a case says no other."""
_MOST_PIECES = 10_000


@dataclass(frozen=True)
class EngineSubject(OrdinarySubject):
    """The engine under test: new ones on demand, and prompts for them."""

    kind: ClassVar[str] = "engine"

    build: Callable[[], Engine]

    def prompts(self, rows: Rows) -> list[Prompt]:
        """The prompts of these samples.

        Raises:
            TargetError: where the collate gives anything else than one text or list of ids per sample.
        """
        prompts = attempt("the collate", self.inputs.collate, list(rows))
        is_list = isinstance(prompts, list) and len(prompts) == len(rows)
        if not is_list or not all(isinstance(prompt, (str, list)) for prompt in prompts):
            expected = f"{len(rows)} texts, or lists of ids"
            raise TargetError(
                "the collate did not give prompts", actual=str(prompts)[:200], expected=expected, cause="collate"
            )
        return prompts  # type: ignore[no-any-return]

    def engine(self) -> EngineUnderTest:
        """A new engine with an empty prefix cache."""
        made = EngineUnderTest(self.build())
        made.evict()
        return made

    def alone(self, prompt: Prompt, parameters: Parameters) -> Any:
        """The answer that a new engine gives to one prompt, as data, or the error."""
        answers = self.engine().ask([prompt], parameters)
        return answers if isinstance(answers, Raised) else answers[0]

    def plain_result(self, rows: Rows) -> Any:
        """The answers of a new engine, or the error."""
        engine = self.engine()
        return engine.ask(self.prompts(rows), engine.greedy())


class EngineUnderTest:
    """An engine, and calls of it whose errors are results. Answers are plain data, which can be compared."""

    def __init__(self, record: Engine) -> None:
        self.record = record

    def greedy(self, tokens: int = NEW_TOKENS) -> dict[str, Any]:
        """The parameters of greedy decoding, with log-probabilities where there are any."""
        return self.given({"temperature": 0.0, "logprobs": True}, tokens)

    def sampled(self, seed: int, tokens: int = NEW_TOKENS) -> dict[str, Any]:
        """The parameters of sampling with a seed.

        Raises:
            NotApplicable: where the engine takes no temperature or no seed.
        """
        self.require("temperature", "seed")
        return self.given({"temperature": 1.0, "seed": seed, "logprobs": True}, tokens)

    def given(self, parameters: Parameters, tokens: int) -> dict[str, Any]:
        """Parameters without those that it does not support, and the number of tokens."""
        own = {name: value for name, value in parameters.items() if name in self.record.supports}
        return {"max_tokens": tokens, **own}

    def require(self, *names: str) -> None:
        """Raise `NotApplicable` where the engine does not support these parameters."""
        if missing := [name for name in names if name not in self.record.supports]:
            raise NotApplicable(f"the engine does not support {', '.join(missing)}")

    def evict(self) -> None:
        """Empty the prefix cache, where that is offered."""
        if self.record.evict is not None:
            attempt("evict", self.record.evict)

    def choices(self, prompts: Sequence[Prompt], parameters: Parameters) -> Any:
        """All answers of each prompt, or the error."""
        result = attempt("complete", lambda: [list(each) for each in self.record.complete(prompts, parameters)])
        return result if isinstance(result, Raised) else [[plain(one) for one in each] for each in result]

    def ask(self, prompts: Sequence[Prompt], parameters: Parameters) -> Any:
        """The first answer of each prompt, all submitted together; or the error."""
        result = self.choices(prompts, parameters)
        if isinstance(result, Raised):
            return result
        answers = [each[0] if each else None for each in result]
        for answer in answers:
            note_value(answer)
        return answers

    def in_flight(self, prompts: Sequence[Prompt], parameters: Parameters) -> list[Any]:
        """The answers of prompts that threads submit at once, one each; or an error in the place of an answer."""

        def submit(prompt: Prompt) -> Any:
            answers = self.ask([prompt], parameters)
            return answers if isinstance(answers, Raised) else answers[0]

        with ThreadPoolExecutor(len(prompts)) as pool:
            return list(pool.map(submit, prompts))

    def streamed(self, prompt: Prompt, parameters: Parameters, pieces: int = _MOST_PIECES) -> Any:
        """The answer that the pieces of a stream make, or the error; it is cancelled after ``pieces`` of them."""
        stream = self.opened(prompt, parameters)
        return (
            stream if isinstance(stream, Raised) else attempt("stream", lambda: joined(_first_pieces(stream, pieces)))
        )

    def opened(self, prompt: Prompt, parameters: Parameters) -> Any:
        """A stream of pieces, or the error.

        Raises:
            NotApplicable: where the engine has no streams.
        """
        if self.record.stream is None:
            raise NotApplicable("the engine has no streams: ec.Engine(..., stream=...)")
        return attempt("stream", self.record.stream, prompt, parameters)


def _first_pieces(stream: Iterator[Completion], count: int) -> list[Completion]:
    with closing(stream) as pieces:  # type: ignore[type-var]
        return list(islice(pieces, count))


def plain(answer: Completion) -> dict[str, Any]:
    """An answer as data.

    Raises:
        TargetError: where it is no `Completion`.
    """
    if not isinstance(answer, Completion):
        raise TargetError(
            "complete() gave no answers", actual=repr(answer)[:200], expected="a list of ec.Completion a prompt"
        )
    found: dict[str, Any] = {"text": answer.text}
    if answer.tokens is not None:
        found["tokens"] = list(answer.tokens)
    if answer.logprobs is not None:
        found["logprobs"] = [float(number) for number in answer.logprobs]
    return found


def joined(pieces: Sequence[Completion]) -> dict[str, Any]:
    """The answer that pieces make, as data."""
    parts = [plain(piece) for piece in pieces]
    whole: dict[str, Any] = {"text": "".join(part["text"] for part in parts)}
    for name in ("tokens", "logprobs"):
        if parts and all(name in part for part in parts):
            whole[name] = [each for part in parts for each in part[name]]
    return whole


def assert_same(actual: Any, expected: Any, *, about: str, id: str) -> None:
    """Require the same text and tokens, and the same log-probabilities within the tolerance of the target."""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        names = [name for name in expected if name in actual]
        pair = [{name: answer[name] for name in names} for answer in (actual, expected)]
        expect(pair[0]).equals(pair[1], about=about, id=id, detail=drift(actual, expected))
    else:
        expect(actual).equals(expected, about=about, id=id)


def drift(actual: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Describe how far log-probabilities are apart up to the first token that differs; empty where there are none."""
    pairs = [list(zip(actual.get(name, ()), expected.get(name, ()))) for name in ("tokens", "logprobs")]  # noqa: B905
    same = next((index for index, (own, other) in enumerate(pairs[0]) if own != other), len(pairs[0]))
    apart = [abs(own - other) for own, other in pairs[1][:same]]
    return f"up to token {same} log-probabilities are at most {max(apart):.2g} apart" if apart else ""

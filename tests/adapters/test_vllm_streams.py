"""Streams of an engine that is run by steps, as vLLM is: each gets its own pieces, whatever is submitted beside it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_evalcheck.adapters.vllm.engine import _Streams

LENGTH = 3


class Stepped:
    """An engine whose requests have three tokens; a step adds one to each, and gives what is asked for."""

    def __init__(self, forgets: bool = False) -> None:
        self.running: dict[str, int] = {}
        self.sampling: dict[str, Any] = {}
        self.forgets = forgets

    def add_request(self, name: str, prompt: Any, sampling: Any) -> None:
        self.running[name], self.sampling[name] = 0, sampling

    def has_unfinished_requests(self) -> bool:
        return bool(self.running)

    def abort_request(self, names: list[str]) -> None:
        for name in names:
            self.running.pop(name, None)

    def step(self) -> list[Any]:
        made = []
        for name in list(self.running):
            self.running[name] += 1
            count, pieces = self.running[name], self.sampling[name].output_kind == "delta"
            if count == LENGTH:
                del self.running[name]
            if (pieces or count == LENGTH) and not self.forgets:
                ids = [count] if pieces else [1, 2, 3]
                answer = SimpleNamespace(text="x" * len(ids), token_ids=ids, logprobs=None, finish_reason=None)
                made.append(
                    SimpleNamespace(request_id=name, finished=count == LENGTH, prompt_token_ids=[1], outputs=[answer])
                )
        return made


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    module, parameters = ModuleType("vllm"), ModuleType("vllm.sampling_params")
    module.SamplingParams = SimpleNamespace  # type: ignore[attr-defined]
    parameters.RequestOutputKind = SimpleNamespace(DELTA="delta", FINAL_ONLY="final")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", module)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", parameters)


def test_streams_and_requests_beside_them_get_their_own_pieces() -> None:
    engine = Stepped()
    streams = _Streams(engine)
    first, second = streams.stream([1], {}), streams.stream([2], {})
    assert [next(first).tokens, next(second).tokens] == [[1], [1]]
    beside = streams.finished([[3], [4]], SimpleNamespace())
    assert [output.outputs[0].token_ids for output in beside] == [[1, 2, 3]] * 2
    assert [piece.tokens for piece in first] == [[2], [3]]
    second.close()  # type: ignore[attr-defined]
    assert (streams.pieces, engine.running) == ({}, {})


def test_a_stream_that_is_closed_is_aborted() -> None:
    engine = Stepped()
    stream = _Streams(engine).stream([1], {})
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert not engine.running


def test_a_request_that_the_engine_forgets_is_an_error_and_no_endless_loop() -> None:
    with pytest.raises(RuntimeError, match="the engine has no request left"):
        next(_Streams(Stepped(forgets=True)).stream([1], {}))

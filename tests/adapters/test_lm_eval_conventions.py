"""Requests of lm-eval in other words that mean the same, as they reach a model."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("lm_eval")

from pytest_evalcheck.adapters.lm_eval.decoder import _conventions, _Requests

PROMPTS, STOP = [[1, 2], [3]], (5,)


class Recording:
    """A model that notes what it is asked, and answers with the last letter of each context."""

    def __init__(self) -> None:
        self.calls: list[list[tuple[str, dict[str, Any]]]] = []

    def tok_encode(self, text: str) -> list[int]:
        return [ord(letter) - 0x100 for letter in text]

    def tok_decode(self, tokens: list[int], skip_special_tokens: bool = True) -> str:
        return "".join(chr(0x100 + token) for token in tokens)

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        self.calls.append([request.args for request in requests])
        return [context[-1] for context, _ in self.calls[-1]]


def asked(generate: Any, stop: tuple[int, ...] = STOP) -> tuple[list[int], list[dict[str, Any]]]:
    """Return the number of requests of each call, and the arguments of all requests."""
    model = Recording()
    assert generate(PROMPTS, model, 7, stop) == [[2], [3]]
    return [len(call) for call in model.calls], [arguments for call in model.calls for _, arguments in call]


def test_every_way_asks_for_the_same_in_other_words() -> None:
    plain = {"until": [chr(0x105)], "max_gen_toks": 7, "do_sample": False, "suppress_tokens": [9]}
    assert asked(_Requests((9,))) == ([2], [plain, plain])
    found = {name: asked(each.changes["generate"]) for name, each in _conventions((9,)).items()}
    assert found["one request at a time"] == ([1, 1], [plain, plain])
    worded = {name: arguments[0] for name, (_, arguments) in found.items()}
    assert worded["one stop sequence as a string"] == {**plain, "until": chr(0x105)}
    without = {name: each for name, each in plain.items() if name != "do_sample"}
    assert worded["a temperature of 0"] == {**without, "temperature": 0.0}
    for name in ("max_new_tokens", "max_tokens", "max_completion_tokens"):
        assert worded[name] == {name if key == "max_gen_toks" else key: each for key, each in plain.items()}


def test_several_stop_sequences_stay_a_list() -> None:
    way = _conventions(())["one stop sequence as a string"]
    _, (arguments, _) = asked(way.changes["generate"], (5, 6))
    assert arguments["until"] == [chr(0x105), chr(0x106)]

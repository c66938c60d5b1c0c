"""Every rule of the table holds, with the text PyTorch has."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fixtures.device_rules import RULES, Rule
from pytest_evalcheck.devices import simulate

CASES = [(rule, device) for rule in RULES for device in rule.devices]


def use(device: str, function: Callable[[], Any]) -> Any:
    with torch.device(device):
        return function()


def with_double_default(function: Callable[[], Any]) -> Any:
    torch.set_default_dtype(torch.float64)
    try:
        return function()
    finally:
        torch.set_default_dtype(torch.float32)


def grad(function: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor) -> Any:
    tensor.requires_grad_()
    function(tensor).backward()
    return tensor.grad


def put(tensor: torch.Tensor, index: Any, value: torch.Tensor) -> torch.Tensor:
    tensor[index] = value
    return tensor


def reload(tensor: torch.Tensor, target: str | None) -> Any:
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file, map_location=target)


def outcome(rule: Rule, device: str) -> Any:
    names = {
        "torch": torch,
        "np": np,
        "d": device,
        "h": torch.arange(4.0),
        "x": torch.arange(4.0).to(device),
        "i": torch.tensor([0, 1], device=device),
        **{each.__name__: each for each in (use, with_double_default, grad, put, reload)},
    }
    return eval(rule.example, names)


@pytest.mark.parametrize(("rule", "device"), CASES, ids=[f"{rule.name} [{device}]" for rule, device in CASES])
def test_a_rule_holds(rule: Rule, device: str) -> None:
    names = ("cuda:1", "mps") if device == "cuda" else (device,)
    with simulate(*names):
        if rule.refused is None:
            found = outcome(rule, device)
            assert str(found.device) == rule.gives.format(d=f"{device}:0")
        else:
            kind, text = rule.refused
            with pytest.raises(kind) as raised:
                outcome(rule, device)
            assert type(raised.value) is kind
            assert text.format(d=f"{device}:0", k=device) in str(raised.value)


@pytest.mark.parametrize("rule", [each for each in RULES if each.gives], ids=lambda rule: rule.name)
def test_what_a_rule_allows_has_the_value_of_the_cpu(rule: Rule) -> None:
    if rule.name == "by index":
        pytest.skip("an index is never the CPU")
    if "cuda" in rule.example:
        pytest.skip("the example names its device")
    with simulate(*rule.devices):
        there = outcome(rule, rule.devices[0])
        there = there.cpu()
    torch.testing.assert_close(there, outcome(rule, "cpu"), rtol=0, atol=0) if "Linear" not in rule.example else None


def test_no_rule_is_there_twice() -> None:
    assert max(Counter(each.name for each in RULES).values()) == 1
    assert max(Counter((each.example, each.devices) for each in RULES).values()) == 1


def test_every_rule_says_where_it_comes_from_and_ends_one_way() -> None:
    for rule in RULES:
        assert rule.source
        assert bool(rule.gives) != (rule.refused is not None)

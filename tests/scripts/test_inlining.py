"""Steps of a script that move into the text of another one; each is evaluated where nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_evalcheck.scripts.inlining import in_place, without_brackets
from pytest_evalcheck.scripts.literals import numbers_in
from pytest_evalcheck.scripts.tape import Step
from pytest_evalcheck.scripts.text import Parts, Verdict, script


def steps(*texts: str, **more: Any) -> list[Step]:
    """Steps of these texts; ``!`` before one makes it a call into the library."""
    return [
        Step(text.lstrip("!"), numbers_in(text), keeps=True, number=number, library=text.startswith("!"), **more)
        for number, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("texts", "compared", "placed"),
    [
        (("!f()", "<0>[1]", "<1>[2:3]", "!g(<2>)"), (3,), {1: "<0>[1]", 2: "<0>[1][2:3]"}),
        (("!f()", "(<0> / 8.0)", "!g(<1>)"), (2,), {1: "(<0> / 8.0)"}),
        (
            ("!f()", "<0>[0]", "<0>[1]", "[<1>, <2>]", "!g(<3>)"),
            (4,),
            {1: "<0>[0]", 2: "<0>[1]", 3: "[<0>[0], <0>[1]]"},
        ),
        (
            ("!f()", "<0>['a'].detach()", "<1>.clone()", "!g(<2>)"),
            (3,),
            {1: "<0>['a'].detach()", 2: "<0>['a'].detach().clone()"},
        ),
        # A call comes between, which may change what is read.
        (("!f()", "<0>[1]", "!<0>.update()", "!g(<1>)"), (3,), {}),
        (("!f()", "<0>[1]", "<0>.zero_()", "!g(<1>)"), (3,), {}),
        # It is read twice, compared, or read by nothing.
        (("!f()", "<0>[1]", "!g(<1>, <1>)"), (2,), {}),
        (("!f()", "<0>[1]"), (1,), {}),
        (("!f()", "<0>[1]", "!g(<1>)"), (1, 2), {}),
        (("!f()", "<0>[1]", "!g()"), (2,), {}),
        # What the library does is no reading.
        (("!f()", "!<0>[1]", "!g(<1>)"), (2,), {}),
        (("!f()", "!<0>.clone()", "!g(<1>)"), (2,), {}),
        (("!f()", "<0>.sum()", "!g(<1>)"), (2,), {}),
        # Too long a line.
        (("!f()", "<0>[1]", f"!g(<1>, '{'a' * 100}')"), (2,), {}),
    ],
)
def test_what_one_other_step_reads_stands_in_its_text(texts: Any, compared: Any, placed: dict[int, str]) -> None:
    assert in_place(steps(*texts), compared) == placed


def test_a_step_that_ended_in_an_error_stays() -> None:
    assert in_place(steps("<0>[1]", "!g(<0>)", error=KeyError("a")), (1,)) == {}


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("(<2> / 8.0)", "<2> / 8.0"),
        ("(-<3>)", "-<3>"),
        ("(<1> + <2>) * (<3> + <4>)", "(<1> + <2>) * (<3> + <4>)"),
        ("(<1>, <2>)", "(<1>, <2>)"),
        ("f(<1>)", "f(<1>)"),
    ],
)
def test_only_the_brackets_around_an_operation_go(text: str, without: str) -> None:
    assert without_brackets(text) == without


def test_a_script_gives_what_its_steps_gave(capsys: pytest.CaptureFixture[str]) -> None:
    made = steps("torch.ones(2, 3)", "<0>[1]", "(<1> * 2)", "torch.cat([<2>, <2>])", "<3>[0:4]", "torch.sum(<4>)")
    made[0].imports = frozenset({"import torch"})
    made[5].library = True
    text = script(Parts(["It adds."], (), frozenset(), made, Verdict("<5>", "8.0", 0.0, 0.0, flat=True)))
    assert "value_2 = value[1] * 2\n" in text
    assert "torch.sum(value_3[0:4])" in text
    assert "\n\n\n\n" not in text
    names: dict[str, Any] = {"__name__": "script"}
    exec(compile(text, "script", "exec"), names)
    assert names["main"]() == 0
    assert str(torch.tensor(8.0)) in capsys.readouterr().out

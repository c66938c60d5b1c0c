"""The parts of which scripts are made: rewriting, the tape, values as source, slices, helpers."""

from __future__ import annotations

import ast
import math
import textwrap
import threading
from typing import Any

import numpy
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_evalcheck.kinds.loop.record import LoopData
from pytest_evalcheck.kinds.loop.subject import NotedCollate
from pytest_evalcheck.scripts import helpers
from pytest_evalcheck.scripts.literals import Unwritable, numbers_in
from pytest_evalcheck.scripts.loops import LoopRecorder
from pytest_evalcheck.scripts.recording import _decides_by_itself
from pytest_evalcheck.scripts.rewriting import Rewriter
from pytest_evalcheck.scripts.slicing import needed
from pytest_evalcheck.scripts.tape import Tape

STATEMENTS = {
    "calls": "result = sorted([3, 1, 2], key=lambda x: -x)",
    "super": """
        class A:
            def name(self): return "a"
        class B(A):
            def name(self): return super().name() + "b"
        result = B().name()
    """,
    "slices": "x = list(range(10)); result = x[1:8:2], x[-1], x[:], x[::-1]",
    "tuples of slices": "import numpy; result = numpy.arange(12).reshape(3, 4)[1:, ::2].tolist()",
    "writing": """
        class A: pass
        a, b, c = A(), {}, [0, 0]
        a.x = b["k"] = 5
        a.y = 6
        c[0], c[1:] = 1, [2, 3]
        b["l"] = 7
        a.x += 1
        result = a.x, a.y, b, c
    """,
    "comprehensions": "result = {k: [v for v in range(k) if v % 2] for k in (1, 4)}, sum(x * x for x in range(4))",
    "operators": "result = 7 // 2, 7 % 2, 2 ** 3, -5, 1 - 2, 3 / 4, not 1, ~2, 6 & 3, 6 | 3",
    "comparisons": "result = 1 < 2, 2 <= 1, 1 > 2, 2 >= 2, 1 == 1, 1 != 1, 1 < 2 < 3, 1 in (1,), None is None",
    "decorators and defaults": """
        def twice(f):
            return lambda *a: f(*a) * 2
        @twice
        def g(x, y=max(1, 2)): return x + y
        result = g(1)
    """,
    "blocks": """
        import contextlib
        seen = []
        @contextlib.contextmanager
        def block():
            seen.append("in")
            try: yield 5
            finally: seen.append("out")
        with block() as five: seen.append(five)
        with contextlib.suppress(ValueError): int("x")
        result = seen
    """,
    "generators": "def g(n):\n    for i in range(n): yield i\nresult = list(g(3)), [*g(2)], dict(zip('ab', g(2)))",
    "patterns": """
        from dataclasses import dataclass
        @dataclass
        class P:
            x: int = 0
            y: int = 1
        match P(2):
            case P(x=2, y=y) if y == 1: result = y
    """,
    "errors": """
        try: {}["a"]
        except KeyError as error: result = str(error)
        else: result = None
    """,
    "private names": """
        class A:
            def __init__(self): self.__x = 1
            def x(self): return self.__x
        result = A().x()
    """,
    "dunder attributes": "result = (1).__class__.__name__",
}


@pytest.mark.parametrize("name", list(STATEMENTS))
def test_rewritten_code_does_what_it_did(name: str) -> None:
    source = textwrap.dedent(STATEMENTS[name])
    plain: dict[str, Any] = {"__name__": __name__}
    exec(source, plain)
    rewritten: dict[str, Any] = {"__name__": __name__, "__evalcheck_tape__": Tape()}
    exec(compile(Rewriter().visit(ast.parse(source)), "<test>", "exec"), rewritten)
    assert repr(rewritten["result"]) == repr(plain["result"])


def traced(source: str, **names: Any) -> tuple[Tape, dict[str, Any]]:
    """Return the tape and the variables of rewritten code."""
    tape = Tape()
    tape.rewritten.add("suite")
    variables: dict[str, Any] = {"__name__": "suite", "__evalcheck_tape__": tape, "torch": torch, **names}
    exec(compile(Rewriter().visit(ast.parse(textwrap.dedent(source))), "<test>", "exec"), variables)
    return tape, variables


def lines(tape: Tape, value: Any) -> list[str]:
    """The statements that a value needs."""
    expression = tape.expression(value)
    assert expression is not None
    return [step.text for step in needed(tape.steps, numbers_in(expression))]


class Library:
    """Stands for code under test: it returns one object twice, and keeps what it is given."""

    def __init__(self) -> None:
        self.kept = torch.zeros(2)

    def result(self) -> torch.Tensor:
        return self.kept

    def add(self, value: torch.Tensor) -> None:
        self.kept += value


def test_each_call_has_a_result_of_its_own() -> None:
    """EC219 compares the results of two calls that return one object, with a write in between."""
    tape, names = traced(
        """
        thing = Library()
        first = thing.result()
        first.fill_(7.0)
        second = thing.result()
        """,
        Library=Library,
    )
    assert names["first"] is names["second"]
    assert lines(tape, names["second"]) == ["Library()", "<0>.result()", "<1>.fill_(7.0)", "<0>.result()"]


def test_rows_of_a_tensor_are_known_by_their_places() -> None:
    tape, names = traced(
        """
        thing = Library()
        rows = list(thing.result())
        pairs = [torch.stack([one, two]) for one, two in zip(thing.result(), rows)]
        """,
        Library=Library,
    )
    assert lines(tape, names["rows"][1]) == ["Library()", "<0>.result()", "<1>[1]"]
    texts = lines(tape, names["pairs"][0])
    assert [text for text in texts if text.endswith("[0]")] == ["<1>[0]", "<4>[0]"]
    assert texts[-2:] == ["[<5>, <2>]", "torch.stack(<6>)"]


def test_what_does_not_matter_is_left_out() -> None:
    tape, names = traced(
        """
        other, thing = Library(), Library()
        other.add(torch.ones(2))
        thing.add(torch.full((2,), 3.0))
        thing.result().sum()
        value = thing.result()
        thing.add(torch.ones(2))
        """,
        Library=Library,
    )
    texts = lines(tape, names["value"])
    assert texts == ["Library()", "torch.tensor([3.0, 3.0])", "<1>.add(<4>)", "<1>.result()", "<1>.result()"]


def test_what_a_kept_part_is_changed_by_is_needed() -> None:
    class Holds:
        def __init__(self, inner: Library) -> None:
            self.inner = inner

        def result(self) -> torch.Tensor:
            return self.inner.result().clone()

    tape, names = traced(
        """
        inner = Library()
        outer = Holds(inner)
        inner.add(torch.ones(2))
        value = outer.result()
        """,
        Library=Library,
        Holds=Holds,
    )
    assert any(".add(" in text for text in lines(tape, names["value"]))


def test_a_mask_is_computed() -> None:
    """Numbers counted from a result depend on it, also in comparisons."""
    tape, names = traced(
        """
        kept = Library().result()
        value = (~(kept >= 1) & (kept != 2)).sum()
        """,
        Library=Library,
    )
    assert lines(tape, names["value"]) == [
        "Library()",
        "<0>.result()",
        "(<1> >= 1)",
        "(~<2>)",
        "(<1> != 2)",
        "(<3> & <4>)",
        "<5>.sum()",
    ]


def test_a_thread_of_what_is_not_noted_is_not_noted() -> None:
    tape = Tape()
    made = Library()

    def started() -> None:
        thread = tape.call(threading.Thread, target=lambda: tape.call(made.add, torch.ones(2)))
        thread.start()
        thread.join()

    with tape.silent():
        started()
    assert not tape.steps
    assert made.kept.tolist() == [1, 1]
    started()
    assert [step.missing for step in tape.steps] == [f"Library.add: an object of type {__name__}.Library"]


def test_a_class_that_type_makes_is_code_under_test() -> None:
    """It is of the module that makes it, and not of the tape that makes the call."""
    tape, names = traced(
        """
        Made = type("Made", (Library,), {})
        thing = Made()
        thing.add(torch.ones(2))
        value = thing.result()
        """,
        Library=Library,
    )
    assert names["Made"].__module__ == "suite"
    assert lines(tape, names["value"]) == [
        "type('Made', (Library,), {})",
        "<0>()",
        "torch.tensor([1.0, 1.0])",
        "<1>.add(<2>)",
        "<1>.result()",
    ]


def test_an_error_is_a_result() -> None:
    tape, _ = traced(
        """
        thing = Library()
        try:
            thing.add("text")
        except TypeError as error:
            seen = error
        """,
        Library=Library,
    )
    assert [type(step.error).__name__ for step in tape.steps] == ["NoneType", "TypeError"]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    )
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_plain_values_survive(value: Any) -> None:
    tape = Tape()
    text = tape.writer.text(value, "value").text
    while "<" in text and numbers_in(text):
        for number in numbers_in(text):
            text = text.replace(f"<{number}>", tape.steps[number].text)
    assert repr(eval(text)) == repr(value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.bool])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 1, 2)])
def test_tensors_survive(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tape = Tape()
    value = (torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    tape.writer.text(value, "value")
    made = eval(tape.steps[0].text)
    assert (made.dtype, made.shape) == (dtype, value.shape)
    assert torch.equal(made, value)


def test_special_numbers_survive() -> None:
    tape = Tape()
    tape.writer.text(torch.tensor([math.nan, math.inf, -math.inf]), "value")
    tape.writer.text(numpy.array([[math.nan, 1.0]]), "value")
    assert repr([eval(step.text) for step in tape.steps]) == repr(
        [torch.tensor([math.nan, math.inf, -math.inf]), numpy.array([[math.nan, 1.0]])]
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.arange(5000), "a tensor of 5000 numbers"),
        (torch.eye(2).to_sparse(), "layout torch.sparse_coo"),
        (threading.Lock(), "an object of type _thread.lock"),
        (torch.nn.Linear(1, 1), "a model of type Linear that no recorded call made"),
    ],
)
def test_what_has_no_form_as_source_is_named(value: Any, words: str) -> None:
    with pytest.raises(Unwritable, match=words):
        Tape().writer.text(value, "value")


def test_helpers_compare_as_the_suite_does() -> None:
    assert helpers.same(torch.tensor(0.5), 0.5, 0, 0)
    assert helpers.same({"a": [math.nan]}, {"a": [math.nan]}, 0, 0)
    assert not helpers.same(torch.zeros(2), torch.zeros(3), 1, 1)
    assert not helpers.same([], torch.zeros(0), 1, 1)
    assert not helpers.same(ValueError(), 1.0, 1, 1)
    assert helpers.same(ValueError("a"), ValueError("b"), 0, 0)
    assert helpers.visible({"a": torch.tensor([1.0, math.inf])})
    assert not helpers.visible([1.0, torch.zeros(2)])


def test_ranks_are_processes_of_one_group() -> None:
    def world(rank: int) -> Any:
        tensor = torch.tensor([float(rank + 1)])
        torch.distributed.all_reduce(tensor)
        if rank == 1:
            raise ValueError("no")
        return tensor.item()

    good = helpers.on_ranks(lambda rank: torch.distributed.get_rank() * 10 + rank, 2)
    assert good == [0, 11]
    first, second = helpers.on_ranks(world, 2, seconds=3)
    assert isinstance(second, RuntimeError)
    assert "rank 1: ValueError: no" in str(second)
    assert first == 3.0 or isinstance(first, Exception)


@pytest.mark.parametrize(
    ("actual", "expected", "decides"),
    [
        ("<1>", "0.5", False),
        ("<1>['a'][0]", "0.5", False),
        ("0.5", "<1>", True),
        ("{'a': <1>, 'b': 0}", "{'a': <2>, 'b': 0}", False),
        ("{'a': <1>, 'b': 0}", "{'a': <2>, 'b': 1}", True),
        ("{'a': <1>, 'b': 0}", "<2>", True),
        ("[<1>, 2]", "[<2>, 2]", False),
        ("[<1>, 2]", "[<2>]", True),
        ("[None, <1>]", "[<2>, <3>]", False),
        ("str(<1>.dtype)", "'torch.float32'", False),
    ],
)
def test_a_number_that_no_call_returned_must_not_decide(actual: str, expected: str, decides: bool) -> None:
    assert _decides_by_itself(actual, expected) is decides


def test_what_an_iterator_of_a_library_gives_is_drawn_by_steps() -> None:
    class Gives(Library):
        def parts(self) -> Any:
            yield from ([1.0], [2.0])

    tape, names = traced("result = [value for value in Gives().parts()]\nsecond = result[1]", Gives=Gives)
    assert lines(tape, names["second"])[1:] == ["<0>.parts()", "next(<1>)", "next(<1>)"]


def test_data_of_the_plain_call_are_those_of_the_same_samples() -> None:
    # The expected result may be that of the plain call, which notes what its collate returns.
    recorder, rows = LoopRecorder(), [(0, 0.5)]
    usual, noted = (recorder._data_of(LoopData(rows, one)) for one in (list, NotedCollate(list)))
    assert usual == noted
    assert recorder._collates == [list]

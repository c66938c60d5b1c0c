"""The benchmark of power: what its operators plant, and what becomes of mutants of a small library."""

from __future__ import annotations

import ast
import random
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="the qualified name of a code")
BENCHMARKS = str(Path(__file__).parent.parent / "benchmarks")
sys.path.insert(0, BENCHMARKS)
try:
    import power
    from code_changes import changed_functions, living_functions, replace_code
    from power_operators import HELPERS, OPERATORS
    from power_trial import Place, Trial
finally:
    sys.path.remove(BENCHMARKS)

import pytest_evalcheck as ec  # noqa: E402
from pytest_evalcheck import strategies as es  # noqa: E402

EXAMPLES = {
    "mean of means": ("x.sum()", "x.mean()"),
    "earlier batches forgotten": ("self.total += x", "self.total = x"),
    "statement dropped": ("self.clear()", "pass"),
    "rows dropped": ("def f(x): return x", "def f(x):\n    x, = __but_last__(x)\n    return x"),
    "lost clone": ("x.clone()", "x"),
    "stale result": ("f(x)", "__kept__('1:0', lambda: f(x))"),
    "in place": ("x + 1", "__in_place__(x, 'add_', 1)"),
    "float16 sum": ("x.sum(0)", "__in_float16__(lambda: x.sum(0))"),
    "wrong axis": ("x.sum(-1)", "x.sum(0)"),
    "mask not applied": ("x[mask]", "x"),
    "factor ignored": ("a * b", "a"),
    "argument ignored": ("f(a, weight=w)", "f(a)"),
    "item or rank dropped": ("for a in x: pass", "for a in __items_but_last__(x):\n    pass"),
    "order lost": ("sorted(x)", "list(x)"),
    "cast dropped": ("x.float()", "x"),
    "nearby bound": ("a < b", "a <= b"),
    "condition": ("a and b", "a"),
    "arithmetic": ("a - b", "a + b"),
    "other function": ("max(x)", "min(x)"),
    "constant": ("0.5", "1.0"),
}
KINDS = {"x": {"rows", "floats"}, "mask": {"mask"}}


def test_every_operator_has_an_example() -> None:
    assert set(EXAMPLES) == set(OPERATORS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_operator_changes_its_example(name: str) -> None:
    before, after = EXAMPLES[name]
    found = [new for node in ast.walk(ast.parse(before)) for new in OPERATORS[name](node, KINDS)]
    assert after in [ast.unparse(ast.fix_missing_locations(new)) for new in found if isinstance(new, ast.AST)]


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_leaves_other_code_alone(name: str) -> None:
    assert not [new for node in ast.walk(ast.parse("import os\nname = 'text'")) for new in OPERATORS[name](node, KINDS)]


def test_helpers_do_what_they_say() -> None:
    import torch

    x = torch.tensor([1.0, 2.0, 3.0])
    assert HELPERS["__in_place__"](x, "add_", 1) is not None
    assert x.tolist() == [2.0, 3.0, 4.0]
    assert [len(part) for part in HELPERS["__but_last__"](x, [1, 2, 3], 5.0, [1])[:2]] == [2, 2]
    assert len(HELPERS["__even__"](x)[0]) == 2
    kept = [HELPERS["__kept__"]("1:0", lambda value=value: torch.full((2,), value)) for value in (1.0, 2.0)]
    assert [value.tolist() for value in kept] == [[1.0, 1.0]] * 2
    assert HELPERS["__kept__"]("1:0", lambda: torch.zeros(3)).tolist() == [0.0] * 3
    assert HELPERS["__in_float16__"](lambda: torch.tensor([2048.0, 1.0]).sum()).item() == 2048.0
    assert HELPERS["__one_like__"](7) == 1
    assert HELPERS["__items_but_last__"](iter("abc")) == ["a", "b"]


SOURCE = """
def unchanged(function):
    return function


class MeanError:
    def __init__(self):
        self.reset()

    def reset(self):
        self.total = 0.0
        self.count = 0
        self.name = "mean error"

    @unchanged
    def update(self, predictions, targets):
        kind = type(predictions)  # a class has a shape without a length, at which a trace must not raise
        self.total += (predictions - targets).abs().sum().double()
        self.count += len(targets)

    def compute(self):
        title = len(self.name) + 1
        return 1.0 * self.total / self.count
"""


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    folder = tmp_path / "site-packages" / "library_of_means"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "errors.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(folder.parent))
    import library_of_means.errors as errors  # type: ignore[import-not-found]

    yield errors
    for name in [name for name in sys.modules if name.startswith("library_of_means")]:
        del sys.modules[name]


def test_code_is_replaced_in_functions_that_live(library: Any) -> None:
    update, file = library.MeanError.update, library.__file__
    old, new = (compile(text, file, "exec") for text in (SOURCE, SOURCE.replace(".abs()", "")))
    changed = changed_functions(old, new)
    assert [name for name, _ in changed] == ["MeanError.update"]
    assert replace_code(living_functions(), file, changed) == 1
    assert "abs" not in update.__code__.co_names


def test_mutants_are_found_survive_or_are_equivalent(library: Any) -> None:
    def mean_by_loop(rows: Any) -> float:
        return sum(abs(p - t) for p, t in rows) / len(rows)

    @ec.metric(inputs=es.regression(), reference=mean_by_loop)
    def error():
        return library.MeanError()

    trial = Trial(error, 1, 12)
    assert len(trial.streams) == 12

    def of(before: str, operator: str, nth: int = 0) -> str:
        line = next(number for number, text in enumerate(SOURCE.splitlines(), 1) if before in text)
        own = [one for one in trial.library.places if one.line == line and one.operator == operator]
        return str(trial.tried(own[nth], random.Random(1), 60.0)["outcome"])

    assert of("self.count += len", "earlier batches forgotten") == "found"
    assert of("self.total = 0.0", "statement dropped") == "error always"
    assert of("@unchanged", "rows dropped") == "found"
    assert of("title = len", "arithmetic") == "equivalent"
    assert of("1.0 * self", "constant") == "found by reference"
    assert library.MeanError.update.__code__.co_names.count("abs") == 1  # here nothing was changed
    assert isinstance(trial.library.places[0], Place)


def test_targets_are_drawn_of_every_kind_and_by_the_seed() -> None:
    class Named:
        def __init__(self, kind: str) -> None:
            self.kind = kind

    targets = {f"{kind}_{number}": Named(kind) for kind in power.SHARES for number in range(30)}
    first, again, other = (power.chosen(targets, 20, seed) for seed in (1, 1, 2))
    assert first == again != other
    assert len(first) == 20
    assert {name.split("_")[0] for name in first[:6]} == set(power.SHARES)

    begun = other[:3]
    kept = power.chosen(targets, 20, 1, begun)
    assert set(kept[-3:]) == set(begun)
    assert len(kept) == len(set(kept)) == 20

"""The mutants of one target: places that its checks execute, and what its checks say when the source there differs.

The process has imported the libraries and has run the checks once, while lines were recorded. It forks for each mutant;
the fork gives the functions of the library their changed code. Nothing is written into the library.
"""

from __future__ import annotations

import ast
import builtins
import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from pathlib import Path
from types import FunctionType
from typing import Any

from code_changes import Key, changed_functions, codes, key, living_functions, replace_code
from power_operators import HELPERS, OPERATORS
from power_streams import Stream, differ, streams, values

import pytest_evalcheck as ec
from pytest_evalcheck.engine.api import RunRequest

OF_REFERENCE = ("EC217", "EC410")
"""Checks that compare with the reference of the target."""
NOT_MUTATED = (
    *("torch", "numpy", "scipy", "pandas", "pyarrow", "hypothesis", "_pytest", "pytest", "pluggy", "tqdm", "yaml"),
    *("regex", "psutil", "packaging", "joblib", "dill", "multiprocess", "filelock", "fsspec", "huggingface_hub"),
    *("typing_extensions", "sortedcontainers", "attr", "jinja2", "rich", "safetensors", "tokenizers", "sympy"),
)
"""Packages that this one and Python's own use, too."""
MOST_CALLS = 30
"""Calls of a function in one check that are recorded."""
STREAM_SECONDS = 1.5
"""CPU seconds of the random streams of a mutant; of a slow target, fewer streams than asked for are tried."""
WITH_DATA = 0.9
"""The share of mutants in functions that hold arrays or lists; the others manage settings, names, ..."""


@dataclass
class Seen:
    """Functions of libraries that were executed: lines, and the kinds of the values of local names."""

    lines: dict[tuple[str, Key], set[int]] = field(default_factory=lambda: defaultdict(set))
    kinds: dict[tuple[str, Key], dict[str, set[str]]] = field(default_factory=dict)
    calls: Counter[tuple[str, Key]] = field(default_factory=Counter)
    building: bool = False
    built: set[tuple[str, Key]] = field(default_factory=set)
    """Functions that were executed while a target was built, as every check does."""
    roots: dict[str, bool] = field(default_factory=dict)

    @contextmanager
    def recorded(self, of_checks: bool = True) -> Iterator[dict[tuple[str, Key], set[int]]]:
        """Record this block; what is yielded are the lines of this block alone.

        Only lines of checks are mutated.
        """
        before, self.lines = self.lines, defaultdict(set)
        self.calls.clear()
        sys.settrace(self._call)
        try:
            yield self.lines
        finally:
            sys.settrace(None)
            for place, lines in self.lines.items() if of_checks else ():
                before[place] |= lines
            self.lines = before

    def _call(self, frame: Any, _event: str, _: Any) -> Any:
        file = frame.f_code.co_filename
        if file not in self.roots:
            self.roots[file] = _is_of_a_library(file)
        if not self.roots[file]:
            return None
        place = file, key(frame.f_code)
        if self.building:
            self.built.add(place)
            return None
        self.calls[place] += 1
        if self.calls[place] > MOST_CALLS:
            return None
        lines = self.lines[place]
        lines.add(frame.f_lineno)
        self._look(place, frame)

        def line(frame: Any, event: str, _: Any) -> Any:
            lines.add(frame.f_lineno)
            if event == "return":
                self._look(place, frame)
            return line

        return line

    def _look(self, place: tuple[str, Key], frame: Any) -> None:
        kinds = self.kinds.setdefault(place, defaultdict(set))
        for name, value in frame.f_locals.items():
            dtype = "" if isinstance(value, type) else str(getattr(value, "dtype", ""))
            if dtype and isinstance(getattr(value, "shape", None), tuple) and len(value.shape):
                kinds[name].add("rows" if value.shape[0] > 1 else "one row")
                kinds[name].add("mask" if "bool" in dtype else "floats" if "float" in dtype else "integers")
            elif isinstance(value, list) and len(value) > 1:
                kinds[name].add("rows")


def _is_of_a_library(file: str) -> bool:
    _, found, rest = file.rpartition("site-packages/")
    return bool(found) and rest.partition("/")[0].removesuffix(".py") not in NOT_MUTATED and "/" in rest


@dataclass(frozen=True)
class Place:
    operator: str
    file: str
    function: Key
    line: int
    node: int
    """The number of the node in `ast.walk`."""
    variant: int


class Library:
    """The sources of the functions that were executed, and what may stand in the place of their nodes."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.sources = {file: Path(file).read_text(encoding="utf-8") for file, _ in seen.lines}
        self.functions: list[FunctionType] = []
        executed = {file: [place for place in seen.lines if place[0] == file] for file in self.sources}
        functions = living_functions()
        self.functions = [each for each in functions if each.__code__.co_filename in self.sources]
        living = {(each.__code__.co_filename, key(each.__code__)) for each in self.functions}
        self.places: list[Place] = []
        for file, places in executed.items():
            tree = ast.parse(self.sources[file])
            own = self._own_codes(file)
            for number, node in enumerate(ast.walk(tree)):
                line = getattr(node, "lineno", None) or _line_within(node)
                at = [place for place in places if self._is_within(own, place, node, line, living)]
                if not at or line is None:
                    continue
                place = max(at, key=lambda place: place[1][1])
                kinds = seen.kinds.get(place, {})
                # A function begins at its first decorator, and its call is an event of that line.
                line = place[1][1] if isinstance(node, ast.FunctionDef) else line
                for name, operator in OPERATORS.items():
                    for variant, _ in enumerate(operator(node, kinds)):
                        self.places.append(Place(name, file, place[1], line, number, variant))

    def _own_codes(self, file: str) -> dict[Key, tuple[int, int]]:
        """The first and the last line of each function."""
        compiled = compile(self.sources[file], file, "exec", dont_inherit=True)
        found = {}
        for code in codes(compiled):
            numbers = [line for each in codes(code) for _, _, line in each.co_lines() if line]
            found[key(code)] = code.co_firstlineno, max(numbers, default=0)
        return found

    def _is_within(
        self, own: dict[Key, tuple[int, int]], place: tuple[str, Key], node: ast.AST, line: int | None, living: set[Any]
    ) -> bool:
        if place not in living or place[1] not in own or line is None:
            return False
        first, last = own[place[1]]
        if isinstance(node, ast.FunctionDef):
            return place[1][0].split(".")[-1] == node.name and first <= node.lineno <= first + len(node.decorator_list)
        return first < line <= last and line in self.seen.lines[place]

    def mutated(self, place: Place) -> tuple[str, str, dict[Key, Any]]:
        """The text before and after, and the codes of the functions that differ."""
        source = self.sources[place.file]
        tree = ast.parse(source)
        node = next(each for number, each in enumerate(ast.walk(tree)) if number == place.node)
        kinds = self.seen.kinds.get((place.file, place.function), {})
        new = list(OPERATORS[place.operator](node, kinds))[place.variant]
        for each in new if isinstance(new, list) else [new]:
            _located(each, place.line)
        before, after = (_shown(each) for each in (node, new))
        changed = ast.fix_missing_locations(_Swapped(node, new).visit(tree))
        compiled = compile(changed, place.file, "exec", dont_inherit=True)
        return before, after, changed_functions(compile(source, place.file, "exec", dont_inherit=True), compiled)


class _Swapped(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: Any) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


def _line_within(node: ast.AST) -> int | None:
    return next((each.lineno for each in ast.walk(node) if hasattr(each, "lineno")), None)


def _located(new: ast.AST, line: int) -> None:
    """Give what is new the line of what it replaces."""
    for each in ast.walk(new):
        if isinstance(each, ast.expr | ast.stmt) and not hasattr(each, "lineno"):
            each.lineno = each.end_lineno = line
            each.col_offset = each.end_col_offset = 0


def _shown(node: Any) -> str:
    if isinstance(node, ast.FunctionDef):
        body = [each for each in node.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
        return f"def {node.name}: {ast.unparse(body[0])}"[:160]
    if isinstance(node, ast.For | ast.If):
        return ast.unparse(node).splitlines()[0][:160]
    texts = [ast.unparse(each) for each in (node if isinstance(node, list) else [node])]
    return " ".join("; ".join(texts).split())[:160]


class Trial:
    """One target, and the mutants of what it executes."""

    def __init__(self, target: ec.Target, seed: int, count: int) -> None:
        self.seen = Seen()
        self.target = target
        self.plain = replace(target, reference=None, factory=self._noted(target.factory))
        started = time.process_time()
        for stream in streams(self.plain, 2, seed):
            values(self.plain, stream)  # libraries are imported where they are first used
        self.streams: list[tuple[Stream, list[Any], dict[tuple[str, Key], set[int]]]] = []
        before = time.process_time()
        for stream in streams(self.plain, count, seed):
            with self.seen.recorded(of_checks=False) as lines:
                expected = values(self.plain, stream)
            self.streams.append((stream, expected, lines))
            if time.process_time() - before > STREAM_SECONDS:
                break
        self.checks: dict[str, dict[tuple[str, Key], set[int]]] = {}
        self.of_reference: list[str] = []
        for check in target.checks:
            given = target if check.code in OF_REFERENCE else self.plain
            if check.marks:  # real processes: a rank would import the library as it is
                continue
            with self.seen.recorded() as lines:
                cell = _run(given, check.code)
            if cell is None or cell.outcome not in ("passed", "known"):
                continue
            if check.code in OF_REFERENCE or _reads_exact(target, check.code):
                self.of_reference.append(check.code)
            self.checks[check.code] = dict(lines)
        self.streams = self._same_in_a_fork()
        self.seconds = time.process_time() - started
        self.library = Library(self.seen)

    def _same_in_a_fork(self) -> list[Any]:
        """Streams with the same values after the checks, in a process as that of a mutant: else each would differ."""

        def compare(tell: Callable[..., None]) -> None:
            pairs = enumerate((values(self.plain, stream), expected) for stream, expected, _ in self.streams)
            tell(outcome="compared", differs=[n for n, (one, other) in pairs if differ(self.target, one, other)])

        differs = _in_fork(compare, 10 * STREAM_SECONDS).get("differs", [])
        return [each for n, each in enumerate(self.streams) if n not in differs]

    def _noted(self, factory: Callable[..., Any]) -> Callable[..., Any]:
        """The factory; what it executes is not recorded."""

        @wraps(factory)
        def noted(*args: Any, **kwargs: Any) -> Any:
            before, self.seen.building = self.seen.building, True
            try:
                return factory(*args, **kwargs)
            finally:
                self.seen.building = before

        return noted

    def drawn(self, dice: random.Random, operators: Container[str] = OPERATORS) -> Iterator[Place]:
        """Places without end or until none is left: an operator, one of its functions, and a place there."""
        left: dict[str, dict[Any, list[Place]]] = {}
        for place in (place for place in self.library.places if place.operator in operators):
            left.setdefault(place.operator, {}).setdefault((place.file, place.function), []).append(place)
        holding = {
            place for place, kinds in self.seen.kinds.items() if set().union(*kinds.values()) & {"rows", "floats"}
        }
        while left:
            for operator in dice.sample(sorted(left), len(left)):
                functions = sorted(left[operator])
                if dice.random() < WITH_DATA:
                    functions = [each for each in functions if each in holding] or functions
                function = dice.choice(functions)
                places = left[operator][function]
                yield places.pop(dice.randrange(len(places)))
                if not places:
                    del left[operator][function]
                if not left[operator]:
                    del left[operator]

    def place_of(self, mutant: Mapping[str, Any]) -> Place | None:
        """Return the place of a mutant that an earlier process tried; None where the library has it no more."""
        for place in self.library.places:
            found = place.operator, place.file.rpartition("site-packages/")[2], place.line, place.function[0]
            if found == tuple(mutant[name] for name in ("operator", "file", "line", "function")):
                before, after, _ = self.library.mutated(place)
                if (before, after) == (mutant["before"], mutant["after"]):
                    return place
        return None

    def outcomes(self, place: Place, most: float) -> dict[str, str]:
        """Return what each check that executes the line of a mutant says, by its code: a fork for each."""
        *_, changed = self.library.mutated(place)
        tries = {code: partial(self._try_check, place, changed, code) for code in self._reaching(place)}
        return {code: _in_fork(work, most)["outcome"] for code, work in tries.items()}

    def _reaching(self, place: Place) -> list[str]:
        """Return the checks that execute the line of a place."""
        function = place.file, place.function
        always = function in self.seen.built
        return [code for code, lines in self.checks.items() if always or place.line in lines.get(function, ())]

    def _try_check(self, place: Place, changed: dict[Key, Any], code: str, tell: Callable[..., None]) -> None:
        vars(builtins).update(HELPERS)
        replace_code(self.library.functions, place.file, changed)
        tell(outcome="passed" if self._failed(code) is None else "failed")

    def _failed(self, code: str) -> ec.Cell | None:
        """Return the cell of a check that fails in this process; None where it does not."""
        cell = _run(self.target if code in self.of_reference else replace(self.plain), code)
        return cell if cell is not None and cell.outcome == "failed" and not cell.stale else None

    def tried(self, place: Place, dice: random.Random, most: float) -> dict[str, Any]:
        """Return the outcome of a mutant, which is tried in a fork."""
        try:
            before, after, changed = self.library.mutated(place)
        except (SyntaxError, ValueError, TypeError) as error:
            return {"outcome": "not compiled", "why": str(error)[:100]}
        about = {"before": before, "after": after}
        if not changed:
            return {"outcome": "not compiled", **about}
        function = place.file, place.function
        always = function in self.seen.built
        order = self._reaching(place)
        dice.shuffle(order)
        order.sort(key=lambda code: code in self.of_reference)
        # A stream that does not execute the line has the values that it had.
        reached = [each[:2] for each in self.streams if always or place.line in each[2].get(function, ())]
        if not reached:
            return {**about, "reach": len(order), "streams": 0, "outcome": "equivalent"}
        told = _in_fork(lambda tell: self._judge(place, changed, reached, order, tell), most)
        return {**about, "reach": len(order), **told}

    def _judge(
        self,
        place: Place,
        changed: dict[Key, Any],
        reached: list[tuple[Stream, list[Any]]],
        order: list[str],
        tell: Callable[..., None],
    ) -> None:
        vars(builtins).update(HELPERS)
        try:
            replace_code(self.library.functions, place.file, changed)
        except ValueError:
            return tell(outcome="not compiled")
        used = differs = raised = 0
        for stream, expected in reached:
            used += 1
            actual = values(self.plain, stream)
            if differ(self.target, actual, expected):
                differs += 1
                raised += len(actual) < len(expected) or _errors(actual) > _errors(expected)
                if differs == 3:
                    break
        tell(streams=used)
        if not differs:
            return tell(outcome="equivalent")
        if raised == differs == used:
            return tell(outcome="error always")
        tried = []
        for code in order:
            tell(running=code)
            cell = self._failed(code)
            tried.append(code)
            if cell is not None:
                by = "found by reference" if code in self.of_reference else "found"
                return tell(outcome=by, by=code, tried=tried, signature=cell.signature, reason=cell.reason[:160])
        return tell(outcome="survived", tried=tried)


def _reads_exact(target: ec.Target, code: str) -> bool:
    """Return whether a check compares with the exact numbers that the author of a loop gives."""
    if target.kind != "loop" or code != "EC501":
        return False
    arguments = {"device": "cpu"} if "device" in target.arguments else {}
    return getattr(target.factory(**arguments), "exact", None) is not None


def _errors(seen: list[Any]) -> int:
    return sum(type(value).__name__ == "Raised" for value in seen)


def _run(target: ec.Target, code: str) -> ec.Cell | None:
    request = RunRequest.of(replace(target), "cpu", select=code, ignore="", effort="quick", timeout=None)
    cells = [(check, device) for check, device in request.cells if check.code == code]
    return request.run(*cells[0], request.arguments({})) if cells else None


def _in_fork(work: Callable[[Callable[..., None]], None], seconds: float) -> dict[str, Any]:
    """Return the messages of the work in a fork; its CPU seconds are limited."""
    read, write = os.pipe()
    started = os.times()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 3))
            signal.alarm(int(40 * seconds))  # a wait takes no CPU
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            work(lambda **said: _tell(write, said))
        except BaseException as error:
            _tell(write, {"outcome": "error of the trial", "why": f"{type(error).__name__}: {error}"[:200]})
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        told: dict[str, Any] = {}
        for line in pipe:
            told.update(json.loads(line))
    os.waitpid(pid, 0)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # what it started
    now = os.times()
    used = now.children_user + now.children_system - started.children_user - started.children_system
    return {"outcome": "not finished", **told, "seconds": round(used, 2)}


def _tell(write: int, said: dict[str, Any]) -> None:
    os.write(write, (json.dumps(said) + "\n").encode())

"""What a replay calls outside of the suite, in order: each call as a statement over the results of earlier ones."""

from __future__ import annotations

import functools
import itertools
import operator
import os
import sys
import threading
import types
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pytest_evalcheck.scripts.callables import (
    PARTS_BY_NAME,
    SIGNS,
    UNARY,
    changes_operands,
    changes_process,
    is_gone_through,
    is_uninteresting,
    kind_of,
    method_of,
    name_for,
    reads,
    records_gradients,
    without_partial,
    writes_container,
    writes_without_history,
)
from pytest_evalcheck.scripts.literals import Text, Unwritable, Writer, name_of_callable, numbers_in, usual_name
from pytest_evalcheck.scripts.values import PLAIN, floats_in, is_trackable, own_numbers, parts_of

_SEEDS = {"torch": "torch.manual_seed", "numpy.random": "numpy.random.seed", "random": "random.seed"}


@dataclass
class Step:
    """One statement."""

    text: str
    """Its expression, or the whole statement; results of earlier steps stand in it as ``<number>``."""
    uses: frozenset[int]
    """The results that it reads, or changes."""
    changes: frozenset[int] = frozenset()
    """The results that it may change."""
    result: Any = None
    keeps: bool = False
    """Whether it has a result that later steps may use."""
    hint: str = "value"
    """What its result may be called."""
    always: bool = False
    """Whether it changes the process, so that it stays where nothing uses it."""
    seeds: bool = False
    """Whether it sets a generator of random numbers, as the suite does before each factory."""
    error: BaseException | None = None
    missing: str = ""
    """Why it cannot be written; empty where it can."""
    imports: frozenset[str] = frozenset()
    sources: tuple[Any, ...] = ()
    """Functions and classes of the file of the target that it names."""
    library: bool = False
    """Whether it is a call into the code under test."""
    creates: bool = False
    """Whether it is a call of a class of the code under test."""
    literal: str = ""
    """Of a value that is written out: the text, without earlier results."""
    keys: tuple[Any, ...] = ()
    """Of a mapping that is written out: its keys then."""
    inference: bool = False
    """Whether it must run under ``torch.inference_mode()``."""
    world: tuple[int, int] | None = None
    """Of what one rank of several calls together with the others: the number of its group, and the rank."""
    rank: tuple[int, int] | None = None
    """Of what one rank does in a thread of its own: the number of the run of all ranks, and the rank."""
    number: int = -1
    """Its place on the tape."""


@dataclass
class Tape:
    """The steps so far, and by which of them each object came."""

    steps: list[Step] = field(default_factory=list)
    rewritten: set[str] = field(default_factory=set)
    """The modules whose calls come here: what they call of each other is no step."""
    frozen: bool = False
    without_gradients: bool = False
    """Whether values were written into while torch recorded no gradients, as it must not then."""

    environment: dict[str, str] = field(default_factory=dict)
    """The variables that a file of targets has set, by which a library may choose its backend when it is imported."""

    def __post_init__(self) -> None:
        self._expressions: dict[int, str] = {}
        self._given: dict[int, float] = {}
        """Numbers that stand in values which are written out."""
        self._known: Mapping[int, Any] = ChainMap[int, Any](self._expressions, self._given)
        self._memory_of: dict[int, frozenset[int]] = {}
        """By the number of a tensor that was made of an array: the steps of the array, which is written with it."""
        self._groups: dict[Any, int] = {}
        self._made: dict[int, tuple[Any, tuple[Any, ...], Mapping[str, Any]]] = {}
        """How objects of the suite were made, which code under test may be given."""
        self._alive: list[Any] = []
        self._inside = threading.local()
        self._writing = threading.RLock()
        """Ranks are threads: Python 3.11 parses a source in one thread at a time alone."""
        self.writer = Writer(self)

    # What the rewritten modules call.

    def call(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Make a call, and note it where it goes to code that is not the suite's."""
        function, args, kwargs = without_partial(function, args, kwargs)
        if function is type and len(args) == 3 and isinstance(args[2], dict):
            # A class is of the module that makes it, which `type` takes from who calls it.
            args[2].setdefault("__module__", sys._getframe(1).f_globals["__name__"])
        if function is threading.Thread and self._quiet() and "target" in kwargs:
            kwargs = {**kwargs, "target": functools.partial(self._silently, kwargs["target"])}
        if self._passes(function):
            if not self._quiet() and self._is_of_what_was_given(function):
                return self._noted(function, args, kwargs)
            made = function(*args, **kwargs)
            if isinstance(function, type) and not self._quiet():
                self._made[id(made)] = (function, args, kwargs)
                self._alive.append(made)
            return made
        if isinstance(function, operator.methodcaller) and len(args) == 1:
            name, given, options = method_of(function)
            return self.call(self.attribute(args[0], name), *given, **options)
        if function is getattr and len(args) >= 2 and isinstance(args[1], str):
            value = getattr(*args)
            self._note_path(args[0], value, f".{args[1]}")
            return value
        if getattr(function, "__self__", None) is os.environ and getattr(function, "__name__", "") == "setdefault":
            self.environment[args[0]] = function(*args)
            return self.environment[args[0]]
        if self._is_about_containers(function, args):
            return function(*args, **kwargs)
        if function in (list, tuple, zip) and not self._quiet():
            args = tuple(self.each(one) if is_gone_through(one) else one for one in args)
        if function is setattr and len(args) == 3:
            self.set_attribute(*args)
            return None
        return self._noted(function, args, kwargs)

    def attribute(self, thing: Any, name: str, /) -> Any:
        """Read an attribute."""
        value = getattr(thing, name)
        self._note_path(thing, value, f".{name}")
        return value

    def item(self, thing: Any, index: Any, /) -> Any:
        """Read an element."""
        if self._quiet() or self.expression(thing) is None:
            return thing[index]
        if isinstance(thing, (dict, list, tuple)):
            value = thing[index]
            with suppress(Unwritable):
                self._note_path(thing, value, f"[{self.writer.index(index).text}]")
            return value
        return self._operation("{}[{}]", operator.getitem, thing, index)

    def each(self, things: Any, /) -> Any:
        """Iterate; the elements of what came by a step are known by their places in it."""
        if self._quiet() or self.expression(things) is None:
            return things
        if isinstance(things, (list, tuple)):
            for path, thing in parts_of(things):
                self._note_path(things, thing, path)
                self._note_values(thing)
            return things
        if type(things).__module__ == "torch" and hasattr(things, "dim") and things.dim():
            return (self.item(things, index) for index in range(len(things)))
        drawn = isinstance(things, Iterator) and self._is_of_a_library(self._bases(things))
        return self._drawn(things) if drawn else things

    def _is_of_a_library(self, numbers: frozenset[int]) -> bool:
        """Whether a call of the code under test is among these steps, or made what they read."""
        seen: set[int] = set()
        pending = list(numbers)
        while pending:
            number = pending.pop()
            if self.steps[number].library:
                return True
            seen.add(number)
            pending += self.steps[number].uses - seen
        return False

    def _drawn(self, iterator: Iterator[Any]) -> Iterator[Any]:
        """What an iterator gives, each by a step of its own: the code behind it runs when it is asked."""
        base = self.expression(iterator)
        uses = self._bases(iterator)
        while True:
            with self.silent():
                try:
                    thing = next(iterator)
                except StopIteration:
                    return
            step = self._add(Step(f"next({base})", uses, uses, result=thing, keeps=True, hint="item"))
            if is_trackable(thing):
                self._keep_with_parts(thing, f"<{step.number}>")
            yield thing

    def entered(self, manager: Any, /) -> Any:
        """Enter a context manager; one that came by a call may change what that call was given."""
        base = None if self._quiet() else self.expression(manager)
        return manager if base is None else _Entered(self, manager, base)

    def note_block(self, base: str, method: str) -> None:
        """Note that a context manager was entered or left."""
        own = numbers_in(base)
        uses = own.union(*(self.steps[number].uses for number in own))
        self._add(Step(f"{base}.{method}", uses, uses))

    def operator(self, sign: str, left: Any, right: Any, /) -> Any:
        """Apply a binary operator, or compare."""
        function = SIGNS[sign]
        if self._quiet() or (self.expression(left) is None and self.expression(right) is None):
            return function(left, right)
        return self._operation(f"({{}} {sign} {{}})", function, left, right)

    def unary(self, sign: str, value: Any, /) -> Any:
        """Apply a unary operator."""
        function = UNARY[sign]
        if self._quiet() or self.expression(value) is None:
            return function(value)
        return self._operation(f"({sign}{{}})", function, value)

    def set_attribute(self, thing: Any, name: str, value: Any, /) -> None:
        """Write an attribute."""
        setattr(thing, name, value)
        self._note_write(thing, f"{{}}.{name} = {{}}", value)

    def set_item(self, thing: Any, index: Any, value: Any, /) -> None:
        """Write an element."""
        if thing is os.environ:
            self.environment[index] = value
        if self._quiet() or self.expression(thing) is None:
            thing[index] = value
            return
        try:
            at = self.writer.index(index)
        except Unwritable as why:
            thing[index] = value
            self._add(Step("", self._bases(thing), changes=self._bases(thing), missing=str(why)))
            return
        thing[index] = value
        self._note_write(thing, f"{{}}[{at.text}] = {{}}", value)

    # What a writer asks.

    def expression(self, value: Any) -> str | None:
        """How an object is written, from the step that it came by; None where none did."""
        return self._expressions.get(id(value))

    def made(self, value: Any) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        """The class and the arguments by which an object of the suite was made; None for any other."""
        return self._made.get(id(value))

    def name_of(self, thing: Any) -> str:
        """Its own name: the text of a step is final."""
        return usual_name(thing)

    def resolved(self, function: Any, source: str) -> None:
        """None: the names of its module stand in a step as they are."""
        del function, source

    def lists(self) -> Iterator[tuple[list[Any], str]]:
        """The lists that came by calls, the last ones first, and how they are written."""
        for thing in reversed(self._alive):
            text = self.expression(thing) if type(thing) is list and thing else None
            if text and not any(self.steps[number].literal for number in numbers_in(text)):
                yield thing, text

    def keep(self, value: Any, expression: str) -> None:
        """Write an object so from now on."""
        self._expressions[id(value)] = expression
        self._alive.append(value)  # no other object may get its id

    def literal(self, value: Any, text: str, hint: str, imports: frozenset[str], parts: Text | None = None) -> str:
        """A step for a value that is written out, since later steps may change or read the same object.

        Where it holds results of earlier steps, ``parts`` says what it needs.
        """
        step = Step(text, frozenset(), result=value, keeps=True, hint=hint, imports=imports, literal=text)
        step.keys = tuple(value) if isinstance(value, dict) else ()
        if parts is not None:
            step.uses, step.sources, step.literal = parts.uses, parts.sources, "" if parts.uses else text
        else:
            self._given |= {id(number): number for number in floats_in(value)}
        self._add(step)
        self.keep(value, f"<{step.number}>")
        return f"<{step.number}>"

    def called(self, function: Any, *args: Any, hint: str, index: str = "") -> tuple[Any, str]:
        """The result of a function of the suite, which stands in the script as its source; and how it is written.

        Raises:
            Unwritable: where it has no form as source.
        """
        called, given = self.writer.callee(function), self.writer.arguments(function, args, {})
        made = called + given
        with self.silent():
            result = function(*args)
        text = f"{called.text}({given.text}{index})"
        step = Step(text, made.uses, result=result, keeps=True, hint=hint, imports=made.imports, sources=made.sources)
        self._add(step)
        self.keep(result, f"<{step.number}>")
        return result, f"<{step.number}>"

    def seeded(self, seed: int) -> None:
        """Note that the generators of random numbers were set, as they are before each call of a factory."""
        for package, call in _SEEDS.items():
            if package in sys.modules:
                needs = frozenset({f"import {package.partition('.')[0]}"})
                self._add(Step(f"{call}({seed})", frozenset(), seeds=True, imports=needs))

    def together(self, calls: Sequence[Any], result: Any) -> None:
        """Note calls without arguments that all ranks of a group make together; ``result`` is that of rank 0.

        Ranks whose calls are those of the same objects are one group.
        """
        made = []
        for call in calls:
            try:
                text = self.writer.callee(call)
            except Unwritable as why:
                bases = self._bases(getattr(call, "__self__", None))
                made.append(Step("", bases, bases, keeps=True, missing=str(why)))
            else:
                made.append(Step(f"{text.text}()", text.uses, text.uses, keeps=True, imports=text.imports))
            made[-1].library = True
        self._group(made, [result])

    @contextmanager
    def on_rank(self, run: int, rank: int) -> Iterator[None]:
        """What this thread does in this block is done by one rank."""
        self._inside.rank = (run, rank)
        try:
            yield
        finally:
            self._inside.rank = None

    def made_by(self, value: Any, cls: type, *args: Any) -> None:
        """Write an object of the suite by a call of this class, in place of the one that made it."""
        self._made[id(value)] = (cls, args, {})
        self.writer.text(value, "made")

    def threads_ended(self, run: int, results: Sequence[Any], part: str) -> None:
        """Note that the ranks of a run, which were threads, have ended; each becomes a process of its own.

        A process gives back this ``part`` of a mapping, since the whole may not be sent from process to process.
        """
        last, parts = [], []
        for rank, result in enumerate(results):
            step = next((s for s in reversed(self.steps) if s.rank == (run, rank) and s.library), None)
            if step is None:
                return
            is_whole = not isinstance(result, Mapping)
            text = f"<{step.number}>" + ("" if is_whole else f"[{part!r}]")
            last.append(Step(text, frozenset({step.number}), rank=step.rank, library=True))
            parts.append(result if is_whole else result[part])
        self.apart(last, parts)

    def apart(self, last: Sequence[Step], results: Sequence[Any]) -> None:
        """Note that these steps end what the ranks of a group did, each in a process of its own; and their results."""
        self._group([replace(step) for step in last], results)

    def _group(self, steps: Sequence[Step], results: Sequence[Any]) -> None:
        key = tuple(step.uses for step in steps)
        group = self._groups.setdefault(key, len(self._groups))
        for rank, step in enumerate(steps):
            step.world, step.keeps, step.hint = (group, rank), True, "value"
            if rank < len(results):
                step.result = results[rank]
            self._add(step)
        for step, result in zip(steps, results, strict=False):
            if is_trackable(result):
                self._keep_with_parts(result, f"<{step.number}>")

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Nothing in this block is noted."""
        before = self._quiet()
        self._inside.quiet = True
        try:
            yield
        finally:
            self._inside.quiet = before

    def _silently(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """What a thread does that was started where nothing is noted."""
        with self.silent():
            return function(*args, **kwargs)

    def _quiet(self) -> bool:
        return self.frozen or getattr(self._inside, "quiet", False)

    def _passes(self, function: Any) -> bool:
        """Whether a call is not looked at: it is inside of one that is, or goes to the suite."""
        return self._quiet() or self._is_of_the_suite(function)

    def _is_of_the_suite(self, function: Any) -> bool:
        owner = getattr(function, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            module = (owner if isinstance(owner, type) else type(owner)).__module__
        elif isinstance(function, _NAMED):
            module = function.__module__
        else:
            module = type(function).__module__
        module = str(module)
        if module == "pytest_evalcheck" or module.startswith(
            ("pytest_evalcheck.", "hypothesis.", "pytest.", "_pytest.")
        ):
            return True
        if module not in self.rewritten:
            return False
        # Of a file of targets, classes are code under test; its functions are written as what they call.
        return isinstance(function, (types.FunctionType, functools._lru_cache_wrapper))

    def _is_of_what_was_given(self, function: Any) -> bool:
        """Whether it is a method of an object of the suite that code under test was given."""
        owner = getattr(function, "__self__", None)
        return id(owner) in self._made and self.expression(owner) is not None

    def _is_about_containers(self, function: Any, args: tuple[Any, ...]) -> bool:
        """Whether a call writes into, orders or reads a container of the suite: what it holds is known by itself."""
        if writes_container(function):
            return self.expression(function.__self__) is None
        if function not in (sorted, itertools.islice) or not args or self.expression(args[0]) is not None:
            return False
        if function is sorted and type(args[0]) is list:
            return all(isinstance(one, (dict, list, tuple)) for one in args[0])
        return type(args[0]) in (list, dict)

    def _noted(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        kind = kind_of(function)
        # A generator of random numbers goes on with each draw.
        changing = changes_operands(function, kind) or self.expression(kwargs.get("generator")) is not None
        operands = self._operands((*args, *kwargs.values()))
        owner = getattr(function, "__self__", None)
        owned = owner is not None and not isinstance(owner, (types.ModuleType, type)) and kind != "builtin"
        if owned and self.expression(owner) is not None:
            operands |= self._bases(owner)
        elif self.expression(function) is not None:
            operands |= self._bases(function)
        globally = changes_process(function)
        wanted = globally or kind == "library" or bool(operands)
        if not wanted or is_uninteresting(function):
            self._note_values(owner)
            return function(*args, **kwargs)
        if reads(function, args, kwargs):
            changing, kind = False, "numeric"
        step = self._written(function, args, kwargs, kind)
        step.always, step.library = globally, kind == "library"
        try:
            with self.silent():
                result = function(*args, **kwargs)
        except BaseException as error:
            step.error, step.keeps, step.hint = error, True, "error"
            step.changes = step.uses if changing else frozenset()
            self._add(step)
            self.keep(error, f"<{step.number}>")
            raise
        if kind == "library" and self.expression(result) is None:
            result = own_numbers(result, self._known)
        if step.changes or changing:
            step.inference = kind == "numeric" and writes_without_history(function)
            self.without_gradients |= kind == "numeric" and not step.inference and not records_gradients()
        step.result, step.keeps = result, is_trackable(result) or kind == "library"
        step.changes = step.uses.union(*(self._memory_of[one] for one in step.uses & {*self._memory_of}))
        step.changes = step.changes if changing else frozenset()
        if reads(function, args, kwargs) and function.__name__ in PARTS_BY_NAME and self.expression(owner) is not None:
            return self._named_parts(owner, function.__name__, result)
        if kind != "library" and not step.keeps and not step.changes and not globally:
            return result
        self._add(step)
        if kind == "numeric" and getattr(function, "__name__", "") in _SHARES_MEMORY:
            self._memory_of[step.number] = step.uses
        if is_trackable(result):
            in_place = any(result is operand for operand in (owner, *args))
            if not in_place:
                self._keep_with_parts(result, f"<{step.number}>")
        return result

    def _named_parts(self, owner: Any, method: str, found: Any) -> Any:
        """The parameters, buffers or modules of a model, each known by its name in it."""
        found = list(found)
        getter, named = PARTS_BY_NAME[method]
        names = {id(part): name for name, part in getattr(owner, named)()}
        base = self.expression(owner)
        for one in found:
            part = one[1] if isinstance(one, tuple) else one
            if name := names.get(id(part)):
                self.keep(part, f"{base}.{getter}({name!r})")
        return iter(found)

    def _written(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: str) -> Step:
        try:
            with self._writing:
                called = self.writer.callee(function)
                given = self.writer.arguments(function, args, kwargs)
        except Exception as why:  # an object of any library is looked at; the replay must go on
            uses = self._operands((*args, *kwargs.values())) | self._bases(function)
            owner = getattr(function, "__self__", None)
            uses |= self._bases(owner) if owner is not None else frozenset()
            return Step("", uses, missing=f"{name_of_callable(function)}: {why}", hint="value")
        made = called + given
        return Step(
            f"{called.text}({given.text})",
            made.uses,
            hint=name_for(function, kind),
            creates=isinstance(function, type),
            imports=made.imports,
            sources=made.sources,
        )

    def _operation(self, form: str, function: Callable[..., Any], *operands: Any) -> Any:
        result = function(*operands)
        if not is_trackable(result):
            return result
        try:
            texts = [self.writer.index(operand) for operand in operands]
        except Unwritable as why:
            step = Step("", self._operands(operands), missing=str(why), result=result, keeps=True)
        else:
            made = functools.reduce(operator.add, texts)
            text = form.format(*(one.text for one in texts))
            step = Step(text, made.uses, result=result, keeps=True, imports=made.imports, sources=made.sources)
        self._add(step)
        self.keep(result, f"<{step.number}>")
        return result

    def _note_path(self, thing: Any, value: Any, path: str) -> None:
        if self._quiet() or isinstance(value, PLAIN) or self.expression(value) is not None:
            return
        if type(value).__module__ == "torch" and not is_trackable(value):
            return
        base = self.expression(thing)
        if base is not None and not isinstance(value, types.MethodType | types.BuiltinMethodType):
            self.keep(value, base + path)

    def _note_values(self, mapping: Any) -> None:
        """What a mapping holds is known by its keys, however it is gone through."""
        if isinstance(mapping, Mapping) and self.expression(mapping) is not None:
            for path, value in parts_of(mapping):
                self._note_path(mapping, value, path)

    def _note_write(self, thing: Any, form: str, value: Any) -> None:
        if self._quiet() or self.expression(thing) is None:
            return
        bases = self._bases(thing)
        try:
            written = self.writer.text(value, "value")
        except Unwritable as why:
            self._add(Step("", bases, changes=bases, missing=str(why)))
            return
        text = form.format(self.expression(thing), written.text)
        self._add(Step(text, bases | written.uses, bases, imports=written.imports, sources=written.sources))

    def _add(self, step: Step) -> Step:
        with self._writing:
            step.number = len(self.steps)
            self.steps.append(step)
        step.rank = step.rank or getattr(self._inside, "rank", None)
        self._alive.append(step.result)
        return step

    def _keep_with_parts(self, value: Any, expression: str, depth: int = 2) -> None:
        self.keep(value, expression)
        for path, part in parts_of(value)[:_MOST_PARTS] if depth else ():
            self._keep_with_parts(part, expression + path, depth - 1)

    def _bases(self, value: Any) -> frozenset[int]:
        expression = self.expression(value)
        return frozenset() if expression is None else numbers_in(expression)

    def _operands(self, values: Any, depth: int = 3) -> frozenset[int]:
        found: frozenset[int] = frozenset()
        for value in values:
            found |= self._bases(value)
            if depth and isinstance(value, (list, tuple)):
                found |= self._operands(value, depth - 1)
            elif depth and isinstance(value, dict):
                found |= self._operands(value.values(), depth - 1)
        return found


class _Entered:
    """A context manager of the code under test, whose beginning and end are steps."""

    def __init__(self, tape: Tape, manager: Any, base: str) -> None:
        self._tape, self._manager, self._base = tape, manager, base

    def __enter__(self) -> Any:
        self._tape.note_block(self._base, "__enter__()")
        with self._tape.silent():
            return self._manager.__enter__()

    def __exit__(self, *error: Any) -> Any:
        self._tape.note_block(self._base, "__exit__(None, None, None)")
        with self._tape.silent():
            return self._manager.__exit__(*error)


_MOST_PARTS = 64
_SHARES_MEMORY = ("from_numpy", "numpy")
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, functools._lru_cache_wrapper)
"""Types of callables that say where they are from themselves; of any other its class says it."""

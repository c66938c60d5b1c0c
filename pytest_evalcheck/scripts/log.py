"""The log of a replay: the calls into the code under test, with arguments and results as source code."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_evalcheck.expectations.call_log import OnEveryRank, watched_by
from pytest_evalcheck.expectations.comparison import EXACT, Raised, difference
from pytest_evalcheck.reports.case_codec import is_plain
from pytest_evalcheck.scripts.literals import Text, Unwritable, Writer, literal_value, numbers_in

_PLAIN = (bool, int, float, str, bytes, type(None), type, types.ModuleType, types.FunctionType)
_READS = {copy.deepcopy, getattr}
_DEPTH, _MOST_PARTS = 3, 64


@dataclass(eq=False)
class Entry:
    """A call, or a value that is written out."""

    number: int
    text: str = ""
    """Its source; ``<n>`` stands for the result of another entry."""
    changes: frozenset[int] = frozenset()
    """The entries whose results it may change."""
    hint: str = "value"
    """The name of its variable."""
    imports: frozenset[str] = frozenset()
    sources: tuple[Any, ...] = ()
    result: Any = None
    copied: Any = None
    """A copy of the result, where it can be compared later."""
    error: BaseException | None = None
    missing: str = ""
    """The reason why it has no source."""
    literal: bool = False
    keys: tuple[Any, ...] = ()
    """Keys of a mapping that is written out."""
    seeds: bool = False
    library: bool = False
    """True where it is a call into code that a script imports or defines."""
    no_grad: bool = False
    """True where it was made where torch records no gradients."""
    inference: bool = False
    """True where it writes into a tensor that was made under ``torch.inference_mode()``."""
    ranks: tuple[tuple[Any, ...], int] | None = None
    """The group of ranks whose last call this is, and its rank."""
    shown: bool = True
    parent: Entry | None = None
    alive: Any = None
    """Its arguments: no other object may get the same id."""

    @property
    def uses(self) -> frozenset[int]:
        """The entries that its source names."""
        return numbers_in(self.text)


@dataclass
class CallLog:
    """The entries of one replay, and where each object that they made is found."""

    is_own: Callable[[str], bool]
    """True where a module is of this package or holds targets, so that a script cannot import it."""
    whole: bool = False
    """True where what a factory returns is a record, which a script defines; otherwise the object behind it."""
    entries: list[Entry] = field(default_factory=list)
    frozen: bool = False
    compared: Callable[[Any], None] | None = None
    """Called with each comparison that fails."""

    def __post_init__(self) -> None:
        self._known: dict[int, str] = {}
        self._records: list[tuple[Any, str]] = []
        self._stack: list[Entry] = []
        self._made: dict[int, Any] = {}
        self.writer = Writer(self)
        self.rewritten = _Own(self.is_own)

    # What is watched.

    def called(self, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call and add it to the log."""
        if self.frozen:
            return call(*args, **kwargs)
        if isinstance(call, OnEveryRank):
            return self._on_ranks(call, args)
        entry = self._written(call, args, kwargs)
        self._stack.append(entry)
        try:
            entry.result = call(*args, **kwargs)
        except BaseException as error:
            entry.error = error
            raise
        finally:
            self._stack.pop()
            self._close(entry, call, args)
        return entry.result

    def seeded(self) -> None:
        """Add that the generators of random numbers start again."""
        if not self.frozen and not self._stack:
            self._add(Entry(0, "seed()", seeds=True))

    def failed(self, failure: Any) -> None:
        """Pass on a comparison that failed."""
        if self.compared is not None:
            self.compared(failure)

    def _written(self, call: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Entry:
        original = (call, args, kwargs)
        while isinstance(call, functools.partial):
            call, args, kwargs = call.func, (*call.args, *args), {**call.keywords, **kwargs}
        owner = _owner(call)
        entry = Entry(0, hint=_hint(call), alive=original, parent=self._stack[-1] if self._stack else None)
        entry.library = not _is_of(call, "builtins", "copy", "pickle", "_pickle")
        torch = sys.modules.get("torch")
        writes = torch is not None and isinstance(owner, torch.Tensor)
        entry.no_grad = torch is not None and not torch.is_grad_enabled() and not writes
        try:
            with watched_by(None):
                made = self._source(call, owner, args, kwargs)
        except Unwritable as why:
            entry.missing = f"{getattr(call, '__qualname__', type(call).__qualname__)}: {why}"
            entry.text = " ".join(self._expressions((owner, *args, *kwargs.values())))
        except Exception as error:  # any object of any library is looked at, and the replay must go on
            entry.missing = f"{type(error).__name__} while a call was written: {error}"
        else:
            entry.text, entry.imports, entry.sources = made.text, made.imports, made.sources
        entry.changes = self._changes(call, owner, entry)
        entry.inference = bool(writes and owner.is_inference())
        return self._add(entry)

    def _source(self, call: Any, owner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Text:
        name = getattr(call, "__name__", "")
        if call is getattr and self.expression(args[0]):
            return Text(f"{self.expression(args[0])}.{args[1]}")
        if call is setattr and self.expression(args[0]):
            value = self.writer.text(args[2], "value")
            return Text(f"{self.expression(args[0])}.{args[1]} = {value.text}", imports=value.imports)
        if name == "__setitem__" and self.expression(owner):
            key, value = (self.writer.text(part, "value") for part in args)
            return Text(f"{self.expression(owner)}[{key.text}] = {value.text}", imports=key.imports | value.imports)
        known = self.expression(call) or (self.expression(owner) if owner is not None else None)
        if known and owner is not None and name:
            called = Text(known if name == "__call__" else f"{known}.{name}")
        elif known or self._field(call):
            called = Text(known or self._field(call))
        else:
            called = self.writer.callee(call)
        given = self.writer.arguments(call, args, kwargs)
        return Text(
            f"{called.text}({given.text})",
            imports=called.imports | given.imports,
            sources=(*called.sources, *given.sources),
        )

    def _changes(self, call: Any, owner: Any, entry: Entry) -> frozenset[int]:
        name = str(getattr(call, "__name__", ""))
        if call in _READS or _is_of(call, "pickle", "_pickle") or isinstance(call, type):
            return frozenset()
        if name in ("__setitem__", "copyto") or (
            type(owner).__module__ == "torch" and name.endswith("_") and entry.library
        ):
            # What was in a call together may share the memory.
            others = [
                one.uses | {one.number} for one in self.entries if one.uses & entry.uses or one.number in entry.uses
            ]
            return entry.uses.union(*others)
        return entry.uses

    def _on_ranks(self, call: OnEveryRank, args: tuple[Any, ...]) -> Any:
        """Add a call that every rank makes in a process of its own."""
        last = []
        for each in call.calls:
            entry = self._written(each, (), {})
            self.entries.remove(entry)
            last.append(entry)
        before, self.frozen = self.frozen, True
        result: Any = None
        error: BaseException | None = None
        try:
            result = call(*args)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self.frozen = before
            group = tuple(one.text for one in last)
            for rank, entry in enumerate(last):
                entry.ranks, entry.hint, entry.parent = (group, rank), "value", self._stack[-1] if self._stack else None
                if rank == 0:
                    entry.result, entry.error = result, error
                self._add(entry)
            self._keep(result if error is None else error, f"<{last[0].number}>")
        return result

    def _add(self, entry: Entry) -> Entry:
        entry.number = max((one.number for one in self.entries), default=-1) + 1
        self.entries.append(entry)
        return entry

    def _close(self, entry: Entry, call: Any, args: tuple[Any, ...]) -> None:
        inside = [one for one in self.entries if one.shown and _is_inside(one, entry)]
        if inside and self._is_shown_by(entry, inside, call, args):
            entry.shown = False
            return
        self._drop(entry)
        result = entry.result
        if entry.error is not None:
            self._known[id(entry.error)] = f"<{entry.number}>"
            return
        is_record = _is_record(result)
        if is_record:
            made_by_factory = not (args and any(_source_of(result) is one for one in args))
            if made_by_factory and not self.whole and _source_of(result) is not None:
                self._keep(_source_of(result), f"<{entry.number}>")
                entry.hint = _hint_of(_source_of(result))
                return
            self._records.append((result, f"<{entry.number}>"))
            for name in ("source", "model"):
                if getattr(result, name, None) is not None and self.expression(getattr(result, name)) is None:
                    self._keep(getattr(result, name), f"<{entry.number}>.{name}")
            entry.hint = "record"
            entry.changes = frozenset()
        elif (
            isinstance(entry.alive[0], types.FunctionType)
            and not args
            and not (_is_array(result) or isinstance(result, _PLAIN))
        ):
            entry.hint = _hint_of(result)
        entry.copied = _copy(result)
        self._keep(result, f"<{entry.number}>")

    def _drop(self, entry: Entry) -> None:
        gone = {one.number for one in self.entries if _is_inside(one, entry)}
        if gone:
            for one in self.entries:
                one.shown = one.shown and one.number not in gone
            self._known = {key: text for key, text in self._known.items() if not numbers_in(text) & gone}
            self._records = [(record, text) for record, text in self._records if not numbers_in(text) & gone]

    def _is_shown_by(self, entry: Entry, inside: list[Entry], call: Any, args: tuple[Any, ...]) -> bool:
        """Return whether the calls inside of a call of this package say all of it, with its result or its error."""
        while isinstance(call, functools.partial):
            call = call.func
        if not self.is_own(_module(call)):
            return False
        result = entry.result
        if entry.error is not None:
            return any(one.error is entry.error for one in inside)
        if result is None or isinstance(result, bool):
            return True
        if _is_record(result):
            source = self.expression(_source_of(result))
            # An object that nothing has shown has no source: the call that made it is the one to show.
            unwritten = {one.number for one in inside if one.missing}
            return _source_of(result) not in args and source is not None and not numbers_in(source) & unwritten
        numbers = {one.number for one in inside}
        known = self.expression(result)
        if known is not None:
            return True
        with suppress(Unwritable):
            found = self.find(result, only=numbers)
            if not isinstance(result, _PLAIN):
                self._keep(result, found)
            return True
        return False

    # Where an object is found.

    def expression(self, value: Any) -> str | None:
        """Return how an object is written that an entry made; None for any other."""
        return None if isinstance(value, (bool, int, float, str, bytes, type(None))) else self._known.get(id(value))

    def made(self, value: Any) -> tuple[Any, tuple[Any, ...], Mapping[str, Any]] | None:
        """Return None: every object of this package is written by its attributes."""
        cls = type(value)
        if not self.is_own(cls.__module__) or not hasattr(value, "__dict__") or isinstance(value, type):
            return None
        import inspect

        try:
            parameters = list(inspect.signature(cls).parameters)
        except (TypeError, ValueError):
            return None
        return (cls, (), dict(vars(value))) if parameters == list(vars(value)) else None

    def literal(self, value: Any, text: str, hint: str, imports: frozenset[str], parts: Text | None = None) -> str:
        """Add a value that is written out; returns how it is named."""
        sources = parts.sources if parts else ()
        entry = self._add(Entry(0, text, hint=hint, imports=imports, sources=sources, result=value, literal=True))
        self._known[id(value)] = f"<{entry.number}>"
        entry.keys = tuple(value) if type(value) is dict else ()
        return f"<{entry.number}>"

    def name_of(self, thing: Any) -> str:
        """Return the name of a definition."""
        from pytest_evalcheck.scripts.literals import usual_name

        return usual_name(thing)

    def resolved(self, function: Any, source: str) -> str | None:
        """Return None: the names of a lambda are those of its module."""
        del function, source
        return None

    def _keep(self, value: Any, expression: str, depth: int = _DEPTH) -> None:
        if not isinstance(value, _PLAIN):
            self._known[id(value)] = expression
        for path, part in parts_of(value)[:_MOST_PARTS] if depth else ():
            self._keep(part, expression + path, depth - 1)

    def _expressions(self, values: Any) -> Iterator[str]:
        for value in values:
            known = self.expression(value)
            if known is not None:
                yield known
            elif type(value) in (list, tuple):
                yield from self._expressions(value)
            elif type(value) is dict:
                yield from self._expressions(value.values())

    def _field(self, call: Any) -> str:
        """Return how a callable is written that is a field of a record; empty for any other."""
        for record, expression in reversed(self._records):
            for one in dataclasses.fields(record):
                value = getattr(record, one.name)
                if value is call:
                    return f"{expression}.{one.name}"
                if isinstance(value, Mapping):
                    for key, part in value.items():
                        if part is call:
                            return f"{expression}.{one.name}[{key!r}]"
        return ""

    # What a comparison names.

    def find(self, value: Any, *, avoid: frozenset[int] = frozenset(), only: Any = None, plain: bool = False) -> str:
        """Return how a compared value is written, by the newest results that have it.

        Raises:
            Unwritable: where no result has it.
        """
        if isinstance(value, Raised):
            value = value.error
        known = self.expression(value)
        allowed = known is not None and not numbers_in(known) & avoid and (only is None or numbers_in(known) & only)
        if known is not None and allowed and not dataclasses.is_dataclass(value):
            return known
        if isinstance(value, BaseException):
            raise Unwritable(f"the error {type(value).__name__} did not come from a call")
        entries = [
            one
            for one in reversed(self.entries)
            if one.shown
            and one.error is None
            and not one.seeds
            and one.number not in avoid
            and (only is None or one.number in only)
        ]
        calls = [one for one in entries if not one.literal]
        for one in calls:
            for text, candidate in _candidates(one):
                if candidate is value and not isinstance(value, (bool, int, str, type(None))):
                    return text
        for one in calls:
            for text, candidate in (*_candidates(one), *_parts_within(f"copy<{one.number}>", one.copied, 4)):
                if _equal(candidate, value):
                    return text
        if type(value) in (list, tuple) and value:
            parts = [self.find(part, avoid=avoid, only=only, plain=plain) for part in value]
            inside = ", ".join(parts)
            return f"[{inside}]" if type(value) is list else f"({inside},)"
        if isinstance(value, Mapping) and value:
            pairs = [f"{key!r}: {self.find(part, avoid=avoid, only=only, plain=plain)}" for key, part in value.items()]
            return "{" + ", ".join(pairs) + "}"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            pairs = [
                f"{one.name!r}: {self.find(getattr(value, one.name), avoid=avoid, only=only, plain=plain)}"
                for one in dataclasses.fields(value)
            ]
            return "{" + ", ".join(pairs) + "}"
        if value is None or isinstance(value, (bool, str)) or (type(value) in (list, tuple, dict) and not value):
            return repr(value)
        if plain:
            return self.writer.text(value, "expected").text
        raise Unwritable(f"a value of type {type(value).__qualname__} that no call returned")

    def function_of(self, text: str) -> str:
        """Return the name of the function or method whose result a text names; '' for another text."""
        numbers = re.findall(r"<(\d+)>", text)
        entries = [one for one in self.entries if numbers and one.number == int(numbers[0])]
        found = re.search(r"(\w+)\(", entries[0].text) if entries else None
        return found[1] if found else ""

    def changed_input(self) -> tuple[str, str] | None:
        """Return the last value that was written out and is another now, and what it was."""
        for one in reversed(self.entries):
            if one.literal and one.keys and tuple(one.result) != one.keys:
                return f"list(<{one.number}>)", repr([*one.keys])
            if one.literal and not numbers_in(one.text):
                with suppress(Unwritable):
                    if literal_value(one.result) != one.text:
                        return f"<{one.number}>", one.text
        return None


def _candidates(entry: Entry) -> Iterator[tuple[str, Any]]:
    yield from _parts_within(f"<{entry.number}>", entry.result, 4)


def _parts_within(text: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    yield text, value
    if not depth:
        return
    for path, part in parts_of(value)[:_MOST_PARTS]:
        yield from _parts_within(text + path, part, depth - 1)
    by_name = getattr(value, "numbers", value)
    if isinstance(by_name, Mapping) and any(_is_array(part) for part in by_name.values()):
        with suppress(TypeError, ValueError, RuntimeError):
            yield f"numbers({text})", {name: float(part) for name, part in by_name.items()}
    if _is_array(value):
        shape = value.shape
        yield f"{text}.tolist()", value.tolist() if _size(value) < 2000 else None
        if len(shape) > 1 and shape[0] <= _MOST_PARTS:
            for index in range(shape[0]):
                yield f"{text}[{index}]", value[index]
        if len(shape) == 2 and shape[1] <= _MOST_PARTS and "int" in str(value.dtype):
            for start in range(1, shape[1]):
                yield f"{text}[:, {start}:].tolist()", value[:, start:].tolist()


def _is_array(value: Any) -> bool:
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    return any(isinstance(value, cls) for cls in (getattr(torch, "Tensor", ()), getattr(numpy, "ndarray", ())) if cls)


def _size(value: Any) -> int:
    size = 1
    for length in value.shape:
        size *= length
    return size


def _equal(candidate: Any, value: Any) -> bool:
    if isinstance(value, (bool, str, type(None))) or candidate is None:
        return False
    tensor, other = _is_array(value), _is_array(candidate)
    if tensor != other:
        return False
    if tensor and (tuple(value.shape) != tuple(candidate.shape)):
        return False
    if not tensor and type(value) is not type(candidate) and not isinstance(value, Mapping):
        return False
    try:
        return difference(candidate, value, EXACT) is None
    except Exception:
        return False


def _copy(value: Any) -> Any:
    """A copy of a result of numbers; None for any other object."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone()
    if type(value).__module__ == "numpy" or is_plain(value):
        return copy.deepcopy(value)
    if (isinstance(value, (list, tuple)) and value) or (isinstance(value, dict) and value):
        parts = value.values() if isinstance(value, dict) else value
        if all(_copy(part) is not None for part in parts):
            with suppress(Exception):
                return copy.deepcopy(value)
    return None


def parts_of(value: Any) -> list[tuple[str, Any]]:
    """Return the parts of a mapping, a sequence or a dataclass, each with its place as source code."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", part) for key, part in value.items() if isinstance(key, (str, int))]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return [(f".{name}", getattr(value, name)) for name in value._fields]
    if isinstance(value, (list, tuple)):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type) and not _is_record(value):
        return [(f".{one.name}", getattr(value, one.name, None)) for one in dataclasses.fields(value)]
    return []


def _is_record(value: Any) -> bool:
    """Return whether a value is a record of callables around the code under test."""
    return (
        dataclasses.is_dataclass(value)
        and type(value).__module__.startswith("pytest_evalcheck.kinds.")
        and hasattr(value, "conventions" if not hasattr(value, "evaluate") else "evaluate")
    )


def _source_of(record: Any) -> Any:
    source = getattr(record, "source", None)
    return source if source is not None else getattr(record, "model", None)


def _is_inside(entry: Entry, outer: Entry) -> bool:
    while entry.parent is not None:
        entry = entry.parent
        if entry is outer:
            return True
    return False


def _module(call: Any) -> str:
    owner = getattr(call, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return str((owner if isinstance(owner, type) else type(owner)).__module__)
    named = isinstance(call, type) or hasattr(call, "__qualname__")
    return str((call if named else type(call)).__module__)


def _is_of(call: Any, *modules: str) -> bool:
    return str(getattr(call, "__module__", None) or "builtins") in modules and getattr(call, "__self__", None) is None


def _owner(call: Any) -> Any:
    """Return the object of a bound method, also of one that is wrapped in an attribute of the object."""
    owner = getattr(call, "__self__", None)
    if owner is None and isinstance(call, types.FunctionType):
        owner = getattr(getattr(call, "__wrapped__", None), "__self__", None)
        owner = owner if owner is not None and vars(owner).get(call.__name__) is call else None
    return None if isinstance(owner, types.ModuleType) else owner


def _hint(call: Any) -> str:
    if isinstance(call, type):
        return _snake(call.__name__)
    return "value"


def _hint_of(made: Any) -> str:
    return "function" if isinstance(made, types.FunctionType) else _snake(type(made).__name__)


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


@dataclass(frozen=True)
class _Own:
    is_own: Callable[[str], bool]

    def __contains__(self, name: object) -> bool:
        return self.is_own(str(name))


def is_of_package(module: str) -> bool:
    """Return whether a module is of this package, or a file of targets or one beside it with a private name."""
    if module.partition(".")[0] == "pytest_evalcheck":
        return True
    origin = getattr(sys.modules.get(module), "__file__", None)
    return bool(origin) and is_file_of_targets(Path(str(origin)))


def is_file_of_targets(path: Path) -> bool:
    """Return whether a file holds targets, or helps one that does."""
    if any(part in ("site-packages", "dist-packages") or part.startswith("python3.") for part in path.parts):
        return False
    if path.name.startswith("_") and path.name != "__init__.py":
        return True
    try:
        return b"pytest_evalcheck" in path.read_bytes()
    except OSError:
        return False

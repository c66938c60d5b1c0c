"""Stand-ins: what tests give or patch in place of a model or a client, and what it has replied to the code under test.

A stand-in is code of tests, or a mock: a corpus cannot make it again. `corpus.stand_in` takes its place in a target,
and `replaced.replaced` puts it where tests have patched a name of a module.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
import sys
import sysconfig
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from pytest_evalcheck.learning.values import encoded, has_form, noted

_MOST_REPLIES = 24
"""Replies of one method that are kept."""
_MOST_CHARACTERS = 4000
"""A longer text of a reply is cut."""
_MOST_PARTS = 256
"""Parts of the arguments of a call in which texts are looked for."""
_DEPTH = 3
"""Attributes of attributes that are looked for, as in ``client.chat.completions.create``."""
_INSTALLED = (sysconfig.get_path("stdlib"), "site-packages", "dist-packages")
_NOTHING: dict[str, Any] = {"attributes": {}}
"""The reply of a mock that nobody has told one."""
_PLAIN = (bool, int, float, str)
RESULT = "()"
"""Part of a path: what a call of the attribute before it returns."""
_TESTS = ("tests", "test", "testing", "conftest", "benchmarks", "examples", "docs")


@dataclass
class StandIn:
    """Everything that is known of what one argument of a function or a class was given in place of a model."""

    name: str = ""
    """The class or the function of the first one."""
    bases: list[str] = field(default_factory=list)
    """Classes of the package that it is derived from, as ``module:name``."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """Its numbers, texts and truth values by name, as JSON."""
    replies: list[dict[str, Any]] = field(default_factory=list)
    """By call: the path of the method, such as ``chat.completions.create``, the text that it was asked by its beginning
    and its mark, and the reply."""

    def add(self, *replies: dict[str, Any]) -> None:
        """Keep replies, unless enough of their method are kept."""
        for new in replies:
            count = sum(each["method"] == new["method"] for each in self.replies)
            if new not in self.replies and count < _MOST_REPLIES:
                self.replies.append(new)


Reply = tuple[StandIn, dict[str, Any]]
"""A reply, and what is known of the stand-in that has given it."""


@dataclass
class Question:
    """A call of a stand-in that has begun."""

    places: list[tuple[list[Reply], Any, str]]
    """The replies to each call that is running, its entry, and the argument or the place of the stand-in there."""
    method: str
    text: str
    """The longest text that it was given."""
    asked: int
    """The mark of all texts of that argument, such as the messages of a chat."""
    awaited: bool
    is_bare: bool
    """True if it was given nothing."""

    def answered(self, value: Any) -> None:
        """Note the reply, unless it has what a corpus cannot keep, or is one to something else than a text.

        It is kept when the call that has asked returns: code may refuse it.
        """
        reply = _reply(value)
        if not _is_lost(reply) and (self.text or self.is_bare or reply in (None, _NOTHING)):
            kept = noted(self.text)
            head = kept if isinstance(kept, str) else str(kept.get("text", ""))
            new = {"method": self.method, "text": head, "asked": self.asked, "reply": reply}
            for replies, entry, name in self.places:
                replies.append((entry.stand_ins[name], {**new, "awaited": True} if self.awaited else new))


class StandIns:
    """The stand-ins that a test has given to the code that is watched."""

    def __init__(self, packages: Sequence[str]) -> None:
        self._packages = packages
        self._known: dict[int, tuple[Callable[[], Any], str, dict[int, tuple[Any, str]]]] = {}
        """By id of an object or a code: it, its path in the stand-in, and by id of an entry it, and where it is."""
        self._unplaced: dict[int, Any] = {}
        """By id: code and mocks of tests that are in place of no name."""

    def patch(self, frame: FrameType, entries: Sequence[Any]) -> tuple[str, Any] | None:
        """Return what a frame is a call of, if tests have put it in place of a name of the packages, with its place.

        Places are written as ``module:path``, where the path is a name of the module or of a class in it. None where
        all of these entries are known to have it.
        """
        code = frame.f_code
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        while _is_mock(owner) and vars(owner)["_mock_new_parent"] is not None:
            owner = vars(owner)["_mock_new_parent"]
        looked = owner if _is_mock(owner) else code
        known = [place for place in (self._known.get(id(owner)), self._known.get(id(code))) if place]
        known_to_all = all(any(id(entry) in place[2] for place in known) for entry in entries)
        if known_to_all or self._unplaced.get(id(looked)) is looked:
            return None
        for home, name, value in self._names(frame.f_back):
            if (value is owner and owner is not None) or (type(value) is FunctionType and value.__code__ is code):
                return (f"{home}:{name}", value) if self._is_one(value) else None
        self._unplaced[id(looked)] = looked
        return None

    def _names(self, caller: FrameType | None) -> Iterator[tuple[str, str, Any]]:
        """Yield the names of modules of the packages and of their classes, those of the caller's module first."""
        first = caller.f_globals.get("__name__") if caller else ""
        homes = [home for home in [*sys.modules] if home.partition(".")[0] in self._packages]
        for home in sorted(homes, key=lambda each: each != first):
            for name, value in [*getattr(sys.modules[home], "__dict__", {}).items()]:
                yield home, name, value
                if issubclass(type(value), type) and value.__module__ == home:
                    yield from ((home, f"{name}.{key}", each) for key, each in [*vars(value).items()])

    def noted(self, value: Any, entry: Any, name: str, above: str = "") -> list[CodeType] | None:
        """Note an argument of an entry, and return the codes whose calls are replies; None where it is no stand-in.

        ``above`` is the path of a call that has returned it.
        """
        if not self._is_one(value):
            return None
        thing = value if isinstance(value, (FunctionType, MethodType)) else type(value)
        whole = f"{thing.__module__}.{thing.__qualname__}"
        known = entry.stand_ins.setdefault(name, StandIn(whole, self._bases(value)))
        codes = []
        for path, each in self._parts(value, above):
            function = each.__func__ if isinstance(each, MethodType) else each
            owner = function.__code__ if isinstance(function, FunctionType) else each
            place = self._known.get(id(owner))
            if place is None or place[0]() is not owner:
                place = self._known[id(owner)] = (reference(owner), path, {})
            place[2][id(entry)] = (entry, name)
            codes += self._codes(function)
            for key, held in {} if isinstance(function, FunctionType) else _held(each).items():
                inside = f"{path}.{key}" if path else key
                if type(held) in _PLAIN and inside not in known.attributes and not _is_lost(kept := noted(held, key)):
                    known.attributes[inside] = kept
        return codes

    def asked(self, frame: FrameType, running: Sequence[tuple[list[Reply], Any]]) -> Question | None:
        """Return the call of a stand-in that begins, where an entry with a call that is running was given it."""
        code = frame.f_code
        given = _given(frame)
        place, method = self._known.get(id(code)), []
        if place is None or place[0]() is not code:
            owner = given.pop(0) if given else None
            if code.co_name not in ("__call__", "_execute_mock_call"):
                method = [code.co_name]
            elif _is_mock(owner) and (code.co_name == "__call__") == _is_awaited(owner):
                return None  # the coroutine of it is what replies
            place = self._known.get(id(owner))
            while (place is None or place[0]() is not owner) and _is_mock(owner) and len(method) < 2 * _DEPTH:
                method.insert(0, vars(owner)["_mock_new_name"])
                owner = vars(owner)["_mock_new_parent"]
                place = self._known.get(id(owner))
            if place is None or place[0]() is not owner:
                return None
        places = [(replies, *place[2][id(each)]) for replies, each in running if id(each) in place[2]]
        if not places:
            return None
        path = ".".join(filter(None, [place[1], *method]))
        if not is_path(path):
            return None
        awaited, is_bare = bool(code.co_flags & inspect.CO_COROUTINE), all(map(_is_nothing, given))
        return Question(places, path, *question_in(given), awaited, is_bare)

    def forget(self) -> None:
        """Let go of the stand-ins of a test that has ended."""
        self._known.clear()
        self._unplaced.clear()

    def _is_one(self, value: Any) -> bool:
        """Return whether a value is a mock, or a function or an object with methods of tests.

        Those are neither installed nor of a package that is watched.
        """
        if _is_mock(value):
            return True
        function = value.__func__ if isinstance(value, MethodType) else value
        thing = function if isinstance(function, FunctionType) else type(value)
        return self._is_foreign(thing) and (thing is function or bool(self._codes(value)))

    def _is_foreign(self, thing: Any) -> bool:
        """Return whether a class or a function is neither installed nor of a package that is watched."""
        module = str(getattr(thing, "__module__", ""))
        file = getattr(sys.modules.get(module), "__file__", None) or ""
        own = module.partition(".")[0] in self._packages
        return bool(file) and not own and not any(each in file for each in _INSTALLED)

    def _bases(self, value: Any) -> list[str]:
        spec = vars(value).get("_spec_class") if _is_mock(value) else None
        classes = (spec or type(value)).__mro__
        return [
            f"{each.__module__}:{each.__qualname__}"
            for each in classes
            if each.__module__.partition(".")[0] in self._packages and "<" not in each.__qualname__
        ][:1]

    def _parts(self, value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
        """Yield a stand-in with its empty path, and those among its attributes with theirs."""
        yield path, value
        if isinstance(value, (FunctionType, MethodType)) or _is_mock(value) or path.count(".") >= _DEPTH:
            return
        for name, each in _held(value).items():
            if each is not value and self._is_one(each):
                yield from self._parts(each, f"{path}.{name}" if path else name)

    def _codes(self, value: Any) -> list[CodeType]:
        if isinstance(value, FunctionType):
            return [value.__code__]
        if _is_mock(value):
            mock: Any = sys.modules["unittest.mock"]
            return [mock.CallableMixin.__call__.__code__, mock.AsyncMockMixin._execute_mock_call.__code__]
        own = (each for each in type(value).__mro__ if self._is_foreign(each))
        methods = (method for each in own for name, method in vars(each).items() if _is_public(name))
        return [each.__code__ for each in methods if isinstance(each, FunctionType)]


def is_path(path: str) -> bool:
    """Return whether a text is the path of a public attribute; the empty one is the object itself.

    A part may be `RESULT`, of what a call has returned.
    """
    parts = path.split(".") if path else []
    return all(part == RESULT or (part.isidentifier() and not part.startswith("_")) for part in parts)


def result_of(path: str) -> str:
    """Return the path of what a call of the attribute at a path returns."""
    return f"{path}.{RESULT}" if path else RESULT


def is_of_tests(module: str) -> bool:
    """Return whether the name of a module says that it has tests, or what they need."""
    return any(part.startswith("test_") or part in _TESTS for part in module.split("."))


def mark(text: str) -> int:
    """Return a number of a text, by which it is known again: a corpus has the beginning of a long one."""
    return int(hashlib.blake2b(text.encode(errors="replace"), digest_size=6).hexdigest(), 16)


def question_in(given: Sequence[Any]) -> tuple[str, int]:
    """Return the longest text among arguments, and the mark of all texts of the argument that has it."""
    found = max(([*texts_in(each)] for each in given), key=lambda texts: max(map(len, texts), default=0), default=[])
    return max(found, key=len, default=""), mark("\n".join(found))


def _given(frame: FrameType) -> list[Any]:
    """Return the arguments of a call, those of ``*args`` and ``**kwargs`` one by one."""
    code, names = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    found = [names[name] for name in code.co_varnames[:count] if name in names]
    rest = iter(code.co_varnames[count:])
    found += names.get(next(rest), ()) if code.co_flags & inspect.CO_VARARGS else ()
    found += names.get(next(rest), {}).values() if code.co_flags & inspect.CO_VARKEYWORDS else ()
    return found


def _is_nothing(value: Any) -> bool:
    """Return whether arguments of a call give it nothing."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
    return all(each is None for each in inside)


def _is_public(name: str) -> bool:
    return name == "__call__" or not name.startswith("_")


def _is_mock(value: Any) -> bool:
    mock: Any = sys.modules.get("unittest.mock")
    return mock is not None and mock.NonCallableMock in type(value).__mro__


def _is_awaited(mock: Any) -> bool:
    return sys.modules["unittest.mock"].AsyncMockMixin in type(mock).__mro__


def reference(value: Any) -> Callable[[], Any]:
    """Return a function that returns an object while it lives: a test may see that it is freed."""
    with suppress(TypeError):  # of a class with slots
        return weakref.ref(value)
    return lambda: value


def _held(value: Any) -> dict[str, Any]:
    """Return the public attributes that an object has itself, or that its classes give to it, without reading any."""
    found: dict[str, Any] = {}
    if _is_mock(value):
        found |= {name: each for name, each in vars(value)["_mock_children"].items() if name.isidentifier()}
    else:
        for cls in reversed(type(value).__mro__[:-1]):
            found |= {name: each for name, each in vars(cls).items() if type(each) in _PLAIN}
    found |= {name: each for name, each in _attributes(value).items() if name != "method_calls"}
    return {name: each for name, each in found.items() if name and is_path(name)}


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes that an object has itself; nothing of its class is called."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in arguments, in containers and in attributes of objects, up to a number of these."""
    left = [value]
    for _ in range(_MOST_PARTS):
        if not left:
            return
        part = left.pop(0)
        if isinstance(part, str):
            yield part
            continue
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, (list, tuple)) else ()
        left += itertools.islice(inside or _attributes(part).values(), _MOST_PARTS - len(left))


def _reply(value: Any) -> Any:
    try:
        return encoded(value, made=_with_attributes, most=_MOST_CHARACTERS)
    except Exception:  # what is watched must not be ended by that
        return {"opaque": ""}


def _with_attributes(value: Any, depth: int = 0) -> dict[str, Any] | None:
    """Return an object without a form as JSON by its attributes."""
    if depth > _DEPTH or isinstance(value, (type, FunctionType, MethodType)):
        return None
    inside = partial(_with_attributes, depth=depth + 1)
    held = [*_held(value).items()][:64]
    found = {key: encoded(each, name=key, made=inside, most=_MOST_CHARACTERS) for key, each in held}
    return {"attributes": {key: each for key, each in found.items() if not _is_lost(each)}}


def _is_lost(value: Any) -> bool:
    """Return whether a part of a reply was not kept."""
    return has_form(value, "opaque", "secret", "loader")

"""Watching calls into the packages of a project, by the profiler of Python: nothing is replaced in them."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import sys
import sysconfig
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from dis import opname
from fnmatch import fnmatchcase
from functools import cached_property, partial
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning.stand_ins import Question, Reply, StandIn, StandIns, is_of_tests, reference, result_of
from pytest_evalcheck.learning.values import fields_of, noted

MOST_CALLS = 24
"""Calls of a function, or of one object, that are kept."""
MOST_OBJECTS = 6
"""Objects of a class that are kept, those that were made in different ways first."""
_MOST_OTHERS = 512
MOST_OF_A_LOOP = 50_000
"""Calls of one other code, after which the rest of a test is not watched: a loop would cost many times its own time."""
REFUSED = {"refused": True}
"""Result of a call that raised an error, as JSON."""
_MOST_FRAMES = 64
"""Frames between a call that is watched and one of a stand-in in it."""
_STAND_IN = "<stand-in>"
"""The path of a code whose calls are replies to code that is watched."""
_PATCH = "<patch>"
"""The path of a code of tests, or of a mock, that may be in place of a name."""
_MOST_OTHER_CALLS = 1000
"""Calls of such a code by other code than that of the packages, after which it is not watched."""
_STDLIB = sysconfig.get_path("stdlib")


def is_private(part: str) -> bool:
    """Return whether a part of the name of a module says that it is private, or has tests."""
    return part.startswith("_") or is_of_tests(part)


def has_tests(module: str, names: Iterable[str]) -> bool:
    """Return whether a module beside the code has its tests; one named for a test of statistics has none."""
    return module.endswith("_test") and any(name.startswith("test_") for name in names)


@dataclass
class Call:
    """One call: of a function, or of a method of an object."""

    method: str
    """Empty for a function."""
    arguments: dict[str, Any]
    """By parameter, as JSON; those of ``*args`` by their index."""
    returned: Any = None
    replies: list[Reply] = field(default_factory=list, compare=False)
    """Replies of stand-ins while it runs."""


@dataclass
class Object:
    """One object of a public class: how it was made, and what was done with it, in order."""

    made: dict[str, Any] | None
    """By parameter: the arguments of its constructor; None where they were not seen."""
    test: str
    calls: list[Call] = field(default_factory=list)


@dataclass
class Seen:
    """Everything that was seen of one public class or function."""

    module: str
    name: str
    is_class: bool
    calls: list[tuple[str, Call]] = field(default_factory=list)
    """The test and the call, of a function."""
    objects: list[Object] = field(default_factory=list)
    types: int = 0
    """Types that were guessed, where these are calls that nobody made."""
    stand_ins: dict[str, StandIn] = field(default_factory=dict)
    """By argument, or by place as ``module:path``: what tests have given or patched in place of a model or a client."""

    @property
    def patches(self) -> list[str]:
        """The places among these."""
        return [name for name in self.stand_ins if ":" in name]

    @property
    def tests(self) -> set[str]:
        """The tests in which it was seen."""
        return {test for test, _ in self.calls} | {each.test for each in self.objects}

    @property
    def ways(self) -> list[dict[str, Any] | None]:
        """The different arguments with which its objects were made, in order."""
        found: list[dict[str, Any] | None] = []
        for each in self.objects:
            if each.made not in found:
                found.append(each.made)
        return found


class Watcher:
    """Watches calls into some packages, in the block of `watch`."""

    def __init__(self, packages: Sequence[str], current: Callable[[], str] = str, exclude: Sequence[str] = ()) -> None:
        self._roots = [root for package in packages for root in roots(package)]
        self.packages = tuple(packages)
        self._current = current
        self.exclude = tuple(exclude)
        """Patterns of modules, of ``module:name`` and of arguments of which nothing is kept."""
        self.seen: dict[str, Seen] = {}
        self._codes: dict[int, tuple[CodeType, str]] = {}
        """By id: the code, and the path of its public name in its module; empty where it is not watched."""
        self._open: dict[FrameType, tuple[Call, Seen] | Question] = {}
        self._objects: dict[int, tuple[Callable[[], Any], Object]] = {}
        self._others: dict[int, tuple[Callable[[], Any], Object]] = {}
        """Objects whose calls are not kept, since there are enough of their class: they may be arguments of others."""
        self._stand_ins = StandIns(self.packages)
        self._others_calls: dict[int, int] = {}
        """By id: calls of a code of tests by other code than that of the packages."""
        self._public: dict[tuple[str, str], bool] = {}
        """By module and name: whether it is public."""
        self.after_call: Callable[[], object] = bool
        """A function without arguments, called after the result of a call was kept."""
        self._busy = threading.local()
        self.ended = 0
        """Number of blocks whose watch ended at a loop."""

    @contextmanager
    def watch(self, *, most: int = MOST_OF_A_LOOP) -> Iterator[None]:
        """Watch the calls of this thread, and of threads that begin in the block.

        Before Python 3.12 the watch of a thread ends with ``most`` calls of one other code after one that is watched,
        and `ended` counts this block.
        """
        with self._profiled(most) if _free_tool() is None else self._monitored():
            yield
        self._open.clear()

    @contextmanager
    def _profiled(self, most: int = MOST_OF_A_LOOP) -> Iterator[None]:
        before, of_threads = sys.getprofile(), threading.getprofile()
        known, opened, watched = self._codes.get, self._open, self._event

        others: dict[int, int] = {}
        ended: list[int] = []

        def event(frame: FrameType, kind: str, value: Any) -> None:
            # Every call of the process comes here: what is not watched is to cost little.
            if kind == "call":
                place = id(frame.f_code)
                code = known(place)
                if code is None or code[1]:
                    others.clear()
                    watched(frame, kind, value)
                else:
                    others[place] = count = others.get(place, 0) + 1
                    if count > most:
                        sys.setprofile(None)
                        ended.append(place)
            elif kind == "return" and frame in opened:
                watched(frame, kind, value)

        imports = _ImportsWithoutWatch(self._roots)
        sys.meta_path.insert(0, imports)
        threading.setprofile(event)
        sys.setprofile(event)
        try:
            yield
        finally:
            with suppress(ValueError):
                sys.meta_path.remove(imports)
            self.ended += bool(ended)
            sys.setprofile(before)
            threading.setprofile(of_threads)

    @contextmanager
    def _monitored(self) -> Iterator[None]:
        """Watch by events of single code objects, from Python 3.12 on: what is not watched costs nothing."""
        monitoring: Any = vars(sys)["monitoring"]
        tool, events = _free_tool(), monitoring.events
        monitoring.use_tool_id(tool, "pytest-evalcheck")

        def start(code: CodeType, _: int) -> Any:
            self._event(sys._getframe(1), "call", None)
            return None if self._codes[id(code)][1] else monitoring.DISABLE

        def end(code: CodeType, _: int, value: Any) -> Any:
            self._event(sys._getframe(1), "return", value)
            return None if self._codes.get(id(code), (code, ""))[1] else monitoring.DISABLE

        def unwind(_code: CodeType, _: int, _error: BaseException) -> None:
            self._event(sys._getframe(1), "unwind", None)

        callbacks = {events.PY_START: start, events.PY_RETURN: end, events.PY_UNWIND: unwind}
        for event, callback in callbacks.items():
            monitoring.register_callback(tool, event, callback)
        if not self._codes:  # an earlier watcher has decided about other packages
            monitoring.restart_events()
        monitoring.set_events(tool, events.PY_START | events.PY_RETURN | events.PY_UNWIND)
        try:
            yield
        finally:
            monitoring.set_events(tool, 0)
            for event in callbacks:
                monitoring.register_callback(tool, event, None)
            monitoring.free_tool_id(tool)

    def _reference(self, owner: Any) -> Callable[[], Any]:
        return reference(owner)

    def forget(self) -> None:
        """Let go of the objects of a test that has ended; of those that live on it is known how they were made."""
        alive = {
            place: (owner, found)
            for place, (owner, found) in {**self._others, **self._objects}.items()
            if isinstance(owner, weakref.ref) and owner() is not None
        }
        self._objects.clear()
        self._stand_ins.forget()
        self._others = dict([*alive.items()][-_MOST_OTHERS:])

    def _event(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            known = self._codes.get(id(code))
            path = self._path_of(frame) if known is None else known[1]
            if path and not getattr(self._busy, "now", False) and not _awaits(frame):
                self._busy.now = True
                try:
                    self._called(frame, path)
                finally:
                    self._busy.now = False
        elif event in ("return", "unwind") and self._open:
            opened = self._open.get(frame)
            if opened is None or _awaits(frame):
                return
            self._open.pop(frame, None)
            if not getattr(self._busy, "now", False):
                self._busy.now = True
                try:
                    refused = event == "unwind" or (argument is None and not _returns(frame))
                    if not isinstance(opened, Question):
                        opened[0].returned = REFUSED if refused else noted(argument)
                        for stand_in, reply in [] if refused else opened[0].replies:
                            stand_in.add(reply)
                        self.after_call()
                    elif not refused:
                        opened.answered(argument)
                        for _, seen, name in opened.places:
                            self._form(seen, name, argument, result_of(opened.method))
                finally:
                    self._busy.now = False

    def _path_of(self, frame: FrameType) -> str:
        """Decide once whether the code of a frame is watched."""
        code = frame.f_code
        path = code.co_qualname if hasattr(code, "co_qualname") else code.co_name
        watched = _is_public_path(path) and not code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR)
        watched = watched and any(Path(code.co_filename).is_relative_to(root) for root in self._roots)
        if watched and not hasattr(code, "co_qualname"):
            path = _path_in(frame.f_globals, code)
            watched = _is_public_path(path)
        home = str(frame.f_globals.get("__name__", ""))
        of_mocks = home == "unittest.mock" and code.co_name in ("__call__", "_execute_mock_call")
        path = path if watched else _PATCH if of_mocks or is_of_tests(home) else ""
        self._codes[id(code)] = (code, path)
        return path

    def _called(self, frame: FrameType, path: str) -> None:
        if path == _PATCH and not self._is_asked_by_packages(frame):
            return
        if path in (_STAND_IN, _PATCH):
            self._asked(frame)
            return
        owner, _, name = path.rpartition(".")
        if not owner:
            module = str(frame.f_globals.get("__name__", ""))
            if self._is_public(module, name, frame.f_globals.get(name)):
                self._called_function(frame, module, name)
            return
        code = frame.f_code
        first = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        cls = type(first)
        if cls.__module__.partition(".")[0] in self.packages and not cls.__qualname__.startswith("_"):
            if self._is_public(cls.__module__, cls.__qualname__, cls):
                self._called_method(frame, first, name)
            elif name == "__init__" and self._making(first) is None:
                self._remember(first, Object(self._kept(frame, skip=1), self._current()))

    def _is_public(self, module: str, name: str, value: Any) -> bool:
        """Return whether a name is public: its module is, or another module of the package that is public exports it.

        Nothing of a module of tests is. Its objects may be arguments of what is.
        """
        known = self._public.get((module, name))
        if known is None:
            top, *parts = module.split(".")
            homes = (module, *(each for each in [*sys.modules] if f"{each}.".startswith(f"{top}.")))
            public = (each for each in homes if not any(map(is_private, each.split(".")[1:])))
            exported = any(each == module or vars(sys.modules.get(each, sys)).get(name) is value for each in public)
            of_tests = any(map(is_of_tests, parts)) or has_tests(module, vars(sys.modules.get(module, sys)))
            known = self._public[module, name] = exported and not of_tests
        return known

    def _remember(self, owner: Any, made: Object) -> None:
        """Keep how an object was made, and not what is called of it."""
        if len(self._others) >= _MOST_OTHERS:
            self._others.pop(next(iter(self._others)))
        self._others[id(owner)] = (self._reference(owner), made)

    def _called_function(self, frame: FrameType, module: str, name: str) -> None:
        value = frame.f_globals.get(name)
        if self._is_excluded(module, f"{module}:{name}"):
            return
        if not callable(value) or isinstance(value, type):
            return
        seen = self.seen.setdefault(f"{module}:{name}", Seen(module, name, is_class=False))
        if len(seen.calls) >= MOST_CALLS:
            self._codes[id(frame.f_code)] = (frame.f_code, "")
            return
        call = Call("", self._kept(frame, seen=seen))
        new = all(call.arguments != known.arguments for _, known in seen.calls)
        if new:
            seen.calls.append((self._current(), call))
        if new or seen.stand_ins:
            self._open[frame] = (call, seen)

    def _called_method(self, frame: FrameType, owner: Any, name: str) -> None:
        cls = type(owner)
        whole = f"{cls.__module__}:{cls.__qualname__}"
        if "." in cls.__qualname__ or self._is_excluded(cls.__module__, whole, f"{whole}.{name}"):
            return
        seen = self.seen.setdefault(
            f"{cls.__module__}:{cls.__qualname__}", Seen(cls.__module__, cls.__qualname__, is_class=True)
        )
        known = self._objects.get(id(owner))
        if name == "__init__":
            if any(each is not None and each[0]() is owner for each in (known, self._others.get(id(owner)))):
                return  # that of a base class
            made = self._kept(frame, skip=1, seen=seen)
            found = Object(made, self._current())
            alike = len(seen.objects) >= MOST_OBJECTS and any(each.made == made for each in seen.objects)
            if alike or len(seen.objects) >= 4 * MOST_OBJECTS:
                self._remember(owner, found)
                return
        elif known is not None and known[0]() is owner:
            found = known[1]
        else:
            if len(seen.objects) >= MOST_OBJECTS:
                return
            making, fields = self._making(owner), fields_of(owner)
            if making is not None:  # by an earlier test, as of a fixture of a module
                given = making["arguments"]
            else:  # its constructor was generated, and has no code of the package
                given = {key: noted(each, key) for key, each in fields.items()} if fields else None
            found = Object(given, self._current())
        if known is None or known[0]() is not owner:
            self._objects[id(owner)] = (self._reference(owner), found)
            seen.objects.append(found)
        if name == "__init__":
            self._open[frame] = (Call("", {}), seen)  # what it calls is no part of it
            return
        if len(found.calls) >= MOST_CALLS or self._is_inside(frame, owner):
            return
        call = Call(name, self._kept(frame, skip=1, seen=seen))
        found.calls.append(call)
        self._open[frame] = (call, seen)

    def _is_excluded(self, *names: str) -> bool:
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.exclude)

    def _kept(self, frame: FrameType, skip: int = 0, seen: Seen | None = None) -> dict[str, Any]:
        """Return the arguments of a call as JSON; an object whose making was seen is made again with its arguments."""
        return {
            name: {"secret": name} if self._is_excluded(name) else noted(value, name, partial(self._form, seen, name))
            for name, value in arguments_of(frame, skip).items()
        }

    def _form(self, seen: Seen | None, name: str, value: Any, above: str = "") -> dict[str, Any] | None:
        """Return how an object was made, or the argument of the entry ``seen`` that it is a stand-in for."""
        made = self._making(value)
        codes = self._stand_ins.noted(value, seen, name, above) if made is None and seen else None
        if codes is None or seen is None:
            return made
        new = [each for each in codes if self._codes.get(id(each), (each, ""))[1] in ("", _PATCH)]
        self._codes.update((id(each), (each, _STAND_IN)) for each in new)
        if new and "monitoring" in vars(sys):  # one that was called before may be disabled
            vars(sys)["monitoring"].restart_events()
        return {"stand_in": name, "of": f"{seen.module}:{seen.name}"}

    def _asked(self, frame: FrameType) -> None:
        """Begin a call of a stand-in by code that is watched; what it calls of itself is none."""
        running, back = [], frame.f_back
        for _ in range(_MOST_FRAMES):
            opened = self._open.get(back) if back else None
            if isinstance(opened, Question):
                return
            running += [opened] if opened else []
            back = back.f_back if back else None
        with suppress(Exception):  # what is watched must not be ended by that
            if not running:  # it may run in a thread of its own
                running = [each for each in [*self._open.values()] if not isinstance(each, Question)]
            if found := self._stand_ins.patch(frame, [seen for _, seen in running]):
                for _, seen in running:
                    self._form(seen, *found)
            if question := self._stand_ins.asked(frame, [(call.replies, seen) for call, seen in running]):
                self._open[frame] = question

    def _is_asked_by_packages(self, frame: FrameType) -> bool:
        """Return whether code of the packages has called a frame; what other code calls often is not watched."""
        code, caller = frame.f_code, frame.f_back
        if caller is not None and str(caller.f_globals.get("__name__")).partition(".")[0] in self.packages:
            return True
        self._others_calls[id(code)] = count = self._others_calls.get(id(code), 0) + 1
        if count > _MOST_OTHER_CALLS:
            self._codes[id(code)] = (code, "")
        return False

    def _making(self, value: Any) -> dict[str, Any] | None:
        """Return the class of an object and the arguments of its constructor; None where these were not seen.

        One of a class without a constructor, and without attributes of its own, is made without any.
        """
        cls, arguments = type(value), None
        for known in (self._objects.get(id(value)), self._others.get(id(value))):  # an id is used again
            if arguments is None and known is not None and known[0]() is value:
                arguments = known[1].made
        if arguments is None and cls.__module__.partition(".")[0] in self.packages and "<" not in cls.__qualname__:
            plain = all(getattr(cls, name) is getattr(object, name) for name in ("__init__", "__new__"))
            arguments = {} if plain and getattr(value, "__dict__", None) == {} else None
        return None if arguments is None else {"made": f"{cls.__module__}:{cls.__qualname__}", "arguments": arguments}

    def _is_inside(self, frame: FrameType, owner: Any) -> bool:
        """Return whether another watched call of the same object is running."""
        back = frame.f_back
        for _ in range(8):
            if back is None:
                return False
            opened = self._open.get(back)
            if isinstance(opened, tuple) and opened[0].method:
                code = back.f_code
                return bool(code.co_argcount) and back.f_locals.get(code.co_varnames[0]) is owner
            back = back.f_back
        return False


class _ImportsWithoutWatch:
    """Finds modules of other distributions as the other finders do, and lets them be imported without the watch.

    An import makes many calls, none of them into the code that is watched, and would take three times as long.
    """

    def __init__(self, watched: Sequence[Path]) -> None:
        self._watched = [str(each) for each in watched]

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if sys.getprofile() is None:
            return None
        others = (getattr(each, "find_spec", None) for each in sys.meta_path if each is not self)
        spec: ModuleSpec | None = next(filter(None, (find(name, path, target) for find in others if find)), None)
        if spec and type(spec.loader) is SourceFileLoader and self._is_of_others(spec.loader.path):
            spec.loader = _LoaderWithoutWatch(spec.loader.name, spec.loader.path)
        return spec

    def _is_of_others(self, path: str) -> bool:
        installed = "site-packages" in path or "dist-packages" in path or path.startswith(_STDLIB)
        return installed and not any(path.startswith(each) for each in self._watched)


class _LoaderWithoutWatch(SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        watch = sys.getprofile()
        sys.setprofile(None)
        try:
            super().exec_module(module)
        finally:
            sys.setprofile(watch)


def _is_public_path(path: str) -> bool:
    """Return whether a path in a module is that of a public function, or of a method of a public class."""
    parts = path.split(".")
    return len(parts) <= 2 and all(not part.startswith("_") or part in ("__init__", "__call__") for part in parts)


def _path_in(names: dict[str, Any], code: CodeType) -> str:
    """Return the path of a code in its module, which the code has itself from Python 3.11 on; empty for any other."""
    classes = [each for each in [*names.values()] if isinstance(each, type) and each.__module__ == names["__name__"]]
    for value in itertools.chain([*names.values()], *([*vars(cls).values()] for cls in classes)):
        kept = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        kept = kept.fget if isinstance(kept, property) else kept.func if isinstance(kept, cached_property) else kept
        function = inspect.unwrap(kept) if isinstance(kept, FunctionType) else None
        if function is not None and function.__code__ is code:
            return str(function.__qualname__)
    return ""


def _awaits(frame: FrameType) -> bool:
    """Return whether a coroutine stops to wait, or goes on after that: the profiler of Python calls it a return."""
    if not frame.f_code.co_flags & inspect.CO_COROUTINE:
        return False
    if frame.f_lasti < 0:  # it begins, before Python 3.11
        return False
    code = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 3]
    before_3_11 = len(code) > 2 and opname[code[2]] == "YIELD_FROM"
    return opname[code[0]] == "YIELD_VALUE" or (opname[code[0]] == "RESUME" and code[1] & 3 != 0) or before_3_11


def _returns(frame: FrameType) -> bool:
    """Return whether a frame that ends returns, and raises no error: the profiler of Python gives None for both."""
    return opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _free_tool() -> int | None:
    """Return an id for events of code objects, none that has a meaning: a test may use the profiler of Python."""
    monitoring = vars(sys).get("monitoring")
    return next((each for each in (4, 3) if monitoring.get_tool(each) is None), None) if monitoring else None


def roots(package: str) -> list[Path]:
    """Return the folders or the file of a package, without an import of it.

    Raises:
        UsageError: where there is no such package.
    """
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise UsageError(
            f"there is no package {package!r} to learn from; expected the name of one that can be imported"
        )
    places = list(found.submodule_search_locations or ()) or ([found.origin] if found.origin else [])
    return [Path(place).resolve() for place in places]


def arguments_of(frame: FrameType, skip: int = 0) -> dict[str, Any]:
    """Return the arguments of a call that begins, by parameter; what is given by position alone by its index."""
    code, values = frame.f_code, frame.f_locals
    count, placed = code.co_argcount + code.co_kwonlyargcount, max(0, code.co_posonlyargcount - skip)
    names = [name for name in code.co_varnames[skip:count] if name in values]
    found = {str(i) if i < placed else name: values[name] for i, name in enumerate(names)}
    index = count
    if code.co_flags & inspect.CO_VARARGS:
        found.update({str(placed + i): each for i, each in enumerate(values.get(code.co_varnames[index], ()))})
        index += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        found.update(values.get(code.co_varnames[index], {}))
    return found

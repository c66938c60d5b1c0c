"""The program inside a sandbox: a program, a candidate, or the tests of a candidate. An interpreter gets it as text.

Tests and candidate are two processes, which use each other's objects through a `Peer`. Only plain data crosses.
"""

from __future__ import annotations

import builtins
import io
import json
import os
import resource
import sys
from types import ModuleType
from typing import Any, NoReturn

STARTING = ("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "subprocess.Popen")
COLLECTIONS = (list, tuple, set, frozenset, bytes, bytearray)
PLAIN = {kind.__name__: kind for kind in (*COLLECTIONS, int, complex, dict)}
ACTIONS: dict[str, Any] = {"call": lambda f, *a, **k: f(*a, **k), "attribute": getattr, "iterate": iter, "next": next}
RESERVE, HEADROOM = [bytes(4 << 20)], 32 << 20
OWN, OUTPUTS, leave, show = os.getpid(), (sys.stdout, sys.stderr), os._exit, sys.__excepthook__


class Lost(BaseException):
    """The other process closed the channel, or wrote something to it that is not of the protocol."""


class Remote:
    """An object of the other process. It can be called, iterated, read and passed back, but not compared."""

    __slots__ = ("_kind", "_number", "_peer")

    def __init__(self, peer: Peer, number: int, kind: str) -> None:
        self._peer, self._number, self._kind = peer, number, kind

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._peer.ask("call", self._number, *args, **options)

    def __getattr__(self, name: str) -> Any:
        # With __array_interface__, NumPy would read memory at an address that the candidate chose.
        if name.startswith("__") and name != "__name__":
            raise AttributeError(name)
        return self._peer.ask("attribute", self._number, name)

    def __iter__(self) -> Any:
        return self._peer.ask("iterate", self._number)

    def __next__(self) -> Any:
        return self._peer.ask("next", self._number)

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"an object of type {self._kind} cannot leave its process: only plain data can be compared")

    def __bool__(self) -> bool:
        return self.__eq__(True)


class Peer:
    """One end of the channel; ``lost`` is "gone" or "tampered" once it cannot be used any more."""

    def __init__(self, channel: int, held: list[Any], actions: dict[str, Any]) -> None:
        self.held, self.actions, self.asked, self.lost = held, actions, 0, ""
        self.reader, self.writer = os.fdopen(channel, "rb", closefd=False), os.fdopen(channel, "wb", closefd=False)

    def ask(self, action: str, number: int, *args: Any, **options: Any) -> Any:
        """Have the other process act on its object; return the value or raise the exception."""
        self.asked += 1
        self.send({"do": action, "of": number, "args": self.pack(list(args)), "options": self.pack(options)})
        while "do" in (message := self.receive()):
            self.answer(message)
        if "value" in message:
            return self.unpack(message["value"])
        known = [vars(builtins)[name] for name in message["error"] if name in vars(builtins)]
        name, kind = message["error"][0], next(kind for kind in known if issubclass(kind, BaseException))
        kind = type(name, (kind,), {}) if name != kind.__name__ and name.isidentifier() else kind
        error: Any = kind.__new__(kind, message["text"])
        error.trace = str(message.get("trace") or "")
        raise error

    def answer(self, message: dict[str, Any]) -> None:
        """Do what the other process asks for, and send the value or the exception."""
        try:
            act, args, options = self.actions[message["do"]], self.unpack(message["args"]), message["options"]
            reply = {"value": self.pack(act(self.held[message["of"]], *args, **self.unpack(options)))}
        except (SystemExit, Lost):
            raise
        except BaseException as error:
            relieve(error)
            names = [kind.__name__ for kind in type(error).__mro__]
            reply = {"error": names, "text": quietly(str, error), "trace": quietly(trace_of, error)}
        flush()
        self.send(reply)

    def send(self, message: dict[str, Any]) -> None:
        if os.getpid() != OWN:
            leave(1)  # a copy that the candidate forked
        try:
            self.writer.write(json.dumps(message).encode() + b"\n")
            self.writer.flush()
        except OSError:
            self.fail("gone")

    def receive(self) -> dict[str, Any]:
        line = quietly(self.reader.readline)
        message = quietly(json.loads, line)
        if not (isinstance(message, dict) and {"do", "value", "error"} & set(message)):
            self.fail("tampered" if line else "gone")
        return message

    def fail(self, why: str) -> NoReturn:
        self.lost = self.lost or why
        raise Lost(why)

    def pack(self, value: Any) -> Any:
        """A value as JSON. What is not plain data stays here and gets a number; a module is imported there."""
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
            value = value.item()
        if isinstance(value, int) and abs(value) >> 63:
            return {"int": [hex(value), 16]}  # the number of decimal digits is limited
        if value is None or isinstance(value, (int, float, str)):
            return value
        if isinstance(value, complex):
            return {"complex": [value.real, value.imag]}
        if isinstance(value, dict):
            return {"dict": [[[self.pack(key), self.pack(each)] for key, each in value.items()]]}
        for kind in COLLECTIONS:
            if isinstance(value, kind):
                packed = [self.pack(each) for each in value]
                return packed if kind is list else {kind.__name__: [packed]}
        if isinstance(value, Remote):
            return {"yours": value._number}
        if isinstance(value, ModuleType) and value.__name__ != "candidate":
            return {"module": value.__name__}
        self.held.append(value)
        return {"mine": [len(self.held) - 1, type(value).__name__]}

    def unpack(self, data: Any) -> Any:
        if isinstance(data, list):
            return [self.unpack(each) for each in data]
        if not isinstance(data, dict):
            return data
        ((kind, parts),) = ((kind, self.unpack(parts)) for kind, parts in data.items())
        if kind == "module":
            __import__(parts)
            return sys.modules[parts]
        if kind == "yours":
            return self.held[parts]
        return Remote(self, *parts) if kind == "mine" else PLAIN[kind](*parts)


class Names(dict[str, Any]):
    """The namespace of the tests: their own names, those of Python, and then those of the candidate."""

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name) or not hasattr(sys.modules["candidate"], name):
            raise KeyError(name)
        return getattr(sys.modules["candidate"], name)


def main(role: str, source: str, channel: int, report: int, limits: dict[str, Any]) -> None:
    """Play a role: "program", "candidate", or "tests", which judge the candidate at the other end of the channel."""
    name = {"program": "__main__"}.get(role, role)
    sys.modules[name] = module = ModuleType(name)
    sys.argv[:], sys.path[:] = ["candidate.py"], [*sys.path[1:], *limits["path"]]
    vars(builtins).update(exit=sys.exit, quit=sys.exit)
    restrict(limits, audited=role != "tests")
    say, verdict, peer = os.write, ("passed", ""), None
    try:
        if role == "program":
            say(report, b"started\n")
            exec(compile(source, "candidate.py", "exec"), vars(module))
        elif role == "candidate":
            held = [lambda: exec(compile(source, "candidate.py", "exec"), vars(module)), module]
            peer = Peer(channel, held, ACTIONS)
            peer.send({"value": None})
            while True:
                peer.answer(peer.receive())
        else:
            # The candidate may call what the tests pass to it, and do nothing else with it.
            peer = Peer(channel, [], {"call": ACTIONS["call"]})
            peer.receive()
            say(report, b"started\n")
            peer.ask("call", 0)
            sys.modules["candidate"] = Remote(peer, 1, "module")  # type: ignore[assignment]
            exec(compile(source, "tests.py", "exec"), Names(__name__="tests"))
            if peer.asked < 2:
                raise AssertionError("the tests used no name of the candidate; names of builtins are those of Python")
    except SystemExit as ended:
        verdict = ("exited", "SystemExit")
        if role != "tests":
            quietly(OUTPUTS[1].write, f"{ended.code}\n" if isinstance(ended.code, str) else "")
            flush()
            leave(ended.code & 255 if isinstance(ended.code, int) else int(ended.code is not None))
    except Lost:
        verdict = ("failed", "")
    except BaseException as error:
        relieve(error)
        memory = isinstance(error, MemoryError)
        verdict = ("memory", "MemoryError") if memory else ("failed", type(error).__name__)
        # An error in the definition of the candidate has no frames in the tests.
        trace = quietly(trace_of, error) if role == "program" or "candidate" in sys.modules else ""
        quietly(OUTPUTS[1].write, getattr(error, "trace", "") + (trace or ""))
    flush()
    if role != "candidate" and os.getpid() == OWN:
        say(report, json.dumps((peer.lost, "") if peer and peer.lost else verdict).encode())
    leave(0 if verdict[0] == "passed" else 1)


def restrict(limits: dict[str, Any], audited: bool) -> None:
    """Set the limits of this process. Where it is audited and may not start others, refuse that."""
    for name, value in limits["resources"].items():
        kind = getattr(resource, f"RLIMIT_{name}")
        outer = resource.getrlimit(kind)[1]
        hard = value + HEADROOM if name == "AS" else value
        hard = hard if outer == resource.RLIM_INFINITY else min(hard, outer)
        try:
            resource.setrlimit(kind, (min(value, hard), hard))
        except ValueError:
            if sys.platform != "darwin":  # some releases of macOS refuse limits of memory, none enforces them
                raise
    alone, parent = not limits["processes"], os.getppid()

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if alone and event in STARTING:
            raise PermissionError(f"{event}: a candidate may not start processes here")
        if event in ("os.kill", "os.killpg"):
            pid = arguments[0]
            if pid != OWN if alone else pid <= 1 or pid == parent:
                raise PermissionError(f"{event}: a candidate may not send signals to process {pid}")

    if audited:
        sys.addaudithook(refuse)


def relieve(error: BaseException) -> None:
    """Make room for the report where memory has run out."""
    if isinstance(error, MemoryError):
        RESERVE.clear()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def flush() -> None:
    """Write out what was printed, where that still works."""
    for output in OUTPUTS:
        quietly(output.flush)


def quietly(function: Any, *args: Any) -> Any:
    """Call it; None where it raises."""
    try:
        return function(*args)
    except Exception:
        return None


def trace_of(error: BaseException) -> str:
    """An exception as Python prints it, without our own first frame. The traceback module takes long to import."""
    kept, sys.stderr = sys.stderr, io.StringIO()
    show(type(error), error.with_traceback(error.__traceback__ and error.__traceback__.tb_next), None)
    text, sys.stderr = sys.stderr.getvalue(), kept
    return text[-8000:]


if __name__ == "__main__":
    with open(int(sys.argv[1])) as file:
        settings = json.load(file)
    main(**settings)

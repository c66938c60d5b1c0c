"""Runs tests in forks of one process that has imported and collected them, with one function changed in each fork.

What is changed outside of functions (a constant, a class, a decorator) needs new imports: the fork then starts pytest
of its own. In both cases the changed file is on disk, for the processes that a test starts.
"""

from __future__ import annotations

import inspect
import json
import linecache
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import CodeType
from typing import Any

from code_changes import NEW_LOCALS, body, changed_functions, codes, living_functions, replace_code

# Seconds on the clock of a busy machine that the tests of one mutant may take, and CPU seconds of one process.
SECONDS, CPU_SECONDS = 200, 120
GALLERY = "tests/test_gallery.py"
OPTIONS = (
    *("-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:anyio"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),
)


class Server:
    """One pytest session, whose loop does what it is asked instead of running its tests."""

    def __init__(self, copy: Path, cpu: float) -> None:
        self.copy, self.cpu = copy, cpu
        self.items: list[Any] = []
        # Of each test that was run: its seconds, and the functions that it called, as "file function".
        self.calls: dict[str, tuple[float, set[str]]] = {}

    def serve(self, tests: list[str], work: Callable[[], None]) -> None:
        """Collect these tests, and do the work: it may call `run`."""
        import pytest

        self.storage = Path(tempfile.mkdtemp())
        os.environ |= {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.copy), "TOKENIZERS_PARALLELISM": "false"}
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(self.storage / "hypothesis")
        sys.path.insert(0, str(self.copy))
        os.chdir(self.copy)
        try:
            options = [*OPTIONS, f"--basetemp={self.storage / 'tmp'}"]
            code = pytest.main([*options, *tests], plugins=[_Loop(self, work)])
            if not self.items:
                raise RuntimeError(f"the tests could not be collected: pytest exited with {code}")
        finally:
            shutil.rmtree(self.storage, ignore_errors=True)

    def run(
        self, tests: list[str], skipped: set[str], change: tuple[Path, str] | None = None, *, anew: bool = False
    ) -> dict[str, Any]:
        """Run tests until one fails, with the text of a file changed, or with new imports.

        `failed` names it, or is "" or "time"; `seconds` are those of the CPU, `tests` is how many were run.
        """
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                self._in_fork(tests, skipped, change, write, anew)
            except BaseException as error:
                _say(write, failed=f"import: {type(error).__name__}: {error}"[:200], tests=0)
            finally:
                os._exit(0)
        os.close(write)
        said: dict[str, Any] = {}
        for line in _lines(read, time.monotonic() + SECONDS):
            known = json.loads(line)
            if "calls" not in known:
                said = known
                break
            self.calls[known["test"]] = known["seconds"], set(known["calls"])
        os.close(read)
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
        _, _, usage = os.wait4(pid, 0)
        seconds = usage.ru_utime + usage.ru_stime
        if not said:
            late = seconds >= 3 * self.cpu
            said = (
                {"failed": "", "unfinished": True} if late and seconds < CPU_SECONDS else {"failed": "time or a crash"}
            )
        return {**said, "seconds": seconds}

    def _in_fork(
        self, tests: list[str], skipped: set[str], change: tuple[Path, str] | None, write: int, anew: bool
    ) -> None:
        os.setpgid(0, 0)
        # The limit of CPU seconds is asked for between tests; a single test may take three times as long.
        most = min(CPU_SECONDS, int(3 * self.cpu) + 5)
        resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
        quiet = os.open(self.storage / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        chosen = [item for item in self.chosen(tests) if item.nodeid not in skipped]
        first = _First(self.cpu, write, self.copy)
        if not anew and (change is None or apply(*change)):
            session = chosen[0].session
            session.config.pluginmanager.register(first)
            for item, following in zip(chosen, [*chosen[1:], None], strict=True):
                with first.recorded(item.nodeid) if item.nodeid not in self.calls else nullcontext():
                    item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
                first.stop()
        else:
            import pytest

            for name in [name for name in sys.modules if name.split(".")[0] in OURS or name in self.modules]:
                del sys.modules[name]
            names = [item.nodeid for item in chosen]
            code = int(pytest.main(["-x", *OPTIONS, f"--basetemp={self.storage / 'tmp'}", *names], plugins=[first]))
            if code not in (0, 5):
                first.failed = first.failed or f"import: pytest exited with {code}"
        _say(write, failed=first.failed, tests=first.tests)

    def chosen(self, tests: list[str]) -> list[Any]:
        """The collected tests of these files, and of the planted bugs in braces, in this order."""
        return list(dict.fromkeys(item for test in tests for item in self.items if _is_of(item, test)))

    def related(self, tests: list[str], function: str) -> list[str]:
        """The ids of those tests that call a function, the quickest first, and of those that were not run before.

        The latter begin with those that name the class, the function or the file.
        """
        chosen = self.chosen(tests)
        names = [item.nodeid for item in chosen]
        known = [name for name in names if name in self.calls and (not function or function in self.calls[name][1])]
        words = [word for word in re.split(r"[^A-Za-z0-9_]|\bpy\b", function)[2:] if len(word) > 3]
        texts = {item.nodeid: item.nodeid + _text(item) for item in chosen if item.nodeid not in self.calls}
        new = sorted(texts, key=lambda name: -sum(word.strip("_") in texts[name] for word in words))
        return sorted(known, key=lambda name: self.calls[name][0]) + new

    @property
    def modules(self) -> set[str]:
        """The names of the modules of the tests."""
        return {item.module.__name__ for item in self.items} | {"conftest", "tests.conftest"}


def _text(item: Any) -> str:
    """The source of a test."""
    code = item.function.__code__
    lines = linecache.getlines(code.co_filename)
    return "".join(inspect.getblock(lines[code.co_firstlineno - 1 :]))


OURS = ("pytest_evalcheck", "fixtures", "target_files")


def apply(file: Path, text: str) -> bool:
    """Give the functions of a file the code of a changed text; False where more than functions differ."""
    module = "pytest_evalcheck." + ".".join(file.parts[file.parts.index("pytest_evalcheck") + 1 :])[:-3]
    if file.stem == "sandbox_inside" and (sandbox := sys.modules.get("pytest_evalcheck.fixes.scoring.sandbox")):
        sandbox._INSIDE = text  # type: ignore[attr-defined]  # it was read when sandbox.py was imported
    if module.removesuffix(".__init__") not in sys.modules:
        return True  # it is read from the disk when it is imported
    old, new = (compile(source, str(file), "exec", dont_inherit=True) for source in (ORIGINAL[file], text))
    each = [[*codes(old)], [*codes(new)]]
    if [code.co_qualname for code in each[0]] != [code.co_qualname for code in each[1]]:
        return False
    pairs = [(a, b) for a, b in zip(*each, strict=True) if body(a) != body(b)]
    # A function within a function that differs comes anew from the outer one, and some of the old ones may be alive.
    if not pairs or any(a.co_flags & NEW_LOCALS == 0 or a.co_freevars != b.co_freevars for a, b in pairs):
        return False
    replace_code(living_functions(), str(file), changed_functions(old, new))
    return True


ORIGINAL: dict[Path, str] = {}


def _is_of(item: Any, test: str) -> bool:
    if not test.startswith("{"):
        return item.nodeid == test or f"{item.nodeid.split('::')[0]}/".startswith(f"{test}/")
    if not item.nodeid.startswith(GALLERY) or item.originalname == "test_a_bug_is_caught_by_no_other_check":
        return False
    from fixtures.gallery.table import SPECIMENS

    given, asked = getattr(item, "callspec", None) and item.callspec.params, set(test.strip("{}").split(","))
    if not given:
        return False
    about = [given["specimen"]] if "specimen" in given else [one for one in SPECIMENS if one.twin is given["twin"]]
    return any({one.code, one.code[:4], one.bug.kind} & asked for one in about if not one.apart)


class _Loop:
    """Has the server do its work instead of running the tests."""

    def __init__(self, server: Server, work: Callable[[], None]) -> None:
        self.server, self.work = server, work

    def pytest_runtestloop(self, session: Any) -> bool:
        self.server.items = list(session.items)
        capture = session.config.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            self.work()
        return True


class _First:
    """Remembers the first test that fails, or the file that cannot be imported."""

    def __init__(self, cpu: float, write: int, copy: Path) -> None:
        self.failed, self.tests, self.cpu, self.write, self.copy = "", 0, cpu, write, copy

    @contextmanager
    def recorded(self, test: str) -> Iterator[None]:
        """Tell the server which functions of the package a test calls."""
        called: dict[int, CodeType] = {}

        def record(frame: Any, event: str, _: Any) -> None:
            if event == "call":
                called[id(frame.f_code)] = frame.f_code

        before = time.process_time()
        threading.setprofile(record)
        sys.setprofile(record)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
        own = f"{self.copy}/pytest_evalcheck/"
        codes = [code for code in called.values() if code.co_filename.startswith(own)]
        calls = {f"{code.co_filename[len(str(self.copy)) + 1 :]} {code.co_qualname.split('.<')[0]}" for code in codes}
        _say(self.write, test=test, seconds=time.process_time() - before, calls=sorted(calls))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.tests += report.when == "call"
        if report.failed:
            self.failed = self.failed or report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed = self.failed or f"import of {report.nodeid}"

    def stop(self) -> None:
        """End this process when a test has failed, or when the CPU seconds are used up."""
        used = time.process_time()
        if self.failed or used > self.cpu:
            _say(self.write, failed=self.failed, tests=self.tests, unfinished=not self.failed)
            os._exit(0)


def _say(write: int, **said: Any) -> None:
    data = (json.dumps(said) + "\n").encode()
    while data:
        data = data[os.write(write, data) :]


def _lines(read: int, deadline: float) -> Iterator[str]:
    """The lines of a pipe, until its writer ends or the time is up."""
    said = b""
    while select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0] and (chunk := os.read(read, 1 << 16)):
        *lines, said = (said + chunk).split(b"\n")
        yield from (line.decode() for line in lines)

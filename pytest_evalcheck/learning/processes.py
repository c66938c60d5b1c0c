"""Watching the processes of Python that a watched test or script starts, by variables of their environment.

A process that is started imports `started.sitecustomize` first, which begins the watch when a package is imported that
is learned from. One that ``multiprocessing`` forks goes on with the watch of its parent. When such a process ends, it
writes what it has seen into a folder of its own, as a corpus; one that is killed writes nothing.
"""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.watching import MOST_OF_A_LOOP, Seen, Watcher

_PACKAGES = "EVALCHECK_LEARN_PACKAGES"
_EXCLUDE = "EVALCHECK_LEARN_EXCLUDE"
_TEST = "EVALCHECK_LEARN_TEST"
_PLACE = "EVALCHECK_LEARN_PLACE"
_STARTED = str(Path(__file__).with_name("started"))
_RARELY = 20
"""Factor of the time that an act took, after which it is done again."""
_LONGER = 20
"""Factor of the limit of a loop: a process that is started imports its libraries under watch."""


def clear(corpora: Path) -> None:
    """Remove what was written for runs that go on, and the folder of the corpus where it has nothing else."""
    shutil.rmtree(corpora / corpus.UNFINISHED, ignore_errors=True)
    with suppress(OSError):
        corpora.rmdir()


class Rarely:
    """An act that is done when it is called, unless it was done a short time before."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act, self._next = act, 0.0

    def __call__(self) -> None:
        began = time.monotonic()
        if began >= self._next:
            self._act()
            now = time.monotonic()
            self._next = now + _RARELY * (now - began)


class Processes:
    """The processes that watched tests start, and the folder in that of the corpora into which these write."""

    def __init__(self, watcher: Watcher, corpora: Path) -> None:
        self._watcher, self._corpora = watcher, corpora.resolve()
        self._folder = self._corpora / corpus.UNFINISHED / "processes"
        self._part = ""
        multiprocessing.util.register_after_fork(self, Processes._go_on)

    @contextmanager
    def watched(self, test: str) -> Iterator[None]:
        """Watch the processes that are started in the block."""
        given = {
            _PACKAGES: ",".join(self._watcher.packages),
            _EXCLUDE: ",".join(self._watcher.exclude),
            _TEST: test,
            _PLACE: str(self._corpora),
            "PYTHONPATH": os.pathsep.join([_STARTED, *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        with suppress(OSError):  # it is said when the corpus is written
            self._folder.mkdir(parents=True, exist_ok=True)
        before = {name: os.environ.get(name) for name in given}
        os.environ.update(given)
        try:
            yield
        finally:
            for name, value in before.items():
                if os.environ.get(name) == given[name]:  # else a test has changed it for those after it
                    os.environ.pop(name)
                    os.environ.update({name: value} if value is not None else {})

    def forget_earlier(self) -> None:
        """Remove what processes have written of a run that did not end."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def parts(self) -> list[Mapping[str, Seen]]:
        """Return what the processes that have ended have seen, in an order that does not depend on when they ended."""
        texts = {
            "".join(file.read_text("utf-8") for file in sorted(each.glob("*.json"))): each
            for each in self._folder.glob("*")
        }
        return [corpus.read(texts[text]).entries for text in sorted(texts)]

    def _go_on(self) -> None:
        """Begin anew in a process that was forked, which writes what it sees itself."""
        self._watcher.forget()
        self._watcher.seen = {}
        self.begin()
        multiprocessing.util.Finalize(None, self.write, exitpriority=0)

    def begin(self) -> None:
        """Write what this process sees from now on, after some of its calls."""
        self._part = uuid4().hex
        self._watcher.after_call = Rarely(self.write)

    def write(self) -> None:
        """Write what this process has seen."""
        if self._watcher.seen and self._folder.is_dir():  # else the run has ended before
            with suppress(Exception):  # what is watched must not be ended by that
                corpus.write(self._watcher.seen, self._folder / self._part, self._watcher.packages, is_part=True)


def watch_this() -> None:
    """Watch this process, which a test has started, until it ends."""
    packages, exclude, test, place = (os.environ[name] for name in (_PACKAGES, _EXCLUDE, _TEST, _PLACE))
    watcher = Watcher(packages.split(","), lambda: test, [*filter(None, exclude.split(","))])
    watch = ExitStack()
    watch.enter_context(watcher.watch(most=_LONGER * MOST_OF_A_LOOP))
    processes = Processes(watcher, Path(place))
    processes.begin()
    atexit.register(processes.write)
    atexit.register(watch.close)

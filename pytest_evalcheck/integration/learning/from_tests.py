"""The hooks of ``--evalcheck-learn``: each ordinary test is watched, and the corpus is written when the run ends."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.learning import corpus
from pytest_evalcheck.learning.processes import Processes, Rarely, clear
from pytest_evalcheck.learning.watching import MOST_OF_A_LOOP, Seen, Watcher, roots
from pytest_evalcheck.reports.results import plural

_LEARNED = "evalcheck_learned"
_STARTED = "evalcheck_started"
_STARTS = frozenset(("subprocess.Popen", "os.fork", "os.posix_spawn"))


class Learning:
    """The hooks, in the process that runs tests and in the controller of its workers."""

    def __init__(self, config: pytest.Config, packages: list[str], exclude: list[str]) -> None:
        self.config, self.packages = config, packages
        self._test = ""
        self._watcher = Watcher(packages, lambda: self._test, exclude)
        self._parts: dict[str, Mapping[str, Seen]] = {}
        """By worker: what it has seen."""
        self._lines: list[str] = []
        self._process, self._keep_so_far = os.getpid(), Rarely(self._write_so_far)
        self._folder = config.rootpath / corpus.FOLDER
        self._processes = Processes(self._watcher, self._folder)
        if not hasattr(config, "workerinput"):
            self._processes.forget_earlier()
        self._started: set[str] = set()
        """Tests that have started other processes of Python."""
        sys.addaudithook(self._note_process)

    def _note_process(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _STARTS and self._test:
            program = str(arguments[0] or arguments[1][:1]) if arguments else "python"
            if "python" in program or program.startswith(str(Path(sys.executable).parent)):
                self._started.add(self._test)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Watch a test with its fixtures."""
        self._test = item.nodeid
        try:
            with self._processes.watched(self._test), self._watcher.watch():
                return (yield)
        finally:
            self._test = ""
            self._watcher.forget()
            if os.getpid() == self._process:
                self._keep_so_far()

    def _write_so_far(self) -> None:
        """Write what was seen so far: a test may end its process, or never end."""
        worker = getattr(self.config, "workerinput", {}).get("workerid", "main")
        with suppress(UsageError):
            corpus.write(self._watcher.seen, self._folder / corpus.UNFINISHED / worker, self.packages)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take what a worker of xdist has seen; of one that died what it had written."""
        worker = node.gateway.id
        self._started.update(getattr(node, "workeroutput", {}).get(_STARTED, ()))
        texts = getattr(node, "workeroutput", {}).get(_LEARNED)
        if texts is None:
            self._parts[worker] = corpus.read(self._folder / corpus.UNFINISHED / worker).entries
        for package, text in (texts or {}).items():
            entries = corpus.parsed(text, f"the corpus of {package}")[2]
            part = {f"{each.module}:{each.name}": each for each in entries}
            self._parts[worker] = {**self._parts.get(worker, {}), **part}

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the corpus, or give it to the controller. A process that a test has forked writes none."""
        if os.getpid() != self._process:
            return
        output = getattr(self.config, "workeroutput", None)
        of_processes = self._processes.parts() if output is None else []
        parts = [*(self._parts[name] for name in sorted(self._parts)), *of_processes]
        seen = corpus.merged([self._watcher.seen, *parts])
        if output is not None:
            output[_STARTED] = [*self._started]
            output[_LEARNED] = {package: text for package, (text, _) in corpus.texts(seen, self.packages).items()}
            return
        clear(self._folder)
        try:
            written = corpus.write(seen, self._folder, self.packages)
        except UsageError as error:
            self._lines = [f"evalcheck: {error}"]
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            return
        self._lines = [f"evalcheck: {line}" for line in corpus.summary(seen, self.packages)]
        self._lines += [f"evalcheck: {line}" for line in wrote(written, self.config.rootpath)]
        if self._watcher.ended:
            ended = f"{plural(self._watcher.ended, 'test')} ended at a loop of more than {MOST_OF_A_LOOP:,} calls"
            self._lines.append(f"evalcheck: the watch of {ended}: what came after it was not seen")
        if unseen := self._started - {test for part in of_processes for each in part.values() for test in each.tests}:
            tests = f"{plural(len(unseen), 'test')} started, such as {min(unseen)}"
            way = f"python -m pytest_evalcheck learn {self.packages[0]} SCRIPT"
            self._lines.append(f"evalcheck: nothing was seen in the processes that {tests}; of a script: {way}")
        modules = " ".join(f"--evalcheck-target={package}" for package in self.packages)
        self._lines += [f"evalcheck: next: pytest {modules}"] if written else []

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was learned, and what comes next."""
        for line in self._lines:
            terminalreporter.write_line(line)


def start(config: pytest.Config) -> None:
    """Register the hooks for the packages that the command line names.

    Raises:
        pytest.UsageError: where it names none and the project has none, or one cannot be imported.
    """
    from pytest_evalcheck.integration.choosing.inferring import make_importable

    make_importable(config)
    try:
        asked = config.getoption("evalcheck_learn")
        packages, exclude = learned_and_not(asked if any(asked) else _own_packages(config))
        for package in packages:
            if all(_is_of_tests(config, root) for root in roots(package)):
                raise UsageError(
                    f"{package} has nothing but tests; expected --evalcheck-learn=PACKAGE, or --evalcheck-learn behind "
                    "what to collect"
                )
    except UsageError as error:
        raise pytest.UsageError(str(error)) from error
    config.pluginmanager.register(Learning(config, packages, exclude), "pytest_evalcheck_learning")


def _own_packages(config: pytest.Config) -> list[str]:
    """Return the packages in the root of the project and in its folder ``src``.

    Raises:
        UsageError: where there is none.
    """
    folders = [folder for place in (config.rootpath, config.rootpath / "src") for folder in sorted(place.glob("*/"))]
    found = [each.name for each in folders if (each / "__init__.py").is_file() and not _is_of_tests(config, each)]
    if not found:
        raise UsageError(f"there is no package in {config.rootpath} or its src; expected --evalcheck-learn=PACKAGE")
    return found


def _is_of_tests(config: pytest.Config, place: Path) -> bool:
    """Return whether a folder has modules, and all of them are tests."""
    patterns = config.getini("python_files")
    modules = [each for each in place.glob("*.py") if each.name not in ("__init__.py", "conftest.py")]
    return bool(modules) and all(any(map(each.match, patterns)) for each in modules)


def learned_and_not(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the packages that texts name, and the patterns of what nothing is stored of, which begin with ``!``.

    >>> learned_and_not(["mine.metrics, !mine.clients*", "other,!password"])
    (['mine', 'other'], ['mine.clients*', 'password'])

    Raises:
        UsageError: where they name no package.
    """
    listed = [each.strip() for each in ",".join(texts).split(",") if each.strip()]
    if path := next((each for each in listed if not each.startswith("!") and ("/" in each or os.sep in each)), ""):
        raise UsageError(f"{path} is no package; expected --evalcheck-learn=PACKAGE, or the option behind {path}")
    packages = dict.fromkeys(each.partition(".")[0] for each in listed if not each.startswith("!"))
    if not packages:
        raise UsageError(f"{','.join(texts)!r} names no package to learn from; expected PACKAGES or PACKAGES,!PATTERN")
    return [*packages], [each[1:].strip() for each in listed if each.startswith("!")]


def learn_script(asked: str, script: str, arguments: list[str]) -> list[str]:
    """Run a script under watch, as ``python SCRIPT`` does, and write the corpus into the current folder; return lines.

    The name of a module is run as ``python -m`` does. ``asked`` has the packages, and the patterns of what is left out,
    as `learned_and_not` takes them.

    Raises:
        UsageError: where there is no such package, script or module.
    """
    packages, exclude = learned_and_not([asked])
    is_file = Path(script).is_file()
    sys.path[:0] = [*([str(Path(script).resolve().parent)] if is_file else []), str(Path.cwd())]
    if not is_file:
        try:
            roots(script)
        except UsageError:
            raise UsageError(f"there is no script and no module {script}") from None
    watcher = Watcher(packages, lambda: script, exclude)
    folder = Path(corpus.FOLDER)
    processes = Processes(watcher, folder)
    before, sys.argv = sys.argv, [script, *arguments]
    lines = []
    try:
        with processes.watched(script), watcher.watch(most=sys.maxsize):
            if is_file:
                runpy.run_path(script, run_name="__main__")
            else:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        lines = [f"{script} ended with {ended.code}"] if ended.code else []
    except Exception as error:
        lines = [f"{script} raised {type(error).__name__}: {error}; what was seen before is kept"]
    finally:
        sys.argv = before
    seen = corpus.merged([watcher.seen, *processes.parts()])
    clear(folder)
    written = corpus.write(seen, folder, packages)
    return [*lines, *corpus.summary(seen, packages), *wrote(written)]


def wrote(written: Mapping[Path, str], root: Path | None = None) -> list[str]:
    """Say which files were written, and what was left out of them."""
    shown = {path.relative_to(root) if root else path: left for path, left in written.items()}
    return [f"wrote {path}: {left}" if left else f"wrote {path}" for path, left in shown.items()]

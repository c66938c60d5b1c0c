"""The progress of a run in its terminal: how much is done, what is red, the time left, and which cell is stalled.

A failed cell is shown when its report arrives, and not again at the end. Nothing here changes an outcome.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable
from time import monotonic
from typing import Any

import pytest

from pytest_evalcheck.integration.process.exit_guard import looks
from pytest_evalcheck.integration.process.stall_watch import StallWatch
from pytest_evalcheck.integration.screen.folding import FoldingWriter, folds, headline

STALLED = (10.0, 30.0, 60.0, 300.0, 1800.0)
"""Seconds after which a cell that still runs is named."""
PLAIN_EVERY = 30.0
"""Seconds between two lines about the progress where no line can be rewritten."""
_REDRAW_EVERY = 0.1
_LOOK_EVERY = 0.25
"""Seconds between two looks of the thread that a controller of xdist has."""

_OF_PYTESTS_OWN = ("_showfspath", "_show_progress_info")
"""Switches of pytest's reporter for its own progress: names of files, and percentages at the right."""

_CELL = re.compile(r"::\w+::\w+\[(sim:)?(cpu|cuda|mps)(:\d+)?\](@.*)?")
"""The end of the id of a cell: a controller of xdist has no items."""


class Progress:
    """The hooks that show how a run goes on, in the process that has the terminal."""

    def __init__(self, config: pytest.Config, meanwhile: list[Callable[[], None]]) -> None:
        self.config = config
        self._meanwhile = meanwhile
        self._reporter: Any = None
        self._cells: set[str] = set()
        self._noun = "checks"
        self._in_place = False
        self._silent = False
        self._drawn, self._last_drawn, self._last_line = "", 0.0, 0.0
        self._running: dict[str, tuple[float, list[float]]] = {}
        """The start of each, and the seconds after which it is named."""
        self._red: set[str] = set()
        self._shown: dict[str, list[Any]] = defaultdict(list)
        """The reports that were shown, by the id of their cell."""
        self._at_the_end: dict[str, list[Any]] = {}
        self._estimate = Estimate(())
        self._watch: StallWatch | None = None
        self._lock = threading.RLock()
        self._over = threading.Event()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, Any, Any]:
        """Show progress while items run."""
        reporter = self.config.pluginmanager.getplugin("terminalreporter")
        if reporter is None or looks(self.config):
            return (yield)
        self._reporter = reporter
        before = {name: getattr(reporter, name) for name in _OF_PYTESTS_OWN if hasattr(reporter, name)}
        self._last_line = monotonic()
        thread = None
        if self.config.pluginmanager.hasplugin("dsession"):
            # It runs no cell and forks none, but it sleeps until a worker has something to say.
            thread = threading.Thread(target=self._look, name="evalcheck progress", daemon=True)
            thread.start()
        else:
            ids = {item.nodeid for item in session.items if item.get_closest_marker("evalcheck")}
            self._expect(ids, {item.nodeid for item in session.items} - ids)
            self._meanwhile.append(self.tick)
        try:
            return (yield)
        finally:
            self._over.set()
            if thread is not None:
                thread.join()
            if self.tick in self._meanwhile:
                self._meanwhile.remove(self.tick)
            if self._watch is not None:
                self._watch.close()
            self._erase()
            if self._in_place:
                vars(reporter).update(before)
            self._running.clear()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count items that come while others have run."""
        if self._reporter is not None:
            self._cells |= {item.nodeid for item in session.items if item.get_closest_marker("evalcheck")}
            self._estimate.expect({item.nodeid for item in session.items})

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:  # noqa: ARG002
        """Learn from a worker of xdist what is to run; all of them collect the same."""
        with self._lock:
            if self._reporter is not None and not self._estimate.total:
                cells = {nodeid for nodeid in ids if _CELL.search(nodeid)}
                self._expect(cells, set(ids) - cells)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note when a cell starts."""
        if self._reporter is None:
            return
        with self._lock:
            now = monotonic()
            self._estimate.begin(now)
            self._update(now)
            if nodeid in self._cells and not self._quiet:
                self._running[nodeid] = (now, list(STALLED))
                self._watch_here(nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> Generator[None, Any, Any]:
        """Show a failed cell, and count."""
        if self._reporter is None:
            return (yield)
        with self._lock:
            self._silent = self._in_place
            try:
                result = yield
            finally:
                self._silent = False
            self._estimate.add(report)
            if report.failed:
                self._red.add(report.nodeid)
            if report.nodeid in self._cells and self._shows_failures:
                self._show(report)
            if report.when not in ("setup", "call"):  # the report of a worker that crashed has another phase
                self._ended(report.nodeid)
            return result

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Count a cell whose process died before its teardown."""
        with self._lock:
            if self._reporter is not None:
                self._ended(nodeid)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_report_teststatus(self) -> Generator[None, Any, Any]:
        """Print no letter where a line is rewritten."""
        status = yield
        return (status[0], "", "") if self._silent else status

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, Any, Any]:
        """Keep what was shown out of the sections of failures and errors."""
        shown = {id(report) for reports in self._shown.values() for report in reports}
        stats = terminalreporter.stats
        self._at_the_end = {name: stats[name] for name in ("failed", "error") if name in stats}
        for name, reports in self._at_the_end.items():
            stats[name] = [report for report in reports if id(report) not in shown]
        try:
            return (yield)
        finally:
            stats.update(self._at_the_end)

    @pytest.hookimpl(tryfirst=True, specname="pytest_terminal_summary")
    def pytest_after_sections_of_failures(self, terminalreporter: Any) -> None:
        """Restore them for the short summary, which is printed after this."""
        terminalreporter.stats.update(self._at_the_end)

    def tick(self) -> None:
        """Name what is stalled and show how far the run is; called often while cells run elsewhere."""
        with self._lock, contextlib.suppress(OSError):
            now = monotonic()
            for nodeid, (began, waits) in self._running.items():
                passed = [seconds for seconds in waits if now - began >= seconds]
                if passed:
                    del waits[: len(passed)]
                    self._line(_stalled(nodeid, passed[-1]), yellow=True)
            self._update(now)

    @property
    def _quiet(self) -> bool:
        return bool(self.config.option.verbose < -1)

    @property
    def _shows_failures(self) -> bool:
        """True if pytest would show them at its end as whole screens; a debugger shows them in between."""
        option = self.config.option
        return self._is_pytests and option.tbstyle not in ("no", "line") and not option.no_summary and not self._debugs

    @property
    def _is_pytests(self) -> bool:
        """True if the reporter is that of pytest, and not one that has its own ways to show progress and failures."""
        return type(self._reporter).__module__ == "_pytest.terminal"

    @property
    def _debugs(self) -> bool:
        return any(getattr(self.config.option, name, False) for name in ("usepdb", "trace"))

    def _look(self) -> None:
        while not self._over.wait(_LOOK_EVERY):
            self.tick()

    def _expect(self, cells: set[str], others: set[str]) -> None:
        self._cells = cells
        self._noun = "checks and tests" if others else "checks"
        self._estimate = Estimate(cells | others)
        self._in_place = bool(cells) and not others and self._can_rewrite()
        if self._in_place:
            vars(self._reporter).update(dict.fromkeys(_OF_PYTESTS_OWN, False))

    def _can_rewrite(self) -> bool:
        """Return whether the line of the cursor is ours: nothing else that was asked for writes into it."""
        option, reporter = self.config.option, self._reporter
        others = ("setupshow", "setuponly", "setupplan", "traceconfig", "log_cli_level", "evalcheck_with_tests")
        return (
            bool(reporter.isatty)
            and self._is_pytests
            and not self._debugs
            and os.environ.get("TERM") != "dumb"
            and option.verbose in (0, -1)
            and getattr(option, "capture", "no") in ("fd", "sys")
            and str(self.config.getini("console_output_style")).startswith("progress")
            and not any(getattr(option, name, None) for name in others)
            and not (self.config.pluginmanager.hasplugin("logging-plugin") and self.config.getini("log_cli"))
        )

    def _watch_here(self, nodeid: str) -> None:
        """Let another process name the cell, where cells run in this one."""
        plugins = self.config.pluginmanager
        supervision = plugins.getplugin("pytest_evalcheck_supervision")
        elsewhere = plugins.hasplugin("pytest_evalcheck_cluster") or not getattr(supervision, "obstacle", None)
        if elsewhere or self._debugs:
            return
        if self._watch is None:
            self._watch = StallWatch(self._reporter._tw._file)
        begin = "\n" if self._reporter._tw.width_of_current_line else ""
        if self._in_place:
            begin = f"\r{' ' * len(self._drawn)}\r"
        self._watch.expect([(seconds, f"{begin}{_stalled(nodeid, seconds)}\n") for seconds in STALLED])

    def _ended(self, nodeid: str) -> None:
        self._running.pop(nodeid, None)
        if self._watch is not None:
            self._watch.expect([])
        self._estimate.end(nodeid)
        self._update(monotonic())

    def _show(self, report: Any) -> None:
        """Show the screen of a failure, and what its teardown printed, as pytest does at its end."""
        before = self._shown.get(report.nodeid)
        if report.failed:
            self._shown[report.nodeid].append(report)
            self._headline(report, f"ERROR at {report.when} of " if report.when in ("setup", "teardown") else "")
            writer = self._reporter._tw
            report.toterminal(FoldingWriter(writer) if folds(writer) else writer)
            self._sections(report)
            self._reporter.flush()
        elif report.when == "teardown" and before and self._has_output(report):
            self._headline(report, "teardown of ")
            self._sections(report, "teardown")
            self._reporter.flush()

    def _headline(self, report: Any, begin: str) -> None:
        self._clear()
        title = headline(self._reporter._tw, f"{begin}{report.head_line or report.nodeid}")
        self._reporter.write_sep("_", title, red=True, bold=True)

    def _has_output(self, report: Any) -> bool:
        return any("teardown" in name and self._captures(name) for name, _ in report.sections)

    def _captures(self, name: str) -> bool:
        wanted = self.config.option.showcapture
        return wanted != "no" and (wanted == "all" or wanted in name)

    def _sections(self, report: Any, part: str = "") -> None:
        for name, content in report.sections:
            if part in name and self._captures(name):
                self._reporter._tw.sep("-", name)
                self._reporter._tw.line(content.removesuffix("\n"))

    def _update(self, now: float) -> None:
        estimate = self._estimate
        if self._quiet or not estimate.began or self._over.is_set():
            return
        if self._in_place:
            if now - self._last_drawn >= _REDRAW_EVERY:
                self._last_drawn = now
                self._draw(self._text(now))
        elif now - self._last_line >= PLAIN_EVERY and estimate.done < estimate.total:
            self._last_line = now
            self._line(self._text(now))

    def _text(self, now: float) -> str:
        estimate = self._estimate
        left = estimate.seconds(now)
        parts = [f"{estimate.done} of {estimate.total} {self._noun}", f"{len(self._red)} red"]
        return ", ".join([*parts, *([] if left is None else [roughly(left)])])

    def _draw(self, text: str) -> None:
        """Write over the line of the cursor, past the writer: it adds up what it writes until a line ends."""
        writer = self._reporter._tw
        text = text[: max(writer.fullwidth - 1, 0)]
        if text == self._drawn:
            return
        color = {"red": True} if self._red else {"green": True}
        writer._file.write(f"\r{writer.markup(text, **color)}{' ' * (len(self._drawn) - len(text))}")
        writer._file.flush()
        self._drawn = text
        self._reporter.currentfspath = -2  # whoever else writes a line begins a new one

    def _erase(self) -> None:
        if self._drawn:
            writer = self._reporter._tw
            if self._reporter.currentfspath == -2:  # else another plugin has begun a new line
                writer._file.write(f"\r{' ' * len(self._drawn)}\r")
                self._reporter.currentfspath = None
            self._drawn = ""

    def _clear(self) -> None:
        """Begin a new line."""
        self._erase()
        self._reporter.ensure_newline()
        if self._reporter._tw.width_of_current_line:
            self._reporter._tw.line()

    def _line(self, text: str, **markup: bool) -> None:
        self._clear()
        self._reporter.write_line(text, **markup)
        self._reporter.flush()


class Estimate:
    """The time left, from what the cells of a target and of the run took, and how many ran at once.

    It is shown and nothing else: no verdict depends on it.
    """

    def __init__(self, ids: Iterable[str]) -> None:
        self.began = 0.0
        self._known: set[str] = set()
        self._left: set[str] = set()
        self._targets: Counter[str] = Counter()
        self.expect(ids)
        self._spent = 0.0  # of phases that ran in this run: a cell of a resumed file took its time in another one
        self._seconds: dict[str, float] = defaultdict(float)
        self._taken = 0.0
        self._costs: dict[str, list[float]] = defaultdict(list)

    def expect(self, ids: Iterable[str]) -> None:
        """Add items that are to run; those that are known stay as they are."""
        new = set(ids) - self._known
        self._known |= new
        self._left |= new
        self._targets.update(map(_target, new))

    @property
    def total(self) -> int:
        """The number of items."""
        return len(self._known)

    @property
    def done(self) -> int:
        """The number of items that have ended."""
        return self.total - len(self._left)

    def begin(self, now: float) -> None:
        """Note that an item starts."""
        self.began = self.began or now

    def add(self, report: Any) -> None:
        """Note that one phase of an item ended."""
        self._spent += max(0.0, getattr(report, "stop", 0.0) - getattr(report, "start", 0.0))
        if report.nodeid in self._left:
            self._seconds[report.nodeid] += max(0.0, getattr(report, "duration", 0.0))

    def end(self, nodeid: str) -> None:
        """Note that an item ended."""
        if nodeid not in self._left:
            return
        self._left.remove(nodeid)
        seconds = self._seconds.pop(nodeid, 0.0)
        self._taken += seconds
        self._targets[_target(nodeid)] -= 1
        self._costs[_target(nodeid)].append(seconds)

    def seconds(self, now: float) -> float | None:
        """Return how long the rest takes; None while too little has run, and at the end.

        An item takes the mean of its target, near that of the run while there are few. The longest is left out of it:
        the first cell of a target imports its library, and the others do not.
        """
        elapsed, least = now - self.began, max(_LEAST_DONE, _LEAST_SHARE * self.total)
        if elapsed < _LEAST_ELAPSED or self._spent < _LEAST_SPENT or self.done < least or not self._left:
            return None
        usual = _PRIOR * self._taken / self.done
        work = 0.0
        for target, count in self._targets.items():
            costs = self._costs.get(target) or [0.0]
            work += count * (sum(costs) - max(costs) + usual) / (len(costs) - 1 + _PRIOR) if count else 0.0
        # Of the last cells there may be fewer than workers.
        return work / min(self._spent / elapsed, len(self._left))


_LEAST_ELAPSED, _LEAST_SPENT, _LEAST_DONE, _LEAST_SHARE = 2.0, 0.5, 5, 0.05
"""The least that must have run before a time is named: seconds, seconds in items, items, and their share."""
_PRIOR = 5
"""The number of items for which the mean of the run counts."""


def _target(nodeid: str) -> str:
    return nodeid.rpartition("::")[0]


def _stalled(nodeid: str, seconds: float) -> str:
    lasted = f"{seconds / 60:g} min" if seconds >= 120 else f"{seconds:g} s"
    return f"{nodeid} has been running for {lasted}"


def roughly(seconds: float) -> str:
    """Return a time left in words, as coarse as an estimate is."""
    if seconds < 10:
        return "a few seconds left"
    step = 10 if seconds < 600 else 60 if seconds < 3600 else 600
    hours, rest = divmod(round(seconds / step) * step, 3600)
    units = ((hours, "h"), (rest // 60, "min"), (rest % 60, "s"))
    return f"about {' '.join(f'{number} {unit}' for number, unit in units if number)} left"

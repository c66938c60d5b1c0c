"""The reports of an item that runs in another process, made here."""

from __future__ import annotations

import importlib
import json
import time
import warnings
from typing import Any

import pytest

from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.integration.choosing.resuming import report_of_cell
from pytest_evalcheck.integration.item_cells import PROPERTY, attach, runner_of
from pytest_evalcheck.reports.results import Cell

EXPECTED = "it ends by itself, and leaves its process alone"


class Replay:
    """Reports an item by the messages of the process that runs it."""

    def __init__(self, evalcheck: Any, item: pytest.Item) -> None:
        self.evalcheck, self.item, self.runner = evalcheck, item, runner_of(item)
        self.started = time.time()
        self.attack = ""
        """The signal that the item sent to this process."""
        self.seen: set[str] = set()
        """The phases that were reported."""

    def add(self, kind: str, *content: Any) -> None:
        """Report what a message says.

        Raises:
            KeyboardInterrupt: when the item has ended the session so.
            pytest.exit.Exception: in the same way.
            RuntimeError: when pytest has failed at an ordinary test.
        """
        if kind == "report":
            self._add_report(content[0])
        elif kind == "warning":
            _record_warning(self.item.config, content[0])
        elif kind == "left":
            name, text, code = content
            raise KeyboardInterrupt(text) if name == "KeyboardInterrupt" else pytest.exit.Exception(text, code)
        elif kind == "internal error":
            if self.runner is None:
                raise RuntimeError(f"the process that runs the items ended in an error:\n{content[0]}")
            # A target can break its process so that pytest itself fails there, as without memory.
            self.blame("the process of the check failed", content[0].strip().splitlines()[-1], "died", content[0])
        elif kind == "teardown error":
            self._report_teardown("failed", content[0])

    def blame(self, headline: str, actual: str, cause: str, detail: str = "") -> None:
        """Report that the item has damaged its process."""
        item, runner = self.item, self.runner
        text: Any = f"{headline}: {actual}\n{detail}".strip()
        item.user_properties[:] = []
        when = "teardown" if "call" in self.seen and not self.attack else "call"
        call = pytest.CallInfo.from_call(lambda: pytest.fail(text, pytrace=False), "call")
        if runner is not None:
            fault = TargetError(headline, actual=actual, expected=EXPECTED, detail=detail, cause=cause)
            cell = runner.untestable(fault, time.monotonic() - (time.time() - self.started))
            attach(item, cell)
            call = pytest.CallInfo.from_call(lambda: self.evalcheck._conclude(cell), "call")
        report = pytest.TestReport.from_item_and_call(item, call)
        report.when = when  # type: ignore[assignment]
        report.start, report.stop = self.started, time.time()
        report.duration = report.stop - report.start
        report.sections += [(f"Captured {name} of the process", text) for name, text in _captured(item.config) if text]
        self.seen.add(when)
        item.ihook.pytest_runtest_logreport(report=report)

    def end(self) -> None:
        """Report a teardown where none was reported."""
        if "teardown" not in self.seen:
            self._report_teardown("passed", None)

    def _add_report(self, data: dict[str, Any]) -> None:
        report = _report_of(self.item.config, data)
        if report.nodeid == self.item.nodeid:
            self.seen.add(report.when)
            if self.attack and report.when == "teardown":
                report.user_properties = list(self.item.user_properties)
            if self.attack and report.when == "call":
                self.blame("the target sent a signal to the process of pytest", self.attack, "signal")
                return
            cells = [value for name, value in report.user_properties if name == PROPERTY]
            if report.when == "call" and report.failed and cells:
                cell = Cell.from_json(json.loads(cells[-1]))
                if cell.outcome == "failed":  # which causes were shown before is known here alone
                    report.longrepr = report_of_cell(self.evalcheck, self.item, cell, "call").longrepr
        self.item.ihook.pytest_runtest_logreport(report=report)

    def _report_teardown(self, outcome: Any, text: str | None) -> None:
        item = self.item
        keywords: Any = dict.fromkeys(item.keywords, 1)
        report = pytest.TestReport(item.nodeid, item.location, keywords, outcome, text, "teardown", start=0, stop=0)
        item.ihook.pytest_runtest_logreport(report=report)


def _captured(config: pytest.Config) -> list[tuple[str, str]]:
    """Take what the process printed before it died out of the files that it shares with this one."""
    manager = config.pluginmanager.getplugin("capturemanager")
    try:
        return list(zip(("stdout", "stderr"), manager.read_global_capture(), strict=True))
    except Exception:  # nothing is captured with -s
        return []


def _report_of(config: pytest.Config, data: dict[str, Any]) -> Any:
    report = config.hook.pytest_report_from_serializable(config=config, data=data)
    # JSON knows no tuples.
    report.location, report.sections = tuple(report.location), [(name, text) for name, text in report.sections]
    report.user_properties = [(name, value) for name, value in report.user_properties]
    if isinstance(report.longrepr, list):  # of a skip: pytest folds tuples alone
        report.longrepr = tuple(report.longrepr)
    return report


def _record_warning(config: pytest.Config, data: dict[str, Any]) -> None:
    try:
        category: Any = getattr(importlib.import_module(data["module"]), data["category"])
        message = category(data["message"])
    except Exception:  # a category that is defined in a function, or takes other arguments
        category, message = UserWarning, UserWarning(f"{data['category']}: {data['message']}")
    recorded = warnings.WarningMessage(message, category, data["filename"], data["lineno"])
    location = tuple(data["location"]) if data["location"] else None
    config.hook.pytest_warning_recorded.call_historic(
        kwargs={
            "warning_message": recorded,
            "when": data["when"],
            "nodeid": data["nodeid"],
            "location": location,
        }
    )

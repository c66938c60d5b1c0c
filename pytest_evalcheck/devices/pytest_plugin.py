"""`pytest -p pytest_evalcheck.devices --simulate=cuda`: the tests of any project, on simulated devices.

The simulation is open before the first `conftest.py` is imported, so that what asks for devices at import sees them.
Without `--simulate` nothing is imported but this module.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pytest_evalcheck.devices.errors import CannotSimulate
    from pytest_evalcheck.devices.ledger import Ledger

PLUGIN = "pytest_evalcheck.devices"
_RUN = "pytest_evalcheck_simulated_run"
_FOLDER = str(Path(__file__).parent) + os.sep
_OPTIONS = {
    "simulate_report": "--simulate-report",
    "simulate_compile": "--simulate-compile",
    "simulate_not_checkable": "--simulate-not-checkable",
    "simulate_even_if_real": "--simulate-even-if-real",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options."""
    group = parser.getgroup("simulate", "ordinary tests on simulated accelerators")
    group.addoption(
        "--simulate",
        action="append",
        default=[],
        metavar="DEVICES",
        help="run the tests on simulated devices: cuda, cuda:1, mps; separated by commas",
    )
    group.addoption(
        "--simulate-compile",
        choices=("refuse", "eager"),
        default=None,
        help="refuse torch.compile, or run the function without compiling it (default: refuse)",
    )
    group.addoption(
        "--simulate-not-checkable",
        choices=("fail", "skip"),
        default=None,
        help="outcome of a test that fails because something cannot be simulated (default: fail)",
    )
    group.addoption(
        "--simulate-report",
        action="append",
        default=[],
        metavar="json=PATH",
        help="write a report of the transfers, syncs and failures of every test",
    )
    group.addoption(
        "--simulate-even-if-real",
        action="store_true",
        help="simulate a device even if the machine has a real one",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Open the simulation before a conftest is imported."""
    _open(early_config, early_config.known_args_namespace)


def pytest_configure(config: pytest.Config) -> None:
    """Open the simulation where the plugin was loaded too late for the conftests, and look at the options."""
    _open(config, config.option)
    if not config.option.simulate:
        given = [option for name, option in _OPTIONS.items() if getattr(config.option, name)]
        if given:
            raise pytest.UsageError(f"{given[0]} does nothing without --simulate: --simulate=cuda, --simulate=mps")
    elif getattr(config.option, "evalcheck", False):
        raise pytest.UsageError(
            "--simulate is for ordinary tests; with --evalcheck the targets run on simulated devices by "
            "--evalcheck-device=sim:cuda,sim:mps"
        )


def _open(config: pytest.Config, options: Any) -> None:
    if not options.simulate or config.pluginmanager.has_plugin(_RUN):
        return
    config.pluginmanager.register(SimulatedRun(config, options), _RUN)


class SimulatedRun:
    """The simulation of a session, and what its tests do in it."""

    def __init__(self, config: pytest.Config, options: Any) -> None:
        from pytest_evalcheck.devices import errors
        from pytest_evalcheck.devices.suite_records import SuiteReport

        devices = _devices(options.simulate)
        self.config = config
        self.paths = [_report_path(given) for given in options.simulate_report]
        self.skips = options.simulate_not_checkable == "skip"
        self.report = SuiteReport(",".join(devices))
        self.met: list[str] = []
        self.cleanup = ExitStack()
        config.add_cleanup(self.cleanup.close)
        self.ledger = self._enter(devices, options)
        self.seen: Ledger | None = None
        errors.LISTENERS.append(self._met)
        self.cleanup.callback(errors.LISTENERS.remove, self._met)
        self._tell_workers()

    def _enter(self, devices: list[str], options: Any) -> Ledger:
        from pytest_evalcheck.devices.errors import SimulationError
        from pytest_evalcheck.devices.simulation import simulate

        compiled: Any = options.simulate_compile or "refuse"
        try:
            return self.cleanup.enter_context(
                simulate(
                    *devices,
                    compile=compiled,
                    even_if_real=options.simulate_even_if_real,
                    asserts="at once",  # one session is one simulation: a failed assert would end all later tests
                )
            )
        except SimulationError as error:
            text = str(error)
            if "even_if_real" in text:
                text = (
                    "this machine has such a device: run the tests on it, without --simulate, "
                    "or add --simulate-even-if-real"
                )
            raise pytest.UsageError(f"--simulate={','.join(devices)}: {text}") from error

    def _tell_workers(self) -> None:
        """Workers of pytest-xdist load this plugin by the environment: by their options they load it too late."""
        before = os.environ.get("PYTEST_PLUGINS")
        if PLUGIN in (before or "").split(","):
            return

        def restore() -> None:
            if before is None:
                os.environ.pop("PYTEST_PLUGINS", None)
            else:
                os.environ["PYTEST_PLUGINS"] = before

        os.environ["PYTEST_PLUGINS"] = ",".join(filter(None, (before, PLUGIN)))
        self.cleanup.callback(restore)

    def _met(self, error: CannotSimulate) -> None:
        if error.feature not in self.met:
            self.met.append(error.feature)

    def pytest_report_header(self) -> str:
        """The devices."""
        return f"simulated devices: {self.report.devices}"

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, Any, Any]:
        """A ledger for each test, its fixtures included."""
        self._keep_outside()
        with self.ledger.span() as self.seen:
            try:
                return (yield)
            finally:
                self._forget()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
        """Put into the reports of a test, as plain data, why it failed and what it cost."""
        from pytest_evalcheck.devices.suite_records import costs

        with self.ledger.paused():  # pytest reads values to show them
            report = yield
        found = self._failure(report, call, item.path, item.location[1])
        if report.when == "teardown" and self.seen is not None:
            found |= {**costs(self.seen), "met": list(self.met)}
        report.simulated = found
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, Any]:
        """The same for a module that cannot be imported."""
        report = yield
        found = self._failure(report, getattr(report, "call", None), getattr(collector, "path", ""), None)
        if found:
            report.simulated = found
        return report

    def _failure(self, report: Any, call: Any, path: object, line: int | None) -> dict[str, Any]:
        """Return why it failed. What is not checkable becomes a skip where that is asked for."""
        from pytest_evalcheck.devices.suite_records import why_it_failed

        if not report.failed or call is None or call.excinfo is None:
            return {}
        found = why_it_failed(call.excinfo.value, _FOLDER)
        if self.skips and found["cause"] == "cannot simulate":
            report.outcome = "skipped"
            why = f"not checkable here: {found['feature']} cannot be simulated: {found['advice']}"
            report.longrepr = (str(path), (line or 0) + 1, why)
        return found

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Collect why a module cannot be imported."""
        self._collect(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the data of a test, here or from a worker."""
        self._collect(report)

    def _collect(self, report: Any) -> None:
        found = getattr(report, "simulated", None)
        if found is None:
            return
        record = self.report.record(report.nodeid)
        expected = hasattr(report, "wasxfail")
        if found.get("cause") and not record.cause:
            record.cause, record.error = found["cause"], found["error"]
            record.feature, record.advice = found.get("feature", ""), found.get("advice", "")
            record.outcome = "failed" if report.failed else "not checkable"
        elif report.failed:
            record.outcome, record.cause = "failed", record.cause or "other"
            record.error = record.error or str(report.longreprtext).strip().splitlines()[-1:][0]
        elif report.skipped and record.outcome == "passed":
            record.outcome = "xfailed" if expected else "skipped"
        elif expected and record.outcome == "passed":
            record.outcome = "xpassed"
        for name in ("transfers", "syncs", "races", "met"):
            getattr(record, name).extend(found.get(name, ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """A worker sends what happened outside of its tests."""
        self._keep_outside()
        output = getattr(self.config, "workeroutput", None)
        if output is not None:
            outside = self.report.outside
            output["simulated_outside"] = {
                name: getattr(outside, name) for name in ("transfers", "syncs", "races", "met")
            }

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take that from a worker."""
        sent = getattr(node, "workeroutput", {}).get("simulated_outside", {})
        for name, entries in sent.items():
            getattr(self.report.outside, name).extend(entries)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the summary."""
        from pytest_evalcheck.devices.suite_summary import lines

        terminalreporter.section(f"simulated devices: {self.report.devices}")
        for line in lines(self.report, everything=self.config.get_verbosity() > 0):
            terminalreporter.write_line(line)

    def pytest_unconfigure(self) -> None:
        """Write the reports."""
        if hasattr(self.config, "workerinput"):
            return
        for path in self.paths:
            text = json.dumps(self.report.as_dict(), indent=1)
            path.write_text(text + "\n", encoding="utf-8")

    def _keep_outside(self) -> None:
        from pytest_evalcheck.devices.suite_records import costs

        outside = self.report.outside
        for name, entries in {**costs(self.ledger), "met": self.met}.items():
            getattr(outside, name).extend(entries)
        self._forget()

    def _forget(self) -> None:
        from pytest_evalcheck.devices.suite_records import clear

        clear(self.ledger)
        self.met = []
        self.seen = None


def _devices(given: list[str]) -> list[str]:
    if len(given) > 1:
        raise pytest.UsageError(
            f"--simulate is given {len(given)} times; name all devices in one: --simulate={','.join(given)}"
        )
    return [name.strip() for name in given[0].split(",")]


def _report_path(given: str) -> Path:
    form, _, path = given.partition("=")
    if form != "json" or not path:
        raise pytest.UsageError(f"--simulate-report={given}: expected json=PATH")
    found = Path(path).absolute()
    try:
        found.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise pytest.UsageError(f"--simulate-report={given}: {error}") from error
    if found.is_dir():
        raise pytest.UsageError(f"--simulate-report={given}: that is a folder; expected the path of a file")
    return found

"""The end of a run: the last line, the exit code and the reports say the same."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from pytest_evalcheck.reports.results import Verdict

CONCLUDE = pytest.StashKey[Callable[[int], int]]()
"""A function that gives the exit code for that of pytest, writes the reports, and prints the last line."""

_LOOKS = ("collectonly", "showfixtures", "show_fixtures_per_test", "cacheshow", "help", "version", "markers")


def looks(config: pytest.Config) -> bool:
    """Return whether pytest was asked to list something, and not to run."""
    return any(getattr(config.option, name, None) for name in _LOOKS)


def conclude(config: pytest.Config, code: Any) -> Any:
    """Return the exit code of a run under ``--evalcheck``, from that of pytest."""
    if looks(config):
        return code
    end = config.stash.get(CONCLUDE, None)
    if end is not None:
        return end(int(code or 0))
    if code:
        return code
    print(Verdict(why=("pytest ended before a session was started",), counts="").line)
    return pytest.ExitCode.TESTS_FAILED


def about_code(code: int, *, explained: bool) -> list[str]:
    """Return the problem that an exit code of pytest shows, where nothing else explains it."""
    if code == pytest.ExitCode.OK or (explained and code == pytest.ExitCode.TESTS_FAILED):
        return []
    known = {
        int(pytest.ExitCode.TESTS_FAILED): "pytest reports a failure beside the checks",
        int(pytest.ExitCode.INTERRUPTED): "the run was interrupted",
        int(pytest.ExitCode.INTERNAL_ERROR): "pytest ended in an internal error",
        int(pytest.ExitCode.USAGE_ERROR): "pytest ended in a usage error",
        int(pytest.ExitCode.NO_TESTS_COLLECTED): "no check was collected and selected",
    }
    return [known.get(code, f"the run was ended with exit code {code}")]


class ExitGuard:
    """A replacement of ``os._exit`` that says so and is never green. Children end as they like."""

    def __init__(self, before: Callable[[int], int]) -> None:
        self._before, self._real, self._pid = before, os._exit, os.getpid()

    def install(self) -> None:
        """Replace ``os._exit``."""
        os._exit = self

    def remove(self) -> None:
        """Put the real one back."""
        if os._exit is self:
            os._exit = self._real

    def __call__(self, status: int) -> NoReturn:
        if os.getpid() != self._pid:
            self._real(status)
        self.remove()
        try:
            status = self._before(status)
            sys.stdout.flush()
        finally:
            self._real(status or 1)

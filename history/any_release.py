"""A plugin of pytest for runs over old releases: every case that fails is recorded, and the search goes on.

A target is tried whatever release it requires. What is known of the newest release (``known_failures``, the registry of
upstream faults) is not used: an older one may lack a fault that is known, and has others. Instead no failure ends the
search of a cell: each case of its plan is tried, and what it showed is written as a line of JSON into the file that
``HISTORY_CASES`` names. Two releases are compared by these lines, so that a fault which both have hides no other one.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest
from packaging.requirements import Requirement

import pytest_evalcheck as ec
from pytest_evalcheck.engine.known_failures import KnownFailures
from pytest_evalcheck.engine.runner import CellRunner
from pytest_evalcheck.reports.case_codec import encode_case

CASES = "HISTORY_CASES"
_RECORDED = ec.KnownFailure("recorded")


def pytest_configure() -> None:
    """Record where the runner of this project asks for it."""
    if os.environ.get(CASES):
        record(os.environ[CASES])


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(obj: object) -> None:
    """Take from a target what is said of the newest release."""
    if isinstance(obj, ec.Target):
        _set(obj, "requires", tuple(Requirement(text).name for text in obj.requires))
        _set(obj, "known_failures", {})


def record(path: str) -> None:
    """Write each case that is tried into a file, with the signatures of what failed in it."""
    attempt, should_pass_over = CellRunner.attempt, KnownFailures.should_pass_over
    failed: list[str] = []

    def recorded(self: Any, finding: Any) -> bool:
        if self._spec.check.existential or finding.failure.untestable:
            return bool(should_pass_over(self, finding))
        failed.append(finding.signature)
        self.findings.setdefault(finding.signature, replace(finding, known=_RECORDED))
        return True

    def tried(self: Any, case: Any, arguments: Any) -> None:
        compared = self.state.stats.compared
        failed.clear()
        attempt(self, case, arguments)
        if failed or self.state.stats.compared > compared:
            code = self.spec.check.code
            line = {"target": self.spec.where, "code": code, "device": self.spec.device}
            line |= {"case": encode_case(code, case), "failed": sorted(set(failed))}
            with open(path, "a", encoding="utf-8") as file:  # cells run in processes of their own
                file.write(json.dumps(line) + "\n")

    CellRunner.attempt, KnownFailures.should_pass_over = tried, recorded  # type: ignore[method-assign]


def _set(target: ec.Target, field: str, value: Any) -> None:
    object.__setattr__(target, field, value)  # a target does not change: in an ordinary run

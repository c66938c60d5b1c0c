"""Calling the factory of a target: afresh for every example, or once a cell."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis.errors import HypothesisException

from pytest_evalcheck import adapters
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.limits import CellTimeout
from pytest_evalcheck.screen import raised_at
from pytest_evalcheck.subjects.calling import TargetFault
from pytest_evalcheck.subjects.metric import Metric
from pytest_evalcheck.target import Target


class Building:
    """What one cell builds of its target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._pristine: Any = None

    def metric(self, arguments: Mapping[str, Any]) -> Metric:
        """A new metric. A target that is built once a cell is copied, and its original never used."""
        if self._target.fresh == "example":
            return adapters.metric(self._make(arguments))
        if self._pristine is None:
            self._pristine = self._make(arguments)
        return adapters.metric(copy.deepcopy(self._pristine))

    def snapshot(self) -> Snapshot | None:
        """What the original looks like, where the target is built once a cell and was built already."""
        if self._pristine is None:
            return None
        record = adapters.metric(self._pristine)
        state = record.state() if record.state else getattr(record.source, "__dict__", {})
        return Snapshot(dict(state), "state")

    def _make(self, arguments: Mapping[str, Any]) -> Any:
        try:
            return self._target.factory(**arguments)
        except (KeyboardInterrupt, CellTimeout, pytest.skip.Exception, HypothesisException):
            raise
        except BaseException as error:
            raise TargetFault(
                "the factory raised an error",
                actual=raised_at(error, self._target.file),
                expected=f"a {self._target.kind}",
                cause="factory",
            ) from error

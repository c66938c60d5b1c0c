"""What a piece of work takes: the time of the processor, unless the work waited."""

from __future__ import annotations

import time

import pytest

from pytest_evalcheck.fixes.scoring import clock as clocks
from pytest_evalcheck.fixes.scoring.clock import Clock


def test_a_sleep_is_part_of_the_work():
    clock = Clock()
    time.sleep(0.05)
    assert clock.seconds() >= 0.05


def test_time_that_others_took_is_not(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clocks, "_waits", lambda: 7)
    clock = Clock()
    time.sleep(0.05)  # as if another process had run
    assert clock.seconds() < 0.04


def test_where_nobody_counts_waits_all_time_counts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clocks, "_THREAD", None)
    clock = Clock()
    time.sleep(0.05)
    assert clock.seconds() >= 0.05

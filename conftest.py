"""The main job of this repository tries the same cases everywhere, so that what the README promises does not flicker.

``--hypothesis-seed=N`` or ``--hypothesis-profile=default`` draws others: that is how new faults are found. The tests
draw others in each run, and none of them fails because the machine is busy.
"""

from __future__ import annotations

import os

import pytest

# Tensors of a few numbers gain nothing from threads, and the threads of two workers are in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    chosen = (config.getoption(option, None) for option in ("--hypothesis-profile", "--hypothesis-seed"))
    if any(choice is not None for choice in chosen):
        return
    from hypothesis import HealthCheck, settings

    settings.register_profile("main job", derandomize=True, database=None)
    settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("main job" if config.getoption("--evalcheck", False) else "tests")

"""The main job of this repository tries the same cases everywhere, so that what the README promises does not flicker.

``--hypothesis-seed=N`` or ``--hypothesis-profile=default`` draws others: that is how new faults are found.
"""

from __future__ import annotations

import os

import pytest

# Tensors of a few numbers gain nothing from threads, and the threads of two workers are in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_configure(config: pytest.Config) -> None:
    chosen = (config.getoption(option, None) for option in ("--hypothesis-profile", "--hypothesis-seed"))
    if config.getoption("--evalcheck", False) and not any(choice is not None for choice in chosen):
        from hypothesis import settings

        settings.register_profile("main job", derandomize=True, database=None)
        settings.load_profile("main job")

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import settings

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def module_with_samples() -> Iterator[Callable[[str], ModuleType]]:
    """Import a module that stands on PyTorch's own samples of operators, or one of the benchmarks."""

    def imported(name: str) -> ModuleType:
        before = settings.get_current_profile_name()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = importlib.import_module(name)
        settings.load_profile(before)  # PyTorch's own samples load a profile of theirs
        return module

    sys.path.insert(0, str(BENCHMARKS))
    logging.disable(logging.CRITICAL)
    yield imported
    logging.disable(logging.NOTSET)
    sys.path.remove(str(BENCHMARKS))

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Generator
from functools import cache
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import settings
from sampling import leave_out_slow
from target_files import HEADER

if TYPE_CHECKING:
    from pytest_evalcheck.testing import Project

os.environ.setdefault("KERAS_BACKEND", "torch")  # read when keras is imported, by whichever test is the first


@cache
def _import_what_stays() -> None:
    """Import what pytester must not forget: ours must stay the same between runs, and torch is imported once.

    A run of targets loads this file, too, and imports none of it.
    """
    for name in (
        "torch.distributed",
        "pytest_evalcheck.adapters.torchmetrics.metric",
        "pytest_evalcheck.kinds.metric.checks_precision",
        "pytest_evalcheck.kinds.metric.checks_state",
        "pytest_evalcheck.kinds.metric.checks_streams",
        "pytest_evalcheck.reports.terminal",
        "pytest_evalcheck.engine.api",
        "pytest_evalcheck.integration.session",
    ):
        importlib.import_module(name)
    with contextlib.suppress(ImportError):
        import yaml  # noqa: F401 - its compiled part keeps the classes of the first import
    with contextlib.suppress(ImportError):
        import importlib_metadata  # noqa: F401 - it replaces the finder of distributions, also where xarray imports it


pytest_plugins = ["pytester", "pytest_evalcheck.testing"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_slow(config, items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Blame the fixture that imports what loads a profile of its own, not a test that comes after it."""
    _import_what_stays()
    before = settings.default
    try:
        return (yield)
    finally:
        assert settings.default == before, f"{item.nodeid} set up {settings.default} instead of {before}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Blame the test that leaves something behind, not one of those that come after it."""
    import torch

    before = _process()
    try:
        return (yield)
    finally:
        after = _process()
        os._exit = before[2]
        torch.set_default_device(None) if after[1] != before[1] else None
        assert after == before, f"{item.nodeid} left behind {after} instead of {before}"


def _process() -> tuple[Any, ...]:
    from torch.overrides import _get_current_function_mode_stack

    finds_plugins = hasattr(PathFinder, "find_distributions")  # see _loaded_modules in pytest_evalcheck.testing
    return settings.default, _get_current_function_mode_stack(), os._exit, finds_plugins


@pytest.fixture(autouse=True)
def one_seed_for_all(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed as --hypothesis-seed does for the cells that a test runs: its assertions about drawn cases must not flicker.

    Tests that are drawn themselves go on looking. Other seeds are tried when a check or a specimen changes.
    """
    if not getattr(getattr(request.node, "obj", None), "is_hypothesis_test", False):
        monkeypatch.setattr(hypothesis.core, "global_force_seed", 1)


@pytest.fixture(autouse=True)
def no_module_of_a_test_stays(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """Unload what a test imported from its folder: the next test has a file of the same name in another folder."""
    before = {*sys.modules}
    yield
    folder = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    for name in {*sys.modules} - before:
        if str(getattr(sys.modules.get(name), "__file__", None)).startswith(folder):
            sys.modules.pop(name, None)


@pytest.fixture
def project(evalcheck_project: Project) -> Project:
    """A project whose files begin with the metrics and samples that most tests use."""
    evalcheck_project.header = HEADER
    return evalcheck_project

"""Gallery pairs as items of torchmetrics' own test harness: a pytest plugin and its test file in one.

`torchmetrics_harness.py` runs it in a checkout's ``tests``, with that checkout's configuration and its pool
of processes. Each pair gets what a class of that test suite does for a metric: the class test in one process
and over the pool, half and double precision, and the test of differentiability, all through its
`MetricTester`. The reference function is the correct twin, fed with everything in one update: an oracle that
the bug cannot fool.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torchmetrics import Metric
from torchmetrics_records import Outcome, Record, Role, append, read, verdict
from torchmetrics_streams import Stream, streams
from unittests import conftest as their_conftest
from unittests._helpers.testers import MetricTester

from fixtures.gallery.table import SPECIMENS
from pytest_evalcheck import Target

RECORDS = Path(os.environ.get("EVALCHECK_GALLERY_RECORDS", os.devnull))
ROLES: tuple[Role, ...] = ("correct", "planted")
SECONDS_AN_ITEM = 60


def target(role: str, index: int) -> Target:
    """One side of a pair of the gallery."""
    return SPECIMENS[index].bug if role == "planted" else SPECIMENS[index].twin


def build(role: str, index: int, arguments: int, dist_sync_on_step: bool = False) -> Metric:
    """A new metric of one side, as the harness makes them."""
    metric = target(role, index).factory("cpu")
    if not isinstance(metric, Metric):
        raise TypeError(f"{type(metric).__name__} is not a torchmetrics Metric")
    if arguments == 1:
        metric = _taking_two(type(metric))()
    metric.dist_sync_on_step = dist_sync_on_step
    return metric


def value_of_twin(preds: Any, target: Any, index: int, arguments: int, **extra: Any) -> Any:
    """Return what the correct metric says about everything at once."""
    twin = build("correct", index, arguments)
    for inner in twin.modules():
        # The oracle has seen the data of every rank already, and must make no collective call of its own.
        inner.distributed_available_fn = _alone
    twin.update(preds, target, **extra)
    return twin.compute()


def _alone() -> bool:
    return False


def _taking_two(made: type[Metric]) -> type[Metric]:
    # torchmetrics' tests of its aggregators do the same: a subclass whose update drops the second argument.
    name = f"{made.__module__}:{made.__qualname__}".replace(".", "/")
    if name not in globals():

        def update(self: Any, value: Any, _: Any) -> None:
            made.update(self, value)

        globals()[name] = type(name, (made,), {"update": update, "__module__": __name__})
    return globals()[name]  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    # A process of the pool unpickles the subclass before anything there has made it.
    module, colon, made = name.replace("/", ".").partition(":")
    if not colon:
        raise AttributeError(name)
    return _taking_two(getattr(importlib.import_module(module), made))


def _cases() -> list[Any]:
    cases = []
    for index, specimen in enumerate(SPECIMENS):
        ignore_index = getattr(specimen.twin.factory("cpu"), "ignore_index", None)
        found = streams(specimen.bug.inputs, ignore_index=ignore_index)
        cases += [
            pytest.param(role, index, stream, id=f"{specimen.bug.name}-{role}-{form}")
            for role in ROLES
            for form, stream in found.items()
        ]
    return cases


@pytest.mark.parametrize(("role", "index", "stream"), _cases())
class TestGallery(MetricTester):
    @pytest.mark.parametrize("ddp", [pytest.param(True, marks=pytest.mark.DDP), False])
    def test_class(self, ddp: bool, role: str, index: int, stream: Stream) -> None:
        self.run_class_metric_test(
            ddp=ddp,
            preds=stream.preds,
            target=stream.target,
            metric_class=partial(build, role, index, stream.arguments),
            reference_metric=partial(value_of_twin, index=index, arguments=stream.arguments),
            fragment_kwargs=bool(stream.extra),
            **stream.extra,
        )

    @pytest.mark.parametrize("dtype", [torch.half, torch.double])
    def test_precision(self, dtype: torch.dtype, role: str, index: int, stream: Stream) -> None:
        if not isinstance(stream.preds, torch.Tensor):
            pytest.skip("texts have no precision")
        self.run_precision_test_cpu(
            preds=stream.preds,
            target=stream.target,
            metric_module=partial(build, role, index, stream.arguments),
            dtype=dtype,
            **stream.extra,
        )

    def test_differentiability(self, role: str, index: int, stream: Stream) -> None:
        if not isinstance(stream.preds, torch.Tensor) or stream.extra:
            pytest.skip("this test of the harness takes two tensors")
        self.run_differentiability_test(
            preds=stream.preds.clone(),
            target=stream.target,
            metric_module=partial(build, role, index, stream.arguments),
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    done = {record.item for record in read(RECORDS)}
    # Correct twins first: nothing that a planted bug leaves in a process can reach them. Then one process
    # before many: what is caught there needs no new pool.
    items[:] = sorted((item for item in items if item.name not in done), key=_turn)


def _turn(item: pytest.Item) -> tuple[bool, bool]:
    return _params(item)["role"] == "planted", item.get_closest_marker("DDP") is not None


def _params(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params  # type: ignore[attr-defined, no-any-return]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    params = _params(item)
    if verdict(read(RECORDS), params["index"]).caught:
        pytest.skip("the bug was caught already")

    def record(outcome: Outcome, why: str = "") -> None:
        append(
            RECORDS,
            Record(item=item.name, pair=params["index"], role=params["role"], outcome=outcome, why=why),
        )

    record("died", f"ended its process, or took more than {SECONDS_AN_ITEM} s")
    faulthandler.dump_traceback_later(SECONDS_AN_ITEM, exit=True)
    try:
        yield
    except pytest.skip.Exception as skipped:
        record("skipped", str(skipped))
        raise
    except BaseException as error:
        record("failed", f"{type(error).__name__}: {error}".splitlines()[0])
        faulthandler.cancel_dump_traceback_later()
        _renew_pool(item)
        raise
    else:
        record("passed")
    finally:
        faulthandler.cancel_dump_traceback_later()


def _renew_pool(item: pytest.Item) -> None:
    # After one rank failed the other still waits for it, and would meet the collectives of the next item.
    if item.get_closest_marker("DDP") and hasattr(pytest, "pool"):
        pytest.pool.terminate()
        their_conftest.pytest_sessionstart()

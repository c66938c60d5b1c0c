"""A function of a library has its known faults; what a user has made of it has the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck import upstream
from pytest_evalcheck.upstream import Fault

sklearn_metrics = pytest.importorskip("sklearn.metrics")
SHARE, OTHER = sklearn_metrics.accuracy_score, sklearn_metrics.fbeta_score
DEVIANCE = sklearn_metrics.d2_tweedie_score


class Streamed:
    """Metric of one sample a call, with a mistake: it counts rejected samples."""

    def __init__(self) -> None:
        self.hits, self.rows = 0.0, 0

    def update(self, y_true: float, y_pred: float) -> None:
        self.rows += 1
        self.hits += float(y_true == float(y_pred))

    def get(self) -> float:
        return self.hits / max(1, self.rows)


def fault(*names: str, **more: Any) -> Fault:
    return Fault(id="x-y", library="pytest", versions=">0", reason="why", finding="", classes=names, **more)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fault], None]:
    def register(one: Fault) -> None:
        monkeypatch.setattr(upstream, "_registry", lambda: {one.id: one})

    return register


OF_SHARE = f"{SHARE.__module__}.{SHARE.__qualname__}"


def test_a_function_is_known_by_its_name_also_with_options() -> None:
    known = fault(OF_SHARE, signatures=("EC224: *",))
    assert known.is_in(SHARE)
    assert known.is_in(functools.partial(functools.partial(SHARE, normalize=True), sample_weight=None))
    assert not known.is_in(OTHER)
    assert not known.is_in(functools.partial(OTHER, beta=1.0))


def test_what_a_user_has_wrapped_around_a_function_is_the_users() -> None:
    @functools.wraps(SHARE)
    def rounded(y_true: Any, y_pred: Any, **options: Any) -> float:
        return round(SHARE(y_true, y_pred, **options), 1)

    assert rounded.__qualname__ == SHARE.__qualname__
    assert rounded.__module__ == SHARE.__module__
    known = fault(OF_SHARE, signatures=("EC224: *",))
    assert not known.is_in(rounded)
    assert not known.is_in(functools.partial(rounded, normalize=True))


def deviance_by_a_call(y_true: Any, y_pred: Any) -> float:
    return float(DEVIANCE(y_true, y_pred))


@pytest.mark.parametrize(
    ("made", "outcome"),
    [
        (lambda: DEVIANCE, "known"),
        (lambda: functools.partial(DEVIANCE, power=0), "known"),
        (lambda: deviance_by_a_call, "failed"),
        (lambda: ec.Metric.of(DEVIANCE), "known"),
        (lambda: ec.Metric.of(DEVIANCE, update=lambda metric, *rows: metric(*rows)), "failed"),
    ],
    ids=["function", "options", "a user's", "a record", "a record that calls it otherwise"],
)
def test_a_failure_of_a_function_is_known(made: Any, outcome: str) -> None:
    @ec.metric(inputs=es.regression(positive=True, min_samples=2).swapped().as_numpy())
    def deviance(device: str) -> Any:
        return made()

    (cell,) = ec.run(deviance, select="EC222", effort="quick").cells
    known = "scikit-learn-d2-tweedie-of-constants" if outcome == "known" else ""
    assert (cell.outcome, cell.upstream or "") == (outcome, known), cell


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "known"),
        ({"update": lambda metric, *rows: metric.update(*rows)}, "failed"),
        ({"compute": lambda metric: metric.get()}, "failed"),
    ],
    ids=["as it is", "another update", "another compute"],
)
def test_an_object_that_takes_one_sample_a_call_is_the_librarys(
    registered: Any, changes: dict[str, Any], outcome: str
) -> None:
    name = f"{Streamed.__module__}.{Streamed.__qualname__}"
    registered(fault(name, owner_of=("update", "get"), signatures=("EC210: after-rejected-*",)))

    @ec.metric(inputs=es.regression().swapped())
    def streamed(device: str) -> Any:
        return ec.Metric.of(Streamed(), one_sample=True, **changes)

    (cell,) = ec.run(streamed, select="EC210", effort="quick").cells
    assert cell.outcome == outcome, cell


def aligned_depth_error(pred: torch.Tensor, target: torch.Tensor, driver: str | None = None) -> torch.Tensor:
    """The error of maps of depth that are aligned with their targets by least squares, as evaluations of depth do."""
    design = torch.stack([pred, torch.ones_like(pred)], -1)
    scale_and_shift = torch.linalg.lstsq(design, target[..., None], driver=driver).solution
    return ((design @ scale_and_shift)[..., 0] - target).square().mean()


def aligned_by_numpy(samples: Sequence[tuple[list[float], list[float]]]) -> float:
    errors = []
    for prediction, target in samples:
        design = np.stack([prediction, np.ones(len(prediction))], -1)
        errors.append(np.square(design @ np.linalg.lstsq(design, np.array(target))[0] - target).mean())
    return float(np.mean(errors))


@pytest.mark.parametrize(("driver", "outcome"), [(None, "known"), ("gelsd", "passed")])
def test_least_squares_of_torch_begins_with_what_the_last_matrix_left(driver: str | None, outcome: str) -> None:
    known = {} if driver else {"EC217": ec.KnownFailure(upstream="torch-lstsq-keeps-columns-of-the-last-matrix")}
    maps, targets = [[0.5, 0.25, 1.0], [0.0] * 3], [[0.25, 0.5, 1.0], [0.5, 1.0, 0.75]]

    @ec.metric(
        inputs=es.rows(maps, targets, dtypes=["float32"] * 2).replace(min_samples=2),
        reference=aligned_by_numpy,
        known_failures=known,
    )
    def metric(device: str) -> Any:
        return functools.partial(aligned_depth_error, driver=driver)

    (cell,) = ec.run(metric, select="EC217", effort="normal").cells
    assert cell.outcome == outcome, cell.signature

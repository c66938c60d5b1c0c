"""A function of a library has its known faults; what a user has made of it has the user's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

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

"""Faults of a library are no errors of a user who uses it as it is; a user's own mistakes are."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck import upstream
from pytest_evalcheck.reports.case_codec import encode_case
from pytest_evalcheck.testing import Project

torch = pytest.importorskip("torch")
torchmetrics = pytest.importorskip("torchmetrics")
from torchmetrics.classification import BinaryAccuracy, MulticlassAccuracy  # noqa: E402

UNIVERSAL = {
    "EC210": "torchmetrics-forward-resets-first",
    "EC219": "torchmetrics-compute-returns-its-cache",
    "EC220": "torchmetrics-answers-from-its-cache",
}


def target(made: Any, inputs: Any = None, **more: Any) -> ec.Target:
    @ec.metric(inputs=inputs or es.binary(), **more)
    def metric(device: str) -> Any:
        return made().to(device)

    return metric


def outcomes(tried: ec.Target, codes: str, effort: str = "quick") -> dict[str, ec.Cell]:
    return {cell.code: cell for cell in ec.run(tried, select=codes, effort=effort).cells}


class CountsFirst(BinaryAccuracy):
    """Counts the rows of a batch before it is validated."""

    def __init__(self) -> None:
        super().__init__()
        self.add_state("rows", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, preds: Any, target: Any) -> None:
        self.rows += len(target)
        super().update(preds, target)

    def compute(self) -> Any:
        return super().compute() * self.rows


class ReturnsItsState(torchmetrics.Metric):
    """Its result is the state itself: behind the cache of the base class there is a mistake of its own."""

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self.add_state("total", torch.zeros(2), dist_reduce_fx="sum")

    def update(self, preds: Any, target: Any) -> None:
        self.total += torch.stack([preds.sum(), target.sum()])

    def compute(self) -> Any:
        return self.total.numpy()  # torchmetrics copies tensors only


class ReadsNaNAsZero(MulticlassAccuracy):
    """Replaces NaN in its own update."""

    def update(self, preds: Any, target: Any) -> None:
        super().update(torch.nan_to_num(preds), target)


def test_a_stock_metric_shows_known_faults_and_none_of_its_user() -> None:
    report = ec.run(target(BinaryAccuracy), effort="quick")
    known = {cell.code: cell for cell in report.of("known")}
    assert {code: known[code].upstream for code in UNIVERSAL} == UNIVERSAL
    assert all(cell.reason.startswith("known upstream: ") for cell in known.values())
    assert known["EC210"].see == "Lightning-AI/torchmetrics#3487"
    assert not report.of("failed")
    assert report.ok


def test_a_project_of_a_user_with_a_stock_metric_succeeds(evalcheck_project: Project) -> None:
    project = evalcheck_project.write(
        """
        @ec.metric(inputs=es.multiclass(classes=3, of="probabilities"))
        def accuracy(device):
            from torchmetrics.classification import MulticlassF1Score

            return MulticlassF1Score(num_classes=3, average="micro").to(device)
        """
    )
    result = project.run("--evalcheck-effort=quick", code=0)
    result.shows("! EC219, 1 check: compute() returns its cache")


def test_a_subclass_with_a_mistake_of_its_own_is_broken() -> None:
    cells = outcomes(target(CountsFirst), "EC210,EC219", effort="normal")
    assert cells["EC210"].outcome == "failed"
    assert cells["EC210"].signature.startswith("EC210: after-rejected-update")
    assert (cells["EC219"].outcome, cells["EC219"].upstream) == ("known", UNIVERSAL["EC219"])


def test_a_mistake_behind_a_known_fault_of_the_same_check_is_broken() -> None:
    cell = outcomes(target(ReturnsItsState), "EC219")["EC219"]
    assert cell.outcome == "failed"
    assert cell.signature == "EC219: state: another number"


def test_a_method_of_ones_own_is_not_excused() -> None:
    inputs = es.multiclass(classes=3, of="probabilities")
    stock = outcomes(target(lambda: MulticlassAccuracy(num_classes=3, average="micro"), inputs), "EC216")
    own = outcomes(target(lambda: ReadsNaNAsZero(num_classes=3, average="micro"), inputs), "EC216")
    assert (stock["EC216"].outcome, stock["EC216"].upstream) == ("known", "torchmetrics-nan-is-a-prediction")
    assert (own["EC216"].outcome, own["EC216"].upstream) == ("failed", "")


def test_a_metric_of_ones_own_in_a_collection_is_not_excused() -> None:
    class Own(BinaryAccuracy):
        pass

    stock = target(lambda: torchmetrics.MetricCollection([BinaryAccuracy()]))
    own = target(lambda: torchmetrics.MetricCollection([Own()]))
    assert outcomes(stock, "EC219")["EC219"].outcome == "known"
    assert outcomes(own, "EC219")["EC219"].outcome == "failed"


def test_a_fault_of_one_member_is_a_fault_of_its_collection() -> None:
    cells = outcomes(target(lambda: torchmetrics.MetricCollection([BinaryAccuracy()])), "EC216")
    assert (cells["EC216"].outcome, cells["EC216"].upstream) == ("known", "torchmetrics-nan-is-a-prediction")


def test_a_record_by_hand_is_not_excused() -> None:
    @ec.metric(inputs=es.binary())
    def described() -> ec.Metric:
        metric = BinaryAccuracy()
        return ec.Metric(update=metric.update, compute=metric.compute, source=metric)

    assert outcomes(described, "EC219")["EC219"].outcome == "failed"


def test_a_callable_that_was_replaced_is_the_authors_and_the_others_are_not() -> None:
    def changed(**callables: Any) -> ec.Target:
        @ec.metric(inputs=es.binary())
        def described() -> ec.Metric:
            return ec.Metric.of(BinaryAccuracy(), **callables)

        return described

    fed = changed(update=lambda metric, preds, target: metric.update(preds, target))
    known = {code: (cell.outcome, cell.upstream) for code, cell in outcomes(fed, "EC216,EC219").items()}
    assert known == {"EC216": ("failed", ""), "EC219": ("known", UNIVERSAL["EC219"])}
    computed = changed(compute=lambda metric: metric.compute())
    assert outcomes(computed, "EC219")["EC219"].outcome == "failed"
    assert outcomes(changed(), "EC219")["EC219"].outcome == "known"


def test_in_another_version_a_fault_is_unverified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0" if name == "torchmetrics" else "1")
    entry = ec.KnownFailure(upstream=UNIVERSAL["EC219"], example={"samples": [(0.9375, 1)], "batches": [[0]]})
    for tried in (target(BinaryAccuracy), target(BinaryAccuracy, known_failures={"EC219": entry})):
        cell = outcomes(tried, "EC219")["EC219"]
        assert (cell.outcome, cell.upstream) == ("known", UNIVERSAL["EC219"])
        assert cell.reason.startswith("known upstream, unverified for torchmetrics 99.0: ")


def test_an_unverified_fault_that_does_not_show_is_not_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = ec.KnownFailure(upstream=UNIVERSAL["EC219"], example={"samples": [(0.9375, 1)], "batches": [[0]]})
    tried = target(lambda: BinaryAccuracy(compute_with_cache=False), known_failures={"EC219": entry})
    assert outcomes(tried, "EC219")["EC219"].cause == "stale known failure"
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.0" if name == "torchmetrics" else "1")
    assert outcomes(tried, "EC219")["EC219"].outcome == "passed"


def test_in_a_version_that_has_mended_a_fault_it_is_a_failure_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    found = upstream.find(UNIVERSAL["EC219"])
    assert found is not None
    mended = replace(found, mended="99.0", mended_by="owner/repository#1")
    monkeypatch.setitem(upstream._registry(), found.id, mended)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "99.1" if name == "torchmetrics" else "1")
    cell = outcomes(target(BinaryAccuracy), "EC219")["EC219"]
    assert cell.outcome == "failed"
    assert cell.failure is not None
    assert f"Note: the upstream fault {found.id} is recorded for torchmetrics" in cell.failure.detail
    assert "torchmetrics 99.1 is installed; 99.0 has mended it (owner/repository#1)." in cell.failure.detail


def test_an_entry_that_names_a_fault_covers_all_its_signatures_and_no_other() -> None:
    entry = ec.KnownFailure(upstream=UNIVERSAL["EC210"])
    cells = outcomes(target(BinaryAccuracy, known_failures={"EC210": entry}), "EC210", effort="normal")
    assert (cells["EC210"].outcome, cells["EC210"].upstream) == ("known", UNIVERSAL["EC210"])
    cells = outcomes(target(CountsFirst, known_failures={"EC210": entry}), "EC210", effort="normal")
    assert cells["EC210"].outcome == "failed"


def test_a_replay_of_another_case_than_that_of_an_entry_is_known() -> None:
    """It tries no other case, so that it cannot say that the entry is stale."""
    entry = ec.KnownFailure(upstream=UNIVERSAL["EC219"], example={"samples": [(0.9375, 1)], "batches": [[0]]})
    blob = encode_case("EC219", {"samples": [(0.0625, 0), (0.9375, 1)], "batches": [[0, 1]]})
    tried = target(BinaryAccuracy, known_failures={"EC219": entry})
    (cell,) = ec.run(tried, select="EC219", replay=blob).cells
    assert (cell.outcome, cell.upstream) == ("known", UNIVERSAL["EC219"])


@pytest.mark.parametrize(
    ("code", "name", "says"),
    [
        ("EC219", "torchmetrics-compute-returns-its-cash", "did you mean 'torchmetrics-compute-returns-its-cache'?"),
        ("EC201", "torchmetrics-compute-returns-its-cache", "is about EC219"),
    ],
)
def test_an_entry_that_names_no_fault_of_its_check_is_a_problem(code: str, name: str, says: str) -> None:
    (problem,) = target(BinaryAccuracy, known_failures={code: ec.KnownFailure(upstream=name)}).problems
    assert problem.startswith(f"known_failures['{code}'] names the upstream fault")
    assert says in problem


def test_a_bare_object_of_evaluate_is_not_broken_for_what_it_forgets() -> None:
    evaluate, datasets = pytest.importorskip("evaluate"), pytest.importorskip("datasets")

    class Share(evaluate.Metric):  # type: ignore[misc]
        def _info(self) -> Any:
            features = datasets.Features({name: datasets.Value("int64") for name in ("predictions", "references")})
            return evaluate.MetricInfo(description="share", citation="", inputs_description="", features=features)

        def _compute(self, predictions: Any, references: Any) -> Any:
            return {"share": sum(p == r for p, r in zip(predictions, references, strict=True)) / len(references)}

    def columns(rows: Any) -> Any:
        return {"predictions": [row[0] for row in rows], "references": [row[1] for row in rows]}

    @ec.metric(inputs=es.multiclass(classes=3).replace(collate=columns))
    def bare() -> Any:
        return Share()

    report = ec.run(bare, effort="quick", select="EC204,EC205,EC206")
    assert not report.of("failed")
    cells = {cell.code: cell for cell in report.cells}
    assert (cells["EC205"].outcome, cells["EC205"].upstream) == ("known", "evaluate-compute-forgets")

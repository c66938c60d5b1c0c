"""Faults of libraries that only inference has tried (`nox -s others`): what is inferred for a name shows them."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec

import pytest

from pytest_evalcheck import upstream
from pytest_evalcheck.testing import Project

CASES = (
    ("seqeval-weights-change-nothing", "seqeval.metrics:f1_score"),
    ("hydroeval-ranks-of-equal-values", "hydroeval:kgenp"),
    ("scoringrules-equal-forecasts-are-not-pooled", "scoringrules.visualization.reliability:corp_reliability"),
    ("imbalanced-learn-true-negatives-without-weights", "imblearn.metrics:specificity_score"),
    ("catalyst-auc-takes-equal-scores-apart", "catalyst.metrics:AUCMetric"),
    ("catalyst-as-many-classes-as-the-first-batch", "catalyst.metrics:MulticlassPrecisionRecallF1SupportMetric"),
    ("catalyst-confusion-matrix-is-the-state", "catalyst.metrics:ConfusionMatrixMetric"),
    ("catalyst-deviation-of-batches", "catalyst.metrics:AccuracyMetric"),
    ("catalyst-nan-scores-are-predictions", "catalyst.metrics:NDCGMetric"),
    ("catalyst-auc-keeps-the-callers-tensors", "catalyst.metrics:AUCMetric"),
    ("catalyst-auc-keeps-half-of-a-rejected-batch", "catalyst.metrics:AUCMetric"),
    ("catalyst-mean-of-an-empty-batch", "catalyst.metrics:MRRMetric"),
    ("catalyst-r2-counts-a-rejected-batch", "catalyst.metrics:R2Squared"),
    ("catalyst-r2-cancels", "catalyst.metrics:R2Squared"),
    ("catalyst-r2-squares-in-the-dtype-of-inputs", "catalyst.metrics:R2Squared"),
    ("sktime-nan-is-left-out", "sktime.performance_metrics.forecasting:MeanAbsoluteError"),
    ("mapie-nan-lies-in-no-bin", "mapie.metrics.calibration:expected_calibration_error"),
    ("pytorch-forecasting-computes-in-the-dtype-of-inputs", "pytorch_forecasting.metrics:MAE"),
    ("pytorch-forecasting-kept-losses-are-stacked", "pytorch_forecasting.metrics:MAPE(reduction='none')"),
    (
        "pytorch-forecasting-negative-binomial-near-1",
        "pytorch_forecasting.metrics:NegativeBinomialDistributionLoss(reduction='none')",
    ),
    ("flax-welford-of-an-empty-batch", "flax.nnx.training.metrics:Welford"),
    ("flax-nan-is-the-largest-logit", "flax.nnx.training.metrics:Accuracy"),
    ("google-metrax-perplexity-of-an-empty-batch", "metrax.nnx:Perplexity"),
    ("river-samples-beside-weights", "river.metrics:Rand"),
    ("river-first-weight-of-zero", "river.metrics:MAE"),
    ("river-r2-counts-a-rejected-target", "river.metrics:R2"),
    ("river-nan-exceeds-no-threshold", "river.metrics:ROCAUC"),
    ("uncertainty-toolbox-nan-lies-in-no-interval", "uncertainty_toolbox.metrics:miscalibration_area"),
    ("nltk-nist-of-short-texts", "nltk.translate.nist_score:corpus_nist"),
    ("medpy-object-rates-exchange-the-result-and-the-reference", "medpy.metric:obj_tpr"),
    ("medpy-relative-deviation-of-empty-histograms", "medpy.metric:relative_deviation"),
    ("hydroerr-error-of-no-row", "HydroErr:nrmse_range"),
)


@pytest.mark.parametrize("library", dict.fromkeys(name.partition(":")[0].partition(".")[0] for _, name in CASES))
def test_what_is_inferred_for_a_library_shows_its_faults(
    evalcheck_project: Project, monkeypatch: pytest.MonkeyPatch, library: str
) -> None:
    if find_spec(library) is None:  # not imported: the run has a process of its own
        pytest.skip(f"{library} is not installed")
    monkeypatch.delenv("PYTEST_ADDOPTS")  # which draws other cases than a user's run does
    cases = [case for case in CASES if re.match(rf"{library}[.:]", case[1])]
    codes = {code for fault, _ in cases for code in upstream.find(fault).codes}
    requests = [f"--evalcheck-target={name}" for _, name in cases]
    report = evalcheck_project.path / "report.json"
    options = (f"--evalcheck-select={','.join(codes)}", "--evalcheck-effort=quick", "--evalcheck-device=cpu")
    evalcheck_project.spawn("-W", "ignore", *requests, *options, f"--evalcheck-report=json={report}")
    cells = json.loads(report.read_text(encoding="utf-8"))["checks"]
    assert {cell["upstream"] for cell in cells if cell["outcome"] == "known"} == {fault for fault, _ in cases}
    assert [cell["target"] for cell in cells if cell["outcome"] not in ("known", "passed", "not applicable")] == []

"""Faults of libraries whose metrics have no targets of ours: each is seen, and it is no error of a user."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

_MULTICLASS = 'es.multiclass(classes=3, of="probabilities")'

CASES: tuple[tuple[str, str, str, str], ...] = (
    (
        "torchmetrics-cat-of-nothing-is-a-list",
        "EC203",
        'torchmetrics.aggregation:CatMetric(nan_strategy="ignore")',
        'es.rows([float("nan"), 0.0], dtypes=("float32",))',
    ),
    (
        "torchmetrics-ssim-returned-images-not-synchronised",
        "EC203",
        "torchmetrics.image:StructuralSimilarityIndexMeasure(data_range=1.0, return_contrast_sensitivity=True)",
        "es.image_pairs()",
    ),
    (
        "torchmetrics-merge-state-keeps-the-cached-value",
        "EC234",
        "torchmetrics.regression:MeanAbsoluteError()",
        "es.regression()",
    ),
    (
        "torchmetrics-load-keeps-the-cached-value",
        "EC235",
        "torchmetrics.regression:MeanAbsoluteError()",
        "es.regression()",
    ),
    (
        "torchmetrics-input-transformers-by-name",
        "EC233",
        "torchmetrics:wrappers.BinaryTargetTransformer(classification.BinaryRecall(), threshold=0.5)",
        "es.binary()",
    ),
    (
        "torchmetrics-matthews-of-hits-is-whole",
        "EC222",
        "torchmetrics:wrappers.BootStrapper(classification.BinaryMatthewsCorrCoef(), num_bootstraps=2)",
        "es.binary()",
    ),
    (
        "torchmetrics-curve-of-nothing-but-ignored-labels",
        "EC222",
        "torchmetrics.classification:MultilabelPrecisionRecallCurve(num_labels=3, ignore_index=-1)",
        "es.multilabel(labels=3, ignore_index=-1)",
    ),
    ("torchmetrics-binary-auroc-never-validates", "EC241", "torchmetrics.classification:BinaryLogAUC()", "es.binary()"),
    (
        "torchmetrics-functional-nan-is-a-prediction",
        "EC216",
        "torchmetrics.functional.classification:binary_auroc",
        "es.binary()",
    ),
    ("torcheval-nan-is-a-prediction", "EC216", "torcheval.metrics:BinaryAUROC()", "es.binary()"),
    ("torcheval-keeps-references", "EC207", "torcheval.metrics:BinaryAUROC()", "es.binary()"),
    ("torcheval-compute-returns-its-state", "EC219", "torcheval.metrics:Max()", "es.values()"),
    ("torcheval-window-loses-its-place", "EC209", "torcheval.metrics:WindowedMeanSquaredError()", "es.regression()"),
    ("torcheval-float16-sums-overflow", "EC211", "torcheval.metrics:MeanSquaredError()", "es.regression()"),
    ("torcheval-state-takes-on-the-dtype", "EC212", "torcheval.metrics:R2Score()", "es.regression(outputs=2)"),
    ("torcheval-perplexity-underflows", "EC211", "torcheval.metrics:Perplexity()", "es.tokens(vocab=3)"),
    (
        "torcheval-perplexity-refuses-ignored-batch",
        "EC213",
        "torcheval.metrics:Perplexity(ignore_index=1)",
        "es.tokens(vocab=3, length=1, ignore_index=1)",
    ),
    (
        "torcheval-retrieval-precision-forgets-relevant-items",
        "EC218",
        'torcheval.metrics:RetrievalPrecision(k=2, empty_target_action="pos")',
        'es.retrieval().named("input", "target", "indexes")',
    ),
    ("pytorch-ignite-epoch-metric-state-not-loaded", "EC209", "ignite.metrics:ROC_AUC()", "es.binary()"),
    ("pytorch-ignite-state-not-saved", "EC209", "ignite.metrics:CharacterErrorRate()", "es.text_pairs()"),
    (
        "pytorch-ignite-mutual-information-keeps-half-of-a-rejected-batch",
        "EC210",
        "ignite.metrics:MutualInformation()",
        _MULTICLASS,
    ),
    ("pytorch-ignite-nan-is-a-prediction", "EC216", "ignite.metrics:Accuracy()", _MULTICLASS),
    ("pytorch-ignite-compute-returns-its-state", "EC219", "ignite.metrics:ConfusionMatrix(num_classes=3)", _MULTICLASS),
    ("pytorch-ignite-computes-in-the-dtype-of-inputs", "EC211", "ignite.metrics:MeanSquaredError()", "es.regression()"),
    (
        "pytorch-ignite-ssim-keeps-a-rounded-kernel",
        "EC223",
        "ignite.metrics:SSIM(data_range=1.0)",
        "es.image_pairs(height=16, width=16)",
    ),
    (
        "pytorch-ignite-rank-without-samples-adds-another-dtype",
        "EC203",
        "ignite.metrics.regression:MaximumAbsoluteError()",
        "es.regression()",
    ),
    (
        "pytorch-ignite-error-of-compute-keeps-the-sum",
        "EC220",
        "ignite.metrics.regression:R2Score()",
        "es.regression()",
    ),
    (
        "pytorch-ignite-average-precision-keeps-references",
        "EC207",
        "ignite.metrics:MeanAveragePrecision()",
        _MULTICLASS,
    ),
    (
        "pytorch-ignite-discrepancy-is-a-mean-of-batches",
        "EC201",
        "ignite.metrics:MaximumMeanDiscrepancy()",
        "es.regression(outputs=3).replace(min_samples=2)",
    ),
    ("pytorch-ignite-loss-of-an-empty-batch", "EC202", "ignite.metrics:Loss(torch.nn.NLLLoss())", _MULTICLASS),
    ("keras-copies-lose-their-state", "EC209", "keras.metrics:MeanSquaredError()", "es.regression().swapped()"),
    ("keras-nan-is-a-prediction", "EC216", "keras.metrics:AUC()", "es.binary().swapped()"),
    ("keras-result-is-the-variable", "EC219", "keras.metrics:TruePositives()", 'es.binary(of="labels").swapped()'),
    ("monai-nan-is-left-out", "EC216", "monai.metrics:MSEMetric()", "es.regression(outputs=2)"),
    ("monai-keeps-references", "EC207", "monai.metrics:ROCAUCMetric()", "es.binary()"),
    ("monai-rejected-batch-leaves-predictions", "EC210", "monai.metrics:ROCAUCMetric()", "es.binary()"),
    ("monai-computes-in-the-dtype-of-inputs", "EC212", "monai.metrics:MSEMetric()", "es.regression(outputs=2)"),
)


ON_DEVICES = (
    ("torcheval-float64-on-mps", "EC604", "sim:mps", "torcheval.metrics:Mean(device=device)", "es.values()"),
    ("torcheval-float64-on-mps", "EC605", "sim:mps", "torcheval.metrics:Mean()", "es.values()"),
    (
        "torcheval-thresholds-not-moved",
        "EC605",
        "sim:cuda",
        "torcheval.metrics:BinaryBinnedAUPRC(threshold=3, device=device)",
        "es.binary()",
    ),
    (
        "torcheval-retrieval-precision-on-the-cpu",
        "EC603",
        "sim:cuda",
        "torcheval.metrics:RetrievalPrecision(k=2, device=device)",
        "es.binary().replace(distinct=lambda sample: sample[0])",
    ),
    (
        "torchmetrics-procrustes-returns-a-tuple",
        "EC601",
        "sim:cuda",
        "torchmetrics.shape:ProcrustesDisparity().to(device)",
        'es.arrays((50, 2), (50, 2), dtypes=("float32", "float32"), ranges=((0.0, 1.0), (0.0, 1.0)))',
    ),
    (
        "torchmetrics-float64-on-mps",
        "EC604",
        "sim:mps",
        "torchmetrics.audio:SignalDistortionRatio().to(device)",
        "es.audio(length=1000)",
    ),
    (
        "torchmetrics-image-tensors-not-moved",
        "EC605",
        "sim:cuda",
        "torchmetrics.image:SpatialCorrelationCoefficient().to(device)",
        "es.image_pairs()",
    ),
    (
        "torchmetrics-softmax-of-binary-scores",
        "EC603",
        "sim:cuda",
        'torchmetrics.classification:BinaryAveragePrecision(normalization="softmax").to(device)',
        "es.binary()",
    ),
    (
        "torchmetrics-fairness-target-on-the-cpu",
        "EC603",
        "sim:cuda",
        'torchmetrics.classification:BinaryFairness(num_groups=2, task="demographic_parity").to(device)',
        'es.arrays((), (), (), dtypes=("float32", "int64", "int64"), ranges=((0.0, 1.0), (0, 1), (0, 1)))',
    ),
    ("monai-float64-on-mps", "EC604", "sim:mps", "monai.metrics:FIDMetric()", "es.regression(outputs=3)"),
)


def only_cell(made: str, inputs: str, code: str, where: str = "cpu", **options: Any) -> Any:
    """The cell of a metric that is described by its module and its construction."""
    module, _, construction = made.partition(":")
    names = vars(pytest.importorskip(module.partition(".")[0]) and importlib.import_module(module))

    @ec.metric(inputs=eval(inputs, {"es": es}))
    def metric(device: str) -> Any:
        return eval(construction, {**names, "torch": torch, "device": device})

    (cell,) = ec.run(metric, where, select=code, **options).cells
    return cell


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library that is imported
@pytest.mark.parametrize(("fault", "code", "made", "inputs"), CASES, ids=[case[0] for case in CASES])
def test_a_fault_of_a_library_is_known(fault: str, code: str, made: str, inputs: str) -> None:
    cell = only_cell(made, inputs, code, effort="normal")
    assert (cell.upstream, cell.outcome) == (fault, "known"), cell.signature


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a library that is imported
@pytest.mark.parametrize(("fault", "code", "where", "made", "inputs"), ON_DEVICES)
def test_a_fault_on_a_device_is_known(fault: str, code: str, where: str, made: str, inputs: str) -> None:
    cell = only_cell(made, inputs, code, where)
    assert (cell.upstream, cell.outcome) == (fault, "known"), cell.signature

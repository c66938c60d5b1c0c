"""The words of the field that name parameters, options and metrics: what they tell of the inputs."""

from __future__ import annotations

import re
from typing import Any

INFRASTRUCTURE = frozenset(
    [
        "validate_args",
        "compute_on_cpu",
        "compute_on_step",
        "dist_sync_on_step",
        "sync_on_compute",
        "compute_with_cache",
        "distributed_available_fn",
        "process_group",
        "dist_sync_fn",
        "device",
        "dtype",
        "name",
        "verbose",
        "kwargs",
        "args",
        "copy",
        "n_jobs",
        "check_input",
        "prefix",
        "postfix",
        "skip_unrolling",
        "progress_bar",
        "fast_bilinear",
        "truncate",
        "return_full_image",
    ]
)
"""Options that are about running a metric, not about its value."""

ABOUT_INPUTS = re.compile(r"(^|_)(log_prob|log_input|logits?|softmax|sigmoid|one_?hot|sparse|dense)(_|$)")
"""Words of options that say in which form the inputs are: another value of one needs other inputs."""

SHOWING_NAN = frozenset(["error", "raise", "warn", "propagate", "keep", "disable"])
"""Values of an option about NaN with which one must be seen."""

OPTIONS: dict[str, tuple[Any, ...]] = {
    "average": ("micro", "macro", "weighted", "none", None),
    "multidim_average": ("global", "samplewise"),
    "nan_strategy": ("warn", "ignore", 0.0),
    "multioutput": ("uniform_average", "variance_weighted", "raw_values"),
    "threshold": (0.5, 0.25),
    "top_k": (2,),
    "k": (None, 2),
    "ignore_index": (None, -1),
    "num_outputs": (1, 2),
    "beta": (1.0, 2.0),
    "reduction": ("mean", "sum", "none"),
}
"""By name: values of an option that change how a metric computes; those that a constructor refuses are left out."""

REQUIRED: dict[str, Any] = {
    "num_classes": 3,
    "num_labels": 3,
    "num_outputs": 2,
    "n_classes": 3,
    "classes": 3,
    "num_tasks": 2,
    "top_k": 2,
    "k": 2,
    "num_bins": 10,
    "n_bins": 10,
    "beta": 1.0,
    "threshold": 0.5,
    "data_range": 1.0,
    "fs": 8000,
    "sample_rate": 8000,
    "p": 2.0,
    "min_recall": 0.5,
    "min_precision": 0.5,
    "min_sensitivity": 0.5,
    "min_specificity": 0.5,
    "include_background": True,
    "spatial_dims": 2,
    "max_val": 1.0,
    "quantile": 0.5,
    "alpha": 0.5,
    "class_thresholds": [0.5, 0.5, 0.5],
    "recall": 0.5,
    "precision": 0.5,
    "sensitivity": 0.5,
    "specificity": 0.5,
    "target_class_ids": [0, 1],
}
"""By name: a value for a parameter of a constructor that has no default."""

EVALUATION = re.compile(r"(^|_)(metrics?|evals?|evaluat[a-z]+|scor(e|es|er|ers|ing)|judges?|graders?|grad(e|ing))(_|$)")
"""Words in the name of a function, a class or its module that say that it evaluates."""

TIMING = re.compile(r"(^|_)(throughput|frequency|latency|speed|timer|duration)(_|$)")
"""Words in the name of a metric that say that it measures time, which is another one in every run."""

TOPICS: tuple[tuple[str, str], ...] = (
    ("binary", r"binary"),
    ("multilabel", r"multi_?label|coverage_error|label_?ranking|hamming"),
    ("ranking", r"ranking|ndcg|dcg"),
    ("detection", r"average_?precision$|detection|bounding|box"),
    ("multiclass", r"multi_?class|cross_?entropy|categorical"),
    ("text", r"bleu|rouge|wer\b|word|char|cer\b|edit|text|translation|ter\b|squad|meteor|perplexity|infolm|match"),
    ("retrieval", r"retrieval|ndcg|mrr|reciprocal_?rank|hit_?rate|click|recsys"),
    ("image", r"image|psnr|ssim|structural|peak_?signal|spectral|ergas|uqi|pixel|spatial|total_?variation|fid"),
    ("audio", r"snr|sdr|signal_?noise|signal_?distortion|audio|stoi|pesq"),
    ("segmentation", r"segment|dice|iou|jaccard|mask|hausdorff|surface"),
    ("clusters", r"cluster|rand_?score|mutual_?info|homogeneity|completeness|v_?measure|fowlkes|contingency"),
    (
        "regression",
        r"error|regress|r2|pearson|spearman|kendall|concordance|deviance|explained|variance|poisson|huber|cosine|minkowski|divergence|wasserstein",
    ),
    ("values", r"^(mean|sum|max|min|cat|running|average|throughput|cosine)[a-z]*(metric|mean|sum)?$|aggregat"),
    (
        "classification",
        r"accuracy|precision|recall|f1|f_?beta|auroc|auc|roc|confusion|kappa|matthews|calibration|hinge|specificity|stat_?scores|log_?loss|brier|crossentropy",
    ),
)
"""Kinds of inputs, with what the names of metrics of that kind hold, in the order in which they are asked."""


def snake_case(name: str) -> str:
    """The words of a name in small letters: ``AUROC`` and ``MeanError`` are ``auroc`` and ``mean_error``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()

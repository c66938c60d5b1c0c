"""Patches of river."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, begin, put_after, replace

LIBRARY = Library(
    "river",
    "0.26.1",
    "0.27",
    patches=(
        Patch(
            mends=("river-samples-beside-weights",),
            says="clustering metrics divide weights by the sum of weights, and not by the number of calls",
            edits={
                "river.metrics.rand:_pair_confusion": (
                    replace("sum_squares - cm.n_samples", "sum_squares - cm.total_weight"),
                    replace("cm.n_samples * cm.n_samples - (", "cm.total_weight * cm.total_weight - ("),
                ),
                "river.metrics.rand:Rand.get": (
                    replace(
                        "self.cm.n_samples * (self.cm.n_samples - 1)",
                        "self.cm.total_weight * (self.cm.total_weight - 1)",
                    ),
                ),
                "river.metrics.mutual_info:MutualInfo.get": (
                    replace("/ self.cm.n_samples", "/ self.cm.total_weight"),
                    replace("math.log(self.cm.n_samples", "math.log(self.cm.total_weight"),
                ),
                "river.metrics.mutual_info:_entropy": (replace("= cm.n_samples", "= cm.total_weight"),),
                "river.metrics.expected_mutual_info:expected_mutual_info": (
                    replace("confusion_matrix.n_samples", "int(confusion_matrix.total_weight)"),
                ),
                "river.metrics.vbeta:Homogeneity.get": (
                    replace("/ self.cm.n_samples\n* math.log(self.cm[", "/ self.cm.total_weight\n* math.log(self.cm["),
                    replace(
                        "/ self.cm.n_samples\n* math.log(self.cm.sum_row[i] / self.cm.n_samples, 2)",
                        "/ self.cm.total_weight\n* math.log(self.cm.sum_row[i] / self.cm.total_weight, 2)",
                    ),
                ),
                "river.metrics.vbeta:Completeness.get": (
                    replace("/ self.cm.n_samples\n* math.log(self.cm[", "/ self.cm.total_weight\n* math.log(self.cm["),
                    replace(
                        "/ self.cm.n_samples\n* math.log(self.cm.sum_col[i] / self.cm.n_samples)",
                        "/ self.cm.total_weight\n* math.log(self.cm.sum_col[i] / self.cm.total_weight)",
                    ),
                ),
                "river.metrics.fowlkes_mallows:FowlkesMallows.get": (
                    replace("n = self.cm.n_samples", "n = self.cm.total_weight"),
                ),
            },
            test="""
                from river import metrics

                names = "Rand AdjustedRand MutualInfo NormalizedMutualInfo AdjustedMutualInfo Homogeneity Completeness"
                for name in (*names.split(), "VBeta", "FowlkesMallows"):
                    weighted, twice = getattr(metrics, name)(), getattr(metrics, name)()
                    for true, predicted in [(0, 0), (0, 0), (0, 1), (1, 1)]:
                        weighted.update(true, predicted, w=2)
                        twice.update(true, predicted)
                        twice.update(true, predicted)
                    assert abs(weighted.get() - twice.get()) < 1e-9
            """,
        ),
        Patch(
            mends=("river-first-weight-of-zero",),
            says="Mean takes a first weight of 0",
            edits={
                "river.stats.mean:Mean.update": (
                    replace(
                        "self._mean += (w / self.n) * (x - self._mean)",
                        "if self.n:\n    self._mean += (w / self.n) * (x - self._mean)",
                    ),
                )
            },
            test="""
                from river import metrics

                for metric in (metrics.MAE(), metrics.R2()):
                    alone = metric.clone()
                    metric.update(0.0, 9.0, w=0)
                    for true, predicted in [(0.0, 1.0), (2.0, 2.0)]:
                        metric.update(true, predicted)
                        alone.update(true, predicted)
                    assert metric.get() == alone.get()
            """,
        ),
        Patch(
            mends=("river-r2-counts-a-rejected-target",),
            says="R2 looks at a prediction before it counts its target",
            edits={
                "river.metrics.r2:R2.update": (
                    replace("self._y_var.update(y_true, w=w)\n", ""),
                    put_after("squared_error = ", "self._y_var.update(y_true, w=w)"),
                )
            },
            test="""
                from river import metrics

                metric = metrics.R2()
                for true, predicted in [(1, 1), (9, None), (2, 3), (3, 3)]:
                    try:
                        metric.update(true, predicted)
                    except TypeError:
                        pass
                assert metric.get() == 0.5
            """,
        ),
        Patch(
            mends=("river-nan-exceeds-no-threshold",),
            says="ROCAUC is NaN where a score is NaN",
            edits={
                "river.metrics.roc_auc:ROCAUC": (append("_n_nans = 0"),),
                "river.metrics.roc_auc:ROCAUC.update": (put_after("p_true = ", "self._n_nans += p_true != p_true"),),
                "river.metrics.roc_auc:ROCAUC.revert": (put_after("p_true = ", "self._n_nans -= p_true != p_true"),),
                "river.metrics.roc_auc:ROCAUC.get": (begin('if self._n_nans:\n    return float("nan")\n'),),
            },
            test="""
                import math

                from river import metrics

                metric = metrics.ROCAUC()
                for true, predicted in [(0, 0.25), (0, 0.75), (1, 0.5), (1, 0.5)]:
                    metric.update(true, predicted)
                before = metric.get()
                metric.update(0, float("nan"))
                assert math.isnan(metric.get())
                metric.revert(0, float("nan"))
                assert metric.get() == before
            """,
        ),
    ),
)

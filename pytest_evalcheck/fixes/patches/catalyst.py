"""Patches of catalyst."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, begin, body, put_before, replace

LIBRARY = Library(
    "catalyst",
    "22.4",
    "22.5",
    patches=(
        Patch(
            mends=("catalyst-auc-takes-equal-scores-apart",),
            says="equal scores are one threshold of the ROC curve, whatever their order",
            edits={
                "catalyst.metrics.functional._auc:binary_auc": (
                    put_before(
                        "tpr /= targets.sum() * 1.0",
                        """\
# of equal scores only the last one is a point of the curve
ends = np.append(np.flatnonzero(scores[1:] != scores[:-1]) + 1, scores.size)
ends = ends[np.searchsorted(ends, np.arange(1, scores.size + 1))]
tpr[1:], fpr[1:] = tpr[ends], fpr[ends]
""",
                    ),
                )
            },
            test="""
                import torch
                from catalyst.metrics import AUCMetric

                scores = torch.tensor([[0.5], [0.75], [0.5], [0.5], [0.25]])
                labels = torch.tensor([[1], [1], [0], [1], [0]])
                for order in ([0, 1, 2, 3, 4], [2, 4, 0, 3, 1], [4, 3, 2, 1, 0]):
                    metric = AUCMetric()
                    metric.update(scores[order], labels[order])
                    assert abs(metric.compute()[1] - 5 / 6) < 1e-6
            """,
        ),
        Patch(
            mends=("catalyst-nan-scores-are-predictions",),
            says="metrics of scores that are NaN are NaN",
            edits={
                "catalyst.metrics.functional._auc:binary_auc": (
                    put_before("return area, tpr, fpr", 'area = float("nan") if np.isnan(scores).any() else area'),
                ),
                "catalyst.metrics._topk_metric:TopKMetric.update": (
                    replace(
                        "values = [v.item() for v in values]",
                        """\
is_nan = torch.isnan(logits).any().item()
values = [float("nan") if is_nan else v.item() for v in values]""",
                    ),
                ),
                "catalyst.metrics.functional._accuracy:multilabel_accuracy": (
                    put_before("outputs = (outputs > threshold).long()", "is_nan = torch.isnan(outputs).any()"),
                    replace("return output", 'return output.masked_fill(is_nan, float("nan"))'),
                ),
                "catalyst.metrics.functional._segmentation:get_segmentation_statistics": (
                    replace(
                        "outputs = (outputs > threshold).float()",
                        "outputs = (outputs > threshold).float().masked_fill(torch.isnan(outputs), float('nan'))",
                    ),
                ),
            },
            test="""
                import math

                import torch
                from catalyst import metrics

                labels = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
                for score in (float("nan"), 1.0):
                    for metric, target in (
                        (metrics.AUCMetric(), labels),
                        (metrics.AccuracyMetric(), torch.tensor([0, 1])),
                        (metrics.MRRMetric(), labels),
                        (metrics.MultilabelAccuracyMetric(), labels),
                        (metrics.TrevskyMetric(alpha=0.5, threshold=0.5), labels),
                    ):
                        metric.update(torch.tensor([[score, 0.25], [0.5, 0.75]]), target)
                        found = metric.compute_key_value()
                        keys = ("auc", "accuracy01", "mrr01", "accuracy", "trevsky")
                        assert [math.isnan(found[key]) for key in keys if key in found] == [math.isnan(score)]
            """,
        ),
        Patch(
            mends=("catalyst-auc-keeps-the-callers-tensors", "catalyst-auc-keeps-half-of-a-rejected-batch"),
            says="AUCMetric keeps copies of scores and targets, and both or none",
            edits={
                "catalyst.metrics._auc:AUCMetric.update": (
                    replace(
                        """\
self.scores.append(scores.cpu().detach())
self.targets.append(targets.cpu().detach())""",
                        """\
scores = scores.detach().to("cpu", copy=True)
targets = targets.detach().to("cpu", copy=True)
self.scores.append(scores)
self.targets.append(targets)""",
                    ),
                )
            },
            test="""
                import torch
                from catalyst.metrics import AUCMetric

                metric = AUCMetric()
                scores, labels = torch.tensor([[0.9], [0.1]]), torch.tensor([[1], [0]])
                metric.update(scores, labels)
                try:
                    metric.update(torch.tensor([[0.5]]), [[1]])
                except AttributeError:
                    pass
                scores.zero_()
                labels.zero_()
                assert metric.compute()[1] == 1
            """,
        ),
        Patch(
            mends=(
                "catalyst-r2-counts-a-rejected-batch",
                "catalyst-r2-cancels",
                "catalyst-r2-squares-in-the-dtype-of-inputs",
            ),
            says="R2Squared computes in float32 at least, its variance from sums in float64, and adds all or nothing",
            edits={
                "catalyst.metrics._r2_squared:R2Squared.update": (
                    body(
                        """\
dtype = torch.promote_types(y_pred.dtype, y_true.dtype)
dtype = torch.promote_types(dtype, torch.float32)
delta_sum = torch.sum(torch.pow(y_pred.to(dtype) - y_true.to(dtype), 2))
# most digits are lost where the square of the sum is subtracted
y_true = y_true.to(torch.float64)
self.num_examples += len(y_true)
self.delta_sum += delta_sum
self.y_sum += torch.sum(y_true)
self.y_sq_sum += torch.sum(torch.pow(y_true, 2))"""
                    ),
                ),
                "catalyst.metrics._r2_squared:R2Squared.compute": (
                    body(
                        """\
variance = self.y_sq_sum - (self.y_sum ** 2) / self.num_examples
return 1 - self.delta_sum / variance.to(self.delta_sum.dtype)"""
                    ),
                ),
            },
            test="""
                import torch
                from catalyst.metrics import R2Squared

                true = torch.linspace(1000, 1001, 64)
                exact = 1 - 64 * 0.0625 / (true.double().var() * 63)
                metric = R2Squared()
                metric.update(true + 0.25, true)
                try:
                    metric.update(torch.zeros(2), torch.zeros(3))
                except RuntimeError:
                    pass
                torch.testing.assert_close(metric.compute(), exact.float())
                metric = R2Squared()
                metric.update(torch.tensor([3, 60, 119]).byte(), torch.tensor([5, 60, 120]).byte())
                assert 0.999 < metric.compute() < 1
            """,
        ),
        Patch(
            mends=("catalyst-additive-counts-a-rejected-value",),
            says="AdditiveMetric computes its new state before it changes anything",
            edits={
                "catalyst.metrics._additive:AdditiveMetric.update": (
                    body(
                        """\
total = self.num_samples + num_samples
if self.n == 0:
    # Force a copy in torch/numpy
    mean = 0.0 + value
    m_s = std = 0.0
else:
    mean = self.mean_old + (value - self.mean_old) * num_samples / float(total)
    m_s = self.m_s + (value - self.mean_old) * (value - mean) * num_samples
    std = np.sqrt(m_s / (total - 1.0))
self.n += 1
self.num_samples = total
self.value = value
self.mean = self.mean_old = mean
self.m_s, self.std = m_s, std
return value"""
                    ),
                )
            },
            test="""
                from catalyst.metrics import AdditiveMetric

                metric = AdditiveMetric()
                for value, samples in ((0.5, None), (0.5, 1), (None, 1), (0.75, 3)):
                    try:
                        metric.update(value, samples)
                    except TypeError:
                        pass
                assert metric.compute() == (0.6875, 0.125)
            """,
        ),
        Patch(
            mends=("catalyst-mean-of-an-empty-batch",),
            says="a value of no samples does not change a mean",
            edits={
                "catalyst.metrics._additive:AdditiveMetric.update": (
                    begin(
                        """\
if num_samples == 0:
    self.value = value
    return value"""
                    ),
                )
            },
            test="""
                import torch
                from catalyst.metrics import MRRMetric

                scores, labels = torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([[1.0, 0.0], [1.0, 0.0]])
                metric = MRRMetric()
                for part in (slice(0, 0), slice(0, 2), slice(0, 0)):
                    metric.update(scores[part], labels[part])
                assert metric.compute()[0] == (0.5,)
            """,
        ),
        Patch(
            mends=("catalyst-confusion-matrix-is-the-state",),
            says="ConfusionMatrixMetric returns a copy of its matrix",
            edits={
                "catalyst.metrics._confusion_matrix:ConfusionMatrixMetric.compute": (
                    replace("return self.conf\n", "return self.conf.copy()\n"),
                )
            },
            test="""
                import torch
                from catalyst.metrics import ConfusionMatrixMetric

                metric = ConfusionMatrixMetric(num_classes=2)
                metric.update(torch.tensor([0]), torch.tensor([0]))
                first = metric.compute()
                metric.update(torch.tensor([1]), torch.tensor([1]))
                assert first.tolist() == [[1, 0], [0, 0]]
                metric.compute().fill(5)
                assert metric.compute().tolist() == [[1, 0], [0, 1]]
            """,
        ),
        Patch(
            mends=("catalyst-as-many-classes-as-the-first-batch",),
            says="statistics of many classes have all classes seen so far, where no number of classes is given",
            edits={
                "catalyst.metrics._classification:MulticlassStatisticsMetric.update": (
                    begin('self._grows = getattr(self, "_grows", False) or self.num_classes is None'),
                    replace("num_classes=self.num_classes,", "num_classes=None if self._grows else self.num_classes,"),
                    replace(
                        """\
if self.num_classes is None:
    self.num_classes = num_classes
""",
                        """\
if self._grows:
    self.num_classes = max(self.num_classes or 0, num_classes)
    batch = {"tn": tn, "fp": fp, "fn": fn, "tp": tp, "support": support}
    for stats in (self.statistics, batch):
        # a sample is a true negative of each class that was not known
        samples = sum(stats[key][:1].sum() for key in ("tn", "fp", "fn", "tp"))
        for key in batch:
            fill = samples if key == "tn" else 0
            missing = (0, self.num_classes - len(stats[key]))
            stats[key] = np.pad(stats[key], missing, constant_values=fill)
    tn, fp, fn, tp, support = batch.values()
""",
                    ),
                )
            },
            test="""
                import torch
                from catalyst.metrics import MulticlassPrecisionRecallF1SupportMetric
                from catalyst.metrics._classification import MulticlassStatisticsMetric

                for labels in ([0, 2, 1], [2, 1, 0], [1, 0, 2]):
                    metric, statistics = MulticlassPrecisionRecallF1SupportMetric(), MulticlassStatisticsMetric()
                    for label in labels:
                        for each in (metric, statistics):
                            each.update(torch.tensor([0]), torch.tensor([label]))
                    assert abs(metric.compute()[2][0] - 1 / 9) < 1e-6
                    found = statistics.compute()
                    assert found["tn"].tolist() == [0, 2, 2]
                    assert found["support"].tolist() == [1, 1, 1]
            """,
        ),
    ),
)

"""Patches of MONAI."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_before, replace

_IN_FLOAT32 = """\
dtype = torch.promote_types(torch.promote_types(y_pred.dtype, y.dtype), torch.float32)
y_pred, y = y_pred.to(dtype), y.to(dtype)"""

LIBRARY = Library(
    "monai",
    "1.6.1",
    "1.7",
    patches=(
        Patch(
            mends=("monai-computes-in-the-dtype-of-inputs",),
            says="errors of integers and of half precision are computed in float32",
            edits={
                "monai.metrics.regression:compute_mean_error_metrics": (put_before("flt = partial(", _IN_FLOAT32),),
                "monai.metrics.regression:compute_mape_metric": (put_before("flt = partial(", _IN_FLOAT32),),
                "monai.metrics.mmd:compute_mmd": (put_before("for d in range(", _IN_FLOAT32),),
            },
            test="""
                import torch
                from monai.metrics import MAPEMetric, MMDMetric, MSEMetric

                one, zero = (torch.full((2, 1), value, dtype=torch.uint8) for value in (1, 0))
                assert (MSEMetric()(one, zero) == 1).all()
                small = torch.full((2, 1), 0.001, dtype=torch.float16)
                assert MAPEMetric()(100 * torch.ones_like(small), small).isfinite().all()
                images = 1000 + torch.arange(32.0).reshape(2, 1, 4, 4)
                assert MMDMetric()(images.half(), images.half()).isfinite()
            """,
        ),
        Patch(
            mends=("monai-dice-of-fewer-predictions",),
            says="Dice refuses batches of predictions and of masks that are not equally long",
            edits={
                "monai.metrics.meandice:DiceHelper.__call__": (
                    put_before(
                        "_apply_argmax, _threshold = self.apply_argmax, self.threshold",
                        """\
if y_pred.shape[0] != y.shape[0]:
    raise ValueError(f"y_pred and y should have as many items, got {y_pred.shape[0]} and {y.shape[0]}.")""",
                    ),
                )
            },
            test="""
                import torch
                from monai.metrics import DiceMetric

                masks = torch.zeros(4, 2, 2, 2)
                masks[:, 1] = 1
                try:
                    DiceMetric()(masks[:3], masks)
                except ValueError:
                    pass
                else:
                    raise RuntimeError("a mask without a prediction was left out")
                assert DiceMetric()(masks, masks)[:, 1].tolist() == [1] * 4
            """,
        ),
        Patch(
            mends=("monai-keeps-references",),
            says="a buffer holds copies of the tensors that it is given",
            edits={
                "monai.metrics.metric:Cumulative.extend": (
                    replace("torch.split(d_t, 1, dim=0)", "torch.split(d_t.clone(), 1, dim=0)"),
                ),
                "monai.metrics.metric:Cumulative.append": (
                    replace("b.append(d_t)", "b.append(d_t.clone() if isinstance(d_t, torch.Tensor) else d_t)"),
                ),
            },
            test="""
                import torch
                from monai.metrics import ROCAUCMetric

                metric = ROCAUCMetric()
                scores, labels = torch.tensor([0.2, 0.9]), torch.tensor([0, 1])
                metric(scores, labels)
                labels.zero_()
                assert metric.aggregate() == 1
            """,
        ),
        Patch(
            mends=("monai-auc-of-nan",),
            says="the area under a curve is NaN, with a warning, where a score is NaN",
            edits={
                "monai.metrics.rocauc:_calculate": (
                    put_before(
                        "n = len(y)",
                        """\
if y_pred.isnan().any():
    warnings.warn("y_pred has NaN values, skip AUC computation and return `Nan`.", stacklevel=2)
    return float("nan")""",
                    ),
                )
            },
            test="""
                import math
                import warnings

                import torch
                from monai.metrics import ROCAUCMetric

                metric = ROCAUCMetric()
                metric(torch.tensor([float("nan"), 0.75, 0.5]), torch.tensor([0, 1, 0]))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    assert math.isnan(metric.aggregate())
            """,
        ),
        Patch(
            mends=("monai-rejected-batch-leaves-predictions",),
            says="a buffer is extended where all parts of a batch can be",
            edits={
                "monai.metrics.metric:Cumulative.extend": (
                    replace(
                        """\
if self._buffers is None:
    self._buffers = [[] for _ in data]
for b, d in zip(self._buffers, data):""",
                        "batches = []\nfor d in data:",
                    ),
                    replace("b.extend([", "batches.append(["),
                    put_before(
                        "self._synced = False",
                        """\
if self._buffers is None:
    self._buffers = [[] for _ in data]
for b, batch in zip(self._buffers, batches):
    b.extend(batch)""",
                    ),
                )
            },
            test="""
                import torch
                from monai.metrics import ROCAUCMetric

                metric = ROCAUCMetric()
                metric(torch.tensor([0.2, 0.9]), torch.tensor([0, 1]))
                try:
                    metric(torch.tensor([0.5]), None)
                except TypeError:
                    pass
                assert metric.aggregate() == 1
            """,
        ),
    ),
)

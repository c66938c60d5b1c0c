"""Patches of pytorch-forecasting."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, put_before

LIBRARY = Library(
    "pytorch-forecasting",
    "1.8.0",
    "1.9",
    patches=(
        Patch(
            mends=("pytorch-forecasting-computes-in-the-dtype-of-inputs",),
            says="losses of predictions in half precision and of integers are computed in float32",
            edits={
                "pytorch_forecasting.metrics.base_metrics._base_metrics:MultiHorizonMetric.update": (
                    put_before(
                        "losses = self.loss(y_pred, target)",
                        """\
if isinstance(y_pred, torch.Tensor):
    y_pred = y_pred.to(torch.promote_types(y_pred.dtype, torch.float32))""",
                    ),
                )
            },
            test="""
                import torch
                from pytorch_forecasting.metrics import MAE, CrossEntropy

                metric = MAE()
                metric.update(torch.zeros(1000, 1).half(), torch.full((1000, 1), 100.0).half())
                assert metric.compute() == 100
                metric = MAE()
                metric.update(torch.tensor([[3]], dtype=torch.uint8), torch.tensor([[5]], dtype=torch.uint8))
                assert metric.compute() == 2
                metric = CrossEntropy()
                metric.update(torch.zeros(1000, 100, 2).half(), torch.zeros(1000, 100, dtype=torch.long))
                torch.testing.assert_close(metric.compute(), torch.tensor(2.0).log())
            """,
        ),
        Patch(
            mends=("pytorch-forecasting-negative-binomial-near-1",),
            says="the negative binomial loss is computed in float64, because its terms nearly cancel for large means",
            edits={
                "pytorch_forecasting.metrics.distributions:NegativeBinomialDistributionLoss": (
                    append(
                        """\
def loss(self, y_pred: torch.Tensor, y_actual: torch.Tensor) -> torch.Tensor:
    if y_pred.device.type == "mps":  # has no float64
        return super().loss(y_pred, y_actual)
    loss = super().loss(y_pred.double(), y_actual.double())
    return loss.to(torch.result_type(y_pred, y_actual))"""
                    ),
                )
            },
            test="""
                import torch
                from pytorch_forecasting.metrics import NegativeBinomialDistributionLoss

                found = []
                for dtype in (torch.float64, torch.float32):
                    predicted = torch.tensor([[[1e6, 0.5]]], dtype=dtype, requires_grad=True)
                    metric = NegativeBinomialDistributionLoss()
                    loss = metric(predicted, torch.tensor([[1e6]], dtype=dtype))
                    loss.backward()
                    found.append((loss.float(), predicted.grad.float()))
                torch.testing.assert_close(found[1], found[0])
            """,
        ),
    ),
)

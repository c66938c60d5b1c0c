"""Patches of pytorch-forecasting."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, put_before, replace

_METRICS = "pytorch_forecasting.metrics.base_metrics._base_metrics"

LIBRARY = Library(
    "pytorch-forecasting",
    "1.8.0",
    "1.9",
    patches=(
        Patch(
            mends=("pytorch-forecasting-computes-in-the-dtype-of-inputs",),
            says="losses of predictions in half precision and of integers are computed in float32",
            edits={
                f"{_METRICS}:MultiHorizonMetric.update": (
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
            mends=("pytorch-forecasting-kept-losses-are-stacked",),
            says="losses that are kept one by one are a list, so that those of all ranks are put in a row",
            edits={
                f"{_METRICS}:MultiHorizonMetric.__init__": (
                    replace(
                        "default=torch.tensor(default_losses, dtype=torch.float),",
                        'default=[] if reduction == "none" else torch.tensor(default_losses, dtype=torch.float),',
                    ),
                    replace(
                        "default=torch.tensor(default_lengths, dtype=torch.long),",
                        'default=[] if reduction == "none" else torch.tensor(default_lengths, dtype=torch.long),',
                    ),
                ),
                f"{_METRICS}:MultiHorizonMetric._update_losses_and_lengths": (
                    replace(
                        """\
if self.losses.ndim == 0:
    self.losses = losses
    self.lengths = lengths
else:
    self.losses = torch.cat([self.losses, losses], dim=0)
    self.lengths = torch.cat([self.lengths, lengths], dim=0)
""",
                        "self.losses.append(losses)\nself.lengths.append(lengths)\n",
                    ),
                ),
                f"{_METRICS}:MultiHorizonMetric.compute": (
                    replace(
                        "loss = self.reduce_loss(self.losses, lengths=self.lengths)",
                        """\
# lists where losses are kept one by one; tensors after a synchronisation
losses, lengths = (
    torch.cat(kept or [torch.tensor([])]) if isinstance(kept, list) else kept
    for kept in (self.losses, self.lengths)
)
loss = self.reduce_loss(losses, lengths=lengths)""",
                    ),
                ),
            },
            test="""
                import torch
                from pytorch_forecasting.metrics import MAE

                def of_two_ranks(value, group=None):
                    return [value, value + 1]

                metric = MAE(reduction="none", dist_sync_fn=of_two_ranks, distributed_available_fn=lambda: True)
                metric.update(torch.ones(1, 3), torch.zeros(1, 3))
                metric.update(torch.ones(1, 3), torch.zeros(1, 3))
                assert metric.compute().tolist() == [[1.0] * 3] * 2 + [[2.0] * 3] * 2
                metric.reset()
                assert metric(torch.ones(1, 3), torch.zeros(1, 3)).tolist() == [[1.0] * 3]
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

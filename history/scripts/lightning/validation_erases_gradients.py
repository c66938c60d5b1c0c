"""A training that accumulates gradients over two batches, with a validation between them and without one."""

import sys

import lightning
import torch


class Line(lightning.LightningModule):
    """One weight, whose gradient is the mean of the batch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def training_step(self, batch, batch_idx):
        return (self.weight * batch).mean()

    def validation_step(self, batch, batch_idx):
        self.log("loss", (self.weight * batch).mean(), batch_size=1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


def trained(**options):
    """The weight after one step over two batches."""
    silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    run = {"max_epochs": 1, "accumulate_grad_batches": 2, "num_sanity_val_steps": 0}
    module = Line()
    rows = torch.utils.data.DataLoader(torch.tensor([2.0, 4.0]))
    lightning.Trainer(accelerator="cpu", devices=1, **run, **silent, **options).fit(module, rows, rows)
    return module.weight.item()


with_one, without = trained(val_check_interval=1), trained(limit_val_batches=0)
print("the weight with a validation after each batch:", with_one, "and without one:", without)
sys.exit(int(with_one != without))

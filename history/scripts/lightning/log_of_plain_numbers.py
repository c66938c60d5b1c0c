"""A plain number that is logged under the precision bf16-true."""

import sys

import lightning
import torch


class Logging(lightning.LightningModule):
    """One parameter, and the number 1001."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def validation_step(self, batch, batch_idx):
        self.log("number", 1001.0, batch_size=1)


silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = lightning.Trainer(accelerator="cpu", devices=1, precision="bf16-true", **silent)
found = trainer.validate(Logging(), torch.utils.data.DataLoader([0.0]), verbose=False)[0]["number"]
print("1001 is logged as", found)
sys.exit(int(found != 1001.0))

"""An error in a step under the precision 64-true."""

import sys

import lightning
import torch


class Failing(lightning.LightningModule):
    """One parameter, and a step that ends in an error."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def validation_step(self, batch, batch_idx):
        raise ValueError("this batch cannot be scored")


silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = lightning.Trainer(accelerator="cpu", devices=1, precision="64-true", **silent)
try:
    trainer.validate(Failing(), torch.utils.data.DataLoader([0.0]), verbose=False)
except ValueError as error:
    print("the error:", error)
print("the default dtype is", torch.get_default_dtype())
sys.exit(int(torch.get_default_dtype() != torch.float32))

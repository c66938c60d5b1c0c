"""Numbers in bfloat16 that are logged where bfloat16 is the default dtype."""

import sys

import lightning
import torch


class Logging(lightning.LightningModule):
    """One parameter, and the numbers 65, 66 and 68, each of which bfloat16 has."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def validation_step(self, batch, batch_idx):
        self.log("number", batch[0].bfloat16(), batch_size=1)


silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
rows = torch.utils.data.DataLoader(torch.tensor([65.0, 66.0, 68.0], dtype=torch.float32))
torch.set_default_dtype(torch.bfloat16)
found = lightning.Trainer(accelerator="cpu", devices=1, **silent).validate(Logging(), rows, verbose=False)[0]["number"]
print("the mean of 65, 66 and 68 is logged as", found)
sys.exit(int(abs(found - 199 / 3) > 0.01))
